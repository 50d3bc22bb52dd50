"""Deep belief propagation and mean field in the setting of 004, section 4.1, on CIFAR-10's cats and dogs.

    python benchmarks/deep_belief.py --data CATS_DOGS.npz --out RUNS.jsonl [--panels prior mismatch spammers blur]
        [--seeds 50] [--device auto] [--processes 1] [--epochs 60] [--tasks 1000]
    python benchmarks/deep_belief.py --prepare CATS_DOGS.npz      (needs Pillow, and CROWDWISE_DATA with cifar10/)

1,000 images, 750 workers, a random (3, 4)-regular graph, one coin a worker. Panels: "prior", the true prior
Dir(α₁, α₁/2) (figure 2); "mismatch", one extreme spammer who labels all tasks, truth Dir(2, 1), model Dir(2, α₂)
(figures 3a, 3b); "spammers", several of them, model Dir(2, 1.4) (figures 3c, 3d); "blur", blurred images and clipping,
Dir(1, ½), true prior (figure 1). One line of JSON a run, written as it ends; a run that the file already has is not
repeated. Inference is the accuracy on the training images, learning that on test images; the table has means and 99 %
intervals.

004 has Kaggle's images of about 150 pixels, trains on all tasks at once and blurs with a radius in pixels of those; the
radius here is scaled by 32/150, so that 32 leaves as little of an image as there. mv, mf and bp see labels alone, and
their network is trained on their hard consensus afterwards, as 004's program does.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import sys
import time
import warnings
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import numpy as np

CAT, DOG = 3, 5  # of CIFAR-10
SCALE = 32 / 150  # pixels here for one of 004's
PANELS = ("prior", "mismatch", "spammers", "blur")
LABELS_ONLY = ("mv", "mf", "bp")
DEEP = ("deep-mf", "deep-bp", "crowd-layer", "bayes-dgc")
FREEDOM_BOUND = 2.576  # of the normal distribution, 99 %


def settings(panels: list[str]) -> list[dict[str, Any]]:
    """What to run, for each seed: the crowd, the model's prior, the images and the methods."""
    plain = {"spammers": 0, "radius": 0, "trust": 0.9}
    found: list[dict[str, Any]] = []
    if "prior" in panels:
        for first in (0.2, 0.4, 0.6, 0.8, 1.0, 1.5, 2.0):
            pair = [first, first / 2]
            found += [
                plain | {"panel": "prior", "x": first, "true": pair, "model": pair, "methods": LABELS_ONLY + DEEP}
            ]
    if "mismatch" in panels:
        for second in (0.8, 1.0, 1.2, 1.4, 1.6):
            crowd = {"panel": "mismatch", "x": second, "true": [2.0, 1.0], "model": [2.0, second], "spammers": 1}
            found += [plain | crowd | {"methods": LABELS_ONLY + DEEP}]
    if "spammers" in panels:
        for number in (0, 1, 2, 3, 4, 5):
            crowd = {"panel": "spammers", "x": number, "true": [2.0, 1.0], "model": [2.0, 1.4], "spammers": number}
            found += [plain | crowd | {"methods": LABELS_ONLY + DEEP}]
    if "blur" in panels:
        crowd = {"panel": "blur", "true": [1.0, 0.5], "model": [1.0, 0.5], "spammers": 0}
        found += [crowd | {"x": "labels", "radius": 0, "trust": 0.9, "methods": LABELS_ONLY}]
        for radius, trust in itertools.product((0, 8, 16, 32), (0.55, 0.7, 0.85, 1.0)):
            image = {"x": f"{radius}/{trust}", "radius": radius, "trust": trust, "methods": ("deep-mf", "deep-bp")}
            found += [crowd | image]
    return found


def images(path: str) -> tuple[Any, Any, Any, Any]:
    """Cats and dogs (n, 3, 32, 32) in [0, 1], and their classes 0 and 1: training and test."""
    parts = []
    with np.load(path) as stored:
        for part in ("train", "test"):
            x, y = stored[f"x_{part}"], stored[f"y_{part}"].ravel()
            if len(np.unique(y)) > 2:
                chosen = (y == CAT) | (y == DOG)
                x, y = x[chosen], y[chosen]
            if x.shape[-1] == 3:
                x = x.transpose(0, 3, 1, 2)
            parts += [np.ascontiguousarray(x), (y == y.max()).astype(np.int64)]
    return parts[0], parts[1], parts[2], parts[3]


