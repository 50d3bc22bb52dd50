"""Labels on the disk: the stream and dask engines say what the NumPy engine says, resume, and name what is wrong."""

from __future__ import annotations

import errno
import json
import os
import signal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import crowdwise as cw
from crowdwise.cli import main
from crowdwise.engines import Dask, Stream, load_engine
from crowdwise.engines.dask_engine import _save_job
from crowdwise.engines.label_store import LabelStore, Part, count_lane_part_labels, count_part_labels
from crowdwise.engines.part_passes import PassJob
from crowdwise.engines.stored_labels import StoredLabels
from crowdwise.engines.stream_engine import LANES, _cut_parts, parse_memory
from crowdwise.fitting.checkpoints import Checkpoint
from crowdwise.kernels import NO_GOLD
from crowdwise.labels import CrowdLabels, InputError
from crowdwise.labels.vocabulary import positions
from crowdwise.simulate import simulate

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("duckdb")


def make_crowd(n_tasks: int = 600, seed: int = 3) -> CrowdLabels:
    sizes = {"n_tasks": n_tasks, "n_workers": 25, "n_classes": 3, "labels_per_task": 4}
    return simulate("dawid-skene", **sizes, random_state=seed).labels


def shuffled(labels: CrowdLabels, name: str = "task {}") -> pa.Table:
    """The labels with names of text, in no order."""
    table = labels.to_table()
    tasks = [name.format(each) for each in table["task"].to_pylist()]
    table = table.set_column(0, "task", pa.array(tasks))
    return table.take(np.random.default_rng(0).permutation(table.num_rows))


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("tables") / "labels.parquet"
    pq.write_table(shuffled(make_crowd()), path, row_group_size=500)
    return path


ENGINES = {
    "stream": lambda **more: Stream(part_labels=300, **more),
    "dask": lambda **more: Dask(part_labels=300, **more),
}


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Any:
    return ENGINES[request.param]()


def assert_same(found: Any, expected: Any) -> None:
    assert found.log_likelihood == pytest.approx(expected.log_likelihood, rel=1e-12)
    np.testing.assert_allclose(found.class_counts, expected.class_counts, rtol=1e-12)
    np.testing.assert_allclose(found.counts, expected.counts, rtol=1e-12, atol=1e-12)


def test_passes_are_those_of_numpy(engine: Any) -> None:
    labels = make_crowd(250)
    plain = load_engine("numpy")
    expected = plain.make_passes(plain.lay_out(labels, None))
    layout = engine.lay_out(labels, None)
    assert len(layout.parts) > 2
    found = engine.make_passes(layout)
    generator = np.random.default_rng(1)
    prior, table = np.log([0.5, 0.3, 0.2]), np.log(generator.dirichlet(np.ones(3), (25, 3)))
    gold = np.where(generator.random(250) < 0.2, generator.integers(0, 3, 250), -1).astype(np.int32)
    for known in (NO_GOLD, gold):
        mine, theirs = layout.allocate(3), np.empty((250, 3))
        assert_same(found.e_step(prior, table, known, mine), expected.e_step(prior, table, known, theirs))
        np.testing.assert_allclose(mine, theirs, atol=1e-13)
        bonus = table[:, 0]
        assert_same(found.e_step_votes(prior, bonus, known), expected.e_step_votes(prior, bonus, known))
        shares = np.full(3, 1 / 3)
        assert_same(found.count_against_vote_shares(shares, known), expected.count_against_vote_shares(shares, known))
    assert_same(found.accumulate(theirs), expected.accumulate(theirs))
    for mine_, theirs_ in zip(found.posterior_variance(mine), expected.posterior_variance(theirs), strict=True):
        np.testing.assert_allclose(mine_, theirs_, rtol=1e-11, atol=1e-12)


METHODS = (
    "dawid-skene",
    "one-coin",
    "majority-vote",
    "mean-field",
    "ebcc",
    "confusion-vector",
    "zencrowd",
    "mace",
    "bcc",
)


