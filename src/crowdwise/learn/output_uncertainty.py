"""How sure the scores of a network are: Laplace's approximation of the weights of its last layer.

A. Kristiadi, M. Hein and P. Hennig (2020), "Being Bayesian, even just a bit, fixes overconfidence in ReLU networks",
ICML. The network's last layer is linear, s = wᵀφ(x) + b. Given φ, an answer about two items tells of w through the
difference φ - φ' with an information h (Fisher's), so that the posterior of w is about normal with precision

    H = λ I + Σ h (φ - φ')(φ - φ')ᵀ,    var(s - s') = (φ - φ')ᵀ H⁻¹ (φ - φ').

λ is the precision of the weights beforehand that makes the answers most probable (MacKay 1992): λ = γ / wᵀw, where γ is
the number of weights that the answers tell. The features φ, and so what is below the last layer, are taken for known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from torch import nn

if TYPE_CHECKING:
    from crowdwise.labels.types import FloatArray, IntArray
    from crowdwise.learn.batches import NetworkOutput
    from crowdwise.learn.networks import Classifier

__all__ = ["last_layer_variances"]

WIDEST = 2048  # features of the last layer up to which they are taken together; beyond, each by itself
ROUNDS = 20
FIRST_PRECISION = 1.0
LEAST = 1e-6  # of λ: where weights have grown without bound, the answers tell all that is known
BLOCK = 4096  # answers, items or pairs at a time


def last_layer_variances(
    network: Classifier, seen: NetworkOutput, pair: IntArray, information: FloatArray, *, centre: IntArray,
    pairs: IntArray,
) -> tuple[FloatArray, FloatArray]:  # fmt: skip
    """Variances of the items' scores, about the mean of those in `centre` (N,), and of differences of pairs (P,).

    Parameters
    ----------
    pair : (n, 2)
        Items of each answer.
    information : (n,)
        Fisher's information of each answer on the difference of their scores.
    pairs : (P, 2)
        Items whose differences are asked for.
    """
    last, weight = _last_layer(network, seen)
    width = last.shape[1]
    wide = width > WIDEST
    gathered = np.zeros(width) if wide else np.zeros((width, width))
    for first in range(0, len(pair), BLOCK):
        part = slice(first, first + BLOCK)
        apart = last[pair[part, 0]] - last[pair[part, 1]]
        weighed = information[part][:, None] * apart
        gathered += (weighed * apart).sum(axis=0) if wide else weighed.T @ apart
    values, vectors = (gathered, None) if wide else np.linalg.eigh(gathered)
    values = np.maximum(values, 0.0)
    precision = _most_probable_precision(values, float(weight @ weight))
    middle = last[centre].mean(axis=0)

    def variance(apart: FloatArray) -> FloatArray:
        turned = apart if vectors is None else apart @ vectors
        found: FloatArray = (turned**2 / (values + precision)).sum(axis=1)
        return found

    blocks = [variance(last[first : first + BLOCK] - middle) for first in range(0, len(last), BLOCK)]
    asked = [
        variance(last[pairs[first : first + BLOCK, 0]] - last[pairs[first : first + BLOCK, 1]])
        for first in range(0, len(pairs), BLOCK)
    ]
    return np.concatenate(blocks), np.concatenate([*asked, np.empty(0)])


def _most_probable_precision(values: FloatArray, square: float) -> float:
    """λ, by MacKay's fixed point; `values` are the eigenvalues of the information, `square` is wᵀw."""
    precision = FIRST_PRECISION
    for _ in range(ROUNDS):
        told = float((values / (values + precision)).sum())
        precision = max(told / max(square, LEAST), LEAST)
    return precision


def _last_layer(network: Classifier, seen: NetworkOutput) -> tuple[FloatArray, FloatArray]:
    """What the last layer sees of every item (N, W), and its weights; the output itself where there is none."""
    linear = [module for module in network.network.modules() if isinstance(module, nn.Linear)]
    if not linear or linear[-1].weight.shape != (1, seen.features.shape[1]):
        return seen.logits.numpy(), np.ones(1)
    return seen.features.numpy(), linear[-1].weight.detach().double().numpy()[0]