def blurred(x: Any, radius: float) -> Any:
    """Gaussian blur of images (n, 3, h, w), uint8 in, float32 in [0, 1] out; the radius is the standard deviation."""
    import torch
    from torch.nn import functional

    picture = torch.as_tensor(x).float() / 255
    deviation = radius * SCALE
    if deviation == 0:
        return picture.numpy()
    reach = min(math.ceil(3 * deviation), picture.shape[-1] - 1)  # a reflection reaches no further than the image
    kernel = torch.exp(-0.5 * (torch.arange(-reach, reach + 1) / deviation) ** 2)
    kernel = (kernel / kernel.sum()).repeat(picture.shape[1], 1)
    padded = functional.pad(picture, (reach, reach, reach, reach), mode="reflect")
    along = functional.conv2d(padded, kernel[:, None, None, :], groups=picture.shape[1])
    return functional.conv2d(along, kernel[:, None, :, None], groups=picture.shape[1]).numpy()


def mean_field(labels: Any, alpha: Any, n_iter: int = 500) -> Any:
    """Posterior of 004's mean field with a one-coin prior, without features; two classes."""
    from scipy.special import digamma, softmax

    right, wrong = np.zeros(labels.n_workers), np.zeros(labels.n_workers)
    posterior = np.full((labels.n_tasks, 2), 0.5)
    for _ in range(n_iter):
        bonus = digamma(alpha[0] + right) - digamma(alpha[1] + wrong)
        logits = np.zeros((labels.n_tasks, 2))
        np.add.at(logits, (labels.task, labels.label), bonus[labels.worker])
        before, posterior = posterior, softmax(logits, axis=1)
        if np.abs(posterior - before).max() < 1e-8:
            break
        right = np.bincount(labels.worker, posterior[labels.task, labels.label], minlength=labels.n_workers)
        wrong = labels.labels_per_worker - right
    return posterior


def consensus(method: str, labels: Any, alpha: Any) -> Any:
    """Posterior (N, 2) of a method that sees labels alone."""
    import crowdwise as cw

    if method == "mf":
        return mean_field(labels, alpha)
    if method == "bp":
        return cw.BeliefPropagation(alpha=tuple(alpha), damping=0.3, max_iter=500).fit(labels).posterior_
    return cw.MajorityVote().fit(labels).posterior_


def learner(method: str, setting: dict[str, Any], shared: dict[str, Any]) -> Any:
    """An end-to-end method with 004's prior and clipping, where it has them; None where it is not there."""
    from crowdwise.learner_registry import learner as named

    alpha = tuple(setting["model"])
    own = {
        "deep-bp": {"prior": "one-coin", "alpha": alpha, "trust": setting["trust"], "damping": 0.3},
        "deep-mf": {"prior": "one-coin", "alpha": alpha, "trust": setting["trust"]},
        "bayes-dgc": {"alpha": alpha},
    }
    try:
        return named(method).make(**shared, **own.get(method, {}))
    except (ImportError, AttributeError):
        return None


def one(job: dict[str, Any]) -> list[dict[str, Any]]:
    """All methods of a setting, with one seed: rows of the result."""
    import torch

    import crowdwise as cw
    from crowdwise.simulate.coins import one_coin

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    setting, seed, n_tasks = job["setting"], job["seed"], job["tasks"]
    x_train, y_train, x_test, y_test = images(job["data"])
    chosen = np.random.default_rng([seed, 4]).choice(len(x_train), n_tasks, replace=False)
    truth = y_train[chosen]
    X, X_test = blurred(x_train[chosen], setting["radius"]), blurred(x_test, setting["radius"])
    crowd = one_coin(
        n_tasks, n_tasks * 3 // 4, truth=truth, alpha=tuple(setting["true"]), n_spammers=setting["spammers"], seed=seed
    )
    shared = {"network": "cnn-pooled", "epochs": job["epochs"], "learning_rate": job["rate"], "seed": seed}
    shared |= {"device": job["device"], "held_out": 0.0}
    rows = []
    for method in job["methods"]:
        started = time.perf_counter()
        labels = crowd.labels
        if method in LABELS_ONLY:
            posterior = consensus(method, labels, setting["model"])
            winner = posterior.argmax(axis=1)
            # One worker who says the consensus: a classifier of it, in the same loop as the others.
            said = cw.CrowdLabels.from_codes(
                np.arange(n_tasks), np.zeros(n_tasks, int), winner, tasks=n_tasks, workers=1, classes=2
            )
            model = cw.DeepMeanField(**shared, prior="one-coin", alpha=(1e6, 1.0), trust=0.5).fit(X, said)
            found = winner
        else:
            model = learner(method, setting, shared)
            if model is None:
                continue
            found = model.fit(X, labels).posterior_.argmax(axis=1)
        row = {name: value for name, value in setting.items() if name != "methods"}
        row |= {"method": method, "seed": seed, "inference": float((found == truth).mean())}
        row |= {"learning": float(model.score(X_test, y_test)), "seconds": round(time.perf_counter() - started, 2)}
        rows.append(row)
    return rows


