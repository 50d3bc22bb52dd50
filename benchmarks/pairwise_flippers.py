"""MNIST labelled by five pairwise-flippers, one label an image: who learns digits, and who learns the workers.

    python benchmarks/pairwise_flippers.py [--train 20000] [--epochs 50] [--processes 8] [--out FILE]

Section 3 of Tanno et al. 2019, figures 3(b), 3(d) and 6(b): each worker is right with a chance around the mean
skill and otherwise names one wrong class, theirs for each true one. Tanno et al.'s CNN, Adam at 1e-3, batches of 50;
the epoch is chosen by 10 % of the labels held out, where Tanno et al. 2019 take the best validation accuracy. Every
seed draws images, workers and labels anew; every method sees the same ones. At 1e-3 the matrices of trace are still on
their way from the identity after 5,000 steps (Tanno et al. 2019 take 200,000); with so few, give them a learning rate
of their own, such as 0.01.

At 30 and 35 % the paper's crowds are diagonally dominant on average, which most that are drawn at random are not (three
of five workers who flip a class to the same one are enough). A crowd is therefore drawn until it is, in a hundred
draws; at 25 % none is, and the first counts.

Prints mean and standard deviation over seeds of the accuracy on the test images, of the confusion error (Tanno et al.
2019, section 3.2, × 100), and how many fits warned that the result may not be believed. Each run is a line of JSON in
FILE as it ends; runs that FILE already has with the same settings are not repeated.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import time
import warnings
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import numpy as np

METHODS = ("hard-labels", "em", "mbem", "single-cm", "trace", "oracle")
TRAINING = ("network", "epochs", "batch_size", "learning_rate", "worker_learning_rate")
DRAWS = 100  # of a crowd, until it is diagonally dominant


def mnist() -> dict[str, np.ndarray]:
    with np.load(Path(os.environ["CROWDWISE_DATA"]) / "mnist" / "mnist.npz") as file:
        return {name: file[name] for name in file.files}


def drawn_crowd(truth: np.ndarray, skill: float, seed: int) -> tuple[Any, bool]:
    """A crowd with one label an image, and whether its mean matrix is diagonally dominant."""
    from crowdwise.metrics.identifiability_conditions import find_non_dominant
    from crowdwise.simulate.tanno_annotators import pairwise_flippers

    for draw in range(DRAWS):
        crowd = pairwise_flippers(
            truth.size, labels_per_task=1, skill=skill, truth=truth, random_state=1000 * seed + draw
        )
        if not find_non_dominant(crowd.confusion.mean(axis=0)):
            return crowd, True
    return pairwise_flippers(truth.size, labels_per_task=1, skill=skill, truth=truth, random_state=1000 * seed), False


def accuracy(model: Any, images: np.ndarray, truth: np.ndarray, device: str) -> float:
    """Share of images whose class the classifier finds, on the device that it was trained on."""
    import torch

    network = model.network_.to(device)
    with torch.no_grad():
        parts = [
            network(torch.as_tensor(part, device=device).float()[:, None] / 255).argmax(dim=1).cpu().numpy()
            for part in np.array_split(images, max(len(images) // 1000, 1))
        ]
    return float((np.concatenate(parts) == truth).mean())


def run(settings: dict[str, Any], device: str) -> dict[str, Any]:
    """One method on one crowd."""
    import torch

    import crowdwise as cw
    from crowdwise.registry import learner

    torch.set_num_threads(1)
    data, seed = mnist(), settings["seed"]
    chosen = np.random.default_rng(seed).permutation(len(data["x_train"]))[: settings["train"]]
    images, truth = data["x_train"][chosen], data["y_train"][chosen].astype(np.int64)
    crowd, dominant = drawn_crowd(truth, settings["skill"], seed)
    shared = {name: settings[name] for name in TRAINING} | {"random_state": seed}
    if settings["method"] == "oracle":
        shared["confusion"] = crowd.confusion
    model = learner(settings["method"]).make(**shared, device=device)
    started = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(images, crowd.labels)
    seconds = time.perf_counter() - started
    where = "cuda" if device == "auto" and torch.cuda.is_available() else device.replace("auto", "cpu")
    return settings | {
        "accuracy": accuracy(model, data["x_test"], data["y_test"], where),
        "confusion_error": cw.metrics.confusion_error(
            crowd.confusion, getattr(model, "refined_confusion_", model.confusion_)
        ),
        "label_accuracy": float((crowd.labels.label == truth).mean()),
        "dominant": dominant,
        "warned": any(issubclass(one.category, cw.NotIdentifiable) for one in caught),
        "best_epoch": int(model.best_epoch_),
        "seconds": round(seconds, 1),
        "device": torch.cuda.get_device_name() if where == "cuda" else where,
    }


def already(out: Path | None, wanted: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Runs of these settings that the file has."""
    if out is None or not out.exists():
        return []
    rows = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    return [row for row in rows if {name: row.get(name) for name in wanted[0]} in wanted]


