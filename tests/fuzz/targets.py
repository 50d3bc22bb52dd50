"""What is attacked, one case at a time: a target draws a case, and raises where a promise is not kept.

| target | a case | the promise |
|---|---|---|
| files | a label file with something wrong in it | one clear error, or labels that can be fitted |
| crowds | a crowd at the edges, any method, any knowledge | probabilities, or one clear error |
| parameters | any method with values that nobody should give | probabilities, or one clear error |
| models | a saved model that someone has changed | one clear error, or a model that predicts probabilities |
| features | a file of features that someone has changed | one clear error, or finite features |
| commands | a command with hostile options and files | exit code 0 or 2, nothing half written |
| tables | a command with answers that are no classes, some of them changed | the same |

A case is a number: the same number is the same case.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import io
import json
import os
import shutil
import sys
import tempfile
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from tests.fuzz.mutations_of_files import LABEL_FILES, VALUES, mutate_array, mutate_bytes, mutate_json, mutate_table

import crowdwise as cw
from crowdwise.cli import main
from crowdwise.fitting.part_digests import add_digests
from crowdwise.labels import CrowdLabels
from crowdwise.labels.errors import CrowdwiseError
from crowdwise.simulate import simulate

if TYPE_CHECKING:
    from collections.abc import Callable

    Draws = np.random.Generator

NUMBERS = [value for value in VALUES if isinstance(value, int | float)]
MODELS = "CROWDWISE_FUZZ_MODELS"  # environment: a folder for the saved models that are attacked
LEARNERS = ("hard-labels", "crowd-layer", "trace", "conal")  # enough kinds of what learners save


class BrokenPromiseError(AssertionError):
    """A promise that was not kept."""


def promise(kept: Any, words: str) -> None:
    if not kept:
        raise BrokenPromiseError(words)


def check_probabilities(shares: Any, words: str) -> None:
    shares = np.asarray(shares)
    promise(np.isfinite(shares).all() and (shares >= 0).all(), f"{words}: not finite or negative")
    promise(np.allclose(shares.sum(axis=-1), 1, atol=1e-6), f"{words}: do not sum to one")


def check_model(model: Any) -> None:
    check_probabilities(model.posterior_, "posterior")
    check_probabilities(model.prior_, "prior")
    promise(((model.skill_ >= 0) & (model.skill_ <= 1)).all(), "skill outside 0 and 1")
    model.consensus()
    model.workers()


def draw_crowd(draws: Draws) -> CrowdLabels:
    """A small crowd, often with silent workers, unused classes, repeats, or everyone alike."""
    tasks, workers, classes = (int(draws.integers(low, high)) for low, high in ((1, 12), (1, 8), (2, 6)))
    size = int(draws.integers(1, 40))
    task, worker = draws.integers(0, tasks, size), draws.integers(0, workers, size)
    label = draws.integers(0, int(draws.integers(1, classes + 1)), size)
    if draws.random() < 0.3:
        label = task % classes
    sizes = {"tasks": tasks, "workers": workers, "classes": classes}
    return CrowdLabels.from_codes(task, worker, label, **sizes, on_duplicate="all")


def attack_files(draws: Draws, folder: Path) -> None:
    name, data = list(LABEL_FILES.items())[int(draws.integers(len(LABEL_FILES)))]
    if name.endswith(".csv") and draws.random() < 0.5:
        data = mutate_table(data, draws)
    elif name.endswith(".json") and draws.random() < 0.5:
        data = mutate_json(data, draws)
    else:
        data = mutate_bytes(data, draws)
    path = folder / name
    path.write_bytes(data)
    labels = cw.read_labels(path)
    promise(labels.n_labels > 0, "labels without a label")
    promise(labels.label.max() < labels.n_classes and labels.label.min() >= 0, "a class that is not there")
    labels.describe()
    check_model(cw.MajorityVote().fit(labels))


@functools.cache
def _method_classes() -> list[tuple[str, type[Any]]]:
    return [(method.slug, method.load()) for method in cw.methods()]


def attack_crowds(draws: Draws, folder: Path) -> None:
    slug, made = _method_classes()[int(draws.integers(len(_method_classes())))]
    labels = draw_crowd(draws)
    known: dict[str, Any] = {}
    uses = cw.method(slug).uses
    if "gold" in uses and draws.random() < 0.3:
        tasks, truths = draws.integers(0, labels.n_tasks, 2), draws.integers(0, labels.n_classes, 2)
        known["gold"] = dict(zip(tasks.tolist(), truths.tolist(), strict=True))
    if "class_prior" in uses and draws.random() < 0.3:
        shares = draws.dirichlet(np.full(labels.n_classes, 0.2))
        known["class_prior"] = {k: float(share) for k, share in enumerate(shares)}
    model = made().fit(labels, **known)
    check_model(model)
    check_probabilities(model.predict_proba(draw_crowd(draws) if draws.random() < 0.5 else labels), "prediction")


def attack_parameters(draws: Draws, folder: Path) -> None:
    _, made = _method_classes()[int(draws.integers(len(_method_classes())))]
    names = [name for name in inspect.signature(made).parameters if name not in ("progress", "seed")]
    chosen = draws.choice(names, size=min(len(names), 1 + int(draws.random() < 0.3)), replace=False)
    given = {}
    for name in chosen:
        pool = NUMBERS if draws.random() < 0.7 else VALUES
        value = pool[int(draws.integers(len(pool)))]
        if isinstance(value, float) and draws.random() < 0.3:
            value = np.float32(value) if abs(value) < 1e30 else np.float64(value)
        given[str(name)] = value
    if isinstance(given.get("max_iter"), int) and given["max_iter"] > 1000:
        given["max_iter"] = 1000  # long is no fault
    check_model(made(**given).fit(_small_crowd()))


@functools.cache
def _small_crowd() -> CrowdLabels:
    return simulate("dawid-skene", n_tasks=20, n_workers=5, n_classes=3, labels_per_task=3, random_state=1).labels


@functools.cache
def saved_models() -> list[Path]:
    """A saved model of every method, and of some learners: made once, by the first process that needs them."""
    place = Path(os.environ.get(MODELS) or tempfile.mkdtemp(prefix="crowdwise-fuzz-"))
    if not any(place.iterdir()):
        for slug, made in _method_classes():
            with contextlib.suppress(CrowdwiseError):  # what needs more than labels
                made().fit(_small_crowd()).save(place / slug)
        x = np.random.default_rng(0).normal(size=(_small_crowd().n_tasks, 2)).astype(np.float32)
        for slug in LEARNERS:
            learner = cw.learner(slug).make(epochs=2, random_state=0)
            learner.fit(x, _small_crowd(), tasks=_small_crowd().tasks.to_pylist()).save(place / f"learner-{slug}")
    return sorted(place.iterdir())


def attack_models(draws: Draws, folder: Path) -> None:
    saved = saved_models()[int(draws.integers(len(saved_models())))]
    copy = folder / "model"
    shutil.copytree(saved, copy)
    parts = sorted(path for path in copy.rglob("*") if path.is_file())
    part = parts[int(draws.integers(len(parts)))]
    if part.suffix == ".npz" and draws.random() < 0.8:
        with np.load(part) as stored:
            arrays = {name: stored[name] for name in stored.files}
        name = list(arrays)[int(draws.integers(len(arrays)))]
        if draws.random() < 0.1:
            arrays[f"{name}2"] = arrays.pop(name)
        else:
            arrays[name] = mutate_array(arrays[name], draws)
        np.savez(part, **arrays)
        _renew_digests(copy)
    elif part.suffix == ".json" and draws.random() < 0.8:
        part.write_bytes(mutate_json(part.read_bytes(), draws))
    else:
        part.write_bytes(mutate_bytes(part.read_bytes(), draws))
        if draws.random() < 0.8:
            _renew_digests(copy)
    model = cw.load(copy)
    check_model(model)
    if not saved.name.startswith("learner-"):
        check_probabilities(model.predict_proba(_small_crowd()), "prediction")
    else:
        check_probabilities(model.predict_proba(np.zeros((3, 2), np.float32)), "prediction")
    model.save(folder / "again")


def _renew_digests(folder: Path) -> None:
    """Make the header vouch for the changed parts, as a stranger would."""
    with contextlib.suppress(ValueError, AttributeError, TypeError):  # the header itself is broken
        add_digests(folder)


def attack_features(draws: Draws, folder: Path) -> None:
    import torch
    from scipy import sparse

    from crowdwise.learn.feature_files import read_features

    x = draws.normal(size=(6, 3))
    kind = int(draws.integers(4))
    path = folder / ("x.npy", "x.npz", "x.csv", "sparse.npz")[kind]
    if kind == 0:
        np.save(path, mutate_array(x, draws))
    elif kind == 1:
        np.savez(path, x=mutate_array(x, draws), task=np.array([f"t{row}" for row in range(6)]))
    elif kind == 2:
        rows = [b"task,a,b,c", *(f"t{n},{','.join(map(str, row))}".encode() for n, row in enumerate(x))]
        path.write_bytes(mutate_table(b"\n".join(rows) + b"\n", draws))
    else:
        sparse.save_npz(path, sparse.csr_matrix(np.where(x > 0, x, 0)))
        with np.load(path) as stored:
            arrays = {name: stored[name] for name in stored.files}
        name = ("indices", "indptr", "data", "shape")[int(draws.integers(4))]
        arrays[name] = mutate_array(arrays[name], draws)
        if draws.random() < 0.5 and arrays[name].dtype.kind in "ifbuc":
            with np.errstate(invalid="ignore"):
                arrays[name] = arrays[name].real.astype(np.int32) if name != "data" else arrays[name]
        np.savez(path, **arrays)
    if draws.random() < 0.3:
        path.write_bytes(mutate_bytes(path.read_bytes(), draws))
    features = read_features(path)
    (values,) = features.batches(torch.arange(len(features)), len(features))
    promise(bool(values.isfinite().all()), "features that are not finite")


def attack_commands(draws: Draws, folder: Path) -> None:
    name = list(LABEL_FILES)[int(draws.integers(len(LABEL_FILES)))]
    data = LABEL_FILES[name]
    file = folder / name
    file.write_bytes(mutate_bytes(data, draws) if draws.random() < 0.4 else data)
    (folder / "truth.csv").write_bytes(mutate_table(b"task,label\nt1,cat\nt2,dog\nt3,eel\n", draws))
    before = {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    out = folder / "out"
    command = ["aggregate", "describe", "compare", "audit", "report", "simulate"][
        int(draws.choice(6, p=[0.5, 0.2, 0.05, 0.08, 0.07, 0.1]))
    ]
    words: list[str] = [command, *(["spammers"] if command == "simulate" else [str(file)])]
    options = [
        ["--method", ["majority-vote", "dawid-skene", "glad", "nothing", ""][int(draws.integers(5))]],
        ["--truth", str(folder / "truth.csv")],
        ["--gold", str(folder / "truth.csv")],
        ["--seed", str(VALUES[int(draws.integers(len(VALUES)))])],
        ["--max-iter", str(NUMBERS[int(draws.integers(len(NUMBERS)))])],
        ["--class-prior", ["cat=.5,dog=.3,eel=.2", "cat=1", "x=nan", "cat=.5,cat=.5", "="][int(draws.integers(5))]],
        ["--classes", ["cat,dog,eel", "cat", "", "cat,cat", "3"][int(draws.integers(5))]],
        ["--label-column", ["label", "task", "none", ""][int(draws.integers(4))]],
        ["--json"],
        ["--on-duplicate", ["first", "last", "all", "none"][int(draws.integers(4))]],
        ["--sequences", ["names", str(folder / "truth.csv")][int(draws.integers(2))]],
        ["--tasks", "20"],
        ["--labels-per-task", str(NUMBERS[int(draws.integers(len(NUMBERS)))])],
    ]
    for index in draws.choice(len(options), size=int(draws.integers(0, 4)), replace=False):
        words += options[index]
    if command in ("aggregate", "report", "simulate", "audit") and (draws.random() < 0.5 or command == "report"):
        words += ["--out", str(out)]
    _check_command(words, folder, before)


CELLS = (
    "",
    " ",
    "nan",
    "inf",
    "-1",
    "0",
    "1e308",
    "5e-324",
    "x|y",
    "[]",
    "[1",
    "tie",
    "left",
    "A",
    "a",
    "é",
    "=1",
    "O",
)
KIND_TABLES: dict[str, Callable[[Draws], list[object]]] = {
    "task,worker,value": lambda draws: [f"t{draws.integers(4)}", f"w{draws.integers(4)}", round(draws.normal(), 2)],
    "task,worker,grade": lambda draws: [f"t{draws.integers(4)}", f"w{draws.integers(4)}", draws.integers(4)],
    "worker,left,right,label": lambda draws: [
        f"w{draws.integers(3)}", f"A{draws.integers(4)}", f"B{draws.integers(4)}",
        ("left", "right", "tie")[draws.integers(3)],
    ],
    "task,worker,labels": lambda draws: [
        f"t{draws.integers(4)}", f"w{draws.integers(4)}", "|".join("xyz"[: draws.integers(4)])
    ],
    "task,worker,x_min,y_min,x_max,y_max": lambda draws: [
        f"t{draws.integers(3)}", f"w{draws.integers(3)}", *draws.integers(0, 9, 2), *draws.integers(10, 30, 2)
    ],
}  # fmt: skip


def attack_tables(draws: Draws, folder: Path) -> None:
    header, row = list(KIND_TABLES.items())[int(draws.integers(len(KIND_TABLES)))]
    rows = [[str(cell) for cell in row(draws)] for _ in range(int(draws.integers(1, 25)))]
    for _ in range(int(draws.choice(4, p=[0.4, 0.4, 0.1, 0.1]))):
        changed = rows[int(draws.integers(len(rows)))]
        changed[int(draws.integers(len(changed)))] = CELLS[int(draws.integers(len(CELLS)))]
    data = "\n".join([header, *map(",".join, rows)]).encode() + b"\n"
    file = folder / "answers.csv"
    file.write_bytes(mutate_table(data, draws) if draws.random() < 0.1 else data)
    before = {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    command = ["aggregate", "describe", "compare", "audit", "report"][int(draws.choice(5, p=[0.6, 0.1, 0.1, 0.1, 0.1]))]
    words = [command, str(file), "--on-duplicate", ["first", "last", "all", "error"][int(draws.integers(4))]]
    if command in ("aggregate", "report") and (draws.random() < 0.5 or command == "report"):
        words += ["--out", str(folder / "out")]
    if command in ("aggregate", "audit") and draws.random() < 0.3:
        words += ["--json"]
    _check_command(words, folder, before)


def _check_command(words: list[str], folder: Path, before: dict[Path, bytes]) -> None:
    code, printed, said = _run_command(words)
    shown, command = " ".join(words), words[0]
    promise(code in (0, 2), f"exit code {code}: {shown}: {said[-300:]}")
    promise("bug in crowdwise" not in said, f"{shown}: {said[-300:]}")
    promise("Traceback" not in said, f"{shown}: {said[-300:]}")
    after = {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    promise(all(after.get(path) == content for path, content in before.items()), f"an input was changed: {shown}")
    if code == 2:
        promise(set(after) == set(before), f"left behind {set(after) - set(before)}: {shown}")
        promise(said.count("\n") <= 8, f"many lines: {shown}: {said[-500:]}")
    promise(not any(path.name.startswith(".") for path in after), f"a draft was left: {shown}")
    if code == 0 and "--json" in words and command != "simulate":
        json.loads(printed, parse_constant=lambda constant: promise(False, f"{constant} in JSON: {shown}"))


def _run_command(words: list[str]) -> tuple[int, str, str]:
    stdin, out, err = io.TextIOWrapper(io.BytesIO()), io.TextIOWrapper(io.BytesIO()), io.StringIO()
    kept = sys.stdin
    sys.stdin = stdin
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(words)
    finally:
        sys.stdin = kept
    out.flush()
    return code, out.buffer.getvalue().decode("utf-8", "replace"), err.getvalue()  # type: ignore[attr-defined]


TARGETS: dict[str, Callable[[Draws, Path], None]] = {
    "files": attack_files,
    "crowds": attack_crowds,
    "parameters": attack_parameters,
    "models": attack_models,
    "features": attack_features,
    "commands": attack_commands,
    "tables": attack_tables,
}


def run_case(target: str, number: int) -> str:
    """Run a case; give what came of it: "held", or the error that was raised as it should be. Else raise."""
    folder = Path(tempfile.mkdtemp(prefix="crowdwise-fuzz-"))
    here = Path.cwd()
    os.chdir(folder)  # nothing may be written where the command happens to run
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for ours in (cw.NotConverged, UserWarning, DeprecationWarning):
                warnings.simplefilter("ignore", ours)
            try:
                TARGETS[target](np.random.default_rng([number, sorted(TARGETS).index(target)]), folder)
            except CrowdwiseError as error:
                promise(len(str(error)) < 2000, f"an error of {len(str(error))} characters")
                return "refused"
            except RuntimeWarning as warning:
                raise BrokenPromiseError(f"a warning of the numbers: {warning}") from warning
        return "held"
    finally:
        os.chdir(here)
        shutil.rmtree(folder, ignore_errors=True)
