"""What `load` asks of a saved model before it uses it: declared arrays, sizes, plain files, parameters, no paths."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.contract.parquet_footers import EMPTY_PAGE, make_column, make_footer, make_group, write_parquet

import crowdwise as cw
from crowdwise.labels import CrowdLabels
from crowdwise.simulate import simulate

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LONG = "x" * 100_000


@pytest.fixture(scope="module")
def crowd() -> CrowdLabels:
    found = simulate("dawid-skene", n_tasks=60, n_workers=12, n_classes=3, labels_per_task=5, random_state=3).labels
    names = [f"s{task // 4}_{task % 4}" for task in range(60)]
    return CrowdLabels.from_codes(found.task, found.worker, found.label, tasks=names, workers=12, classes=3)


@pytest.fixture(scope="module")
def models(crowd: CrowdLabels, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Saved models by slug, without the digests that would show any change at once."""
    folder = tmp_path_factory.mktemp("models")
    for model in (
        cw.HmmCrowd(sequences="names"),
        cw.BayesianSequenceCombination(),
        cw.CommunityBcc(tol=1.0),
        cw.GroupDawidSkene(groups=np.array([0, 0, 0, 1, 1, *[-1] * 7])),
        cw.EnhancedBcc(n_subtypes=2, n_restarts=1, tol=1.0),
        cw.BayesianWeightedAverage(),
        cw.MeanField(),
        cw.Glad(tol=1.0),
        cw.MajorityVote(),
        cw.DawidSkene(),
        cw.GraphDawidSkene(),
        cw.WeightedMajorityVote(),
        cw.Auto(),
    ):
        model.fit(crowd).save(folder / model.slug)
        header = json.loads((folder / model.slug / "model.json").read_text())
        del header["parts"]
        (folder / model.slug / "model.json").write_text(json.dumps(header))
    return folder


@pytest.fixture
def saved(models: Path, tmp_path: Path) -> Path:
    return shutil.copytree(models / "dawid-skene", tmp_path / "model")


def write_header(folder: Path, **fields: Any) -> None:
    header = json.loads((folder / "model.json").read_text())
    fields["parameters"] = fields.get("parameters", header["parameters"])
    (folder / "model.json").write_text(json.dumps(header | fields))


@pytest.mark.parametrize(
    ("slug", "name", "change"),
    [
        ("hmm-crowd", "extra/steps", lambda _: np.full((401, 400), 1 / 400)),
        ("hmm-crowd", "extra/steps", lambda steps: steps * np.nan),
        ("hmm-crowd", "extra/steps", np.zeros_like),
        ("bsc", "extra/steps", lambda _: np.full((401, 400), 1 / 400)),
        ("bsc", "extra/habits", lambda habits: habits[::-1]),
        ("bsc", "extra/habits", lambda habits: habits + 1e6),
        ("bsc", "extra/answers", lambda answers: answers[:-1]),
        ("cbcc", "extra/log_table", lambda table: np.zeros((12, 300, 300))),
        ("cbcc", "extra/log_prior", lambda prior: prior * np.nan),
        ("cbcc", "extra/log_prior", lambda prior: np.full_like(prior, -np.inf)),
        ("cbcc", "extra/community", lambda community: community[:, :1]),
        ("cbcc", "extra/alpha", lambda alpha: alpha * 0),
        ("group-dawid-skene", "extra/groups", lambda groups: groups[:, :2]),
        ("group-dawid-skene", "worker_columns/group", lambda group: group + 1e6),
        ("group-dawid-skene", "worker_columns/group", lambda group: group + 0.5),
        ("ebcc", "extra/rows", lambda rows: rows[:, :-1]),
        ("bwa", "extra/mean", np.zeros_like),
        ("mean-field", "extra/confusion_counts", lambda _: None),
        ("glad", "task_columns/ease", lambda ease: -ease),
        ("glad", "worker_columns/ability", lambda ability: ability.astype(np.float16)),
        ("weighted-majority-vote", "worker_columns/weight", lambda weight: weight * np.tile([-1, 3], 6)),
        ("auto", "extra/wrong", lambda wrong: wrong + 1000),
        ("auto", "extra/scores", lambda scores: np.where([[False, True]], np.nan, scores)),
        ("majority-vote", "skill", lambda skill: skill + 5),
        ("majority-vote", "skill_beta", lambda beta: -beta),
        ("majority-vote", "labels_per_task", lambda counts: -counts),
        ("majority-vote", "labels_per_task", lambda counts: counts + 1),
        ("majority-vote", "labels_per_worker", np.zeros_like),
        ("majority-vote", "confusion", lambda _: np.full((12, 3, 3), 1 / 3)),
        ("majority-vote", "label_shares", lambda shares: shares * np.inf),
    ],
)
def test_arrays_of_the_methods_own(
    slug: str, name: str, change: Callable[[Any], Any], models: Path, tmp_path: Path
) -> None:
    """Each of these was a crash, a NaN or nonsense where the array was not compared with its declaration."""
    folder = shutil.copytree(models / slug, tmp_path / "model")
    with np.load(folder / "arrays.npz") as stored:
        arrays = {each: stored[each] for each in stored.files}
    arrays[name] = change(arrays.get(name))
    np.savez(folder / "arrays.npz", **{key: each for key, each in arrays.items() if each is not None})
    with pytest.raises(cw.InputError, match=rf"is damaged: .*{name.rpartition('/')[2]}"):
        cw.load(folder)


