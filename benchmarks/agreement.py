"""Agreement ratio Δ of Learn2Agree against learning from all labels and from the majority's: table 1 of 003.

    python benchmarks/agreement.py [--seeds 5] [--data digits hsbrexit] [--losses ce balanced-ce …] [--out FILE.jsonl]

- digits: scikit-learn's 1,797 images of digits, odd or even, half to learn from and half to score; three raters of
  Cohen's κ 0.80, 0.75 and 0.70 to the truth, as 003 makes them for MURA (its bins: 5).
- hsbrexit: 1,120 tweets of LeWiDi's HS-Brexit, six real raters who find hate speech in 4 to 24 % of them; TF-IDF fitted
  on the training folds, five folds, Δ of all predictions out of fold (003's bins for real experts: 10).

Every row of a block has the same network (one hidden layer of 128 units, dropout 0.5), the same starting weights, the
same order of tasks and 50 epochs of Adam, the last of which is taken; rows differ in the targets, the classifier's loss
and the agreement stream. A seed draws split, raters, weights and order. Nothing is chosen by what is scored.
Mean ± standard deviation over seeds, and how often Learn2Agree is at least as good as the better baseline of its loss.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import os
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.feature_extraction.text import TfidfVectorizer

import crowdwise as cw
from crowdwise.learn.identifiability import NotIdentifiable
from crowdwise.metrics import agreement_ratio
from crowdwise.simulate import simulate

EPOCHS = 50  # 003's
FOLDS = 5
LOSSES = ("ce", "balanced-ce", "weighted-kappa")
METHODS = {
    "majority voting": {"stream": "none"},
    "learn-from-all": {"stream": "none"},
    "learn2agree, linear": {"stream": "linear"},
    "learn2agree, distributional": {"stream": "distributional"},
}


def network(width: int, seed: int) -> torch.nn.Module:
    """The same weights for every method."""
    torch.manual_seed(seed)
    layers = (torch.nn.Linear(width, 128), torch.nn.ReLU(), torch.nn.Dropout(0.5), torch.nn.Linear(128, 2))
    return torch.nn.Sequential(*layers)


def majority(said: Any) -> Any:
    """The vote's winner of each task, as one rater: annotation balancing then balances its classes, as in 003."""
    return cw.MajorityVote().fit(cw.CrowdLabels.from_dense(said)).predict()[:, None]


def predicted(method: str, loss: str, X: Any, said: Any, new: Any, seed: int, bins: int) -> Any:
    """Classes of new tasks by a model of what raters said (tasks, raters)."""
    shared = {"network": network(X.shape[1], seed), "epochs": EPOCHS, "held_out": 0, "seed": seed}
    if method in METHODS:
        model = cw.LearnToAgree(classifier_loss=loss, bins=bins, **METHODS[method], **shared)
        said = majority(said) if method == "majority voting" else said
    else:
        model = cw.learner(method).make(**shared)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotIdentifiable)
        model.fit(X, cw.CrowdLabels.from_dense(said, classes=[0, 1]))
    return np.asarray(model.predict(new)).astype(int)


def on_digits(method: str, loss: str, seed: int) -> float:
    """Δ on the half that is not learnt from."""
    images, digit = load_digits(return_X_y=True)
    truth = digit % 2
    said = simulate("kappa-raters", truth=truth, seed=seed).labels.label.reshape(-1, 3).astype(int)
    order = np.random.default_rng(seed).permutation(truth.size)
    train, test = order[: truth.size // 2], order[truth.size // 2 :]
    guess = predicted(method, loss, images[train] / 16, said[train], images[test] / 16, seed, bins=5)
    return agreement_ratio(guess, cw.CrowdLabels.from_dense(said[test]))


def on_hsbrexit(method: str, loss: str, seed: int) -> float:
    """Δ of what is predicted out of fold."""
    folder = Path(os.environ["CROWDWISE_DATA"]) / "lewidi_hsbrexit"
    with gzip.open(folder / "text.csv.gz", "rt", encoding="utf-8", newline="") as file:
        text = {row["task"]: row["text"] for row in csv.DictReader(file)}
    labels = cw.read_labels(folder / "labels.csv")
    tweets = np.array([text[task] for task in labels.tasks.to_pylist()])
    said = labels.label.reshape(labels.n_tasks, labels.n_workers).astype(int)
    fold = np.random.default_rng(seed).permutation(labels.n_tasks) % FOLDS
    guess = np.full(labels.n_tasks, -1)
    for number in range(FOLDS):
        train, test = fold != number, fold == number
        words = TfidfVectorizer(max_features=1000, ngram_range=(1, 2), sublinear_tf=True)
        X, new = words.fit_transform(tweets[train]), words.transform(tweets[test])
        guess[test] = predicted(method, loss, X, said[train], new, seed, bins=10)
    return agreement_ratio(guess, cw.CrowdLabels.from_dense(said))


DATA = {"digits": on_digits, "hsbrexit": on_hsbrexit}


def available(slug: str) -> bool:
    """Whether this learner is installed."""
    try:
        cw.learner(slug).load()
    except (ImportError, cw.InputError):
        return False
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--data", nargs="+", choices=tuple(DATA), default=tuple(DATA))
    parser.add_argument("--losses", nargs="+", choices=LOSSES, default=LOSSES)
    parser.add_argument(
        "--out", type=Path, help="a line of JSON for each data set, loss, method and seed is added here"
    )
    options = parser.parse_args()
    torch.set_num_threads(1)
    plain = [slug for slug in ("majority-vote", "learn-from-all") if available(slug)]
    for data in options.data:
        for loss in options.losses:
            print(f"{data}, {loss}")
            found = {}
            for method in (*METHODS, *(plain if loss == "ce" else ())):
                started = time.perf_counter()
                ratios = [DATA[data](method, loss, seed) for seed in range(options.seeds)]
                seconds = (time.perf_counter() - started) / options.seeds
                found[method] = np.array(ratios)
                print(f"  {method:30s} {np.mean(ratios):.4f} ± {np.std(ratios):.4f}   {seconds:.1f} s", flush=True)
                if options.out:
                    with options.out.open("a", encoding="utf-8") as file:
                        for seed, ratio in enumerate(ratios):
                            row = {"data": data, "loss": loss, "method": method, "seed": seed, "ratio": ratio}
                            file.write(json.dumps(row) + "\n")
            best = np.maximum(found["majority voting"], found["learn-from-all"])
            for method in METHODS:
                if method.startswith("learn2agree"):
                    wins = int((found[method] >= best).sum())
                    print(f"  {method}: at least the better baseline in {wins} of {options.seeds} seeds")


if __name__ == "__main__":
    main()
