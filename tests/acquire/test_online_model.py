"""The online model: both kernels, the fixed point of batch EM, growth, saving and merging."""

from __future__ import annotations

import copy
import os
import threading

import numpy as np
import pytest

import crowdwise as cw
from crowdwise.acquire import OnlineModel
from crowdwise.engines import use_engine
from crowdwise.kernels.online_em import FAMILIES
from crowdwise.labels.errors import InputError
from crowdwise.simulate import simulate

CROWD = simulate("dawid-skene", n_tasks=60, n_workers=8, n_classes=3, labels_per_task=6, skill=0.85, random_state=3)


def stream(labels=CROWD.labels, seed=0, **settings):
    model = OnlineModel(labels.classes.to_pylist(), **settings)
    for name in labels.tasks.to_pylist():
        model.add_task(name)
    for name in labels.workers.to_pylist():
        model.add_worker(name)
    model.add_labels(labels, np.random.default_rng(seed).permutation(labels.n_labels))
    return model


def test_a_decayed_label_is_the_textbook_step():
    model = OnlineModel(["x", "y"], mode="decay", right=2, wrong=1, shares=1, growth=0)
    start = np.array([[2 / 3, 1 / 3], [1 / 3, 2 / 3]])  # [truth, label]
    q1 = start[:, 0] / start[:, 0].sum()
    model.add("a", "w", "x")
    assert np.allclose(model.posterior("a"), q1)
    prior = (1 + q1) / 3
    pseudo = np.array([[2.0, 1.0], [1.0, 2.0]])
    counts = pseudo + np.outer(q1, [1, 0])
    table = counts / counts.sum(axis=1, keepdims=True)
    assert np.allclose(model.confusion("w"), table)
    q2 = prior * table[:, 1] / (prior * table[:, 1]).sum()
    model.add("b", "w", "y")
    assert np.allclose(model.posterior("b"), q2)
    step = 2**-0.6  # the first label had weight 1
    mean = (1 - step) * np.outer(q1, [1, 0]) + step * np.outer(q2, [0, 1])
    counts = pseudo + 2 * mean
    assert np.allclose(model.confusion("w"), counts / counts.sum(axis=1, keepdims=True))


def test_exact_counts_are_those_of_the_posteriors():
    model = stream(growth=0)
    labels = model.to_labels()
    counts = np.zeros((labels.n_workers, 3, 3))
    np.add.at(counts, (labels.worker, slice(None), labels.label), model.posteriors[labels.task])
    assert np.allclose(model.dirichlet_counts, counts + model._rule.pseudo.T, atol=1e-9)
    assert np.allclose(model.class_counts, model.posteriors.sum(axis=0))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("mode", ["exact", "decay"])
def test_compiled_loops_equal_numpy(family, mode):
    found = []
    for engine in ("numpy", "numba"):
        with use_engine(engine):
            model = stream(family=family, mode=mode, revisits=2, window=3, growth=0)
            streamed = model.posteriors.copy(), model.confusions.copy()
            model.replay(max_iter=3)
        found.append((*streamed, model.posteriors, model.confusions))
    for one, two in zip(*found, strict=True):
        assert np.allclose(one, two, rtol=0, atol=1e-10)


def test_replay_ends_at_the_fixed_point_of_mean_field():
    model = stream(family="mean-field", right=2, wrong=1, shares=1)
    model.replay(max_iter=3000, tol=1e-13)
    batch = cw.MeanField(tol=0, max_iter=3000)
    batch.fit(CROWD.labels)
    assert np.abs(model.posteriors - batch.posterior_).max() < 1e-8
    assert np.abs(model.dirichlet_counts - batch.confusion_counts_).max() < 1e-6


def test_replay_ends_at_the_fixed_point_of_dawid_skene():
    smoothing = 0.1
    model = stream(right=smoothing, wrong=2 * smoothing, shares=0)
    model.refit(max_iter=5000, tol=1e-13)
    model.replay(max_iter=5000, tol=1e-13)
    batch = cw.DawidSkene(smoothing=smoothing, init=model.posteriors, max_iter=50, tol=0)
    batch.fit(CROWD.labels)
    assert np.abs(model.posteriors - batch.posterior_).max() < 1e-8
    assert np.abs(model.confusions - batch.confusion_).max() < 1e-8


