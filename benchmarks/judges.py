"""Panels of language models as judges: what people's labels do for the panel, and which tasks to label.

    python benchmarks/judges.py accuracy     # five panels, 100 labelled tasks, 20 draws
    python benchmarks/judges.py choice       # 50 labelled tasks: chosen in strata against drawn at random
    python benchmarks/judges.py bound --draws 100  # how often the bound of --fail-under is above the accuracy elsewhere
    python benchmarks/judges.py bound simulated_1 simulated_2 simulated_3 --draws 200  # the same where tasks abound
    python benchmarks/judges.py accuracy judges_lesion --draws 5

The data are those of CROWDWISE_DATA (`judges_*`). The answer of people is their unique majority; tasks without one are
not scored. `simulated_N` is a panel of six judges, three of whom err together, on 4,000 tasks of three classes; people
say the truth in about 90 of 100 tasks. `accuracy`: the panel model (`fit_votes_to_people`) is fitted to the votes and
100 answers of people drawn at random, and scored on all others, against the judge that is best on the 100 and the
vote.

What saw a truth: `calibrate_from_gold`, with its members and priors, is that of `auto` with gold, and was measured on
these panels when it was made. The posterior that it starts from was chosen among six (auto's, uniform, the vote, three
hierarchical Dawid–Skene). The four other panels choose auto's for every panel but framing, for which they choose the
uniform one: .7254 and a calibration error of .0484, where auto's for all gives .7271 and .0477.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

os.environ.setdefault("NUMBA_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from crowdwise.evaluate.gold_calibration import calibrate_from_gold
from crowdwise.judges import PanelVotes, choose_next_tasks, estimate_mean, read_panel
from crowdwise.judges.agreement_with_people import estimate_share, lower_bound_of_share
from crowdwise.judges.panel_model import WORTH, fit_votes_to_people
from crowdwise.judges.panel_scores import score_columns
from crowdwise.metrics import expected_calibration_error
from crowdwise.simulate import simulate

SETS = [f"judges_{name}" for name in ("cebab_aspects", "cebab_stars", "framing", "lesion", "prompts10k")]
LABELLED = {"accuracy": 100, "choice": 50, "bound": 100}


def load(name: str) -> PanelVotes:
    """The votes and the people's labels of a set, or of a simulated panel."""
    if name.startswith("simulated_"):
        return simulate_panel(int(name.removeprefix("simulated_")))
    folder = Path(os.environ["CROWDWISE_DATA"]) / name
    return read_panel(folder / "judges.csv", folder / "humans.csv")


def simulate_panel(seed: int) -> PanelVotes:
    """Six judges, three of one family, on tasks that one person labelled, right as a rule."""
    crowd = simulate("families", n_tasks=4_000, n_workers=6, n_classes=3, sizes=(3,), random_state=seed)
    rng = np.random.default_rng(seed)
    said = np.where(rng.random(crowd.truth.size) < 0.85, crowd.truth, rng.integers(3, size=crowd.truth.size))
    labels = crowd.labels
    votes = {"task": labels.task, "judge": labels.worker, "vote": [f"c{each}" for each in labels.label]}
    people = {"task": np.arange(said.size), "worker": ["one"] * said.size, "label": [f"c{each}" for each in said]}
    return read_panel(votes, people)


def fit_from(panel: PanelVotes, alone: np.ndarray, told: np.ndarray) -> np.ndarray:
    """`fit_votes_to_people`, with the label-only posterior at hand."""
    return calibrate_from_gold(panel.votes, alone, told).posterior


def measure_accuracy(name: str, draws: int) -> dict[str, float]:
    """Means over draws: accuracy of the panel, the best judge on the labelled tasks and the vote; calibration error."""
    panel = load(name)
    reference, votes = panel.find_reference(), panel.to_matrix()
    scored = np.flatnonzero(reference >= 0)
    alone = fit_votes_to_people(panel.votes, np.full(reference.size, -1))[1]
    plurality = panel.votes.vote_counts().argmax(axis=1)
    rows = []
    for seed in range(draws):
        drawn = np.random.default_rng(seed).choice(scored, LABELLED["accuracy"], replace=False)
        told = np.full(reference.size, -1)
        told[drawn] = reference[drawn]
        rest = np.setdiff1d(scored, drawn)
        truth = reference[rest]
        posterior = fit_from(panel, alone, told)[rest]
        best = int(np.argmax((votes[drawn] == reference[drawn][:, None]).mean(axis=0)))
        rows.append(
            [
                (posterior.argmax(axis=1) == truth).mean(),
                expected_calibration_error(truth, posterior),
                (votes[rest, best] == truth).mean(),
                (plurality[rest] == truth).mean(),
            ]
        )
    names = ("panel", "calibration error", "best judge", "vote")
    return dict(zip(names, np.mean(rows, axis=0).tolist(), strict=True))


