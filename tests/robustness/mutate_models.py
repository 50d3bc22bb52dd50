"""Saved models, changed as a stranger might change them: each is loaded and asked for predictions in a process apart.

What may come of it is an `InputError`, or a model whose posteriors are finite and sum to one (some changes are
harmless). A crash, a hang, another exception, or more memory than twice what the files say is a failure.

    python tests/robustness/mutate_models.py --cases 200 --seed 1

fits every method and learner, and prints a line for each failure and a count. A test of the suite does fewer.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import crowdwise as cw
from crowdwise.registry import learners, methods
from crowdwise.simulate import simulate

if TYPE_CHECKING:
    from collections.abc import Callable

N, M, K, WIDTH = 40, 6, 3, 5
SECONDS = 20.0  # for loading and predicting
SLACK = 32 << 20  # bytes of memory that code and small things may take
BIG = 1 << 25  # numbers in a bomb: 256 MiB
Rng = np.random.Generator


# ---- models to begin with ---------------------------------------------------------------------------------------


def make_crowd() -> tuple[np.ndarray[Any, Any], cw.CrowdLabels, dict[Any, Any]]:
    crowd = simulate("dawid-skene", n_tasks=N, n_workers=M, n_classes=K, labels_per_task=4, random_state=1)
    X = np.random.default_rng(2).normal(size=(N, WIDTH)) + 2 * np.eye(K, WIDTH)[crowd.truth]
    names, classes = crowd.labels.tasks.to_pylist(), crowd.labels.classes.to_pylist()
    gold = {names[task]: classes[crowd.truth[task]] for task in range(24)}
    return X, crowd.labels, gold


def save_models(folder: Path, wanted: list[str] | None = None, engine: str = "auto") -> list[Path]:
    """Fit and save methods and learners by slug, all by default; those that take gold are also saved with it."""
    X, labels, gold = make_crowd()
    saved = []
    own: dict[str, dict[str, Any]] = {
        "group-dawid-skene": {"groups": np.array([0, 0, 0, -1, 1, 1])},
        "bsc": {"sequences": {task: (task // 4, task) for task in range(N)}},
        "hmm-crowd": {"sequences": {task: (task // 4, task) for task in range(N)}},
    }
    for entry in methods():
        if wanted is None or entry.slug in wanted:
            model = entry.load()(engine=engine, **own.get(entry.slug, {}))
            saved.append(folder / entry.slug)
            model.fit(labels).save(saved[-1])
            if entry.slug in ("auto", "dawid-skene", "cbcc"):
                saved.append(folder / f"{entry.slug}+gold")
                model.fit(labels, gold).calibration()
                model.save(saved[-1])
    for learner in learners():
        if wanted is None or learner.slug in wanted:
            known = {"confusion": np.full((M, K, K), 0.2) + 0.4 * np.eye(K)} if learner.needs == "confusion" else {}
            saved.append(folder / learner.slug)
            learner.make(network="linear", epochs=2, batch_size=16, **known).fit(X, labels).save(saved[-1])
    return saved


# ---- changes ----------------------------------------------------------------------------------------------------


def read_arrays(folder: Path) -> dict[str, Any]:
    with np.load(folder / "arrays.npz") as stored:
        return {name: stored[name] for name in stored.files}


def change_array(folder: Path, rng: Rng, change: Callable[[Any, Rng], Any]) -> str:
    arrays = read_arrays(folder)
    own = [name for name in arrays if name.startswith(("extra/", "worker_columns/", "task_columns/"))]
    name = str(rng.choice(own if own and rng.random() < 0.6 else list(arrays)))
    arrays[name] = change(arrays[name], rng)
    np.savez(folder / "arrays.npz", **arrays)
    return name


def set_some(value: float) -> Callable[[Any, Rng], Any]:
    def change(values: Any, rng: Rng) -> Any:
        changed = np.array(values)
        kept = rng.random() < 0.5
        if changed.dtype.kind == "i":
            changed = changed.astype(np.int64 if np.isfinite(value) and abs(value) < 2**62 else np.float64)
        if changed.size:
            changed.flat[rng.integers(changed.size) if kept else slice(None)] = value
        return changed

    return change


def cast(dtype: str) -> Callable[[Any, Rng], Any]:
    return lambda values, _: np.asarray(values).astype(dtype)


ARRAY_CHANGES: dict[str, Callable[[Any, Rng], Any]] = {
    **{f"{value} in": set_some(value) for value in (np.nan, np.inf, -np.inf, -1.0, 0.0, 1e308, 5e-324, 5.0, 1e6)},
    **{f"type {dtype} of": cast(dtype) for dtype in ("f4", "f2", "i4", "c16", "U8", "?", ">f8", "i8", "O")},
    "one longer": lambda values, _: np.concatenate([np.atleast_1d(values), np.atleast_1d(values)[-1:]]),
    "one shorter": lambda values, _: np.atleast_1d(values)[:-1],
    "much longer": lambda values, _: np.resize(values, (2000, *np.shape(values)[1:])),
    "wider": lambda values, _: np.full((*np.shape(values)[:-1], 3000), 1 / 3000),
    "wider and longer": lambda values, _: np.full((3001, 3000), 1 / 3000),
    "turned": lambda values, _: np.asarray(values).T,
    "another axis of": lambda values, _: np.asarray(values)[None],
    "empty": lambda values, _: np.asarray(values)[..., :0] if np.ndim(values) else np.empty(0),
    "no axes of": lambda values, _: np.float64(0.5),
    "shuffled": lambda values, rng: rng.permutation(np.ravel(values)).reshape(np.shape(values)),
}


def drop_member(folder: Path, rng: Rng) -> str:
    arrays = read_arrays(folder)
    name = str(rng.choice(list(arrays)))
    del arrays[name]
    np.savez(folder / "arrays.npz", **arrays)
    return name


def add_member(folder: Path, rng: Rng) -> str:
    name = str(rng.choice(["extra/more", "worker_columns/more", "__class__", "parameter/tol", "../escape", "extra/"]))
    np.savez(folder / "arrays.npz", **read_arrays(folder), **{name: np.ones(M)})
    return name


def compress(folder: Path, rng: Rng) -> str:
    del rng
    np.savez_compressed(folder / "arrays.npz", **read_arrays(folder))
    return ""


def zip_bomb(folder: Path, rng: Rng) -> str:
    """One array is replaced by 256 MiB of zeros, compressed or only said to be there."""
    arrays = read_arrays(folder)
    name = str(rng.choice(list(arrays)))
    compressed = rng.random() < 0.5
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({BIG},), }}".ljust(117) + "\n"
    kind = zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED
    with zipfile.ZipFile(folder / "arrays.npz", "w", kind, compresslevel=1) as out:
        for each, values in arrays.items():
            with out.open(f"{each}.npy", "w", force_zip64=True) as file:
                if each != name:
                    np.lib.format.write_array(file, np.asarray(values))
                    continue
                file.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode())
                for _ in range(256 if compressed else 1):
                    file.write(bytes(BIG * 8 // 256 if compressed else 64))
    return f"{name}, {'compressed' if compressed else 'only said'}"


FILES = ("model.json", "arrays.npz", "tasks.parquet", "workers.parquet", "classes.parquet")
LEARNERS_FILES = (*FILES, "network.safetensors", "objective.safetensors", "history.parquet")


def pick_file(folder: Path, rng: Rng) -> Path:
    return folder / str(rng.choice(LEARNERS_FILES if (folder / "history.parquet").exists() else FILES))


def replace_file(folder: Path, rng: Rng) -> str:
    """Something else stands where a file was."""
    path = pick_file(folder, rng)
    whole = path.read_bytes()
    path.unlink()
    kinds: dict[str, Callable[[], Any]] = {
        "a pipe": lambda: os.mkfifo(path),
        "a folder": path.mkdir,
        "nothing": lambda: None,
        "a link to /dev/zero": lambda: path.symlink_to("/dev/zero"),
        "a link to itself": lambda: path.symlink_to(path),
        "a link to nothing": lambda: path.symlink_to("nothing"),
        "half of it": lambda: path.write_bytes(whole[: len(whole) // 2]),
        "an empty file": lambda: path.write_bytes(b""),
        "0xff": lambda: path.write_bytes(b"\xff" * 4096),
        "a sparse file": lambda: (path.write_bytes(whole), os.truncate(path, 1 << 36)),
    }
    kind = str(rng.choice(list(kinds)))
    kinds[kind]()
    return f"{kind} for {path.name}"


def flip_bytes(folder: Path, rng: Rng) -> str:
    path = pick_file(folder, rng)
    data = bytearray(path.read_bytes())
    for at in rng.integers(len(data), size=int(rng.integers(1, 9))):
        data[at] ^= int(rng.integers(1, 256))
    path.write_bytes(data)
    return path.name


def change_header(folder: Path, rng: Rng) -> str:
    """Another value of a field, a parameter, or a field of the network."""
    path = folder / "model.json"
    header = json.loads(path.read_text())
    odd: list[Any] = [
        *("x", "", "\ud800", "/etc/passwd", -1, 0, 2**70, 1e308, 5e-324, float("nan"), True, None, []),
        *([1, 2], {}, {"array": "tol"}, [[]] * 9, "9" * 5000, {"name": "linear", "shape": [10**9], "n_classes": 3}),
    ]
    parts = [header, header["parameters"], *([header["network"]] if "network" in header else [])]
    part = parts[int(rng.integers(len(parts)))]
    name = str(rng.choice([*part, "another"]))
    value = odd[int(rng.integers(len(odd)))]
    part[name] = value
    path.write_text(json.dumps(header))
    return f"{name} = {str(value)[:40]!r}"


def change_header_text(folder: Path, rng: Rng) -> str:
    path = folder / "model.json"
    whole = path.read_text()
    texts = {
        "5,000 digits": whole.replace('"n_iter": ', '"n_iter": ' + "9" * 5000, 1),
        "deep": "[" * 200_000,
        "long": whole.replace("{", '{"more": "' + "x" * (1 << 25) + '",', 1),
        "a list": "[1, 2]",
        "a number": "7",
        "other version": whole.replace('"schema": 2', f'"schema": {rng.choice([1, 3, 99])}'),
        "twice": whole.replace("{", '{"parameters": {},', 1),
    }
    kind = str(rng.choice(list(texts)))
    path.write_text(texts[kind])
    return kind


def change_vocabulary(folder: Path, rng: Rng) -> str:
    which = str(rng.choice(["tasks", "workers", "classes"]))
    path = folder / f"{which}.parquet"
    names = pq.read_table(path)["name"].to_pylist()
    text = [str(name) for name in names]
    long = "x" * 100_000
    coded = pa.DictionaryArray.from_arrays(pa.array([0] * len(text)), pa.array([long]))
    options: dict[str, tuple[Any, dict[str, Any]]] = {
        "repeated": (pa.array([text[0]] * len(text)), {}),
        "one missing": (pa.array([None, *text[1:]]), {}),
        "too few": (pa.array(text[1:]), {}),
        "too many": (pa.array([*text, "more"]), {}),
        "fractions": (pa.array(np.arange(len(text)) + 0.5), {}),
        "bytes": (pa.array([b"\xff\xfe" + name.encode() for name in text]), {}),
        "lists": (pa.array([[name] for name in text]), {}),
        "no UTF-8": (pa.array([b"\xff" + name.encode() for name in text]).view(pa.string()), {}),
        "zstd": (pa.array([long + name for name in text]), {"compression": "zstd"}),
        "one long name for all": (coded, {}),
        "delta": (
            pa.array([long + name for name in text]),
            {"use_dictionary": False, "column_encoding": {"name": "DELTA_BYTE_ARRAY"}},
        ),
        "ten million": (pa.array(np.zeros(10_000_000, np.int64)), {}),
        "other names": (pa.array([f"other {name}" for name in text]), {}),
    }
    kind = str(rng.choice(list(options)))
    column, how = options[kind]
    pq.write_table(pa.table({"name": column}), path, **how)
    return f"{kind} in {which}"


def change_tensors(folder: Path, rng: Rng) -> str:
    """For a learner: weights or state that no training left."""
    import torch
    from safetensors.torch import load_file, save_file

    path = folder / str(rng.choice(["network.safetensors", "objective.safetensors"]))
    tensors = load_file(path)
    if not tensors or rng.random() < 0.2:
        data = bytearray(path.read_bytes())
        data[:8] = int(rng.choice([0, 2**20 + 1, 2**40, 2**63 - 1])).to_bytes(8, "little")
        path.write_bytes(data)
        return f"length of the list in {path.name}"
    name = str(rng.choice(list(tensors)))
    value = tensors[name]
    odd = float(rng.choice([np.nan, np.inf, -np.inf, 1e38, -7, 0, 99]))
    if value.dtype.is_floating_point or np.isfinite(odd):
        filled = torch.full(value.shape, odd if value.dtype.is_floating_point else int(np.clip(odd, -99, 99)))
        options = [filled.to(value.dtype), value.double(), value[None].clone(), torch.cat([value.flatten()] * 9), None]
    else:
        options = [value + 99, value - 99, None]
    at = int(rng.integers(len(options)))
    tensors[name] = options[at]
    save_file({key: each for key, each in tensors.items() if each is not None}, path)
    return f"{name} of {path.name}: option {at}, {odd}"


def change_history(folder: Path, rng: Rng) -> str:
    tables = {
        "text": pa.table({"epoch": ["one", "two"]}),
        "no epoch": pa.table({"loss": [1.0, 2.0]}),
        "long": pa.table({"epoch": np.zeros(10_000_000, np.int64)}),
        "short": pa.table({"epoch": [1]}),
    }
    kind = str(rng.choice(list(tables)))
    pq.write_table(tables[kind], folder / "history.parquet")
    return kind


def drop_digests(folder: Path) -> None:
    """Leave out what would show at once that a part was changed, as a stranger would."""
    header = json.loads((folder / "model.json").read_text())
    del header["parts"]
    (folder / "model.json").write_text(json.dumps(header))


def mutate(folder: Path, rng: Rng) -> str:
    """Change a saved model in one way; what was done, in words."""
    if rng.random() < 0.9:
        drop_digests(folder)
    general = [drop_member, add_member, compress, zip_bomb, replace_file, flip_bytes, change_header]
    general += [replace_file, change_header, change_header_text, change_vocabulary]
    if (folder / "history.parquet").exists():
        general += [change_tensors, change_tensors, change_history]
    if rng.random() < 0.4:
        kind = str(rng.choice(list(ARRAY_CHANGES)))
        return f"{kind} {change_array(folder, rng, ARRAY_CHANGES[kind])}"
    change = general[int(rng.integers(len(general)))]
    return f"{change.__name__}: {change(folder, rng)}"


# ---- judging ----------------------------------------------------------------------------------------------------


def declared_size(folder: Path) -> int:
    """Bytes of the files, those of a sparse one as far as they are there."""
    return sum(path.stat().st_blocks * 512 for path in folder.iterdir() if path.is_file())


def check_posterior(posterior: np.ndarray[Any, Any]) -> None:
    if not np.isfinite(posterior).all() or (posterior < 0).any() or not np.allclose(posterior.sum(axis=1), 1):
        raise ArithmeticError(f"posteriors from {posterior.min()} to {posterior.max()}")


def use_model(folder: Path) -> None:
    """Load a model and ask it for what users ask."""
    X, labels, _ = make_crowd()
    model = cw.load(folder)
    classes = [str(name) for name in model.classes_]
    known = [str(name) for name in model.workers_][:2]
    if len(classes) < 2:
        return
    new = {"task": ["n_1", "n_1", "n_2", "n_3"], "worker": [*known, "stranger", known[0]], "label": ["", "", "", ""]}
    new["label"] = [classes[0], classes[1], classes[-1], classes[0]]
    if hasattr(model, "network_"):
        check_posterior(model.predict_proba(X))
        check_posterior(model.predict_proba(X[:3], {**new, "task": ["0", "0", "1", "2"]}))
    else:
        check_posterior(model.predict_proba())
        check_posterior(model.predict_proba(new))
        if set(classes) == {str(name) for name in labels.classes.to_pylist()}:
            check_posterior(model.predict_proba(labels))
        model.predict()
    model.consensus()
    model.workers()


def memory(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) << 10
    return 0


def judge_in_child(folder: Path, size: int) -> str:
    """ "" for a good end, or what went wrong."""
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    before, mapped = memory("VmRSS"), memory("RssFile")
    words = "harmless"
    try:
        use_model(folder)
    except cw.InputError as error:
        words = f"refused: {error}"
    except BaseException as error:  # whatever it is, it is a failure
        return f"FAILED {type(error).__name__}: {error}\n{traceback.format_exc(limit=-3)}"
    # Code that is mapped anew after the fork is no memory of the model's.
    grown = memory("VmHWM") - before - (memory("RssFile") - mapped)
    return words if grown <= 2 * size + SLACK else f"FAILED memory: {grown >> 20} MiB for {size >> 20} MiB; {words}"


def judge(folder: Path) -> str:
    """What came of a model, in a child process that is given some seconds."""
    size = declared_size(folder)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        words = judge_in_child(folder, size).encode()[:4000]
        os.write(writing, words)
        os._exit(0)
    os.close(writing)
    until = time.monotonic() + SECONDS
    done, status = 0, 0
    while not done and time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        time.sleep(0.002)
    if not done:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(reading)
        return f"FAILED hang: more than {SECONDS:.0f} s"
    with os.fdopen(reading, "rb") as stream:
        words = stream.read().decode(errors="replace")
    return words if os.WIFEXITED(status) and words else f"FAILED crash: status {status}"


def run(cases: int, seed: int, wanted: list[str] | None, engine: str, verbose: bool) -> int:
    """Make and judge so many changed models; how many failed."""
    warnings.simplefilter("ignore")
    counts: collections.Counter[str] = collections.Counter()
    with tempfile.TemporaryDirectory() as place:
        models = save_models(Path(place) / "saved", wanted, engine)
        for model in models:
            use_model(model)  # all code is loaded and compiled, so that memory is that of the model
        rng = np.random.default_rng(seed)
        order = [models[int(at)] for at in np.concatenate([rng.permutation(len(models)) for _ in range(cases)])[:cases]]
        for number, model in enumerate(order):
            changed = Path(place) / f"changed-{number}"
            shutil.copytree(model, changed)
            what = mutate(changed, rng)
            verdict = judge(changed)
            kind = verdict.partition(":")[0]
            counts[kind] += 1
            if verbose or kind.startswith("FAILED"):
                print(f"{number} {model.name} | {what} | {verdict}", flush=True)
            shutil.rmtree(changed)
    print(f"{cases} changed models of {len(models)}: {dict(counts)}")
    return sum(count for kind, count in counts.items() if kind.startswith("FAILED"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Load saved models that were changed")
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", help="slugs of methods and learners")
    parser.add_argument("--engine", default="auto", help="numba: predictions in compiled loops")
    parser.add_argument("--verbose", action="store_true")
    given = parser.parse_args()
    sys.exit(bool(run(given.cases, given.seed, given.only, given.engine, given.verbose)))