def test_new_classes_tasks_and_workers_come_as_they_do():
    model = OnlineModel(growth=0)
    for task, worker, label in zip(*(column.to_pylist() for column in CROWD.labels.to_table().columns), strict=True):
        model.add(task, worker, label)
    assert sorted(model.classes.every) == CROWD.labels.classes.to_pylist()
    assert model.posteriors.shape == (60, 3)
    assert np.allclose(model.posteriors.sum(axis=1), 1)
    place = [model.classes.find(name) for name in CROWD.labels.classes.to_pylist()]
    right = (
        np.array(place)[CROWD.truth]
        == model.posteriors.argmax(axis=1)[[model.tasks.find(name) for name in CROWD.labels.tasks.to_pylist()]]
    )
    assert right.mean() > 0.85


def test_one_by_one_is_the_same_as_together():
    together, single = stream(), OnlineModel(CROWD.labels.classes.to_pylist())
    for names, add in ((CROWD.labels.tasks, single.add_task), (CROWD.labels.workers, single.add_worker)):
        for name in names.to_pylist():
            add(name)
    table = CROWD.labels.to_table()
    for edge in np.random.default_rng(0).permutation(CROWD.labels.n_labels):
        single.add(*(table.column(name)[int(edge)].as_py() for name in ("task", "worker", "label")))
    assert np.allclose(together.posteriors, single.posteriors, atol=1e-12)


@pytest.mark.parametrize("mode", ["exact", "decay"])
def test_saved_and_loaded_it_goes_on_as_before(tmp_path, mode):
    model = stream(mode=mode)
    model.set_gold({0: int(CROWD.truth[0])})
    model.save(tmp_path / "model")
    other = OnlineModel.load(tmp_path / "model")
    for each in (model, other):
        each.add("new task", 1, 0)
    assert np.array_equal(model.posteriors, other.posteriors)
    assert np.array_equal(model.confusions, other.confusions)
    assert model.settings == other.settings
    with pytest.raises(InputError, match=r"Read it with crowdwise\.acquire\.OnlineModel\.load"):
        cw.load(tmp_path / "model")
    arrays = dict(np.load(tmp_path / "model" / "arrays.npz"))
    np.savez(tmp_path / "model" / "arrays.npz", **arrays | {"posterior": arrays["posterior"] / 2})
    with pytest.raises(InputError, match="does not sum to 1"):
        OnlineModel.load(tmp_path / "model")
    (tmp_path / "model" / "arrays.npz").write_bytes(b"nothing")
    with pytest.raises(InputError, match="damaged"):
        OnlineModel.load(tmp_path / "model")


def test_revisits_are_bounded():
    with pytest.raises(InputError, match=r"revisits is 1000000000; .* at most 1000"):
        OnlineModel(["x", "y"], revisits=10**9)


def test_merged_parts_know_what_the_whole_knows():
    labels = CROWD.labels
    half = np.arange(labels.n_labels) % 2 == 0
    parts = [stream(labels.keep(half)), stream(labels.keep(~half))]
    merged = parts[0].merge(parts[1])
    merged.replay(max_iter=2000, tol=1e-12)
    whole = stream()
    whole.replay(max_iter=2000, tol=1e-12)
    assert np.allclose(merged.posteriors, whole.posteriors, atol=1e-8)
    with pytest.raises(InputError, match="more than once"):
        merged.merge(parts[1])
    with pytest.raises(InputError, match="other settings"):
        merged.merge(OnlineModel(mode="decay"))


def test_gold_pins_a_task():
    model = stream()
    wrong = (int(model.posteriors[5].argmax()) + 1) % 3
    before = model.confusions.copy()
    model.set_gold({5: wrong})
    assert model.consensus(5) == (wrong, 1.0)
    assert not np.allclose(before, model.confusions)
    model.set_gold({"unseen": 1})
    assert model.posterior("unseen").tolist() == [0, 1, 0]


