"""`crowdwise audit` and `crowdwise report` on every data set there is: they work, or say why they do not apply."""

from __future__ import annotations

import csv
import gzip
import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DATA = Path(os.environ.get("CROWDWISE_DATA") or "nowhere")
pytestmark = [
    pytest.mark.data,
    pytest.mark.usefixtures("compiled", "few_sweeps", "few_folds"),
    pytest.mark.skipif(
        not os.environ.get("CROWDWISE_DATA"),
        reason="CROWDWISE_DATA is not set: point it at the folder with NAME/labels.csv and NAME/truth.csv",
    ),
]

MOST_LABELS, TO_TWINS = 600, 3_000  # of a set, and of one with twins; of larger ones the first tasks are taken
REPEATED = ("adult2", "fact_eval", "zencrowd_us")  # a worker answers a task twice
TWINS = ("zencrowd_us",)  # pages whose addresses differ only in case
NUMBERS = ("emotion_anger", "emotion_joy", "emotion_valence", "wordsim")
PICTURES = ("cifar10", "mnist")
PAIRS = ("pair_readinglevel",)
OTHER_KINDS = ("boxes", "translations")  # not classes: no command reads them yet
JUDGES = ("judges_cebab_aspects", "judges_cebab_stars", "judges_framing", "judges_lesion", "judges_prompts10k")
CLASSES = (
    "adult2", "bluebird", "cifar10h", "cifar10n", "dog", "ducks", "fact_eval", "imagenet15n", "labelme",
    "lewidi_hsbrexit", "music", "ner_crowd", "pair_llmfao", "popquorn_offensive", "rte", "sentiment_text", "sp", "temp",
    "web", "zencrowd_us",
)  # fmt: skip
KINDS = {
    "spammer", "opposite", "colluders", "dependent workers", "bias", "mislabel", "disputed answer", "hard task",
    "confused classes",
    "identifiability", "strange truth",
}  # fmt: skip
ABOUT = {"worker", "workers", "task", "class", "crowd", "attribute"}
FIELDS = {"kind", "about", "names", "score", "verdict", "evidence", "p_value", "how", "advice"}