def test_arrays_that_are_saved_at_times(crowd: CrowdLabels, tmp_path: Path) -> None:
    names, classes = crowd.tasks.to_pylist(), crowd.classes.to_pylist()
    gold = {names[task]: classes[task % 3] for task in range(45)}
    prior = dict.fromkeys(classes, 1 / 3)
    asked = cw.OneCoin().fit(crowd, gold)
    asked.calibration()
    for number, (model, own) in enumerate(
        [
            (asked, "gold_cross_fitted"),
            (cw.Auto().fit(crowd, gold, class_prior=prior), "gold_levels"),
            (cw.MeanField(coin_prior=(3, 1)).fit(crowd), "coin_counts"),
            (cw.MeanField().fit(crowd, class_prior=prior), "confusion_counts"),
            (cw.BayesianClassifierCombination(inference="gibbs", n_sweeps=5).fit(crowd), ""),
        ]
    ):
        folder = tmp_path / str(number)
        model.save(folder)
        loaded = cw.load(folder)
        np.testing.assert_array_equal(loaded.predict_proba(crowd), model.predict_proba(crowd))
        assert not own or own in loaded.extra_
    with np.load(tmp_path / "1" / "arrays.npz") as stored:
        less = {name: stored[name] for name in stored.files if name != "extra/gold_workers"}
    np.savez(tmp_path / "1" / "arrays.npz", **less)
    with pytest.raises(cw.InputError, match="extra/gold_workers are missing"):
        cw.load(tmp_path / "1")


