"""Calibration from gold: how far to trust a posterior that was made from the labels alone, and how workers err.

Some tasks have a known truth (gold). A posterior made without it is corrected by an average of logistic regressions
from what the labels say to the truth. Each has a Gaussian prior that is centred on "no change", so that few gold
answers change little:

| member | scores of the classes of a task |
|---|---|
| unchanged | the posterior as it is |
| temperature | a log p |
| class bias | a log p + b[k] |
| votes | a log p + c log v + b[k], v the smoothed shares of the votes |
| agreement | votes + Σ_w g[w] where worker w says k |
| worker tables | agreement + Σ_w h[w, label of w, k] |
| ordered classes | agreement + Σ_w s[w] z[label of w] z[k], z the standardised values of numeric classes |
| one worker | the classes seen on gold when that worker gave this label |

Prior means: a = 1, all others 0. The members are averaged with weights that say how well each predicts gold answers it
was not fitted to: pseudo-BMA+ (Yao et al. 2018), from leave-one-out predictions, with a prior weight for "unchanged"
that is 1 without gold and falls as `UNCHANGED / (UNCHANGED + n)`. Then the confidence is calibrated once more, by
whether gold tasks were decided rightly (`top_label`). With fewer than `FEWEST_GOLD` answers only the share
n / `FEWEST_GOLD` of the change is made. What is reported about gold tasks (the calibration
table, prediction sets) comes from the leave-one-out predictions.

References
----------
Yao, Vehtari, Simpson and Gelman (2018), Bayesian Analysis 13, "Using stacking to average Bayesian predictive
distributions". Guo, Pleiss, Sun and Weinberger (2017), ICML, "On calibration of modern neural networks".
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from crowdwise.evaluate.gold_regressions import (
    MEMBERS,
    MemberCoefficients,
    average_members,
    fit_members,
    max_gold_tasks,
    member_names,
)
from crowdwise.evaluate.penalised_logistic import softmax
from crowdwise.evaluate.top_label_calibration import (
    find_confidence_levels,
    fit_top_label_calibration,
    scale_confidence,
    set_confidence,
    shrink_to_levels,
)
from crowdwise.fitting.content_order import order_by_content
from crowdwise.fitting.prior_knowledge import PriorKnowledge
from crowdwise.fitting.saved_arrays import SavedArray
from crowdwise.labels.errors import InputError
from crowdwise.labels.table_output import native_table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["FEWEST_GOLD", "GoldCalibration", "calibrate_from_gold"]

FEWEST_GOLD = 20  # gold answers from which all that was learnt counts, and confidences are drawn to levels
UNCHANGED = 20.0  # gold answers at which "unchanged" has the same prior weight as all other members together
BOOTSTRAPS = 200
MOST_GOLD = 2_000  # gold tasks that coefficients are fitted to; of more, so many are drawn
SINGLE_WEIGHT = 0.1  # prior weight of all single workers together


@dataclass(frozen=True, eq=False)
class GoldCalibration:
    """A posterior calibrated on gold, and all that is needed to calibrate another of the same model.

    Attributes
    ----------
    posterior : (N, K)
        Calibrated posterior; gold tasks are certain of their known truth.
    tasks, truth : (n,)
        Positions of the gold tasks, and their true classes.
    cross_fitted : (n, K)
        What the calibration says of each gold task when that task's truth is left out.
    names, weights : (members,)
        The members, "unchanged" first, and the share of each in the average.
    coefficients
        Their parameters.
    top_label : (2,)
        α and δ of the top-label calibration, which comes after the average.
    levels : (levels, 2)
        Levels of confidence (`find_confidence_levels`); none with fewer than `FEWEST_GOLD` gold answers.
    """

    saved: ClassVar[tuple[SavedArray, ...]] = (
        SavedArray("extra/gold_member", "P", low=0, codes=str(len(MEMBERS) + 1), integer=True, together="gold"),
        SavedArray("extra/gold_weights", "P+1", low=0, sums_to_one=True, together="gold"),
        SavedArray("extra/gold_scales", "P 2", together="gold"),
        SavedArray("extra/gold_bias", "P K", together="gold"),
        SavedArray("extra/gold_workers", "A", low=0, codes="M", integer=True, together="gold"),
        SavedArray("extra/gold_agreement", "P A", together="gold"),
        SavedArray("extra/gold_table_member", "T", low=0, codes="P", integer=True, together="gold"),
        SavedArray("extra/gold_table_worker", "T", low=0, codes="A", integer=True, together="gold"),
        SavedArray("extra/gold_table", "T K K", together="gold"),
        SavedArray("extra/gold_top_label", "2", together="gold"),
        SavedArray("extra/gold_levels", "V 2", together="gold"),
    )

    posterior: FloatArray
    tasks: IntArray
    truth: IntArray
    cross_fitted: FloatArray
    names: tuple[str, ...]
    weights: FloatArray
    coefficients: MemberCoefficients
    top_label: FloatArray
    levels: FloatArray

    def predict(self, labels: CrowdLabels, posterior: FloatArray) -> FloatArray:
        """Calibrate the label-only posterior (N, K) of other tasks, whose workers have the same positions.

        A worker that was not met when calibrating (a position beyond the last) tells nothing more than `posterior`.
        """
        posterior = np.asarray(posterior, np.float64)
        averaged = average_members(labels, posterior, self.weights, self.coefficients)
        return self._finish(posterior, averaged, scale_confidence(averaged.max(axis=1), self.top_label))

    def _finish(self, posterior: FloatArray, averaged: FloatArray, confidence: FloatArray) -> FloatArray:
        """The average of the members with its confidence; a part of it only with fewer than `FEWEST_GOLD` answers."""
        share = min(self.tasks.size / FEWEST_GOLD, 1.0)
        changed = set_confidence(averaged, shrink_to_levels(confidence, self.levels))
        finished: FloatArray = share * changed + (1 - share) * posterior
        return finished

    def summary(self, kind: Any = "pyarrow") -> Any:
        """Table of the members and their weights."""
        return native_table({"member": list(self.names), "weight": self.weights}, kind)

    def to_arrays(self) -> dict[str, FloatArray]:
        """Everything but `posterior`, as plain numeric arrays that can be saved with a model."""
        arrays: dict[str, Any] = {
            "gold_tasks": self.tasks,
            "gold_truth": self.truth,
            "gold_cross_fitted": self.cross_fitted,
            "gold_weights": self.weights,
            "gold_top_label": self.top_label,
            "gold_levels": self.levels,
        }
        return arrays | {f"gold_{name}": getattr(self.coefficients, name) for name in MemberCoefficients._fields}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any], posterior: FloatArray) -> GoldCalibration:
        """The calibration whose `to_arrays` these are."""
        coefficients = MemberCoefficients(*(arrays[f"gold_{name}"] for name in MemberCoefficients._fields))
        return cls(
            posterior,
            arrays["gold_tasks"],
            arrays["gold_truth"],
            arrays["gold_cross_fitted"],
            member_names(coefficients),
            arrays["gold_weights"],
            coefficients,
            arrays["gold_top_label"],
            arrays["gold_levels"],
        )


def calibrate_from_gold(
    labels: CrowdLabels, posterior: FloatArray, gold: IntArray, *, draw_levels: bool = True, random_state: int = 0
) -> GoldCalibration:
    """Correct a label-only posterior by what the gold tasks say about it and about the workers.

    Parameters
    ----------
    labels
        The labels that the posterior was made from.
    posterior : (N, K)
        Posterior of a model that was not told the gold.
    gold : (N,)
        True class of each task, -1 where unknown.
    draw_levels
        Whether confidences are drawn to a few levels, as many as the gold can support (see `top_label`).
    random_state
        For the draws of the Bayesian bootstrap, and the gold tasks drawn where there are more than `MOST_GOLD`.

    Examples
    --------
    >>> from crowdwise import MajorityVote
    >>> from crowdwise.simulate import simulate
    >>> crowd = simulate("dawid-skene", n_tasks=300, n_workers=10, n_classes=2, labels_per_task=5, random_state=1)
    >>> vote = MajorityVote().fit(crowd.labels).posterior_
    >>> gold = np.where(np.arange(300) < 100, crowd.truth, -1)
    >>> calibrate_from_gold(crowd.labels, vote, gold).names[:2]
    ('unchanged', 'temperature, narrow')
    """
    posterior = np.asarray(posterior, np.float64)
    gold = np.asarray(gold)
    _check(labels, posterior, gold)
    rng = np.random.default_rng(random_state)
    tasks = np.flatnonzero(gold >= 0)
    most = min(MOST_GOLD, max_gold_tasks(labels.n_classes))
    # Draws follow the answers, so that neither the order of tasks nor tasks without answers change them.
    place = np.zeros(labels.n_tasks, np.int64)
    by_content = order_by_content(labels, PriorKnowledge(gold=gold)).tasks
    place[by_content] = np.arange(by_content.size)
    drawn = tasks[np.argsort(place[tasks], kind="stable")]
    fitted = np.sort(rng.choice(drawn, most, replace=False)) if tasks.size > most else tasks
    chosen = np.zeros(labels.n_tasks, np.bool_)
    chosen[fitted] = True
    known, truth = labels.keep_tasks(chosen), gold[fitted].astype(np.int64)
    coefficients, held_out = fit_members(known, posterior[fitted], truth)
    prior = _prior_weights(coefficients.member, truth.size)
    order = np.argsort(place[fitted], kind="stable")
    weights, ordered = _pseudo_bma_plus(held_out[:, order], truth[order], prior, rng)
    held_out_average = np.empty_like(ordered)
    held_out_average[order] = ordered
    averaged = average_members(labels, posterior, weights, coefficients)
    # Gold tasks that no coefficient was fitted to are held out as they are.
    averaged[fitted] = held_out_average
    top_label, held_out_confidence = fit_top_label_calibration(
        averaged[tasks].max(axis=1), averaged[tasks].argmax(axis=1) == gold[tasks]
    )
    confidence = scale_confidence(averaged.max(axis=1), top_label)
    confidence[tasks] = held_out_confidence
    levels = (
        find_confidence_levels(confidence[labels.labels_per_task > 0], tasks.size)
        if tasks.size >= FEWEST_GOLD and draw_levels
        else np.empty((0, 2))
    )
    found = GoldCalibration(
        averaged, tasks, gold[tasks].astype(np.int64), averaged[tasks], member_names(coefficients), weights,
        coefficients, top_label, levels,
    )  # fmt: skip
    calibrated = found._finish(posterior, averaged, confidence)
    cross_fitted = calibrated[tasks]
    calibrated[tasks] = np.eye(labels.n_classes)[gold[tasks]]
    return replace(found, posterior=calibrated, cross_fitted=cross_fitted)


def _check(labels: CrowdLabels, posterior: FloatArray, gold: IntArray) -> None:
    shape = (labels.n_tasks, labels.n_classes)
    if posterior.shape != shape:
        raise InputError(f"posterior has shape {posterior.shape}; the labels have tasks × classes = {shape}.")
    if not (posterior >= 0).all() or not np.allclose(posterior.sum(axis=1), 1, atol=1e-6):
        raise InputError("posterior must hold probabilities: no value below 0, and rows that sum to 1.")
    if gold.shape != (labels.n_tasks,) or gold.dtype.kind not in "iu":
        raise InputError(f"gold must hold one class position for each of the {labels.n_tasks} tasks, -1 where unknown.")
    if gold.size and not (gold.min() >= -1 and gold.max() < labels.n_classes):
        raise InputError(f"gold holds positions outside -1 … {labels.n_classes - 1}, the last class.")


def _prior_weights(members: IntArray, n: int) -> FloatArray:
    """Prior weights of the members; "unchanged" is certain without gold, and loses with every gold answer."""
    single = members >= len(MEMBERS)
    fitted = np.array([member.prior_weight for member in MEMBERS])
    changed = np.where(single, SINGLE_WEIGHT / max(single.sum(), 1), fitted[np.minimum(members, len(MEMBERS) - 1)])
    unchanged = UNCHANGED / (UNCHANGED + n)
    return np.concatenate([[unchanged], (1 - unchanged) * changed / changed.sum()])


def _pseudo_bma_plus(
    held_out: FloatArray, truth: IntArray, prior: FloatArray, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Weights of the members, and the leave-one-out predictions (n, K) mixed with weights that leave the task out too.

    Weights proportional to prior × exp(Σ log p) over the gold tasks, averaged over Bayesian bootstraps of the tasks.
    """
    n = truth.size
    if n == 0:
        return prior, held_out[0]
    tiny = np.finfo(np.float64).tiny
    logs = np.log(np.maximum(held_out[:, np.arange(n), truth], tiny))
    weights, mixed = np.zeros(prior.size), np.zeros((n, prior.size))
    with np.errstate(divide="ignore"):
        log_prior = np.log(prior)
    for counts in n * rng.dirichlet(np.ones(n), BOOTSTRAPS):
        totals = logs @ counts + log_prior
        weights += softmax(totals)
        mixed += softmax(totals - (counts * logs).T)
    return weights / BOOTSTRAPS, np.einsum("nm,mnk->nk", mixed / BOOTSTRAPS, held_out)