@pytest.mark.parametrize("name", ["DawidSkene", "OneCoin", "ConfusionVector", "MeanField"])
def test_partial_fit_of_methods(tmp_path, name):
    labels = CROWD.labels
    half = np.arange(labels.n_labels) % 2 == 0
    method = getattr(cw, name)()
    method.partial_fit(labels.keep(half)).partial_fit(labels.keep(~half))
    right = method.predict() == np.array(labels.classes.to_pylist())[CROWD.truth]
    assert right.mean() > 0.8
    assert method.workers().num_rows == 8
    method.save(tmp_path / "method")
    assert np.array_equal(cw.load(tmp_path / "method").posterior_, method.posterior_)
    assert method.fit(labels)._stream is None


def test_bad_input_is_one_error():
    model = stream()
    for call, words in (
        (lambda: model.add(0, int(model.to_labels().worker[0]), 0), "has answered"),
        (lambda: model.add(None, 1, 0), "Give every task a name"),
        (lambda: model.posterior("nobody"), "There is no task"),
        (lambda: OnlineModel(mode="slow"), "mode is 'slow'"),
        (lambda: OnlineModel(growth=1.01), "growth is 1.01"),
        (lambda: OnlineModel(["a", "a"]), "repeat"),
        (lambda: OnlineModel(None), "class names are None"),
        (lambda: OnlineModel("ab"), "class names are 'ab'"),
        (lambda: model.merge(None), "other is None"),
        (lambda: model.add_codes([0], [99], [0]), "positions run from 0 to 7"),
        (lambda: model.add_labels(CROWD.labels, [10**6]), "order holds 1000000"),
        (lambda: cw.MajorityVote().partial_fit(CROWD.labels), "cannot take labels one after the other"),
    ):
        with pytest.raises(InputError, match=words):
            call()


def state_of(model):
    return model.tasks.every, model.workers.every, model.classes.every, model.n_labels, model.posteriors.tolist()


@pytest.mark.parametrize(
    "refuse",
    [
        lambda model: model.add("new", None, 0),
        lambda model: model.add("new", "new", [1]),
        lambda model: model.add("new", "new", float("nan")),
        lambda model: model.partial_fit({"task": ["new", 0], "worker": ["new", 0], "label": ["fresh", 0]}, {0: 1}),
        lambda model: model.merge(OnlineModel().partial_fit({"task": ["new", 0], "worker": [0, 0], "label": [7, 0]})),
    ],
)
def test_a_refused_call_changes_nothing(refuse):
    model = OnlineModel([0, 1])
    model.add(0, 0, 0)
    before = state_of(model)
    with pytest.raises(InputError):
        refuse(model)
    assert state_of(model) == before
    assert (model.gold < 0).all()


@pytest.mark.parametrize(
    "refuse",
    [
        lambda model: model.add("new", "new", "Cat"),
        lambda model: model.set_gold({"new": "x", "newer": " cat"}),
        lambda model: model.partial_fit({"task": ["new"], "worker": ["new"], "label": ["CAT"]}),
        lambda model: model.partial_fit({"task": ["new"], "worker": ["new"], "label": ["Bird"]}, {"t": "bird"}),
        lambda model: model.merge(OnlineModel(["Cat"])),
    ],
)
def test_classes_that_look_alike_are_refused_unless_declared(refuse):
    model = OnlineModel(["cat", "dog"])
    model.add("t", "w", "cat")
    before = state_of(model)
    with pytest.raises(InputError, match="only in case or blanks"):
        refuse(model)
    assert state_of(model) == before
    model.add_class("Cat")
    model.add("new", "new", "Cat")
    assert model.classes.every == ["cat", "dog", "Cat"]


def test_names_are_those_that_can_be_saved(tmp_path):
    model = OnlineModel(["x", "y"])
    for name in ("\u200b", "a\0b", "\ud800x", " ", None, ("a", 1)):
        with pytest.raises(InputError):
            model.add(name, "w", "x")
        with pytest.raises(InputError):
            model.add("t", "w", name)
    names = ["\u00fc\u200b", 2**70, True, b"bytes", np.int64(5), 6.0, "'=1", -1]
    for name in names:
        model.add(name, name, "x")
    model.save(tmp_path / "model")
    loaded = OnlineModel.load(tmp_path / "model")
    for name in names:
        assert loaded.has_answered(name, name)
        assert np.array_equal(loaded.posterior(name), model.posterior(name))
    assert model.tasks.every[2:6] == ["true", "bytes", 5, 6]