def key(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["panel"], str(row["x"]), row["method"], row["seed"]


def report(rows: list[dict[str, Any]]) -> None:
    """Means over seeds and half the width of their 99 % intervals."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["panel"], str(row["x"]), row["method"]), []).append(row)
    print(f"{'panel':10}{'x':>10}  {'method':12}{'inference':>18}{'learning':>18}{'seeds':>7}{'seconds':>9}")
    for (panel, x, method), found in groups.items():
        cells = []
        for name in ("inference", "learning"):
            values = np.array([row[name] for row in found])
            half = FREEDOM_BOUND * values.std(ddof=1) / np.sqrt(values.size) if values.size > 1 else np.nan
            cells.append(f"{values.mean():.4f} ± {half:.4f}")
        seconds = np.mean([row["seconds"] for row in found])
        print(f"{panel:10}{x:>10}  {method:12}{cells[0]:>18}{cells[1]:>18}{len(found):>7}{seconds:>9.1f}")


def prepare(target: str) -> None:
    """Cats and dogs of the atlases in CROWDWISE_DATA/cifar10, as an .npz."""
    from PIL import Image

    folder = Path(os.environ["CROWDWISE_DATA"]) / "cifar10"
    names = np.load(folder / "labels.npz")
    kept: dict[str, Any] = {}
    for part in ("train", "test"):
        atlases = []
        for path in sorted(folder.glob(f"{part}_*.jpg")):
            tiles = np.asarray(Image.open(path).convert("RGB")).reshape(50, 32, 100, 32, 3)
            atlases.append(tiles.transpose(0, 2, 1, 3, 4).reshape(5000, 32, 32, 3))
        y = names[f"y_{part}"].ravel()
        chosen = (y == CAT) | (y == DOG)
        kept[f"x_{part}"], kept[f"y_{part}"] = np.concatenate(atlases)[chosen], (y[chosen] == DOG).astype(np.int64)
    np.savez_compressed(target, **kept)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help=".npz of images (uint8) and labels: x_train, y_train, x_test, y_test")
    parser.add_argument("--prepare", metavar="FILE.npz", help="write such a file and end")
    parser.add_argument("--out", default="deep_belief.jsonl")
    parser.add_argument("--panels", nargs="+", choices=PANELS, default=list(PANELS))
    parser.add_argument("--methods", nargs="+", choices=LABELS_ONLY + DEEP, default=list(LABELS_ONLY + DEEP))
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--tasks", type=int, default=1000, help="images, a multiple of 4")
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--rate", type=float, default=1e-3, help="learning rate of the network")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--processes", type=int, default=1)
    given = parser.parse_args()
    if given.prepare:
        prepare(given.prepare)
        return
    if not given.data:
        sys.exit("Give --data FILE.npz, or write one with --prepare FILE.npz.")
    out = Path(given.out)
    rows = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    done = {key(row) for row in rows}
    jobs = []
    for seed, setting in itertools.product(range(given.seeds), settings(given.panels)):
        wanted = [name for name in setting["methods"] if name in given.methods]
        missing = [name for name in wanted if key(setting | {"method": name, "seed": seed}) not in done]
        if missing:
            job = {"setting": setting, "seed": seed, "methods": missing, "data": given.data, "tasks": given.tasks}
            jobs.append(job | {"epochs": given.epochs, "rate": given.rate, "device": given.device})
    import multiprocessing

    with (
        out.open("a") as lines,
        ProcessPoolExecutor(given.processes, mp_context=multiprocessing.get_context("spawn")) as pool,
    ):
        for future in as_completed([pool.submit(one, job) for job in jobs]):
            for row in future.result():
                rows.append(row)
                lines.write(json.dumps(row) + "\n")
            lines.flush()
    wanted_panels = [row for row in rows if row["panel"] in given.panels]
    report(sorted(wanted_panels, key=lambda row: (PANELS.index(row["panel"]), str(row["x"]), row["method"])))


if __name__ == "__main__":
    main()
