"""What no procedure can find with so few labels, and how near the audit comes: ideal procedures beside ours.

    python benchmarks/limits.py                                  # all parts, about half an hour on one core
    python benchmarks/limits.py --parts guessers copiers --seeds 2
    python benchmarks/limits.py --parts confidence --draws 5

- guessers. A likelihood-ratio test (Neyman and Pearson) of a guesser against the set's honest workers, at 5 % over all:
  `with truth` knows the class of every task and every honest worker's confusion matrix; `with labels` is the
  audit's own likelihood, with the spread of attention in the crowd known. `ours` is what the audit finds of the same
  workers, those of `planted_workers.py`.
- copiers. The chance that an honest worker gives all answers of the one who is copied, at 5 % over all pairs that share
  50 tasks; by the truth, or by the posterior of the crowd before anyone was planted.
- confidence. Two numbers (slope and shift of the logit) calibrate the confidence of `auto`, with the whole truth, or
  with 50 gold answers and the best prior, learnt from the whole truth of the other sets. Ours: `calibrate_from_gold`.
- size. Error correlations with the truth of every task; and pairs of crowds with the same labels and other sizes.

The test with the truth flags an honest worker in one set of twenty. The audit, and the test with labels, flag so that
5 % of those flagged are expected to be honest, which lets them find more where a set has many spammers of its own.
An honest worker is one of the set's own, with 20 answers or more, whose attention by the truth is at least the bound of
`find_spammers`. Confusion matrices are shrunk to the crowd's mean by as many answers as make the labels most probable.
Sets with few true answers are left out.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import warnings
from itertools import pairwise, product
from pathlib import Path
from typing import Any

for variable in ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import numpy as np  # noqa: E402
from scipy.special import expit, gammaln, logit, logsumexp  # noqa: E402
from scipy.stats import binom  # noqa: E402

import crowdwise as cw  # noqa: E402
from crowdwise.audit import spammers  # noqa: E402
from crowdwise.audit.attention import attention_of_others, attention_slopes, fit_attention_mixture  # noqa: E402
from crowdwise.audit.leave_out_consensus import fit_reference, posterior_from_others  # noqa: E402
from crowdwise.datasets import load  # noqa: E402
from crowdwise.dependence.effective_size import kish_effective_size  # noqa: E402
from crowdwise.kernels.habit_mixture import profile_likelihood  # noqa: E402
from effective_size import ROWS, simulate_panel  # noqa: E402
from planted_workers import KINDS, SHARES, plant, run  # noqa: E402

RESULTS = Path(__file__).parent / "results" / "limits.json"
GUESSED = ("bluebird", "temp", "rte", "zencrowd_us", "ducks", "imagenet15n")
COPIED = ("temp", "labelme", "imagenet15n")
CALIBRATED = ("bluebird", "dog", "web", "rte", "temp", "sp", "zencrowd_us", "adult2", "fact_eval", "ducks", "labelme")
CALIBRATED += ("music", "imagenet15n", "cifar10h")
LEVEL = 0.05
FEWEST, BUSY = 20, 50  # answers of a worker who is honest by the truth; of one whom the bar is about
REPEATS = 1000  # answers drawn for each honest worker
GOLD = 50


# ---- guessers ---------------------------------------------------------------------------------------------


def count_confusions(task: np.ndarray, worker: np.ndarray, label: np.ndarray, truth: np.ndarray, shape: tuple) -> Any:
    """Answers (M, K, K) [worker, truth, label] to tasks with a known truth."""
    known = truth[task] >= 0
    counts = np.zeros(shape)
    np.add.at(counts, (worker[known], truth[task[known]], label[known]), 1)
    return counts


def shrink_confusions(counts: np.ndarray) -> np.ndarray:
    """Confusion matrices shrunk to the crowd's mean, by the strength under which the answers are most probable."""
    mean = counts.sum(axis=0) + 0.5
    mean /= mean.sum(axis=1, keepdims=True)

    def log_probability(strength: float) -> float:
        rows = gammaln(strength) - gammaln(strength + counts.sum(axis=2))
        return float(rows.sum() + (gammaln(counts + strength * mean) - gammaln(strength * mean)).sum())

    added = counts + max((1, 2, 4, 8, 16, 32, 64, 128), key=log_probability) * mean
    return added / added.sum(axis=2, keepdims=True)


