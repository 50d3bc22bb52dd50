"""The page of a table says what was run, what came out and what was not."""

from __future__ import annotations

import math
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
from tests.reproduction.small import SMALL

from crowdwise.reproduction.table_files import parse_table
from crowdwise.reproduction.table_page import format_duration, make_report, summarise_verdicts

HOSTILE = "a|b <script>x</script> *c*"
AXIS = '[axis]\nname = "skill"\nsets = "crowd.skill"\nvalues = [0.2, 0.8]\n'
NO_NUMBERS = SMALL[: SMALL.index("[[published]]")]


def row(setting: str, method: str, value: float, seed: int = 0, x: Any = None, **more: Any) -> dict[str, Any]:
    cell = {"setting": setting, "x": x, "method": method, "seed": seed}
    return {**cell, "measures": {"consensus": value}, "seconds": 30.0, "where": "a quiet machine", **more}


ROWS = [
    row("few", "vote", 0.60),
    row("few", "vote", 0.62, seed=1),
    row("few", "DS", 0.80),
    row("many", "DS", 0.9),
]


def page(text: str = SMALL, rows: list[dict[str, Any]] = ROWS, failed: Any = ()) -> str:
    return make_report(parse_table(text, "mine"), rows, failed).files("mine", "crowdwise bench mine")["mine.md"]


def test_cells_have_ours_published_and_a_mark() -> None:
    found = page()
    assert "| method | few | many |" in found
    assert "| vote | 61.00 ± 1.41 (70.00 ± 2.00) ≠ | not run |" in found
    assert "| DS | 80.00 (80.00) ✓ | 90.00 |" in found
    assert "Mean ± the standard deviation over seeds; in brackets what was published. ✓ reproduced" in found
    assert "Tolerance: accuracy, %: 1." in found


def test_the_rest_of_the_page() -> None:
    found = page()
    for part in (
        "# A small crowd\n\nNobody 2024, table 1.\n\nTwo methods.",
        "**Published numbers: 1 reproduced, 1 differs. Pairs of methods in the published order: 1 of 1. Claims: 1 not",
        "| DS beats the vote | not run | few: DS 80.00, vote 61.00; many: DS 90.00, vote nan (not run) |",
        "- few, vote, accuracy, %: differs from what was published, and not looked into yet.",
        "| crowd | name = hammer-spammers, n\\_tasks = 30,",
        "| setting *many* | crowd.labels\\_per\\_task = 5 |",
        "| method *DS* | `dawid-skene`, max\\_iter = 20 |",
        "`crowdwise bench mine`: 4 runs, 1 to 2 seeds each, 2 min of fitting, added up over the runs, on a quiet",
    ):
        assert part in found


def test_the_rule_of_the_verdicts_is_told() -> None:
    found = page(SMALL.replace('name = "DS"', 'name = "DS"\nproposed = true'))
    assert "▲ better than published, said only of the paper's own methods (DS)" in found
    assert "≠ differs: a baseline that is better than published, or worse by more than 5;" in found
    assert "the paper's own methods (none)" in page()


def test_an_order_that_breaks_is_told_at_the_top() -> None:
    found = page(rows=[row("few", "vote", 0.9), row("few", "DS", 0.8)])
    said = "- Not in the published order: few, accuracy, %: vote 90.00 is ahead of DS 80.00."
    assert found.index(said) < found.index("## Results")
    assert "Not in the published order" not in page()


def test_claims_that_do_not_hold_are_told_at_the_top() -> None:
    rows = [
        row(setting, method, value) for setting in ("few", "many") for method, value in (("vote", 0.9), ("DS", 0.8))
    ]
    found = page(rows=rows)
    assert found.index("- Does not hold: “DS beats the vote”.") < found.index("## Results")
    assert "Does not hold" not in page()


def test_rates_of_workers_stand_beside_the_networks() -> None:
    own = '[[methods]]\nname = "{}"\nlearner = "{}"\n'
    text = SMALL + own.format("CE", "coupled-ce") + own.format("one", "single-cm") + own.format("M-step", "em")
    found = page(
        f"{text}{own.format('set', 'trace')}training = {{ worker_learning_rate = 0.5, learning_rate = 0.02 }}\n"
    )
    assert "| method *CE* | `coupled-ce`, rate of the workers = 0.01 |" in found
    assert "| method *one* | `single-cm`, rate of the workers = 0.001 |" in found
    assert "| method *M-step* | `em` |" in found  # its matrices are counted
    assert "training.worker\\_learning\\_rate = 0.5, training.learning\\_rate = 0.02 |" in found


def test_a_note_is_told() -> None:
    text = SMALL + '[[notes]]\ntext = "Longer did not help."\nsetting = "few"\nmethod = "vote"\n'
    found = page(text)
    assert "- few, vote: Longer did not help." in found
    assert "not looked into" not in found


def test_a_claim_that_fails_says_what_was_tried() -> None:
    text = SMALL.replace('order = [["DS"]', 'note = "More seeds."\nsettings = ["few"]\norder = [["DS"]')
    found = page(text, [row("few", "vote", 0.9), row("few", "DS", 0.8)])
    assert "| **does not hold** | few: DS 80.00, vote 90.00 (does not hold)<br>More seeds. |" in found
    assert "More seeds." not in page(text)


def test_nothing_was_run() -> None:
    found = page(rows=[])
    assert "| vote | not run (70.00 ± 2.00) | not run |" in found
    assert "Not run yet: `crowdwise bench mine`." in found
    assert "Published numbers: 2 not run." in found