@pytest.mark.parametrize("classes", [[], ["x", "y"]])
def test_a_model_without_labels_is_saved(tmp_path, classes):
    OnlineModel(classes, window=3).save(tmp_path / "model")
    model = OnlineModel.load(tmp_path / "model")
    assert (model.classes.every, model.window, model.n_labels) == (classes, 3, 0)
    model.add("t", "w", "x")


@pytest.mark.parametrize("mode", ["exact", "decay"])
def test_another_truth_takes_the_place_of_the_first(mode):
    model = OnlineModel(["x", "y"], mode=mode)
    for truth in "xy":
        model.set_gold({"t": truth})
    assert model.consensus("t") == ("y", 1.0)
    assert model.class_counts.tolist() == [0, 1]
    assert np.allclose(model.prior, [1 / 3, 2 / 3])


def test_threads_take_turns():
    model, errors = OnlineModel(["a", "b"], growth=0), []

    def work(k):
        try:
            for i in range(120):
                model.add(f"t{i % 40}", f"w{k}-{i // 40}", "ab"[i % 2])
                assert np.isfinite(model.posteriors).all()
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(k,), daemon=True) for k in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert not errors
    assert model.n_labels == 360
    assert model.labels_per_task.tolist() == [9] * 40
    assert copy.deepcopy(model).n_labels == 360  # locks and all


def test_an_interrupted_model_has_all_labels(monkeypatch):
    model, refit = OnlineModel(), OnlineModel.refit

    def interrupt(self, **settings):
        if self.n_labels > 150:
            raise KeyboardInterrupt
        return refit(self, **settings)

    monkeypatch.setattr(OnlineModel, "refit", interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.partial_fit(CROWD.labels)
    monkeypatch.undo()
    assert model.n_labels == model.labels_per_task.sum() == CROWD.labels.n_labels
    model.refit()
    whole = OnlineModel().partial_fit(CROWD.labels)
    whole.refit()
    assert np.allclose(model.posteriors, whole.posteriors, atol=1e-8)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*use of fork")
def test_a_fork_finds_no_lock_held():
    model, held, done = OnlineModel(["a", "b"]), threading.Event(), threading.Event()
    model.add("t", "w", "a")

    def hold():
        with model.lock:
            held.set()
            done.wait(0.2)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    child = os.fork()
    if child == 0:
        free = []
        asked = threading.Thread(target=lambda: free.append(model.posterior("t")), daemon=True)
        asked.start()
        asked.join(5)
        os._exit(0 if free else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    thread.join()


def test_what_is_handed_out_cannot_change_the_model():
    model, method = stream(), cw.DawidSkene().partial_fit(CROWD.labels)
    for values in (model.labels_per_task, model.labels_per_worker, model.gold, method.predict_proba()):
        with pytest.raises(ValueError, match="read-only"):
            values[0] = 1


def test_a_method_goes_on_only_from_labels_that_it_has(tmp_path):
    method = cw.OneCoin().partial_fit(CROWD.labels)
    method.save(tmp_path / "method")
    loaded = cw.load(tmp_path / "method")
    with pytest.raises(InputError, match="was loaded"):
        loaded.partial_fit(CROWD.labels)
    fresh, one = cw.OneCoin(), {"task": ["a", "b"], "worker": ["x", "x"], "label": ["c", "c"]}
    with pytest.raises(InputError, match="two classes"):
        fresh.partial_fit(one)
    fresh.partial_fit(one, {"a": "d"})
    assert fresh.labels_per_task_.tolist() == [1, 1]


def test_a_model_without_labels_says_that_there_is_nothing():
    with pytest.raises(InputError, match="There is none yet"):
        OnlineModel().posterior("x")
    with pytest.raises(InputError, match="policies is empty"):
        cw.acquire.replay(CROWD.labels, dict(enumerate(CROWD.truth)), [])


def test_copies_share_nothing():
    model = OnlineModel(["a", "b"])
    model.add("t", "w", "a")
    other = copy.copy(model)
    other.partial_fit({"task": list(range(300)), "worker": ["w"] * 300, "label": ["a"] * 300})
    assert len(model.posteriors) == 1
    assert len(other.posteriors) == 301
