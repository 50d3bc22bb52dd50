"""Learning from a stream, buying labels, and stopping, on real sets played as streams.

    python benchmarks/acquisition.py online     # accuracy of streams against batch, 20 seeds
    python benchmarks/acquisition.py speed      # a million labels, one by one
    python benchmarks/acquisition.py policies   # accuracy against labels bought, 50 seeds
    python benchmarks/acquisition.py stopping   # stop rule at 95 % on ten sets
    python benchmarks/acquisition.py estimate   # stop by estimate at 95 % on ten sets, and its bound
    python benchmarks/acquisition.py stop-prior # what the estimate starts from: δ and α of the ten sets

A number after the part is the number of seeds. Truths score, and are gold where a rule is given gold. Results are
written to benchmarks/results/acquisition-PART.json.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import crowdwise as cw
from crowdwise.acquire.replay_stream import make_empty_model, read_replay
from crowdwise.acquire.stop_estimate import SEEN, fit_calibration
from crowdwise.acquire.stopping import find_known_answers
from crowdwise.labels.truth import read_truth, truth_codes

RESULTS = Path(__file__).parent / "results"
STREAMS = ("rte", "dog", "web", "sp")
BOUGHT = (("dog", "dawid-skene"), ("web", "dawid-skene"), ("dog", "confusion-vector"))
TOLERANCES = (0.002, 0.005, 0.01)  # of the accuracy with all labels, within which it counts as reached
POLICIES = (
    "random",
    "joint",
    "uncertainty/uniform",
    "uncertainty/epsilon-greedy",
    "information-gain/epsilon-greedy",
)
STOPPED = ("rte", "temp", "dog", "bluebird", "sp", "zencrowd_us", "web", "ducks", "music", "labelme")
ESTIMATED = ("estimate", "estimate, skilled first", "bound", "bound, skilled first")
CHECKS = 0.0  # of a stop by estimate
# Accuracy of tasks that were stopped at a posterior of .999, Dawid and Skene's model, in random order, one seed.
STOPPED_AT_999 = dict(zip(STOPPED, (0.971, 0.957, 0.845, 0.887, 0.955, 0.934, 0.967, 0.604, 0.877, 0.895), strict=True))


def prior_of_other_sets(name: str) -> tuple[float, float]:
    """Beta parameters by moments, this set left out."""
    others = np.array([value for other, value in STOPPED_AT_999.items() if other != name])
    mean = others.mean()
    size = mean * (1 - mean) / others.var(ddof=1) - 1
    return float(mean * size), float((1 - mean) * size)


def accuracy(posterior: Any, code: Any) -> float:
    return float(np.mean(posterior.argmax(axis=1)[code >= 0] == code[code >= 0]))


def stream_all(seeds: int = 20) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for family in ("dawid-skene", "one-coin", "mean-field"):
        for name in STREAMS:
            data = cw.datasets.load(name)
            labels = data.labels
            code = truth_codes(read_truth(data.truth), labels)
            batch = make_empty_model(labels, family=family, growth=0)
            batch.add_labels(labels, np.arange(labels.n_labels))
            batch.refit(max_iter=500, tol=1e-8)
            row = {"batch": accuracy(batch.posteriors, code), "method": accuracy(fit_method(family, labels), code)}
            for mode in ("exact", "decay"):
                last = []
                for seed in range(seeds):
                    model = make_empty_model(labels, family=family, mode=mode)
                    model.add_labels(labels, np.random.default_rng(seed).permutation(labels.n_labels))
                    last.append(accuracy(model.posteriors, code))
                row |= {mode: float(np.mean(last)), f"{mode}_worst": float(np.min(last))}
            found[f"{name} {family}"] = row
            print(name, family, {key: round(value, 4) for key, value in row.items()}, flush=True)
    return found


def fit_method(family: str, labels: Any) -> Any:
    return cw.method(family).load()().fit(labels).posterior_


def measure_speed(n: int = 1_000_000, n_tasks: int = 200_000, n_workers: int = 1000) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 4, n_tasks)
    task = np.repeat(np.arange(n_tasks), n // n_tasks)
    worker = (rng.integers(0, n_workers, n_tasks)[:, None] + np.arange(n // n_tasks)).ravel() % n_workers
    label = np.where(rng.random(n) < 0.7, truth[task], rng.integers(0, 4, n))
    order = rng.permutation(n)
    rows = [(f"t{task[e]}", f"w{worker[e]}", f"c{label[e]}") for e in order]
    found = {}
    for mode in ("decay", "exact"):
        warm = cw.acquire.OnlineModel(["c0", "c1", "c2", "c3"], mode=mode)
        for row in rows[:5000]:
            warm.add(*row)
        model = cw.acquire.OnlineModel(["c0", "c1", "c2", "c3"], mode=mode)
        start = time.perf_counter()
        for row in rows:
            model.add(*row)
        found[mode] = n / (time.perf_counter() - start)
        right = model.posteriors.argmax(axis=1) == truth[[int(name[1:]) for name in model.tasks.every]]
        print(mode, f"{found[mode]:,.0f} labels a second, one by one; accuracy {right.mean():.3f}", flush=True)
    return found


def buy_all(seeds: int = 50) -> dict[str, Any]:
    """Labels that each policy needs until the mean over seeds is within a tolerance of the fit to all labels."""
    found: dict[str, Any] = {}
    for name, family in BOUGHT:
        data = cw.datasets.load(name)
        began = time.perf_counter()
        result = cw.acquire.replay(data.labels, data.truth, POLICIES, seeds=seeds, family=family, batch=0.025)
        batch = float(result.mean[0, -1])
        row: dict[str, Any] = {"seeds": seeds, "batch": batch, "labels": result.labels.tolist(), "needed": {}}
        for tolerance in TOLERANCES:
            needed = result.labels_needed(batch - tolerance)
            row["needed"][str(tolerance)] = {
                policy: {"labels": needed[policy], "of_random": round(needed[policy] / needed["random"], 3)}
                for policy in POLICIES
            }
        row |= {
            "mean": dict(zip(result.policies, result.mean.round(4).tolist(), strict=True)),
            "band": {p: result.band[:, i].round(4).tolist() for i, p in enumerate(result.policies)},
            "area": dict(zip(result.policies, result.mean.mean(axis=1).round(4).tolist(), strict=True)),
            "seconds": round(time.perf_counter() - began, 1),
        }
        found[f"{name} {family}"] = row
        print(name, family, "batch", round(batch, 4), f"{row['seconds']} s", flush=True)
        for policy in POLICIES:
            of_random = [row["needed"][str(tolerance)][policy]["of_random"] for tolerance in TOLERANCES]
            share = row["needed"]["0.002"][policy]["labels"] / result.labels[-1]
            print(f"  {policy:34s} {share:.3f} of all labels; of random {of_random}; area {row['area'][policy]}")
        write(found, "policies")
    return found


def write(found: dict[str, Any], part: str) -> None:
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"acquisition-{part}.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def stop_all(seeds: int = 10) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for delta in (0.1, 0.25):
        for name in STOPPED:
            data = cw.datasets.load(name)
            runs = [
                cw.acquire.replay_stopping(
                    data.labels,
                    data.truth,
                    cw.acquire.StopRule(delta=delta, prior=prior_of_other_sets(name)),
                    random_state=seed,
                )
                for seed in range(seeds)
            ]
            right = [run.accuracy for run in runs if run.share_of_tasks > 0]
            row = {
                "promised": float(np.mean([run.promised for run in runs])),
                "accuracy": float(np.mean(right)) if right else None,
                "worst": min(right) if right else None,
                "labels": float(np.mean([run.share_of_labels for run in runs])),
                "stopped": float(np.mean([run.share_of_tasks for run in runs])),
            }
            found[f"{name} {delta}"] = row
            print(delta, name, row, flush=True)
        share = np.mean([row["labels"] for key, row in found.items() if key.endswith(f" {delta}")])
        print(delta, "labels on average", round(float(share), 3), flush=True)
    return found


def others_seen(name: str) -> tuple[tuple[float, float], ...]:
    """δ and α of the ten sets, this one left out."""
    return tuple(pair for other, pair in SEEN.items() if other != name)


class Oracle(cw.acquire.StopEstimate):
    """The same rule and confidences, but the threshold is chosen with the truth: the cheapest that keeps `target`."""

    def choose_with_truth(self, code: Any) -> Oracle:
        """Take the class of each task, -1 where it is not known."""
        self.code = code
        return self

    def calibrate(self, model: Any, gold: Any, checks: Any = ()) -> Oracle:  # noqa: ARG002
        """Choose the threshold."""
        self._gold = find_known_answers(model, gold)[0]
        every = self._find_posteriors(model).with_all_labels
        candidate = (model.labels_per_task >= self.min_labels) & (self.code >= 0)
        candidate &= every.argmax(axis=1) == model.posteriors.argmax(axis=1)
        candidate[self._gold] = False
        at = np.flatnonzero(candidate)
        at = at[np.argsort(-every[at].max(axis=1), kind="stable")]
        right = np.cumsum(every[at].argmax(axis=1) == self.code[at]) / np.arange(1, at.size + 1)
        last_of_equals = np.append(np.diff(every[at].max(axis=1)) < 0, True)[: at.size]
        enough = np.flatnonzero((right >= self.target) & (np.arange(at.size) >= 4) & last_of_equals)
        self.threshold = float(every[at[enough[-1]]].max()) if enough.size else np.inf
        return self


def stop_by_estimate(seeds: int = 5) -> dict[str, Any]:
    """The estimate at 95 %, labels in random order and of skilled workers first; then the bound, at 93 %, one seed."""
    found: dict[str, Any] = {}
    for part in ESTIMATED:
        skilled = part.endswith("skilled first")
        for name in STOPPED:
            data = cw.datasets.load(name)
            labels, code = read_replay(data.labels, data.truth)
            began, runs = time.perf_counter(), []
            for seed in range(seeds if part.startswith("estimate") else 1):
                if part.startswith("estimate"):
                    rule = cw.acquire.StopEstimate(0.95, skilled_first=skilled, seen=others_seen(name))
                else:
                    rule = Oracle(0.93, skilled_first=skilled).choose_with_truth(code)
                runs.append(cw.acquire.replay_stopping(labels, data.truth, rule, checks=CHECKS, random_state=seed))
            right = [run.accuracy for run in runs if run.share_of_tasks > 0]
            row = {
                "stopped_in": len(right),
                "seeds": len(runs),
                "accuracy": round(float(np.mean(right)), 4) if right else None,
                "worst": round(min(right), 4) if right else None,
                "labels": round(float(np.mean([run.share_of_labels for run in runs])), 4),
                "tasks": round(float(np.mean([run.share_of_tasks for run in runs])), 4),
                "seconds": round(time.perf_counter() - began, 1),
            }
            found[f"{name} {part}"] = row
            print(part, name, row, flush=True)
        rows = [found[f"{name} {part}"] for name in STOPPED]
        kept = sum(row["accuracy"] is not None and row["accuracy"] >= 0.93 for row in rows)
        share = np.mean([row["labels"] for row in rows])
        print(part, f"kept .93 on {kept} of 10, labels on average {share:.3f}", flush=True)
    return found


def fit_stop_prior() -> dict[str, Any]:
    found = {}
    for name in STOPPED:
        data = cw.datasets.load(name)
        labels, code = read_replay(data.labels, data.truth)
        model = make_empty_model(labels, growth=0)
        order = np.random.default_rng(0).permutation(labels.n_labels)
        model.add_codes(*(column[order].astype(np.int64) for column in (labels.task, labels.worker, labels.label)))
        found[name] = tuple(round(value, 2) for value in fit_calibration(model, code))
        print(name, found[name], flush=True)
    return found


def main() -> None:
    part = sys.argv[1] if len(sys.argv) > 1 else ""
    parts = {"online": stream_all, "speed": measure_speed, "policies": buy_all, "stopping": stop_all}
    parts |= {"estimate": stop_by_estimate, "stop-prior": fit_stop_prior}
    if part not in parts:
        raise SystemExit(__doc__)
    write(parts[part](*map(int, sys.argv[2:3])), part)


if __name__ == "__main__":
    main()