@pytest.mark.parametrize("slug", METHODS)
def test_methods_say_the_same_as_in_memory(slug: str, table: Path, tmp_path: Path) -> None:
    method = cw.method(slug).load()
    few = {"max_iter": 8, "tol": 0.0} if "tol" in method().get_params() else {}
    memory = cw.read_labels(table)
    stored = Stream(scratch=tmp_path / "s", part_labels=300).read(table)
    assert isinstance(stored, StoredLabels)
    assert len(stored.store.parts) > 5
    expected, found = method(**few).fit(memory), method(**few).fit(stored)
    place, who = positions(stored.tasks, memory.tasks), positions(stored.workers, memory.workers)
    np.testing.assert_allclose(found.posterior_, expected.posterior_[place], atol=1e-12)
    np.testing.assert_allclose(found.skill_, expected.skill_[who], atol=1e-12)
    assert found.consensus()["label"].to_pylist() == expected.consensus()["label"].take(pa.array(place)).to_pylist()
    shown = found.workers()
    assert shown["n_labels"].to_pylist() == expected.workers()["n_labels"].take(pa.array(who)).to_pylist()


def test_dask_cuts_files_by_task(table: Path, tmp_path: Path) -> None:
    memory = cw.read_labels(table)
    first, second = tmp_path / "a.parquet", tmp_path / "b.parquet"
    every = pq.read_table(table)
    pq.write_table(every.slice(0, 1000), first, row_group_size=300)
    pq.write_table(every.slice(1000), second, row_group_size=300)
    engine = Dask(scratch=tmp_path / "s", part_labels=300)
    expected = cw.DawidSkene(max_iter=8, tol=0).fit(memory)
    found = cw.DawidSkene(max_iter=8, tol=0, engine=engine).fit(str(tmp_path / "*.parquet"))
    place = positions(found._names.tasks, memory.tasks)
    np.testing.assert_allclose(found.posterior_, expected.posterior_[place], atol=1e-12)
    assert not list((tmp_path / "s").glob("pass-*"))


def test_a_pass_of_a_process_that_was_killed_is_in_nobodys_way(table: Path, tmp_path: Path) -> None:
    labels = Dask(scratch=tmp_path / "s").read(table)
    for number in range(50):  # as one of the same number had left them
        (tmp_path / "s" / f"pass-{os.getpid()}-{number}").mkdir()
    assert cw.MajorityVote().fit(labels).posterior_.shape[0] == labels.n_tasks


def test_parts_without_labels_are_left_out(tmp_path: Path) -> None:
    rows = {"task": [1, 1, 2, 2], "worker": ["a", "b", "a", "b"], "label": ["x", "x", "y", "x"]}
    pq.write_table(pa.table(rows), tmp_path / "l.parquet")
    pq.write_table(pa.table(rows).slice(0, 0), tmp_path / "none.parquet")
    labels = Dask(part_labels=1).read([tmp_path / "l.parquet", tmp_path / "none.parquet"])
    assert (labels.n_tasks, labels.n_labels, len(labels.store.parts)) == (2, 4, 2) or len(labels.store.parts) == 1
    assert cw.MajorityVote().fit(labels).posterior_.sum() == pytest.approx(2)
    with pytest.raises(InputError, match="no labels"):
        Dask().read(tmp_path / "none.parquet")


def test_csv_has_the_names_of_the_reader(tmp_path: Path) -> None:
    (tmp_path / "l.csv").write_text("item,annotator,answer\n10,ann,yes\n9,ann,no\n9,bob,yes\n10,007,no\n")
    labels = Stream().read(tmp_path / "l.csv")
    assert labels.tasks.to_pylist() == [9, 10]
    assert labels.workers.to_pylist() == ["007", "ann", "bob"]
    assert labels.classes.to_pylist() == ["no", "yes"]
    assert labels.labels_per_task.tolist() == [2, 2]
    assert labels.worker.tolist() == [1, 2, 0, 1]  # read into memory, as asked
    assert labels.describe().agreement == 0


def test_a_fit_on_the_disk_is_saved_and_loaded(table: Path, tmp_path: Path) -> None:
    model = cw.MajorityVote(engine="stream").fit(str(table))
    model.save(tmp_path / "model")
    loaded = cw.load(tmp_path / "model")
    assert np.array_equal(loaded.posterior_, model.posterior_)
    assert np.array_equal(loaded.labels_per_task_, model.labels_per_task_)