@cache
def rows_of(name: str) -> list[dict[str, str]]:
    file = next(DATA / name / each for each in ("labels.csv", "labels.csv.gz") if (DATA / name / each).exists())
    with gzip.open(file, "rt", encoding="utf-8") if file.suffix == ".gz" else file.open(encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def first_tasks(name: str) -> list[dict[str, str]]:
    """The labels of as many tasks as come to so many."""
    rows = rows_of(name)
    sizes: dict[str, int] = {}
    for row in rows:
        sizes[row["task"]] = sizes.get(row["task"], 0) + 1
    kept, total = set(), 0
    for task, size in sizes.items():
        total += size
        if total > (TO_TWINS if name in TWINS else MOST_LABELS):
            break
        kept.add(task)
    return [row for row in rows if row["task"] in kept]


def written(rows: list[dict[str, str]], file: Path) -> Path:
    with file.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return file


def options(name: str, rows: list[dict[str, str]]) -> Iterator[str]:
    """What a user of this set would add."""
    if name in REPEATED:
        yield from ("--on-duplicate", "all")
    classes = dict.fromkeys(row["label"] for row in rows_of(name))
    if len({row["label"] for row in rows}) < len(classes):  # the first tasks lack a class
        yield from ("--classes", ",".join(sorted(classes)))
    for file, option in (("truth.csv", "--truth"), ("workers.csv", "--worker-attributes")):
        if (DATA / name / file).exists():
            yield from (option, str(DATA / name / file))


def check(facts: dict[str, Any]) -> None:
    """Findings are complete, and say what they say in numbers that can be."""
    for finding in facts["findings"]:
        assert set(finding) == FIELDS
        assert finding["kind"] in KINDS
        assert finding["about"] in ABOUT
        assert finding["names"]
        assert 0 <= finding["score"] <= 1
        assert 0 <= finding["p_value"] <= facts["level"]
        assert all(finding[each] for each in ("verdict", "evidence", "how", "advice"))
        assert "nan" not in (finding["verdict"] + finding["evidence"]).split()
    assert all(why.endswith(".") for why in facts["skipped"].values())


def test_every_folder_is_here() -> None:
    folders = {each.name for each in DATA.iterdir() if each.is_dir()}
    assert folders <= {*CLASSES, *JUDGES, *NUMBERS, *PICTURES, *PAIRS, *OTHER_KINDS}


@pytest.mark.parametrize("name", CLASSES)
def test_classes_are_audited(name: str, cw: Callable[..., Any], tmp_path: Path) -> None:
    if not (DATA / name).is_dir():
        pytest.skip(f"{name} is not in {DATA}")
    rows = first_tasks(name)
    ran = cw("audit", written(rows, tmp_path / "labels.csv"), *options(name, rows), "--json")
    assert ran.code == 0
    assert ("They are kept apart." in ran.err) if name in TWINS else (ran.err == "")
    assert ran.json["n_labels"] == len(rows)
    check(ran.json)
    if name == "popquorn_offensive":
        assert "bias" not in ran.json["skipped"]
    if name == "lewidi_hsbrexit":  # three workers of six can be chosen in twenty ways only
        assert "told from chance" in ran.json["skipped"]["bias"]


@pytest.mark.parametrize("name", JUDGES)
def test_judges_are_audited(name: str, cw: Callable[..., Any], tmp_path: Path) -> None:
    if not (DATA / name).is_dir():
        pytest.skip(f"{name} is not in {DATA}")
    with (DATA / name / "judges.csv").open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    few = set(list(dict.fromkeys(row["task"] for row in rows))[:400])
    ran = cw("audit", written([row for row in rows if row["task"] in few], tmp_path / "judges.csv"), "--json")
    assert (ran.code, ran.err) == (0, "")
    check(ran.json)


@pytest.mark.parametrize("name", REPEATED)
def test_repeated_answers_are_asked_about(name: str, cw: Callable[..., Any]) -> None:
    ran = cw("audit", DATA / name / "labels.csv.gz")
    assert ran.code == 2
    assert "--on-duplicate" in ran.err


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_are_audited_as_values(name: str, cw: Callable[..., Any]) -> None:
    ran = cw("audit", DATA / name / "labels.csv", "--truth", DATA / name / "truth.csv", "--method", "mean", "--json")
    assert (ran.code, ran.json["kind"]) == (0, "values")
    assert "Read as values; --kind labels for classes." in ran.err
    assert ran.json["pearson"] > 0.5


def test_numbers_in_bands_are_audited(cw: Callable[..., Any], tmp_path: Path) -> None:
    rows = [
        row | {"label": "low" if float(row["label"]) < 4 else "middle" if float(row["label"]) < 8 else "high"}
        for row in rows_of("wordsim")
    ]
    ran = cw("audit", written(rows, tmp_path / "bands.csv"), "--json")
    assert (ran.code, ran.err) == (0, "")
    check(ran.json)


def test_comparisons_are_audited_as_such_and_as_tasks(cw: Callable[..., Any], tmp_path: Path) -> None:
    file = DATA / "pair_readinglevel" / "pairs.csv"
    own = cw("audit", file)
    assert own.code == 2
    assert "the same item" in own.err
    with file.open(encoding="utf-8") as stream:
        pairs = [(row["worker"], row["winner"], row["loser"]) for row in csv.DictReader(stream)]
    rows = [
        {"task": "|".join(sorted((a, b))), "worker": who, "label": "first" if a < b else "second"}
        for who, a, b in pairs
    ]
    ran = cw("audit", written(rows, tmp_path / "tasks.csv"), "--on-duplicate", "all", "--json")
    assert (ran.code, ran.err) == (0, "")
    check(ran.json)


@pytest.mark.parametrize(("name", "file"), [("mnist", "mnist.npz"), ("cifar10", "train_00.jpg")])
def test_pictures_are_no_labels(name: str, file: str, cw: Callable[..., Any]) -> None:
    ran = cw("audit", DATA / name / file)
    assert ran.code == 2
    assert "Give the table of" in ran.err
    assert "is a folder; give a file in it" in cw("audit", DATA / name).err


@pytest.mark.parametrize("name", ["bluebird", "labelme", "popquorn_offensive"])
def test_pages(name: str, cw: Callable[..., Any], tmp_path: Path) -> None:
    rows = first_tasks(name)
    out = tmp_path / "page.html"
    ran = cw("report", written(rows, tmp_path / "labels.csv"), *options(name, rows), "--out", out)
    assert (ran.code, ran.err) == (0, "")
    page = out.read_text(encoding="utf-8")
    assert f"{len(rows):,} labels" in page
    assert ("Calibration" in page) == (DATA / name / "truth.csv").exists()
    assert ">nan<" not in page
