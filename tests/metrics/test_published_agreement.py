"""Agreement statistics against the worked examples that their authors printed."""

from __future__ import annotations

import numpy as np
import pytest

from crowdwise.labels.crowd_labels import CrowdLabels
from crowdwise.metrics import (
    agreement_ratio,
    cohen_kappa,
    fleiss_kappa,
    krippendorff_alpha,
    observed_agreement,
    pairwise_kappas,
)
from crowdwise.metrics.krippendorff import coincidences

# Fleiss, "Measuring nominal scale agreement among many raters", Psychological Bulletin 76 (1971), table 1:
# 30 patients, 6 psychiatrists each; depression, personality disorder, schizophrenia, neurosis, other.
FLEISS_1971 = """
00060 03003 01401 00006 03030 20400 00402 20310 20040 00006
10050 11040 03300 10050 02031 00501 30012 51000 02040 10203
00006 01050 02013 20040 10041 05010 40002 02040 10500 00006
"""
# The 14 raters, 10 subjects, 5 categories of the "Fleiss' kappa" article of Wikipedia.
FOURTEEN_RATERS = [
    [0, 0, 0, 0, 14],
    [0, 2, 6, 4, 2],
    [0, 0, 3, 5, 6],
    [0, 3, 9, 2, 0],
    [2, 2, 8, 1, 1],
    [7, 7, 0, 0, 0],
    [3, 2, 6, 3, 0],
    [2, 5, 3, 2, 2],
    [6, 5, 2, 1, 0],
    [0, 2, 2, 3, 7],
]
# Krippendorff, "Computing Krippendorff's alpha-reliability" (2011), section C: 4 observers, 12 units.
KRIPPENDORFF_2011 = """
1 2 3 3 2 1 4 1 2 . . .
1 2 3 3 2 2 4 1 2 5 . 3
. 3 3 3 2 3 4 2 2 5 1 .
1 2 3 3 2 4 4 1 2 5 1 .
"""


def fleiss_table() -> np.ndarray:
    return np.array([[int(digit) for digit in row] for row in FLEISS_1971.split()])


def krippendorff_labels() -> CrowdLabels:
    rows = [line.split() for line in KRIPPENDORFF_2011.strip().splitlines()]
    edges = [
        (unit, observer, int(value) - 1)
        for observer, row in enumerate(rows)
        for unit, value in enumerate(row)
        if value != "."
    ]
    task, worker, label = map(np.array, zip(*edges, strict=True))
    return CrowdLabels.from_codes(task, worker, label, tasks=12, workers=4, classes=[1, 2, 3, 4, 5])


def from_table(table: list[list[float]]) -> tuple[np.ndarray, np.ndarray]:
    """Two raters' answers whose cross table this is (rows: first)."""
    counts = np.round(np.array(table)).astype(int)
    first, second = np.indices(counts.shape)
    return np.repeat(first.ravel(), counts.ravel()), np.repeat(second.ravel(), counts.ravel())


def test_fleiss_1971_psychiatric_diagnoses() -> None:
    table = fleiss_table()
    assert (table.sum(axis=1) == 6).all()
    # The paper's own steps: category shares .144 .144 .167 .306 .239, P = .5556, E = .2201, kappa = .430.
    np.testing.assert_allclose(table.sum(axis=0) / 180, [0.144, 0.144, 0.167, 0.306, 0.239], atol=5e-4)
    assert observed_agreement(table) == pytest.approx(0.5556, abs=5e-5)
    assert fleiss_kappa(table) == pytest.approx(0.430, abs=5e-4)


def test_fleiss_fourteen_raters() -> None:
    assert observed_agreement(FOURTEEN_RATERS) == pytest.approx(0.378, abs=5e-4)
    assert fleiss_kappa(FOURTEEN_RATERS) == pytest.approx(0.210, abs=5e-4)


def test_fleiss_with_gaps_as_gwet_generalises_it() -> None:
    # R package irrCAC (Gwet), data cac.raw4raters, which are Krippendorff's: percent agreement 0.8181818,
    # fleiss.kappa.raw 0.76117.
    labels = krippendorff_labels()
    assert observed_agreement(labels) == pytest.approx(0.8181818, abs=5e-8)
    assert fleiss_kappa(labels) == pytest.approx(0.76117, abs=5e-6)


@pytest.mark.parametrize(
    ("level", "alpha"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849), ("ratio", 0.797)]
)
def test_krippendorff_2011(level, alpha) -> None:
    assert krippendorff_alpha(krippendorff_labels(), level=level) == pytest.approx(alpha, abs=5e-4)


