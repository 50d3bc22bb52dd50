"""Items that a model has not seen, placed among its clusters by the answers of workers it knows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from crowdwise.kinds.similarity.belief_propagation import damp, run_messages, settle
from crowdwise.kinds.similarity.pair_evidence import lay_out_evidence

if TYPE_CHECKING:
    from crowdwise.kinds.similarity.answers import Similarities
    from crowdwise.kinds.similarity.pair_evidence import Rates
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["place_items"]

NEW = 8  # clusters of new items alone that a group may have, at most
PASSES = 100


def place_items(
    answers: Similarities, rates: Rates, worker: IntArray, cluster: IntArray, confidence: FloatArray, fitted: IntArray
) -> tuple[IntArray, FloatArray, IntArray]:
    """Cluster and confidence of each item (N,), by the model's numbers; new clusters come after them. And their groups.

    Parameters
    ----------
    rates, worker
        Of known workers and of a stranger, and who of them gave each answer.
    cluster, confidence : (N,)
        Those of the items that the model knows; cluster is -1 for others.
    fitted
        Clusters of all items of the model: larger ones are likelier beforehand.
    """
    evidence = replace(lay_out_evidence(answers), worker=worker, n_workers=rates.same.size)
    own, sure = cluster[evidence.item], confidence[evidence.item]
    new = own < 0
    back = np.empty_like(evidence.item)
    back[evidence.item] = np.arange(evidence.n_items)
    if not new.any():
        return cluster, confidence, evidence.group[back].astype(np.int64)
    group, n_groups = evidence.group.astype(np.int64), evidence.group_sizes.size
    # In each group, the model's clusters that it meets are numbered from 0, and new ones come after them.
    pairs, code = np.unique(group[~new] * (fitted.size + 1) + own[~new], return_inverse=True)
    owner, names_met = np.divmod(pairs, fitted.size + 1)
    met = np.bincount(owner, minlength=n_groups)
    place = np.arange(pairs.size) - np.searchsorted(owner, owner)
    room = met + np.minimum(np.bincount(group[new], minlength=n_groups), NEW)
    width = int(room.max())
    sizes = np.where(np.arange(width) < room[:, None], 1.0, 0.0)
    sizes[owner, place] += np.bincount(fitted, minlength=fitted.size)[names_met]
    prior = (sizes / sizes.sum(axis=1, keepdims=True))[group]
    known = np.flatnonzero(~new)
    # What a model is not sure of is spread over the other clusters.
    prior[known] = prior[known] * (1 - sure[known])[:, None]
    prior[known, place[code]] += sure[known]
    prior[known] /= prior[known].sum(axis=1, keepdims=True)
    belief = prior * np.random.default_rng(0).uniform(0.5, 1.5, prior.shape)
    belief /= belief.sum(axis=1, keepdims=True)
    message = belief[evidence.edges.neighbour]
    together = np.zeros(evidence.graph.n_pairs)
    for number in range(PASSES):
        together, _, change = run_messages(evidence, rates, prior, message, belief, damp(number))
        if change < 1e-6:
            break
    pinned = np.full(evidence.n_items, -1, np.int64)
    pinned[known] = place[code]
    found, chance = settle(replace(evidence, pinned=pinned), rates, width, together, belief, prior)
    width = max(width, int(found.max()) + 1)  # small groups may have more
    names = np.full((n_groups, width), -1, np.int64)
    names[owner, place] = names_met
    mine = names[group, found]
    fresh = mine < 0
    mine[fresh] = int(fitted.max()) + 1 + np.unique(group[fresh] * width + found[fresh], return_inverse=True)[1]
    return mine[back], chance[back], evidence.group[back].astype(np.int64)