def test_published_where_the_method_is_not_run() -> None:
    text = SMALL.replace('name = "vote"', 'name = "vote"\nsettings = ["many"]')
    report = make_report(parse_table(text, "mine"), [])
    assert report.tally == {"not run": 2}
    assert "| vote | not run (70.00 ± 2.00) | not run |" in page(text, [])
    assert "| vote | – | not run |" in page(text.replace('"vote" = [70.0, 2.0]\n', ""), [])


def test_names_are_escaped() -> None:
    found = page(SMALL.replace('"vote"', f'"{HOSTILE}"'), [row("few", HOSTILE, 0.7)])
    assert "<script>" not in found
    assert "| a\\|b &lt;script&gt;x&lt;/script&gt; \\*c\\* | 70.00 (70.00 ± 2.00) ✓ |" in found


def test_failed_runs_are_told() -> None:
    failed = [{"setting": "few", "x": 0.2, "method": "DS", "seed": 3, "error": "Too <few> workers."}]
    assert "- few, 0.2, DS, seed 3: Too &lt;few&gt; workers." in page(failed=failed)


def test_an_axis_has_its_values_as_columns() -> None:
    rows = [row("few", "vote", 0.5, x=0.2), row("few", "vote", 0.6, x=0.8)]
    found = page(NO_NUMBERS + AXIS, rows)
    assert "**few**, over skill:\n\n| method | skill 0.2 | skill 0.8 |" in found
    assert "| vote | 50.00 | 60.00 |" in found


def test_intervals_in_place_of_deviations() -> None:
    rows = [row("few", "DS", value, seed) for seed, value in enumerate((0.6, 0.7, 0.8))]
    assert f"70.00 ± {9.9248 * 10 / math.sqrt(3):.2f}" in page(f'interval = "99 %"\n{SMALL}', rows)


def drawn(figure: str, rows: list[dict[str, Any]], axis: str = AXIS) -> dict[str, str]:
    files = make_report(parse_table(NO_NUMBERS + axis + figure, "mine"), rows).files("mine", "c")
    assert all(f"]({name})" in files["mine.md"] for name in files if name.endswith(".svg"))
    return {name: text for name, text in files.items() if name.endswith(".svg")}


def test_lines_over_the_axis_for_each_setting() -> None:
    figure = '[[figures]]\nkind = "lines"\ntitle = "Skill"\nmeasure = "consensus"\n'
    rows = [row(setting, "vote", x, x=x, warned=x < 0.5) for setting in ("few", "many") for x in (0.2, 0.8)]
    found = drawn(figure, rows)
    assert list(found) == ["mine-1.svg", "mine-2.svg"]
    assert "<title>Skill: many</title>" in found["mine-2.svg"]
    assert "<title>vote, 0.8: 80</title>" in found["mine-1.svg"]
    assert found["mine-1.svg"].count('class="region"') == 1
    assert "Grey: Crowdwise warns" in found["mine-1.svg"]
    assert "One seed." in found["mine-1.svg"]
    only = drawn(f'{figure}settings = ["many"]\n', rows)
    assert [ET.fromstring(each).findtext("{*}title") for each in only.values()] == ["Skill"]  # noqa: S314


def test_lines_over_settings_where_there_is_no_axis() -> None:
    figure = '[[figures]]\nkind = "lines"\ntitle = "All"\nmeasure = "consensus"\n'
    (found,) = drawn(figure, [row("few", "DS", 0.5), row("many", "DS", 0.7)], axis="").values()
    assert "<title>DS, many: 70</title>" in found


def test_curves_are_means_over_seeds() -> None:
    figure = '[[figures]]\nkind = "curves"\ntitle = "Epochs"\nsettings = ["few"]\n'
    rows = [row("few", "DS", 0.5, seed, history=history) for seed, history in enumerate(([0.2, 0.4], [0.4, 0.6, 0.8]))]
    (found,) = drawn(figure, rows, axis="").values()
    way = next(line for line in found.splitlines() if 'class="line c0"' in line).split('d="M')[1].split('"')[0]
    heights = [float(point.split()[1]) for point in way.split("L")]
    steps = np.diff(heights)
    assert steps[0] < 0  # 30 %, 50 %, and 80 % of the one that went on
    assert steps[1] / steps[0] == 1.5
    assert "Mean of 2 seeds." in found


def test_matrices_of_one_run() -> None:
    figure = '[[figures]]\nkind = "matrices"\ntitle = "Who errs"\nmethods = ["DS"]\n'
    matrices = np.eye(3)[None].repeat(9, axis=0).tolist()
    rows = [row("few", "DS", 0.5, confusion=matrices, true_confusion=matrices), row("few", "vote", 0.5)]
    (found,) = drawn(figure, rows, axis="").values()
    assert found.count('class="frame"') == 2 * 6 + 1
    assert "DS, few; the first 6 of 9 workers" in found
    assert drawn(figure, rows[1:], axis="") == {}
    both = list(drawn(figure, [rows[0] | {"refined_confusion": matrices}], axis="").values())
    assert ["DS, few, refined" in each for each in both] == [False, True]


def test_words() -> None:
    assert (
        summarise_verdicts(make_report(parse_table(NO_NUMBERS, "mine"), [])) == "Nothing was published to compare with."
    )
    assert [format_duration(each) for each in (0.51, 59, 60, 5400)] == ["0.51 s", "59 s", "1 min", "1.5 h"]
