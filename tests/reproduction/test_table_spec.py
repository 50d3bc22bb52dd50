"""Tables as TOML: every kind of mistake is said in words, and a run is known by what its numbers depend on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.reproduction.small import SMALL

from crowdwise.labels.errors import InputError
from crowdwise.reproduction.table_files import parse_table, read_table, table_names

if TYPE_CHECKING:
    from pathlib import Path

AXIS = '[axis]\nname = "skill"\nsets = "crowd.skill"\nvalues = [0.2, 0.8]\n'
NO_NUMBERS = SMALL[: SMALL.index("[[published]]")]


def without(line: str) -> str:
    assert line in SMALL
    return SMALL.replace(line, "")


def instead(old: str, new: str) -> str:
    assert old in SMALL
    return SMALL.replace(old, new)


BAD = {
    "no TOML": ("title = ", "is no TOML: Invalid value"),
    "title missing": (without('title = "A small crowd"\n'), "title is missing"),
    "a field that is not": (f"colour = 1\n{SMALL}", "table has no field 'colour'; it has name, title"),
    "settings as a number": (
        "settings = 1\n" + SMALL[: SMALL.index("[[settings]]")] + SMALL[SMALL.index("[[methods]]") :],
        r"settings must be written as \[\[settings\]\]",
    ),
    "measures as a text": (
        instead('[measures]\nconsensus = { title = "accuracy, %", times = 100 }', 'measures = "x"'),
        "measures must be a table",
    ),
    "measure as a text": (
        instead('{ title = "accuracy, %", times = 100 }', '"x"'),
        "measure must be a table of TOML, not 'x'",
    ),
    "measure without a title": (instead('title = "accuracy, %", ', ""), "measure is incomplete: title is missing"),
    "better as wished": (instead("times = 100", 'better = "up"'), "better is 'up'; it must be one of 'more', 'less'"),
    "times as a text": (instead("times = 100", 'times = "100"'), "times of measure is '100'; it must be a number"),
    "seeds as a text": (instead("seeds = 2", 'seeds = "two"'), "seeds of table is 'two'; it must be a whole number"),
    "seeds as a truth": (instead("seeds = 2", "seeds = true"), "seeds of table is True; it must be a whole number"),
    "no seeds": (instead("seeds = 2", "seeds = 0"), "seeds is 0; it must be 1 or more"),
    "interval": (f'interval = "90 %"\n{SMALL}', "interval is '90 %'; it must be one of 'sd', '99 %'"),
    "crowd as a text": (f'data = "mnist"\n{SMALL}', "data of table is 'mnist'; it must be a table"),
    "differs as a text": (f'differs = "much"\n{SMALL}', "differs of table is 'much'; it must be a list of texts"),
    "two models": (
        instead('aggregator = "majority-vote"', 'aggregator = "majority-vote"\nlearner = "trace"'),
        "'vote' must have either",
    ),
    "no model": (without('aggregator = "majority-vote"\n'), "'vote' must have either a learner or an aggregator"),
    "same name": (NO_NUMBERS.replace('name = "DS"', 'name = "vote"'), "two methods have the same name"),
    "setting of a method": (
        instead('aggregator = "majority-vote"', 'aggregator = "majority-vote"\nsettings = ["none"]'),
        "no setting 'none'; there are 'few', 'many'",
    ),
    "published of no method": (
        instead('"DS" = 80.0', '"SD" = 80.0'),
        "There is no method 'SD'; there are 'DS', 'vote'",
    ),
    "published as a text": (
        instead('"DS" = 80.0', '"DS" = "80"'),
        r"few.DS of published is '80'; it must be \[value, deviation\]",
    ),
    "published thrice": (instead('"DS" = 80.0', '"DS" = [80, 1, 2]'), r"it must be \[value, deviation\]"),
    "published without tolerance": (without("tolerance = 1.0\n"), "published must have measure, tolerance and values"),
    "tolerance as a text": (
        instead("tolerance = 1.0", 'tolerance = "1"'),
        "tolerance of published is '1'; it must be a number",
    ),
    "published values flat": (
        instead('[published.values.few]\n"vote" = [70.0, 2.0]\n"DS" = 80.0', "values = 3"),
        "must be written as SETTING.METHOD",
    ),
    "published of no x": (SMALL + AXIS, "published must say x, the value of the axis"),
    "published of another x": (
        instead("tolerance = 1.0", "tolerance = 1.0\nx = 0.5") + AXIS,
        "The axis has no value 0.5; it has 0.2, 0.8",
    ),
    "x without an axis": (
        instead("tolerance = 1.0", "tolerance = 1.0\nx = 0.5"),
        "The axis has no value 0.5; it has none",
    ),
    "claim of no measure": (
        SMALL.replace('says = "DS beats the vote"\nmeasure = "consensus"', 'says = "x"\nmeasure = "speed"'),
        "no measure 'speed'",
    ),
    "claim that says nothing": (
        without('order = [["DS"], ["vote"]]\n'),
        "'DS beats the vote' says nothing: it needs an order",
    ),
    "order of one": (instead('[["DS"], ["vote"]]', '[["DS"]]'), "says nothing: it needs an order of two or more"),
    "order as texts": (
        instead('[["DS"], ["vote"]]', '["DS", "vote"]'),
        r"order of claim is \['DS', 'vote'\]; it must be a list of lists of texts",
    ),
    "reaches a text": (
        instead('order = [["DS"], ["vote"]]', 'reaches = { "DS" = "much" }'),
        "it must be a table of numbers",
    ),
    "figure": (
        SMALL + '[[figures]]\nkind = "pie"\ntitle = "x"\n',
        "kind is 'pie'; it must be one of 'lines', 'curves', 'matrices'",
    ),
    "figure of no measure": (SMALL + '[[figures]]\nkind = "lines"\ntitle = "x"\nmeasure = "y"\n', "no measure 'y'"),
    "note of no method": (SMALL + '[[notes]]\ntext = "x"\nmethod = "y"\n', "no method 'y'"),
    "axis that sets nothing": (
        NO_NUMBERS + AXIS.replace("crowd.skill", "skill"),
        "sets of axis is 'skill'; it must be one of data.NAME, crowd.NAME",
    ),
    "axis without values": (NO_NUMBERS + AXIS.replace("[0.2, 0.8]", "[]"), "values of axis is empty"),
    "axis as a number": (f"axis = 3\n{NO_NUMBERS}", "axis must be a table"),
    "quick of something": (instead("[quick]", "[quick]\nspeed = 3"), "no field of quick 'speed'"),
    "quick seeds": (instead("[quick]", '[quick]\nseeds = "1"'), "seeds of quick is '1'; it must be a whole number"),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_mistake_is_said_in_words(kind: str) -> None:
    text, message = BAD[kind]
    with pytest.raises(InputError, match=message) as caught:
        parse_table(text, "mine")
    assert str(caught.value).startswith("The table 'mine'")


def test_a_table_that_is_not_there(tmp_path: Path) -> None:
    near = table_names()[0]
    with pytest.raises(InputError, match=f"There is no table '{near}x'. Did you mean '{near}'?"):
        read_table(f"{near}x")
    with pytest.raises(InputError, match="cannot be read: "):
        read_table(tmp_path / "none.toml")
    file = tmp_path / "bytes.toml"
    file.write_bytes(b"title = '\xff'")
    with pytest.raises(InputError, match="cannot be read: 'utf-8' codec"):
        read_table(file)


def test_a_file_of_the_user(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(SMALL, encoding="utf-8")
    table = read_table(file)
    assert (table.name, table.seeds, [each.name for each in table.settings]) == ("mine", 2, ["few", "many"])


def test_jobs_seed_by_seed() -> None:
    table = parse_table(SMALL, "mine")
    found = [tuple(job["cell"][key] for key in ("seed", "setting", "method")) for job in table.jobs()]
    assert found == [(s, x, m) for s in (0, 1) for x in ("few", "many") for m in ("vote", "DS")]
    assert [job["cell"]["method"] for job in table.jobs(["DS"], 1)] == ["DS", "DS"]
    with pytest.raises(InputError, match="mine has no method 'SD'; it has vote, DS"):
        table.jobs(["SD"])


def test_layers() -> None:
    """Table, setting, method, small version: what comes later counts."""
    job = parse_table(SMALL, "mine").quick_version().jobs()[3]["run"]
    assert job["crowd"]["n_tasks"] == 12
    assert job["crowd"]["labels_per_task"] == 5
    assert job["model"] == {"kind": "aggregator", "slug": "dawid-skene", "max_iter": 20}


def test_an_axis() -> None:
    table = parse_table(NO_NUMBERS + AXIS, "mine")
    assert [job["run"]["crowd"]["skill"] for job in table.jobs(["vote"], 1)] == [0.2, 0.8, 0.2, 0.8]
    settings = NO_NUMBERS.replace('name = "many"', 'name = "many"\naxis = [0.8]') + AXIS
    assert [job["cell"]["x"] for job in parse_table(settings, "mine").jobs(["vote"], 1)] == [0.2, 0.8, 0.8]


MATTERS = [
    ("n_tasks = 30", "n_tasks = 31"),
    ("labels_per_task = 3", "labels_per_task = 4"),
    ('aggregator = "dawid-skene"', 'aggregator = "one-coin"'),
    ("max_iter = 20", "max_iter = 21"),
    ("seeds = 2", "seeds = 2\ntraining = { epochs = 2 }"),
    ("seeds = 2", 'seeds = 2\ndata = { name = "mnist" }'),
]
MATTERS_NOT = [
    ("A small crowd", "Another title"),
    ("Nobody 2024", "Somebody 2024"),
    ("Two methods.", "In other words."),
    ('name = "few"', 'name = "less"'),
    ('name = "DS"', 'name = "Dawid"'),
    ("seeds = 2", "seeds = 5"),
    ("n_tasks = 12", "n_tasks = 13"),
    ("times = 100", "times = 1"),
    ("consensus = {", 'accuracy = { title = "other" }\nconsensus = {'),
]


def digest_of(text: str) -> str:
    """Of the first run of the second method."""
    found: str = parse_table(text, "mine").jobs()[1]["digest"]
    return found


@pytest.mark.parametrize(("old", "new"), MATTERS)
def test_a_run_is_another_if_anything_that_matters_is(old: str, new: str) -> None:
    assert digest_of(NO_NUMBERS.replace(old, new)) != digest_of(NO_NUMBERS)


@pytest.mark.parametrize(("old", "new"), MATTERS_NOT)
def test_a_run_is_the_same_whatever_it_is_called(old: str, new: str) -> None:
    assert old in NO_NUMBERS
    assert digest_of(NO_NUMBERS.replace(old, new)) == digest_of(NO_NUMBERS)


def test_every_seed_is_a_run_of_its_own() -> None:
    digests = [job["digest"] for job in parse_table(SMALL, "mine").jobs()]
    assert len(set(digests)) == len(digests) == 8
