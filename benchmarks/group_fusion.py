"""Where Ibrahim et al. 2025's numbers for groups on bluebird lie among clusterings of its workers into seven groups.

    python benchmarks/group_fusion.py            # a few minutes; CROWDWISE_DATA must hold bluebird

The tutorial prints .7222 for the group-aware vote and .9167 (99 of 108 tasks) for group-aware Dawid–Skene, J = 7, and
not its groups. Here the 39 workers are clustered by five rules, each with many seeds, and fused in every way that we
have: one EM over truths and opinions, two stages with Dawid–Skene or the vote inside a group, and one vote a group.
Accuracy over all 108 tasks, ties to the first class. The truth is not used in any of them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage
from sklearn.cluster import KMeans, SpectralClustering

import crowdwise as cw
from crowdwise.audit.covariance_spammers import leading_eigenvectors, scalar_covariances
from crowdwise.dependence.groups import cluster_workers

if TYPE_CHECKING:
    from collections.abc import Iterator

RESULTS = Path(__file__).parent / "results" / "group_fusion.json"
GROUPS = 7  # the tutorial's J
SEEDS, RANDOM = 100, 1000  # clusterings by each rule, and at random
PUBLISHED = {"joint EM": 99 / 108, "stages, DS inside": 99 / 108, "one vote a group": 78 / 108}
FUSIONS = {
    "joint EM": lambda groups: cw.GroupDawidSkene(groups=groups),
    "stages, DS inside": lambda groups: cw.GroupDawidSkene(groups=groups, fusion="dawid-skene"),
    "stages, vote inside": lambda groups: cw.GroupDawidSkene(groups=groups, fusion="majority-vote"),
    "one vote a group": lambda groups: cw.GroupMajorityVote(groups=groups),
}


def jaffe_scores(covariance: np.ndarray) -> np.ndarray:
    """Σ over k and l of |r_ij r_kl - r_il r_kj|, i ≠ j ≠ k ≠ l: large for two who depend on each other."""
    size = len(covariance)
    scores = np.zeros_like(covariance)
    for i in range(size):
        for j in range(i):
            others = np.setdiff1d(np.arange(size), [i, j])
            minors = covariance[i, j] * covariance[np.ix_(others, others)]
            minors = np.abs(minors - np.outer(covariance[others, j], covariance[i, others]))
            scores[i, j] = scores[j, i] = minors.sum() - np.trace(minors)
    return scores


def clusterings(labels: cw.CrowdLabels) -> Iterator[tuple[str, np.ndarray]]:
    """The rule and the groups (M,)."""
    covariance = scalar_covariances(labels)
    scores = jaffe_scores(covariance)
    rows = leading_eigenvectors(covariance, labels.n_classes)
    for seed in range(SEEDS):
        yield "our search", cluster_workers(labels, GROUPS, random_state=seed)
        spectral = SpectralClustering(GROUPS, affinity="precomputed", random_state=seed)
        yield "Jaffe et al.'s scores, spectral clustering", spectral.fit_predict(scores)
        yield "rows of V, k-means", KMeans(GROUPS, n_init=1, random_state=seed).fit_predict(rows)
        spread = np.random.default_rng(seed).permutation(labels.n_tasks)[: labels.n_tasks // 2]
        kept = np.zeros(labels.n_tasks, bool)
        kept[spread] = True
        half = scalar_covariances(labels.keep_tasks(kept))
        distance = half.max() - half[np.triu_indices(labels.n_workers, 1)]
        yield (
            "covariances of half the tasks, average linkage",
            fcluster(linkage(distance, "average"), GROUPS, "maxclust"),
        )
    generator = np.random.default_rng(0)
    for _ in range(RANDOM):
        yield "at random", generator.integers(GROUPS, size=labels.n_workers)


def main() -> None:
    data = cw.datasets.load("bluebird")
    found: dict[str, dict[str, list[float]]] = {}
    seen: dict[bytes, dict[str, float]] = {}
    for rule, groups in clusterings(data.labels):
        key = groups.astype(np.int64).tobytes()
        if key not in seen:
            seen[key] = {}
            for name, make in FUSIONS.items():
                posterior = make(groups.tolist()).fit(data.labels).posterior_
                seen[key][name] = float((posterior.argmax(axis=1) == data.truth_codes).mean())
        for name, value in seen[key].items():
            found.setdefault(rule, {}).setdefault(name, []).append(value)
    rows = []
    for rule, by_fusion in found.items():
        for name, values in by_fusion.items():
            row = {"clusterings": rule, "number": len(values), "fusion": name}
            for place, share in zip(np.quantile(values, (0, 0.05, 0.5, 0.95, 1)), (0, 5, 50, 95, 100), strict=True):
                row[f"quantile {share} %"] = round(float(place), 4)
            if name in PUBLISHED:
                row["published"] = round(PUBLISHED[name], 4)
                row["share as good or better"] = round(float(np.mean(np.array(values) >= PUBLISHED[name] - 1e-9)), 4)
            rows.append(row)
            print(json.dumps(row), flush=True)
    RESULTS.write_text("[\n " + ",\n ".join(map(json.dumps, rows)) + "\n]\n")


if __name__ == "__main__":
    main()