def test_bombs_are_refused_unread(saved: Path) -> None:
    """Bytes that stand for far more: the size is known before anything of it is in memory."""
    kept = (saved / "arrays.npz").read_bytes()
    with np.load(saved / "arrays.npz") as stored:
        arrays = {name: stored[name] for name in stored.files}
    np.savez_compressed(saved / "arrays.npz", **arrays)
    with pytest.raises(cw.InputError, match="compressed"):
        cw.load(saved)
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }".ljust(117) + b"\n"
    with zipfile.ZipFile(saved / "arrays.npz", "w") as archive:
        archive.writestr("objective.npy", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    with pytest.raises(cw.InputError, match="but other bytes"):
        cw.load(saved)
    with zipfile.ZipFile(saved / "arrays.npz", "w") as archive:
        for number in range(3_000):
            archive.writestr(f"extra/{number}{'x' * 400}.npy", b"")
    with pytest.raises(cw.InputError, match="list of arrays is longer"):
        cw.load(saved)
    (saved / "arrays.npz").write_bytes(kept)
    (saved / "model.json").write_text((saved / "model.json").read_text() + " " * (1 << 23))
    with pytest.raises(cw.InputError, match="longer than"):
        cw.load(saved)


def test_order_of_memory_is_no_matter(saved: Path, crowd: CrowdLabels) -> None:
    before = cw.load(saved).predict_proba(crowd)
    with np.load(saved / "arrays.npz") as stored:
        arrays = {name: np.asfortranarray(stored[name]) for name in stored.files}
    np.savez(saved / "arrays.npz", **arrays)
    np.testing.assert_array_equal(cw.load(saved).predict_proba(crowd), before)


@pytest.mark.parametrize(
    ("names", "how", "words"),
    [
        (pa.array([LONG] * 12), {}, "repeated"),
        (
            pa.array([LONG + str(number) for number in range(12)]),
            {"compression": "zstd"},
            "compressed or encoded in a way",
        ),
        (
            pa.array([LONG + str(number) for number in range(12)]),
            {"use_dictionary": False, "column_encoding": {"name": "DELTA_BYTE_ARRAY"}},
            "encoded in a way",
        ),
        (pa.array(np.arange(12)), {"data_page_version": "2.0"}, "encoded in a way"),
        (pa.array(np.zeros(100_000, np.int64)), {}, "do not make 12 rows"),
        (pa.array(np.arange(12) + 0.5), {}, "of type double"),
        (pa.array([[1]] * 12), {}, "columns of a kind that"),
        (pa.array([b"\xff" + str(number).encode() for number in range(12)]).view(pa.string()), {}, "UTF8"),
        (pa.array([None, *"abcdefghijk"]), {}, "missing"),
        (pa.array([0, *range(11)]), {}, "repeat"),
    ],
)
def test_vocabularies_that_no_save_wrote(names: Any, how: dict[str, Any], words: str, saved: Path) -> None:
    pq.write_table(pa.table({"name": names}), saved / "workers.parquet", **how)
    with pytest.raises(cw.InputError, match=f"is damaged: .*{words}"):
        cw.load(saved)


PAGES = EMPTY_PAGE * 4000
N = 12  # workers


@pytest.mark.parametrize(
    ("body", "footer", "words"),
    [
        (b"", make_footer([], N), "do not make 12 rows"),
        (EMPTY_PAGE, make_footer([make_group([make_column(N, 9)] * 2, N, 9)], N), "has other columns"),
        (
            EMPTY_PAGE,
            make_footer([make_group([make_column(N, 9, codec=9)], N, 9)], N),
            "compressed or encoded in a way",
        ),
        (EMPTY_PAGE, make_footer([make_group([make_column(N + 1, 9)], N, 9)], N), "no part of its columns"),
        (
            PAGES,
            make_footer([make_group([make_column(each, len(PAGES))], each, 9) for each in [N] + [0] * 9999], N),
            "overlap",
        ),
        (b"", b"\x16" + b"\xff" * ((1 << 22) - 10), "longer than 64 bits"),
    ],
    ids=["no rows", "two columns", "unknown codec", "more values", "shared pages", "endless number"],
)
def test_footers_that_arrow_does_not_survive(body: bytes, footer: bytes, words: str, saved: Path) -> None:
    write_parquet(saved / "workers.parquet", body, footer)
    with pytest.raises(cw.InputError, match=f"is damaged: .*{words}"):
        cw.load(saved)


@pytest.mark.parametrize("name", ["model.json", "arrays.npz", "tasks.parquet"])
def test_files_that_are_no_files(name: str, saved: Path) -> None:
    kept = (saved / name).rename(saved / "kept")
    os.mkfifo(saved / name)
    with pytest.raises(cw.InputError, match="a pipe, not a plain file"):
        cw.load(saved)
    (saved / name).unlink()
    (saved / name).symlink_to("/dev/zero")
    with pytest.raises(cw.InputError, match="a device, not a plain file"):
        cw.load(saved)
    (saved / name).unlink()
    (saved / name).symlink_to(kept)
    assert cw.load(saved).slug == "dawid-skene", "a link to a file is as good as the file"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_iter", -1),
        ("tol", "x"),
        ("smoothing", float("nan")),
        ("engine", "gpu"),
        ("random_state", True),
        ("init", [1, 2]),
        ("init", {"array": "tol"}),
    ],
)
def test_parameters_are_checked(name: str, value: Any, saved: Path) -> None:
    given = json.loads((saved / "model.json").read_text())["parameters"]
    write_header(saved, parameters=given | {name: value})
    with pytest.raises(cw.InputError, match=r"is damaged|cannot be read as a saved model"):
        cw.load(saved)


@pytest.mark.parametrize(
    ("fields", "words"), [({"room": "attic"}, "its room is 'attic'"), ({"schema": 2.0}, r"has schema 2\.0")], ids=str
)
def test_headers_of_no_version(fields: dict[str, Any], words: str, saved: Path) -> None:
    write_header(saved, **fields)
    with pytest.raises(cw.InputError, match=words):
        cw.load(saved)


@pytest.mark.parametrize("fields", [{"n_iter": True}, {"n_iter": -1}, {"converged": "no"}, {"parameters": []}], ids=str)
def test_fields_are_checked(fields: dict[str, Any], saved: Path) -> None:
    write_header(saved, **fields)
    with pytest.raises(cw.InputError, match=r"is damaged|cannot be read as a saved model"):
        cw.load(saved)