def table(rows: list[dict[str, Any]]) -> str:
    """Mean ± standard deviation over seeds, a line for each skill and method."""
    lines = [
        f"{'skill':5} {'method':14} {'accuracy, %':>14} {'confusion × 100':>16} {'warned':>7} {'epoch':>6} {'s':>5}"
    ]
    for skill in dict.fromkeys(row["skill"] for row in rows):
        crowds = {row["seed"]: row for row in rows if row["skill"] == skill}.values()
        labels = 100 * np.mean([row["label_accuracy"] for row in crowds])
        fine = sum(row["dominant"] for row in crowds)
        lines.append(f"{skill:<5} {labels:.1f} % of labels right, {fine} of {len(crowds)} crowds diagonally dominant")
        for method in dict.fromkeys(row["method"] for row in rows):
            some = [row for row in rows if row["skill"] == skill and row["method"] == method]
            if not some:
                continue
            right, error = (100 * np.array([row[name] for row in some]) for name in ("accuracy", "confusion_error"))
            warned = f"{sum(row['warned'] for row in some)}/{len(some)}"
            epoch, seconds = (np.median([row[name] for row in some]) for name in ("best_epoch", "seconds"))
            spread = int(len(some) > 1)
            lines.append(
                f"{'':5} {method:14} {right.mean():6.2f} ± {right.std(ddof=spread):5.2f} "
                f"{error.mean():8.2f} ± {error.std(ddof=spread):5.2f} {warned:>7} {epoch:6.0f} {seconds:5.0f}"
            )
    return "\n".join(lines)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--train", type=int, default=20_000, help="images to learn from, at most 60000")
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--batch-size", type=int, default=50)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--worker-learning-rate", type=float, help="of matrices; by default the same")
    parser.add_argument("--network", default="cnn")
    parser.add_argument("--skills", type=float, nargs="+", default=[0.3, 0.35, 0.25])
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--seeds", type=int, default=5, help="how many, from 0")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--processes", type=int, default=1, help="runs at once, each in a process of its own")
    parser.add_argument("--out", type=Path, help="file for a line of JSON for each run")
    return parser.parse_args()


def main() -> None:
    given = arguments()
    shared = {name: getattr(given, name) for name in ("train", *TRAINING)}
    wanted = [
        shared | {"skill": skill, "seed": seed, "method": method}
        for skill in given.skills
        for seed in range(given.seeds)
        for method in given.methods
    ]
    rows = already(given.out, wanted)
    done = [{name: row[name] for name in wanted[0]} for row in rows]
    todo = [settings for settings in wanted if settings not in done]
    with ProcessPoolExecutor(given.processes, mp_context=multiprocessing.get_context("spawn")) as pool:
        for number, future in enumerate(as_completed(pool.submit(run, one, given.device) for one in todo), start=1):
            row = future.result()
            rows.append(row)
            if given.out is not None:
                with given.out.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")
            found = f"accuracy {row['accuracy']:.4f}, confusion error {row['confusion_error']:.4f}"
            print(
                f"{number}/{len(todo)} {row['method']} skill {row['skill']} seed {row['seed']}: {found}, "
                f"epoch {row['best_epoch']}, {row['seconds']:.0f} s",
                flush=True,
            )
    rows.sort(key=lambda row: (given.skills.index(row["skill"]), given.methods.index(row["method"]), row["seed"]))
    print(table(rows))


if __name__ == "__main__":
    main()