def measure_choice(name: str, draws: int) -> dict[str, float]:
    """Error of the panel after 50 labels, chosen or at random; bias of the estimated mean in standard errors."""
    panel = load(name)
    reference = panel.find_reference()
    scored = np.flatnonzero(reference >= 0)
    alone = fit_votes_to_people(panel.votes, np.full(reference.size, -1))[1]
    y, _ = next(iter(score_columns(panel, alone).values()))
    rows, estimates = [], []
    for seed in range(draws):
        rng = np.random.default_rng(seed)
        chosen = choose_next_tasks(alone[scored], LABELLED["choice"], random_state=seed)
        row = []
        for at, weight in (
            (scored[chosen.task], chosen.weight),
            (rng.choice(scored, LABELLED["choice"], replace=False), np.ones(LABELLED["choice"])),
        ):
            told = np.full(reference.size, -1)
            told[at] = reference[at]
            found = calibrate_from_gold(panel.votes, alone, told)
            posterior = found.posterior.copy()
            rest = np.setdiff1d(scored, at)
            row += [(posterior[scored].argmax(axis=1) != reference[scored]).mean(),
                    (posterior[rest].argmax(axis=1) != reference[rest]).mean()]  # fmt: skip
            posterior[at] = found.cross_fitted[np.argsort(np.argsort(at))]
            predicted = next(iter(score_columns(panel, posterior).values()))[1]
            estimates.append(estimate_mean(y[at], predicted[at], predicted[scored], weight).value)
        rows.append(row)
    means = np.mean(rows, axis=0)
    value = np.reshape(estimates, (-1, 2))
    bias = (value.mean(axis=0) - np.nanmean(y[scored])) / (value.std(axis=0) / np.sqrt(draws))
    return {"chosen": means[0], "random": means[2], "chosen, rest": means[1], "random, rest": means[3],
            "bias chosen": bias[0], "bias random": bias[1], "sd chosen": value.std(axis=0)[0],
            "sd random": value.std(axis=0)[1]}  # fmt: skip


def measure_bound(name: str, draws: int) -> dict[str, float]:
    """How often bound and interval miss the accuracy on the other tasks, and what chance alone gives on so few tasks.

    `z` is the cross-fitted accuracy less that of the others, over the standard error of this difference; bias is its
    mean, spread that of its square (1 where nothing but chance in the tasks is at work).
    """
    panel = load(name)
    reference = panel.find_reference()
    scored = np.flatnonzero(reference >= 0)
    alone = fit_votes_to_people(panel.votes, np.full(reference.size, -1))[1]
    n, rows = LABELLED["bound"], []
    for seed in range(draws):
        drawn = np.sort(np.random.default_rng(seed).choice(scored, n, replace=False))
        told = np.full(reference.size, -1)
        told[drawn] = reference[drawn]
        rest = np.setdiff1d(scored, drawn)
        found = calibrate_from_gold(panel.votes, alone, told)
        right = found.cross_fitted.argmax(axis=1) == reference[drawn]
        truth = (found.posterior[rest].argmax(axis=1) == reference[rest]).mean()
        interval = estimate_share(right, worth=WORTH)
        z = (right.mean() - truth) / np.sqrt(truth * (1 - truth) * (1 / n + 1 / rest.size))
        rows.append(
            [
                lower_bound_of_share(right, worth=WORTH) > truth,
                interval.low <= truth <= interval.high,
                z > 1.645,
                abs(z) < 1.645,
                z,
                z**2,
            ]
        )
    names = ("bound above", "interval covers", "z > 1.645", "|z| < 1.645", "bias", "spread")
    return dict(zip(names, np.mean(rows, axis=0).tolist(), strict=True))


def main() -> None:
    """Measure, and print a line a set and the means."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=list(LABELLED))
    parser.add_argument("sets", nargs="*", default=SETS)
    parser.add_argument("--draws", type=int, default=20)
    given = parser.parse_args()
    measure = {"accuracy": measure_accuracy, "choice": measure_choice, "bound": measure_bound}[given.what]
    found = []
    for name in given.sets or SETS:
        found.append(measure(name, given.draws))
        print(f"{name:24}", "  ".join(f"{what} {value:.4f}" for what, value in found[-1].items()), flush=True)
    print(f"{'mean':24}", "  ".join(f"{what} {np.mean([row[what] for row in found]):.4f}" for what in found[0]))


if __name__ == "__main__":
    main()