def attention_by_truth(counts: np.ndarray) -> np.ndarray:
    """Slope of the answers on the truth (M,): 1 for who is always right, 0 for a guesser."""
    number = np.maximum(counts.sum(axis=(1, 2)), 1)
    truths, answers = counts.sum(axis=2) / number[:, None], counts.sum(axis=1) / number[:, None]
    covariance = np.einsum("mkk->m", counts) / number - (truths * answers).sum(axis=1)
    return covariance / np.maximum(1 - (truths**2).sum(axis=1), 1e-9)


def attention_bound(usual: float, n_classes: int) -> float:
    """Attention below which a worker is a spammer."""
    told = spammers.bits_to_attention(spammers.TOLD * np.log2(n_classes), n_classes)
    return float(min(spammers.SHARE * usual, told))


def draw_answers(truths: np.ndarray, confusion: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Counts (n, K, K) of the answers to so many tasks of each true class."""
    return np.stack([rng.multinomial(int(c), row / row.sum(), n) for c, row in zip(truths, confusion, strict=True)], 1)


def guessers_with_truth(name: str, kind: str, share: float, seeds: int) -> float:
    """Share of planted guessers that the test with the truth finds."""
    data, rng = load(name), np.random.default_rng(0)
    labels, truth, size = data.labels, data.truth_codes, data.labels.n_classes
    counts = count_confusions(labels.task, labels.worker, labels.label, truth, (labels.n_workers, size, size))
    counts = counts[counts.sum(axis=(1, 2)) >= FEWEST]
    number, attention = counts.sum(axis=(1, 2)), attention_by_truth(counts)
    weight = number * np.clip(attention, 0, 1)
    honest = attention >= attention_bound(np.average(attention, weights=weight), size)
    confusion = shrink_confusions(counts)
    logs = np.log(confusion[honest])
    guess = np.full(size, 1 / size) if kind == "uniform" else np.maximum(labels.class_shares, 1e-9)

    def log_ratio(answers: np.ndarray) -> np.ndarray:
        by_honest = logsumexp(np.einsum("rkl,mkl->rm", answers, logs), axis=1) - np.log(len(logs))
        return answers.sum(axis=1) @ np.log(guess) - by_honest

    tested = np.flatnonzero(honest & (number >= BUSY))
    innocent = np.sort(
        np.concatenate([log_ratio(draw_answers(counts[m].sum(1), confusion[m], REPEATS, rng)) for m in tested])
    )
    threshold = innocent[-max(int(LEVEL * REPEATS), 1)]  # so that 0.05 honest workers of the whole set are above it
    found = []
    for seed in range(seeds):
        crowd, planted = plant(labels, kind, share, planting_generator(seed, kind, share))  # type: ignore[misc]
        for place in range(len(planted)):
            truths = truth[crowd.task[crowd.worker == labels.n_workers + place]]
            per_class = np.bincount(truths[truths >= 0], minlength=size)
            found.append((log_ratio(draw_answers(per_class, np.tile(guess, (size, 1)), 200, rng)) > threshold).mean())
    return float(np.mean(found))


def guessers_with_labels(name: str, kind: str, share: float, seeds: int) -> float:
    """Share that the audit's own likelihood finds if the spread of attention in the crowd is known."""
    labels = load(name).labels
    found = total = 0
    for seed in range(seeds):
        crowd, planted = plant(labels, kind, share, planting_generator(seed, kind, share))  # type: ignore[misc]
        said, told = posterior_from_others(crowd)
        crowd, said = crowd.keep(told), said[told]
        usual, _ = attention_of_others(crowd, attention_slopes(crowd, said))
        bounds = np.array([attention_bound(each, labels.n_classes) for each in usual])
        grid = np.minimum(spammers.GRID * usual[:, None], 1.0)
        likely = profile_likelihood(crowd, said[np.arange(crowd.n_labels), crowd.label], grid)
        own = np.arange(crowd.n_workers) < labels.n_workers
        known = own & (crowd.labels_per_worker >= spammers.FEWEST_IN_MIXTURE)
        shares = fit_attention_mixture(likely[known], np.full(spammers.GRID.size, 1e-6)) * known.sum()
        shares[0] += len(planted)
        joint = shares * np.exp(likely - likely.max(axis=1, keepdims=True))
        chance = (joint * (grid >= bounds[:, None])).sum(axis=1) / joint.sum(axis=1)
        tested = crowd.labels_per_worker >= spammers.FEWEST
        mean = spammers.cumulative_mean_chances(np.where(tested, chance, np.nan))
        found, total = found + int((mean[~own] <= LEVEL).sum()), total + len(planted)
    return found / total


def planting_generator(seed: int, kind: str, share: float) -> np.random.Generator:
    """As in `planted_workers.py`: the same workers are planted."""
    return np.random.default_rng([seed, KINDS.index(kind), round(100 * share)])


def find_with_audit(name: str, kind: str, share: float, seeds: int) -> tuple[float, int]:
    """Share of the planted workers that the audit finds, and how many there are."""
    rows = [run((name, kind, share, seed)) for seed in range(seeds)]
    planted = sum(row["planted"] for row in rows)
    return sum(row["found"] for row in rows) / planted, planted


def measure_guessers(seeds: int) -> list[dict[str, Any]]:
    """One row for each set, way of guessing and share; four times as many seeds where one or two are planted."""
    rows = []
    for name, kind, share in product(GUESSED, ("uniform", "by shares"), SHARES):
        n = seeds * 4 if share == SHARES[0] else seeds
        ours, planted = find_with_audit(name, kind, share, n)
        row = {"set": name, "kind": kind, "share": share, "planted": planted, "ours": ours}
        row["with labels"] = guessers_with_labels(name, kind, share, n)
        rows.append(row | {"with truth": guessers_with_truth(name, kind, share, n)})
        print(json.dumps(rows[-1]), flush=True)
    return rows


def accuracies_by_luck() -> list[dict[str, Any]]:
    """Share of right answers that one guesser in twenty reaches or exceeds, by number of answers and classes."""
    sizes = ((n, k) for k in (2, 4, 10) for n in (20, 50, 100, 200))
    return [{"answers": n, "classes": k, "right": float(binom.isf(0.05, n, 1 / k)) / n} for n, k in sizes]


# ---- copiers ----------------------------------------------------------------------------------------------


def measure_copiers(seeds: int) -> list[dict[str, Any]]:
    """One row for each set and share."""
    rows = []
    for name, share in product(COPIED, SHARES):
        n = seeds * 4 if share == SHARES[0] else seeds
        ours, planted = find_with_audit(name, "copier", share, n)
        row = {"set": name, "share": share, "planted": planted, "ours": ours}
        for known in ("labels", "truth"):
            row[f"with {known}"] = copiers_with(name, share, n, known)
        rows.append(row)
        print(json.dumps(row), flush=True)
    return rows


def copiers_with(name: str, share: float, seeds: int, known: str) -> float:
    """Share of planted copiers whose answers an honest worker would hardly give, by truth or posterior."""
    data = load(name)
    labels, size = data.labels, data.labels.n_classes
    if known == "truth":
        counts = count_confusions(
            labels.task, labels.worker, labels.label, data.truth_codes, (labels.n_workers, size, size)
        )
        confusion = shrink_confusions(counts)
        chances = np.where(data.truth_codes[:, None] >= 0, np.eye(size)[data.truth_codes], 1 / size)
    else:
        reference = fit_reference(labels)
        confusion, chances = reference.confusion, reference.posterior
    confusion = confusion[labels.labels_per_worker >= FEWEST]
    answers = np.full((labels.n_workers, labels.n_tasks), -1)
    answers[labels.worker, labels.task] = labels.label

    def surprise(worker: int, tasks: np.ndarray) -> float:
        """-log of the chance that a worker of the crowd, at random, gives the answers that this one gave."""
        each = np.log(np.einsum("tk,mkt->mt", chances[tasks], confusion[:, :, answers[worker, tasks]]))
        return float(np.log(len(confusion)) - logsumexp(each.sum(axis=1)))

    busy = np.flatnonzero(labels.labels_per_worker >= BUSY)
    innocent = [
        surprise(one, shared)
        for place, one in enumerate(busy)
        for two in busy[place + 1 :]
        if (shared := np.flatnonzero((answers[one] >= 0) & (answers[two] >= 0))).size >= BUSY
    ]
    # Pairs flagged by mistake if all who are so surprising and alike are: a pair is alike with chance exp(-surprise).
    ordered = np.sort(innocent)[::-1]
    kept = np.cumsum(np.exp(-ordered)) <= LEVEL
    threshold = ordered[kept][-1] if kept.any() else np.log(max(len(innocent), 1) / LEVEL)
    threshold = min(threshold, np.log(max(len(innocent), 1) / LEVEL))
    names = labels.workers.to_pylist()
    found = []
    for seed in range(seeds):
        _, planted = plant(labels, "copier", share, planting_generator(seed, "copier", share))  # type: ignore[misc]
        for each in planted:
            worker = names.index(each.source)
            found.append(surprise(worker, np.flatnonzero(answers[worker] >= 0)) >= threshold)
    return float(np.mean(found))


# ---- confidence -------------------------------------------------------------------------------------------

SLOPES, SHIFTS = (grid.ravel() for grid in np.meshgrid(np.linspace(0, 2.5, 51), np.linspace(-3, 3, 61)))


def calibration_error(confidence: np.ndarray, right: np.ndarray) -> float:
    """Of a confidence (n,), by whether the decision was right: as `expected_calibration_error`, in 15 bins."""
    bins = np.ceil(confidence * 15).astype(int)
    return float(np.abs(np.bincount(bins, confidence - right)).sum() / right.size)


def draw_to_levels(confidence: np.ndarray, n_levels: int) -> np.ndarray:
    """The mean confidence of each of so many parts of the tasks, equal in size; 0 leaves it as it is."""
    if not n_levels:
        return confidence
    ends = np.linspace(0, confidence.size, n_levels + 1).astype(int)
    drawn, order = np.empty_like(confidence), np.argsort(confidence, kind="stable")
    for low, high in pairwise(ends):
        drawn[order[low:high]] = confidence[order[low:high]].mean()
    return drawn


def measure_confidence(draws: int) -> dict[str, Any]:
    """Calibration errors, means over the sets; `levels` is how many different confidences are left."""
    scores, rights = {}, {}
    for name in CALIBRATED:
        data = load(name)
        posterior = cw.Auto().fit(data.labels).posterior_
        known = data.truth_codes >= 0
        scores[name] = logit(np.clip(posterior[known].max(axis=1), 1e-6, 1 - 1e-6))
        rights[name] = posterior[known].argmax(axis=1) == data.truth_codes[known]
        print(name, known.sum(), flush=True)
    likely = {name: log_likelihoods(scores[name], rights[name]) for name in CALIBRATED}
    best = {name: int(likely[name].argmax()) for name in CALIBRATED}
    rows = {}
    for name in CALIBRATED:
        x, right = scores[name], rights[name]
        others = [best[other] for other in CALIBRATED if other != name]
        points = np.stack([SLOPES, SHIFTS], axis=1)
        spread = np.cov(points[others].T) + 1e-3 * np.eye(2)
        off = points - points[others].mean(axis=0)
        log_prior = -0.5 * np.einsum("gi,ij,gj->g", off, np.linalg.inv(spread), off)
        row: dict[str, float] = {"unchanged": calibration_error(expit(x), right)}
        row["whole truth"] = calibration_error(expit(SLOPES[best[name]] * x + SHIFTS[best[name]]), right)
        errors: dict[str, list[float]] = {}
        for seed in range(draws):
            order = np.random.default_rng(seed).permutation(x.size)
            gold, rest = order[:GOLD], order[GOLD:]
            weight = np.exp(log_prior + log_likelihoods(x[gold], right[gold]) - 1e-9)
            weight /= weight.sum()
            used = np.flatnonzero(weight > 1e-5)
            mean = sum(weight[g] * expit(SLOPES[g] * x[rest] + SHIFTS[g]) for g in used) / weight[used].sum()
            for levels in (0, 5, 1):
                error = calibration_error(draw_to_levels(mean, levels), right[rest])
                errors.setdefault(f"50 gold, levels {levels or 'all'}", []).append(error)
            chance = np.random.default_rng(seed).random(rest.size) < mean
            errors.setdefault("50 gold, perfect, by chance", []).append(calibration_error(mean, chance))
        rows[name] = row | {key: float(np.mean(values)) for key, values in errors.items()}
    means = {key: float(np.mean([row[key] for row in rows.values()])) for key in next(iter(rows.values()))}
    ours = json.loads((RESULTS.parent / "gold_calibration.json").read_text())["means"]["50"]["with"]
    print(json.dumps(means | {"ours": ours["calibration_error"]}), flush=True)
    return {"means": means | {"ours": ours["calibration_error"]}, "sets": rows}


def log_likelihoods(x: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Of every slope and shift of the grid (G,)."""
    signs = np.where(right, 1.0, -1.0)
    return np.array(
        [-np.logaddexp(0, -signs * (slope * x + shift)).sum() for slope, shift in zip(SLOPES, SHIFTS, strict=True)]
    )


# ---- effective size ---------------------------------------------------------------------------------------


def measure_size(panels: int) -> dict[str, Any]:
    """Effective size with the truth of every task, and twins: two crowds with the same labels and other sizes."""
    within = {}
    for row in ROWS:
        near = []
        for seed in range(1000, 1000 + panels):
            crowd = simulate_panel(row, seed)
            n = crowd.labels.n_workers
            wrong = np.zeros((n, crowd.labels.n_tasks))
            wrong[crowd.labels.worker, crowd.labels.task] = crowd.labels.label != crowd.truth[crowd.labels.task]
            sizes = [
                kish_effective_size(n, (matrix.sum() - n) / (n * (n - 1)))
                for matrix in (np.corrcoef(wrong), crowd.extras["error_correlation"])
            ]
            near.append(abs(sizes[0] / sizes[1] - 1) <= 0.15)
        within[row] = float(np.mean(near))
    twins = [describe_twins(n, right, shared) for n, right, shared in product((5, 15, 30), (0.7, 0.8), (0.2, 0.5))]
    print(json.dumps(within), *map(json.dumps, twins), sep="\n", flush=True)
    return {"within 15 %, truth known": within, "twins": twins}


def describe_twins(n_workers: int, right: float, shared: float) -> dict[str, float]:
    """Two crowds of two equal classes whose labels have the same distribution, and their effective sizes.

    In one, all workers are one family: on a task each takes the family's answer with chance √shared, which is wrong on
    1 - right of the tasks, and else answers alone. So the chance of a wrong answer is one of two, `low` and `high`. In
    the other, workers are independent and those tasks are hard: a wrong answer has the chance `low` or 1 - `high`.
    Calling the other class the truth where the family errs turns the first into the second, and changes no label.
    """
    follow = np.sqrt(shared)
    low = (1 - follow) * (1 - right)
    high = follow + low
    found = {"workers": n_workers, "right": right, "correlation": shared}
    for name, chances in (("one family", (low, high)), ("hard tasks", (low, 1 - high))):
        weights = np.array([right, 1 - right])
        mean = float(weights @ chances)
        correlation = float(weights @ (np.array(chances) - mean) ** 2) / (mean * (1 - mean))
        found[name] = kish_effective_size(n_workers, correlation)
    return found


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = ("guessers", "copiers", "confidence", "size")
    options.add_argument("--parts", nargs="+", choices=parts, default=list(parts))
    options.add_argument("--seeds", type=int, default=5)
    options.add_argument("--draws", type=int, default=20)
    options.add_argument("--panels", type=int, default=60)
    options.add_argument("--out", type=Path, default=RESULTS, help="a JSON file; parts that are not run stay in it")
    chosen = options.parse_args()
    warnings.simplefilter("ignore")
    found = json.loads(chosen.out.read_text()) if chosen.out.exists() else {}
    found |= {"python": platform.python_version(), "luck": accuracies_by_luck()}
    measures = {
        "guessers": lambda: measure_guessers(chosen.seeds),
        "copiers": lambda: measure_copiers(chosen.seeds),
        "confidence": lambda: measure_confidence(chosen.draws),
        "size": lambda: measure_size(chosen.panels),
    }
    for part in chosen.parts:
        found[part] = measures[part]()
        chosen.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