def test_gold_is_heeded(table: Path) -> None:
    memory = cw.read_labels(table)
    gold = {f"task {each}": memory.classes[each % 3].as_py() for each in range(40)}
    expected = cw.DawidSkene(max_iter=5, tol=0).fit(memory, gold)
    found = cw.DawidSkene(max_iter=5, tol=0, engine=Stream(part_labels=300)).fit(str(table), gold)
    place = positions(found._names.tasks, memory.tasks)
    np.testing.assert_allclose(found.posterior_, expected.posterior_[place], atol=1e-12)


def stop_after(monkeypatch: pytest.MonkeyPatch, iterations: int) -> None:
    save, saved = Checkpoint.save, []

    def save_and_stop(self: Checkpoint, *given: Any) -> None:
        save(self, *given)
        saved.append(1)
        if len(saved) == iterations:
            raise KeyboardInterrupt

    monkeypatch.setattr(Checkpoint, "save", save_and_stop)


@pytest.mark.parametrize("slug", ["dawid-skene", "one-coin", "mean-field"])
def test_a_stopped_fit_goes_on(slug: str, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    method = cw.method(slug).load()
    few = {"max_iter": 9, "tol": 0.0, "engine": Stream(scratch=tmp_path / "s", part_labels=300)}
    whole = method(**few | {"engine": Stream(part_labels=300)}).fit(str(table))
    with monkeypatch.context() as patch:
        stop_after(patch, 4)
        with pytest.raises(KeyboardInterrupt):
            method(**few).fit(str(table))
    assert list((tmp_path / "s").glob("checkpoint-*/climb-1.npz"))
    steps: list[int] = []
    save = Checkpoint.save
    monkeypatch.setattr(Checkpoint, "save", lambda self, *given: (steps.append(1), save(self, *given)))
    resumed = method(**few).fit(str(table))
    assert len(steps) == 9 - 4 - 1
    assert np.array_equal(resumed.posterior_, whole.posterior_)
    assert np.array_equal(resumed.objective_, whole.objective_)
    assert not list((tmp_path / "s").glob("checkpoint-*"))


def test_quick_iterations_are_not_all_written_but_the_last_is_when_a_fit_stops(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[int] = []
    write = Checkpoint.write

    def write_slowly(self: Checkpoint) -> None:
        write(self)
        with np.load(self.path) as held:
            written.append(held["values"].size)
        self._next_write = float("inf")  # as if this had taken long

    monkeypatch.setattr(Checkpoint, "write", write_slowly)
    stop_after(monkeypatch, 4)
    with pytest.raises(KeyboardInterrupt):
        cw.DawidSkene(max_iter=9, tol=0, engine=Stream(scratch=tmp_path / "s")).fit(str(table))
    assert written == [1, 4]


# ---- faults -----------------------------------------------------------------------------------------------------


def test_a_part_that_changes_or_is_damaged(tmp_path: Path) -> None:
    labels = Stream(scratch=tmp_path / "s", part_labels=300).read(make_crowd(250))
    part = tmp_path / "s" / labels.store.parts[1].file
    data = part.read_bytes()
    cw.DawidSkene(max_iter=1, tol=0).fit(labels)
    part.write_bytes(data)
    os.utime(part, ns=(1, 1))
    with pytest.raises(InputError, match="changed between two passes"):
        cw.DawidSkene().fit(labels)
    part.write_bytes(data[:-100])
    with pytest.raises(InputError, match="changed between two passes"):
        cw.DawidSkene().fit(labels)
    (tmp_path / "s").rename(tmp_path / "t")
    (tmp_path / "t" / part.name).write_bytes(bytes([data[0] ^ 1]) + data[1:])
    moved = StoredLabels(LabelStore(tmp_path / "t"), Stream().make_passes)
    with pytest.raises(InputError, match=r"part-00001.blocks' is damaged"):
        cw.DawidSkene().fit(moved)


def test_a_source_that_changes(table: Path, tmp_path: Path) -> None:
    copy = tmp_path / "l.parquet"
    copy.write_bytes(table.read_bytes())
    Stream(scratch=tmp_path / "s").read(copy)
    about = copy.stat()
    copy.write_bytes(table.read_bytes()[::-1])
    os.utime(copy, ns=(about.st_atime_ns, about.st_mtime_ns))  # of the same size, and as old
    with pytest.raises(InputError, match="changed since they were sorted"):
        Stream(scratch=tmp_path / "s").read(copy)
    os.utime(copy, ns=(1, 1))
    with pytest.raises(InputError, match="changed since they were sorted"):
        Stream(scratch=tmp_path / "s").read(copy)


@pytest.mark.parametrize("name", ENGINES)
def test_a_damaged_row_group(name: str, table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = bytearray(table.read_bytes())
    data[40:400] = bytes(360)
    (tmp_path / "l.parquet").write_bytes(data)
    words = ["aggregate", str(tmp_path / "l.parquet"), "--engine", name, "--out", str(tmp_path / "out")]
    assert main(words) == 2
    said = capsys.readouterr().err
    assert "l.parquet" in said
    assert "Write the file anew" in said
    assert not (tmp_path / "out").exists()


def test_a_full_scratch_disk(table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    labels = Stream(scratch=tmp_path / "s").read(table)

    def refuse(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as patch:
        patch.setattr(os, "posix_fallocate", refuse)
        with pytest.raises(InputError, match=r"scratch folder .* failed: No space left on device"):
            cw.DawidSkene(max_iter=3, tol=0).fit(labels)
    assert list((tmp_path / "s").glob("checkpoint-*/climb-1.npz"))  # nothing is lost
    assert not list((tmp_path / "s").glob("rows-*"))
    assert cw.DawidSkene(max_iter=3, tol=0).fit(labels).n_iter_ == 3


def test_lanes_of_parts_have_the_same_bits_with_any_threads(table: Path) -> None:
    found = []
    for threads in (1, 2, 5):
        with cw.use_threads(threads):
            model = cw.DawidSkene(max_iter=4, tol=0, engine=Stream(part_labels=60)).fit(str(table))
        found.append((np.array(model.posterior_), model.confusion_, model.log_likelihood_))
    for other in found[1:]:
        for mine, theirs in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(mine, theirs)


def test_parts_are_cut_into_lanes_by_their_labels() -> None:
    for sizes in ([5], [1, 1], [3] * 8, [9] + [1] * 30, [1] * 100):
        parts = [Part(str(at), at, 1, size, 0, {}, {}, 0) for at, size in enumerate(sizes)]
        lanes = _cut_parts(parts)
        assert [part for lane in lanes for part in lane] == parts
        assert len(lanes) <= LANES
        assert all(lanes)
    assert [len(lane) for lane in lanes] == [13, 12, 13, 12, 13, 12, 13, 12]


def test_few_labels_stay_in_memory_with_the_same_bits(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from crowdwise.engines import label_store, part_passes, stream_engine

    monkeypatch.setattr(label_store, "TINY_PART", 60)
    found, read = [], LabelStore.read_blocks
    for name, few in (("held", 2**24), ("read", 0)):
        reads: list[str] = []
        monkeypatch.setattr(
            LabelStore, "read_blocks", lambda *given, to=reads: (to.append(given[1].file), read(*given))[1]
        )
        for room in (stream_engine, part_passes):
            monkeypatch.setattr(room, "FEW_LABELS", few)
        labels = Stream(scratch=tmp_path / name).read(table)
        model = cw.DawidSkene(max_iter=4, tol=0).fit(labels)
        found.append((np.array(model.posterior_), model.confusion_, model.log_likelihood_))
        parts = len(labels.store.parts)
        assert parts > 10
        assert len(reads) >= parts
        assert (len(reads) == parts) == (few > 0)  # once for all passes
    for mine, theirs in zip(*found, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_held_labels_that_changed_on_the_disk(table: Path, tmp_path: Path) -> None:
    labels = Stream(scratch=tmp_path / "s").read(table)
    cw.MajorityVote().fit(labels)
    part = labels.store.folder / labels.store.parts[0].file
    os.utime(part, ns=(1, 1))
    with pytest.raises(InputError, match="changed between two passes"):
        cw.DawidSkene().fit(labels)
    part.unlink()
    with pytest.raises(InputError, match="Cannot read"):
        cw.DawidSkene().fit(labels)


def test_little_memory_holds_no_labels(table: Path, tmp_path: Path) -> None:
    labels = Stream("256MiB", tmp_path / "s").read(table)
    assert cw.DawidSkene(max_iter=3, tol=0).fit(labels).n_iter_ == 3
    assert not labels.store._held


def test_parts_that_all_fail_leave_nobody_waiting(table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    labels = Stream(scratch=tmp_path / "s", part_labels=60).read(table)
    assert len(labels.store.parts) > 20

    def refuse(*_: Any) -> None:
        raise InputError("unreadable")

    monkeypatch.setattr(LabelStore, "read_blocks", refuse)
    with pytest.raises(InputError, match="unreadable"):
        cw.DawidSkene().fit(labels)


def test_memory_that_is_out(table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from crowdwise.engines import external_sort, stream_engine

    def run_out(*_: Any) -> None:
        raise MemoryError

    labels = Stream(scratch=tmp_path / "s", part_labels=300).read(table)
    monkeypatch.setattr(external_sort, "write_part", run_out)
    with pytest.raises(InputError, match="Memory is out while labels are sorted"):
        Stream().read(table)
    monkeypatch.setattr(stream_engine, "run_part", run_out)
    with pytest.raises(InputError, match=r"Memory is out in a pass.*run the same again"):
        cw.DawidSkene().fit(labels)


BAD = [
    ({"task": [1, None], "worker": ["a", "b"], "label": ["x", "y"]}, "no task in 1 of 2 rows"),
    ({"task": [1, 1], "worker": ["a", "a"], "label": ["x", "y"]}, "repeat an earlier one"),
    ({"task": [1, 2], "label": ["x", "y"]}, "has no worker column"),
]


@pytest.mark.parametrize(("rows", "words"), BAD)
def test_bad_rows(rows: dict[str, Any], words: str, engine: Any, tmp_path: Path) -> None:
    pq.write_table(pa.table(rows), tmp_path / "l.parquet")
    with pytest.raises(InputError, match=words):
        engine.read(tmp_path / "l.parquet")


def test_sizes_of_memory() -> None:
    assert parse_memory("512 MiB") == 2**29
    assert parse_memory(10**9) == 10**9
    for given in ("much", "2XB", "1MB", True):
        with pytest.raises(InputError, match="memory is"):
            parse_memory(given)
    assert (
        count_part_labels(10**6, 10, 2) < count_part_labels(10**9, 10, 2) < count_part_labels(10**9, 10**6, 10) <= 2**26
    )
    many = 10**9, 10, 2
    assert count_lane_part_labels(10**7, 10, 2) < count_part_labels(10**7, 10, 2)
    assert count_lane_part_labels(*many) < count_part_labels(*many)


# ---- the command ------------------------------------------------------------------------------------------------


def test_commands(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    words = [str(table), "--engine", "stream", "--memory", "1GB"]
    assert main(["aggregate", *words, "--method", "one-coin", "--out", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["n_tasks"] == 600
    consensus = pq.read_table(out / "consensus.parquet")
    expected = cw.OneCoin().fit(str(table))
    place = positions(consensus["task"].combine_chunks(), expected._names.tasks)
    posterior = np.array(consensus["posterior"].to_pylist())
    np.testing.assert_allclose(posterior, expected.posterior_[place], atol=1e-12)
    assert (out / "workers.csv").exists()
    assert not (tmp_path / "out.scratch").exists()
    assert main(["describe", *words]) == 0
    assert "600 tasks" in capsys.readouterr().out
    assert main(["audit", *words]) == 0
    assert "reduced audit" in " ".join(capsys.readouterr().out.split())
    assert main(["aggregate", *words, "--memory", "1"]) == 2
    assert main(["aggregate", *words, "--truth", str(table)]) == 2
    assert main(["aggregate", str(table), "--engine", "dask", "--out", str(tmp_path / "d")]) == 0
    assert pq.read_table(tmp_path / "d" / "consensus").num_rows == 600


# ---- a cluster --------------------------------------------------------------------------------------------------


def test_a_cluster_that_loses_workers(table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    distributed = pytest.importorskip("distributed")
    options = {"processes": True, "threads_per_worker": 1, "dashboard_address": None, "memory_limit": "2GB"}
    options["preload"] = ["crowdwise.engines.dask_worker"]
    dask = pytest.importorskip("dask")
    monkeypatch.setitem(dask.config.config["distributed"]["worker"], "multiprocessing-method", "forkserver")
    distributed.utils.get_mp_context().set_forkserver_preload(options["preload"])
    few = {"max_iter": 6, "tol": 0.0}
    alone = cw.DawidSkene(**few, engine=Dask(part_labels=300)).fit(str(table))
    cluster = distributed.LocalCluster(n_workers=2, **options)
    client = distributed.Client(cluster)
    try:
        engine = Dask(client, scratch=tmp_path / "s", part_labels=300)
        save = Checkpoint.save

        def save_and_kill(self: Checkpoint, parameters: Any, values: list[float], likelihoods: list[float]) -> None:
            save(self, parameters, values, likelihoods)
            if len(values) == 2:
                os.kill(next(iter(cluster.workers.values())).pid, signal.SIGKILL)

        with monkeypatch.context() as patch:
            patch.setattr(Checkpoint, "save", save_and_kill)
            found = cw.DawidSkene(**few, engine=engine).fit(str(table))
        assert np.array_equal(found.posterior_, alone.posterior_)

        def save_and_close(self: Checkpoint, *given: Any) -> None:
            save(self, *given)
            cluster.close()

        monkeypatch.setattr(Checkpoint, "save", save_and_close)
        with pytest.raises(InputError, match=r"scheduler is lost .*run the same again to go on"):
            cw.DawidSkene(**few, engine=engine).fit(str(table))
        assert list((tmp_path / "s").glob("checkpoint-*/climb-1.npz"))
    finally:
        client.close(timeout=2)
        cluster.close()


def test_a_worker_has_its_loops_before_it_takes_work(monkeypatch: pytest.MonkeyPatch) -> None:
    from crowdwise.engines import dask_worker
    from crowdwise.kernels.compiled import em_passes

    ran = []
    for name in ("count_against_vote_shares", "e_step", "e_step_votes"):
        loop = getattr(em_passes, name)
        monkeypatch.setattr(em_passes, name, lambda *given, loop=loop, name=name: (ran.append(name), loop(*given)))
    dask_worker.dask_setup(None)
    assert ran == ["count_against_vote_shares", *["e_step", "e_step_votes"] * 2]


def test_a_worker_out_of_memory(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Dask(part_labels=300)
    labels = engine.read(table)

    class LostWorkers:
        def get(self, *_: Any, **__: Any) -> Any:
            from distributed.scheduler import KilledWorker

            raise KilledWorker("part-3", None, 3)

    engine.client = LostWorkers()
    with pytest.raises(InputError, match=r"most likely out of memory.*run the same again"):
        cw.DawidSkene().fit(labels)


def test_few_labels_are_fitted_here_unless_parts_are_asked_for(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster takes longer to answer than such a pass takes."""
    passes: list[int] = []

    class Cluster:
        def get(self, graph: dict[str, Any], _: str, *, sync: bool) -> Any:
            passes.append(len(graph))
            raise RuntimeError("asked")

    labels = Dask().read(table)
    few = Dask()
    few.client = Cluster()
    monkeypatch.setattr(few, "map", Dask().map)
    model = cw.DawidSkene(max_iter=3, tol=0, engine=few).fit(str(table))
    assert not passes
    np.testing.assert_array_equal(model.posterior_, cw.DawidSkene(max_iter=3, tol=0).fit(labels).posterior_)
    parts = Dask(part_labels=300)
    parts.client = Cluster()
    monkeypatch.setattr(parts, "map", Dask().map)
    with pytest.raises(RuntimeError, match="asked"):
        cw.DawidSkene(max_iter=3, tol=0, engine=parts).fit(str(table))
    assert passes == [2 * len(Dask(part_labels=300).read(table).store.parts) - 1]  # the parts, and a tree of sums


def test_a_cluster_does_not_see_this_process(tmp_path: Path) -> None:
    """Neither its standard input nor its memory."""
    with pytest.raises(InputError, match=r"do not see standard input \(-\)"):
        Dask().read("-")
    job = PassJob("e_step", {}, {"out": np.zeros((2, 2))})
    with pytest.raises(InputError, match="fits labels on the disk, and these are in memory"):
        _save_job(tmp_path, job)
