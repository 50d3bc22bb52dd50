"""Verdicts on numbers worked by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from tests.reproduction.small import SMALL

from crowdwise.reproduction.published_order import OrderComparison, compare_orders
from crowdwise.reproduction.table_files import parse_table
from crowdwise.reproduction.table_spec import Published
from crowdwise.reproduction.verdicts import Cell, compute_cells, judge_claims

if TYPE_CHECKING:
    from crowdwise.reproduction.table_spec import Table


def rows(values: dict[tuple[str, str], list[float]], x: Any = None, measure: str = "consensus") -> list[dict[str, Any]]:
    return [
        {"setting": setting, "x": x, "method": method, "seed": seed, "measures": {measure: value}}
        for (setting, method), mine in values.items()
        for seed, value in enumerate(mine)
    ]


def one(table: Table, found: list[dict[str, Any]], setting: str, method: str) -> Cell:
    return next(cell for cell in compute_cells(table, found) if (cell.setting, cell.method) == (setting, method))


PROPOSED = SMALL.replace('name = "DS"', 'name = "DS"\nproposed = true')


@pytest.mark.parametrize(
    ("value", "deviation", "proposed", "baseline"),
    [
        (0.74, 2.0, "reproduced", "reproduced"),  # within two standard deviations, which are wider than the tolerance
        (0.7401, 2.0, "better", "differs"),
        (0.66, 2.0, "reproduced", "reproduced"),
        (0.6599, 2.0, "worse", "worse"),
        (0.71, 0.1, "reproduced", "reproduced"),  # within the tolerance, which is wider
        (0.7101, 0.1, "better", "differs"),
        (0.6899, 0.1, "worse", "worse"),
        (0.6501, 0.1, "worse", "worse"),
        (0.6499, 0.1, "worse", "differs"),  # more than five points
    ],
)
def test_a_cell(value: float, deviation: float, proposed: str, baseline: str) -> None:
    text = SMALL.replace("[70.0, 2.0]", f"[70.0, {deviation}]")
    mine = text.replace('name = "vote"', 'name = "vote"\nproposed = true')
    for table, verdict in ((text, baseline), (mine, proposed)):
        found = rows({("few", "vote"): [value]})
        assert one(parse_table(table, "mine"), found, "few", "vote").verdict == verdict


def test_less_may_be_better() -> None:
    table = parse_table(PROPOSED.replace("times = 100", 'times = 100, better = "less"'), "mine")
    assert one(table, rows({("few", "DS"): [0.9]}), "few", "DS").verdict == "worse"
    assert one(table, rows({("few", "DS"): [0.7]}), "few", "DS").verdict == "better"
    assert one(table, rows({("few", "vote"): [0.64]}), "few", "vote").verdict == "differs"
    assert one(table, rows({("few", "vote"): [0.745]}), "few", "vote").verdict == "worse"


def test_five_points_of_a_share() -> None:
    table = parse_table(SMALL.replace('{ title = "accuracy, %", times = 100 }', '{ title = "accuracy" }'), "mine")
    table = replace(table, published=(Published("few", "vote", "consensus", 0.7, math.nan, 0.01),))
    assert one(table, rows({("few", "vote"): [0.651]}), "few", "vote").verdict == "worse"
    assert one(table, rows({("few", "vote"): [0.649]}), "few", "vote").verdict == "differs"


@pytest.mark.parametrize(
    ("vote", "expected"), [(0.7, "better"), (0.745, "better"), (0.751, "differs"), (0.651, "better"), (0.64, "differs")]
)
def test_nothing_is_better_where_a_baseline_is_far_off(vote: float, expected: str) -> None:
    table = parse_table(PROPOSED, "mine")
    found = rows({("few", "DS"): [0.85], ("few", "vote"): [vote]})
    assert one(table, found, "few", "DS").verdict == expected
    assert one(table, rows({("few", "DS"): [0.75], ("few", "vote"): [vote]}), "few", "DS").verdict == "worse"


def compare(ds: list[float], vote: list[float], text: str = SMALL) -> OrderComparison:
    table = parse_table(text, "mine")
    return compare_orders(table, compute_cells(table, rows({("few", "DS"): ds, ("few", "vote"): vote})))


def test_pairs_in_the_published_order() -> None:
    assert compare([0.8], [0.7]) == OrderComparison(1, 1, ())
    turned = "few, accuracy, %: vote 70.00 is ahead of DS 60.00"
    assert compare([0.6], [0.7]) == OrderComparison(1, 0, (turned,))
    assert compare([0.7], [0.7]).turned == ("few, accuracy, %: vote 70.00 is level with DS 70.00",)
    assert compare([0.65, 0.66], [0.66, 0.67]).turned == (
        "few, accuracy, %: vote 66.50 is ahead of DS 65.50 (within the deviations of both)",
    )
    assert compare([0.8], []) == OrderComparison(0, 0, ())
    less = SMALL.replace("times = 100", 'times = 100, better = "less"')
    assert (compare([0.6], [0.7], less).kept, compare([0.8], [0.7], less).kept) == (0, 1)


@pytest.mark.parametrize(
    ("vote", "ds", "pairs"),
    [
        ("79.5", "80.0", 0),  # no deviations: the tolerance, 1
        ("78.9", "80.0", 1),
        ("[78.9, 2.0]", "80.0", 1),
        ("[78.9, 0.5]", "[80.0, 0.7]", 0),  # both deviations together
        ("[78.7, 0.5]", "[80.0, 0.7]", 1),
    ],
)
def test_pairs_that_the_paper_tells_apart(vote: str, ds: str, pairs: int) -> None:
    text = SMALL.replace("[70.0, 2.0]", vote).replace('"DS" = 80.0', f'"DS" = {ds}')
    assert compare([0.8], [0.7], text).pairs == pairs


def test_mean_spread_and_interval() -> None:
    cell = one(parse_table(SMALL, "mine"), rows({("few", "vote"): [0.6, 0.7, 0.8]}), "few", "vote")
    assert cell.mean == pytest.approx(70)
    assert cell.deviation == pytest.approx(10)
    assert cell.interval_half_width == pytest.approx(
        9.9248 * 10 / math.sqrt(3), rel=1e-4
    )  # Student's t, 2 degrees of freedom
    single = one(parse_table(SMALL, "mine"), rows({("few", "vote"): [0.6]}), "few", "vote")
    assert math.isnan(single.deviation)
    assert math.isnan(single.interval_half_width)


def test_not_run_and_not_published() -> None:
    table = parse_table(SMALL, "mine")
    found = rows({("many", "vote"): [0.9], ("few", "vote"): [math.nan]})
    assert [(cell.setting, cell.method, cell.verdict) for cell in compute_cells(table, found)] == [
        ("few", "vote", "not run"),
        ("few", "DS", "not run"),
        ("many", "vote", ""),
        ("many", "DS", "not run"),
    ]


def test_notes_find_their_cells() -> None:
    notes = (
        '[[notes]]\ntext = "all."\n[[notes]]\ntext = "few."\nsetting = "few"\n[[notes]]\ntext = "DS."\nmethod = "DS"\n'
    )
    table = parse_table(SMALL + notes, "mine")
    assert [cell.note for cell in compute_cells(table, [])] == ["all. few.", "all. few. DS.", "all.", "all. DS."]


def verdict(text: str, values: dict[tuple[str, str], list[float]], **claim: str) -> str:
    table = parse_table(SMALL + text, "mine")
    return judge_claims(table, compute_cells(table, rows(values, **claim)))[-1].verdict


ORDER = '[[claims]]\nsays = "x"\nmeasure = "consensus"\norder = [["DS"], ["vote"]]\n'


@pytest.mark.parametrize(
    ("more", "ds", "vote", "expected"),
    [
        ("", [0.8], [0.7], "holds"),
        ("", [0.7], [0.7], "does not hold"),
        ("by = 5.0", [0.76], [0.7], "holds"),
        ("by = 7.0", [0.76], [0.7], "does not hold"),
        ("apart = true", [0.80, 0.81, 0.80], [0.70, 0.71, 0.70], "holds"),
        ("apart = true", [0.80, 0.90, 0.70], [0.70, 0.71, 0.70], "does not hold"),
        ("", [0.8], [], "not run"),
    ],
)
def test_an_order(more: str, ds: list[float], vote: list[float], expected: str) -> None:
    text = f'{ORDER}settings = ["few"]\n{more}\n'
    assert verdict(text, {("few", "DS"): ds, ("few", "vote"): vote}) == expected


def test_an_order_where_less_is_better() -> None:
    text = SMALL.replace("times = 100", 'times = 100, better = "less"')
    table = parse_table(f'{text}{ORDER}settings = ["few"]\n', "mine")
    for ds, expected in ((0.1, "holds"), (0.3, "does not hold")):
        found = judge_claims(table, compute_cells(table, rows({("few", "DS"): [ds], ("few", "vote"): [0.2]})))
        assert found[-1].verdict == expected


def test_an_order_must_hold_in_every_setting() -> None:
    values = {("few", "DS"): [0.8], ("few", "vote"): [0.7], ("many", "DS"): [0.8], ("many", "vote"): [0.9]}
    table = parse_table(SMALL, "mine")
    (found,) = judge_claims(table, compute_cells(table, rows(values)))
    assert found.verdict == "does not hold"
    assert found.figures == ("few: DS 80.00, vote 70.00", "many: DS 80.00, vote 90.00 (does not hold)")
    values |= {("many", "vote"): []}
    assert judge_claims(table, compute_cells(table, rows(values)))[0].verdict == "not run"


def test_a_bar() -> None:
    text = '[[claims]]\nsays = "x"\nmeasure = "consensus"\nsettings = ["few"]\nreaches = { "DS" = 75.0 }\n'
    assert verdict(text, {("few", "DS"): [0.75]}) == "holds"
    assert verdict(text, {("few", "DS"): [0.74, 0.75]}) == "does not hold"
    assert verdict(text, {}) == "not run"


def test_a_claim_at_some_values_of_the_axis() -> None:
    numbers = SMALL[: SMALL.index("[[published]]")]
    axis = '[axis]\nname = "skill"\nsets = "crowd.skill"\nvalues = [0.2, 0.8]\n'
    table = parse_table(f'{numbers}{axis}{ORDER}settings = ["few"]\nat = [0.8]\n', "mine")
    good = rows({("few", "DS"): [0.8], ("few", "vote"): [0.7]}, x=0.8)
    bad = rows({("few", "DS"): [0.2], ("few", "vote"): [0.7]}, x=0.2)
    assert judge_claims(table, compute_cells(table, good + bad))[0].verdict == "holds"
