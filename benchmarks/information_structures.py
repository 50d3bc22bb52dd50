"""Cao et al. 2019 (001), figure 4 and table 3: crowds whose members err independently, say one class, or copy.

    python benchmarks/information_structures.py --prepare cats_dogs.npz     # once, where Pillow is installed
    python benchmarks/information_structures.py --images cats_dogs.npz --processes 8 --out runs.jsonl

Cases 4.1 to 4.3 with the experts of appendix B, on CIFAR-10's cats and dogs (10,000 images to train, 2,000 to test;
001 has Kaggle's larger ones) or, with `--data cifar10`, on all ten classes. Networks and rates of appendix B.2: four
convolutions, Adam with 1e-4 for network and workers, batches of 16; for ten classes VGG-16, 1e-3 and 1e-4, batches of
64. The epoch is chosen by crowd labels held out: no truth is used but for the figures. (d) is the test accuracy of the
classifier, (dc) that of features and the experts' labels of the test images together.

The images are CIFAR-10's, from `--images FILE.npz` or, without it, from JPEG atlases in CROWDWISE_DATA/cifar10. Every
run is appended to `--out` as it ends, and those that are there already are not run again.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch

from crowdwise.learn.identifiability import NotIdentifiable
from crowdwise.learner_registry import learner
from crowdwise.simulate.experts import correlated_mistakes, independent_mistakes, naive_majority

CASES = {"independent": independent_mistakes, "naive": naive_majority, "correlated": correlated_mistakes}
METHODS = ("max-mig", "em", "crowd-layer", "doctor-net", "majority-vote")
CATS_DOGS = (3, 5)  # of CIFAR-10's classes
COMMON = {
    "cats-dogs": {"network": "cnn-pooled", "learning_rate": 1e-4, "batch_size": 16, "epochs": 20},
    "cifar10": {
        "network": "vgg-16",
        "learning_rate": 1e-3,
        "worker_learning_rate": 1e-4,
        "batch_size": 64,
        "epochs": 40,
    },
}
# Appendix B.2: the prior is learnt on cats and dogs and uniform on CIFAR-10, where the crowd layer starts from labels.
OWN = {
    ("cats-dogs", "max-mig"): {"prior": "learnt"},
    ("cifar10", "crowd-layer"): {"start": "labels"},
}
# Bar 4: the first method's test accuracy is above the second's by so much.
BARS = (("correlated", "max-mig", "em", 0.05), ("naive", "max-mig", "crowd-layer", 0.10))
HELD_OUT_SEED = 1_000  # added to a run's seed for the labels of the test images
PARTS = ("train", "test")
KEY = ("data", "limit", "level", "case", "method", "seed", "settings")  # what tells one run from another

_images: dict[str, Any] = {}


def read_atlases(folder: Path) -> dict[str, Any]:
    """All images (n, 3, 32, 32), in the standard order: an atlas is 50 rows of 100 tiles."""
    from PIL import Image

    def tiles(path: Path) -> Any:
        with Image.open(path) as atlas:
            pixels = np.asarray(atlas.convert("RGB"))
        return pixels.reshape(50, 32, 100, 32, 3).transpose(0, 2, 4, 1, 3).reshape(5000, 3, 32, 32)

    named = np.load(folder / "labels.npz")
    return {
        **{
            f"x_{part}": np.concatenate([tiles(path) for path in sorted(folder.glob(f"{part}_*.jpg"))])
            for part in PARTS
        },
        **{f"y_{part}": named[f"y_{part}"].astype(np.int64) for part in PARTS},
    }


def pair_only(images: dict[str, Any]) -> dict[str, Any]:
    """Cats and dogs, as classes 0 and 1."""
    kept = {}
    for part in PARTS:
        chosen = np.isin(images[f"y_{part}"], CATS_DOGS)
        kept[f"x_{part}"] = images[f"x_{part}"][chosen]
        kept[f"y_{part}"] = (images[f"y_{part}"][chosen] == CATS_DOGS[1]).astype(np.int64)
    return kept


def load(data: str, file: Path | None, limit: int | None) -> dict[str, Any]:
    """The images of a data set; the first `limit` of each part, if given."""
    if file is not None:
        with np.load(file) as held:
            images = dict(held)
    else:
        images = read_atlases(Path(os.environ["CROWDWISE_DATA"]) / "cifar10")
    if data == "cats-dogs" and images["y_train"].max() > 1:
        images = pair_only(images)
    if data == "cifar10" and images["y_train"].max() < 9:
        raise SystemExit(f"{file} holds cats and dogs only; --data cifar10 needs all ten classes.")
    return {name: values[:limit] for name, values in images.items()}


def start(data: str, file: Path | None, limit: int | None) -> None:
    """Begin a process: the images are read once."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", NotIdentifiable)
    _images.update(load(data, file, limit))