@pytest.mark.parametrize(
    ("slug", "name", "kept"), [("hmm-crowd", "sequences", "names"), ("graph-dawid-skene", "graph", None)]
)
def test_paths_of_whoever_saved_it_are_left_out(
    slug: str, name: str, kept: str | None, models: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(models / slug, tmp_path / "model")
    assert getattr(cw.load(folder), name) == kept
    given = json.loads((folder / "model.json").read_text())["parameters"]
    write_header(folder, parameters=given | {name: "/home/someone/secrets.csv"})
    assert getattr(cw.load(folder), name) is None


def test_tables_of_a_library_that_is_not_here(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_header(saved, kind="polars")
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "polars" else found(name))
    assert isinstance(cw.load(saved).consensus(), pa.Table)


@pytest.mark.parametrize("model", [cw.Mace(), cw.MaxMarginMajorityVote(max_iter=20)], ids=lambda model: model.slug)
@pytest.mark.parametrize(
    "matrix", [np.eye(3), np.eye(3)[[0, 0, 0]], np.eye(3)[[1, 2, 0]]], ids=["right", "one", "wrong"]
)
def test_matrices_under_which_labels_are_impossible(
    model: Any, matrix: Any, crowd: CrowdLabels, tmp_path: Path
) -> None:
    model.fit(crowd).save(tmp_path)
    write_header(tmp_path, parts={})
    with np.load(tmp_path / "arrays.npz") as stored:
        arrays = {name: stored[name] for name in stored.files}
    np.savez(tmp_path / "arrays.npz", **arrays | {"confusion": np.tile(matrix, (12, 1, 1))})
    strangers = CrowdLabels.from_codes(
        [0, 0, 0, 1], [0, 1, 2, 2], [0, 1, 2, 1], tasks=["x", "y"], workers=["p", "q", "r"], classes=crowd.classes
    )
    for labels in (crowd, strangers):
        np.testing.assert_allclose(cw.load(tmp_path).predict_proba(labels).sum(axis=1), 1)


@pytest.mark.parametrize("slug", ["kos", "ghosh-svd"])
def test_one_class_is_no_model(slug: str, crowd: CrowdLabels, tmp_path: Path) -> None:
    """A fit refuses labels of one class."""
    method = cw.method(slug).load()
    method().fit(crowd).save(tmp_path)
    write_header(tmp_path, parts={})
    with np.load(tmp_path / "arrays.npz") as stored:
        arrays = {name: stored[name] for name in stored.files}
    for declared in method._saved_arrays():
        for axis, length in enumerate(declared.shape.split()):
            if length == "K" and declared.name in arrays:
                arrays[declared.name] = arrays[declared.name].take([0], axis)
        if declared.sums_to_one and declared.name in arrays:
            arrays[declared.name] = np.ones_like(arrays[declared.name])
    np.savez(tmp_path / "arrays.npz", **arrays)
    pq.write_table(pq.read_table(tmp_path / "classes.parquet").slice(0, 1), tmp_path / "classes.parquet")
    with pytest.raises(cw.InputError, match="a model of 1 classes"):
        cw.load(tmp_path)


def test_a_long_schema_is_cut(saved: Path) -> None:
    write_header(saved, schema="x" * 10**6)
    with pytest.raises(cw.InputError, match="has schema") as caught:
        cw.load(saved)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", "it is no JSON object"),
        ('{"schema": 2, "kind": "pyarrow", "parameters": {}}', "it has no slug"),
        ('{"schema": 2, "slug": "mace", "kind": "pyarrow", "parameters": null}', "its parameters are no JSON object"),
    ],
)
def test_headers_that_lack_something(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "model.json").write_text(text)
    with pytest.raises(cw.InputError, match=said):
        cw.load(tmp_path)


def test_a_file_in_place_of_the_folder(saved: Path) -> None:
    with pytest.raises(cw.InputError, match=r"is no folder\. Give the folder that the model was saved in"):
        cw.load(saved / "model.json")


def test_a_name_that_is_too_long(crowd: CrowdLabels, tmp_path: Path) -> None:
    with pytest.raises(cw.InputError, match="is too long a name"):
        cw.MajorityVote().fit(crowd).save(tmp_path / LONG[:5000])


def test_text_of_no_length_is_no_parameter(saved: Path) -> None:
    """It takes no bytes in the file, and gigabytes once NumPy makes it."""
    with zipfile.ZipFile(saved / "arrays.npz", "a") as archive, archive.open("parameter/init.npy", "w") as file:
        header = {"descr": "<U0", "fortran_order": False, "shape": (500_000_000,)}
        np.lib.format.write_array_header_1_0(file, header)
    header = json.loads((saved / "model.json").read_text())
    write_header(saved, parameters=header["parameters"] | {"init": {"array": "init"}})
    with pytest.raises(cw.InputError, match="is damaged"):
        cw.load(saved)


def test_half_a_character_in_the_header(saved: Path) -> None:
    write_header(saved, note="\ud800")
    with pytest.raises(cw.InputError, match="holds half a character"):
        cw.load(saved)


@pytest.mark.parametrize("name", ["\ud800", "", "a\0b"])
def test_a_name_that_no_folder_has(name: str, crowd: CrowdLabels) -> None:
    model = cw.MajorityVote().fit(crowd)
    for use in (cw.load, cw.acquire.OnlineModel.load, model.save):
        with pytest.raises(cw.InputError, match="is no name of a folder for a model"):
            use(name)