def test_krippendorff_2011_coincidence_matrix() -> None:
    expected = [
        [7, 4 / 3, 1 / 3, 1 / 3, 0],
        [4 / 3, 10, 4 / 3, 1 / 3, 0],
        [1 / 3, 4 / 3, 8, 1 / 3, 0],
        [1 / 3, 1 / 3, 1 / 3, 4, 0],
        [0, 0, 0, 0, 3],
    ]
    together = coincidences(krippendorff_labels())
    np.testing.assert_allclose(together, expected, atol=1e-12)
    assert together.sum(axis=0) == pytest.approx([9, 13, 10, 5, 3])
    assert together.sum() == pytest.approx(40)


def test_cohen_1968_weighted() -> None:
    # Cohen, "Weighted kappa", Psychological Bulletin 70 (1968), table 1: two judges, 200 cases; personality
    # disorder, neurosis, psychosis. Kappa = .492, weighted kappa with these disagreement weights = .348.
    first, second = from_table([[88, 10, 2], [14, 40, 6], [18, 10, 12]])
    assert first.size == 200
    assert cohen_kappa(first, second) == pytest.approx(0.492, abs=5e-4)
    weights = [[0, 1, 3], [1, 0, 6], [3, 6, 0]]
    assert cohen_kappa(first, second, weights=weights) == pytest.approx(0.348, abs=5e-4)


@pytest.mark.parametrize(
    ("table", "kappa"),
    [
        # The three two-by-two tables of the "Cohen's kappa" article of Wikipedia.
        ([[20, 5], [10, 15]], 0.4),
        ([[45, 15], [25, 15]], 0.1304),
        ([[25, 35], [5, 35]], 0.2593),
        # Fleiss, "Statistical methods for rates and proportions", 2nd edition (1981), section 13.1.
        ([[75, 1, 4], [5, 4, 1], [0, 0, 10]], 0.68),
        # R package irrCAC (Gwet), cont3x3abstractors, kappa2.table.
        ([[13, 0, 0], [0, 20, 7], [0, 4, 56]], 0.7964094),
    ],
)
def test_cohen_textbook_tables(table, kappa) -> None:
    digits = len(str(kappa).split(".")[1])
    assert cohen_kappa(*from_table(table)) == pytest.approx(kappa, abs=0.51 * 10**-digits)
    first, second = from_table(table)
    n = first.size
    labels = CrowdLabels.from_codes(
        np.tile(np.arange(n), 2), np.repeat([0, 1], n), np.concatenate([first, second]),
        tasks=n, workers=2, classes=len(table),
    )  # fmt: skip
    assert pairwise_kappas(labels).kappa.tolist() == pytest.approx([cohen_kappa(first, second)], abs=1e-12)


@pytest.mark.parametrize(
    "ratios",
    [
        pytest.param([0.9613, 1.0231, 1.0447, 0.9732], id="EmoPain"),
        pytest.param([1.0679, 0.9984, 0.9743, 0.9627], id="MURA"),
    ],
)
def test_learn2agree_table_1_divides_mean_by_mean(ratios) -> None:
    """Four annotators, each scored by eq. 10 against the other three.

    With m_j the mean of annotator j's terms and m the mean over all pairs, the pairs without j have the mean
    2m - m_j, so r_j = m_j / (2m - m_j), m_j / m = 2 r_j / (1 + r_j), and these average to 1. Were the sum of
    eq. 10 over ordered pairs and divided by C(J, 2), every ratio would be half as large and this would fail.
    """
    r = np.array(ratios)
    assert np.mean(2 * r / (1 + r)) == pytest.approx(1, abs=5e-5)
    assert abs(np.mean(2 * (r / 2) / (1 + r / 2)) - 1) > 0.3


def test_agreement_ratio_of_annotators_obeys_the_same_identity() -> None:
    rng = np.random.default_rng(3)
    truth = rng.integers(0, 2, 300)
    answers = np.where(rng.random((4, 300)) < [[0.9], [0.8], [0.75], [0.7]], truth, 1 - truth)
    ratios = []
    for one in range(4):
        others = [worker for worker in range(4) if worker != one]
        labels = CrowdLabels.from_codes(
            np.tile(np.arange(300), 3), np.repeat(np.arange(3), 300), answers[others].ravel(),
            tasks=300, workers=3, classes=2,
        )  # fmt: skip
        ratios.append(agreement_ratio(answers[one], labels))
    r = np.array(ratios)
    assert r.argmax() == 0
    assert np.mean(2 * r / (1 + r)) == pytest.approx(1, abs=1e-12)