def run(job: dict[str, Any]) -> dict[str, Any]:
    """One fit, and its two accuracies."""
    simulated = {"data": "dogs-vs-cats" if job["data"] == "cats-dogs" else "cifar10", "level": job["level"]}
    truth = _images["y_test"]
    crowd = CASES[job["case"]](truth=_images["y_train"], seed=job["seed"], **simulated)
    later = CASES[job["case"]](truth=truth, seed=job["seed"] + HELD_OUT_SEED, **simulated)
    settings = COMMON[job["data"]] | OWN.get((job["data"], job["method"]), {}) | job["settings"]
    model = learner(job["method"]).make(**settings, seed=job["seed"])
    started = time.perf_counter()
    model.fit(_images["x_train"], crowd.labels)
    seconds = time.perf_counter() - started
    d = model.predict_proba(_images["x_test"]).argmax(axis=1)
    dc = model.predict_proba(_images["x_test"], later.labels).argmax(axis=1)
    return job | {
        "d": float((d == truth).mean()),
        "dc": float((dc == truth).mean()),
        "best_epoch": model.best_epoch_,
        "seconds": round(seconds, 1),
        "where": torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU",
    }


def key_of(row: dict[str, Any]) -> str:
    return json.dumps(
        [row[name] for name in ("data", "limit", "level", "case", "method", "seed", "settings")], sort_keys=True
    )


def table(rows: list[dict[str, Any]]) -> None:
    """Means and standard deviations over seeds, and whether the bars are met."""
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["data"], row["level"], row["case"], row["method"]), []).append(row)
    print(f"{'data':10}{'level':6}{'case':13}{'method':15}{'seeds':>5}{'(d) %':>15}{'(dc) %':>15}{'seconds':>9}")
    for (data, level, case, method), runs in sorted(groups.items()):
        cells = [np.array([row[name] for row in runs]) for name in ("d", "dc")]
        said = "".join(f"{100 * cell.mean():>9.2f} ± {100 * cell.std():.2f}" for cell in cells)
        seconds = np.mean([row["seconds"] for row in runs])
        print(f"{data:10}{level:6}{case:13}{method:15}{len(runs):>5}{said}{seconds:>9.0f}")
    for data, level in sorted({key[:2] for key in groups}):
        for case, first, second, bar in BARS:
            both = [groups.get((data, level, case, method)) for method in (first, second)]
            if both[0] and both[1]:
                gap = float(np.mean([row["d"] for row in both[0]]) - np.mean([row["d"] for row in both[1]]))
                verdict = "met" if gap >= bar else "MISSED"
                print(f"{data} {level} {case}: {first} - {second} = {gap:+.4f}, bar {bar:+.2f}: {verdict}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prepare", type=Path, metavar="FILE", help="write the images of --data to FILE, and end")
    parser.add_argument("--images", type=Path, metavar="FILE", help="images written by --prepare")
    parser.add_argument("--data", choices=COMMON, default="cats-dogs")
    parser.add_argument("--level", choices=("high", "low"), default="high", help="expertise: (H) or (L)")
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--batch-size", type=int)
    parser.add_argument("--limit", type=int, help="images of each part, for a trial")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--processes", type=int, default=1, help="runs at a time, on the same device")
    parser.add_argument("--out", type=Path, default=Path("information_structures.jsonl"))
    given = parser.parse_args()
    if given.prepare is not None:
        np.savez_compressed(given.prepare, **load(given.data, given.images, given.limit))
        print(f"{given.prepare}: {given.prepare.stat().st_size / 2**20:.1f} MiB")
        return
    settings = {"device": given.device}
    settings |= {name: value for name in ("epochs", "batch_size") if (value := getattr(given, name)) is not None}
    jobs = [
        {
            "data": given.data,
            "limit": given.limit,
            "level": given.level,
            "case": case,
            "method": method,
            "seed": seed,
            "settings": settings,
        }
        for seed in range(given.seeds)
        for case in given.cases.split(",")
        for method in given.methods.split(",")
    ]
    rows = [json.loads(line) for line in given.out.read_text().splitlines()] if given.out.exists() else []
    done = {key_of(row) for row in rows}
    waiting = [job for job in jobs if key_of(job) not in done]
    spawned = multiprocessing.get_context("spawn")
    with (
        spawned.Pool(given.processes, start, (given.data, given.images, given.limit)) as pool,
        given.out.open("a") as out,
    ):
        for row in pool.imap_unordered(run, waiting):
            out.write(json.dumps(row) + "\n")
            out.flush()
            print(
                f"{row['case']:12} {row['method']:14} seed {row['seed']}: d {row['d']:.4f}, dc {row['dc']:.4f}",
                flush=True,
            )
            rows.append(row)
    asked = {key_of(job) for job in jobs}
    table([row for row in rows if key_of(row) in asked])


if __name__ == "__main__":
    main()
