"""Two stages: first a consensus from the labels alone, then a classifier that is trained on it.

The generative story is the aggregator's; the features know nothing of it. Stage one gives each training task a
distribution q[t] over the classes: an aggregator's posterior, or all weight on its largest element. Stage two minimises
the cross-entropy of the classifier to q, as if it were the truth. With majority vote as the aggregator this is the
"vanilla CNN" of Tanno et al. 2019 (hard) and training on the shares of labels (soft).

V. C. Raykar et al. (2010), "Learning from crowds", JMLR 11, section 5 (the baseline); J. C. Peterson, R. M. Battleday,
T. L. Griffiths and O. Russakovsky (2019), "Human uncertainty makes classification more robust", ICCV (soft labels);
R. Tanno et al. (2019), CVPR, section 3.3 (majority vote).

| equation | here |
|---|---|
| q[t, k] = share of the labels of t that are k, or any posterior | `fit_consensus` |
| ŷ = argmax_k q[t, k] | `losses.one_hot_winners` |
| −Σ_k q[t, k] log f[k] | `losses.cross_entropy_to` |

Cost: the aggregator's, once; then nothing beside the network.

Departures: a tie is not broken but spread evenly over the classes that tie. Cross-entropy is linear in its target, so
this is a random draw, on average. The consensus is made from the labels of the training tasks only: those held out to
choose the epoch have no part in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from sklearn.base import clone

from crowdwise.fitting.base import Aggregator
from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.method_facts import TARGETS, Variant
from crowdwise.fitting.parameter_checks import check_flag
from crowdwise.labels.errors import InputError, listing, quote
from crowdwise.labels.vocabulary import positions
from crowdwise.learn.base import Learner
from crowdwise.learn.losses import cross_entropy_to, one_hot_winners
from crowdwise.learn.objective import TargetedObjective
from crowdwise.registry import method

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor

    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import FloatArray
    from crowdwise.learn.batches import Batch, Crowd, NetworkOutput
    from crowdwise.learn.features import Features
    from crowdwise.learn.networks import Classifier
    from crowdwise.learn.objective import Objective

__all__ = ["TwoStage"]


def fit_consensus(aggregator: Any, labels: CrowdLabels) -> FloatArray:
    """What an aggregator makes of the labels (N, K), in the labels' own classes.

    Parameters
    ----------
    aggregator
        A slug, or an aggregator. One that is fitted judges the labels as new ones, by its workers' names; of another a
        copy is fitted to them.
    """
    model = method(aggregator).load()() if isinstance(aggregator, str) else aggregator
    if not hasattr(model, "posterior_"):
        return np.asarray(clone(model).fit(labels).posterior_)
    posterior = model.predict_proba(labels)
    column = positions(labels.classes, model._names.classes)
    if len(labels.classes) != len(model.classes_) or (column < 0).any():
        raise InputError(
            f"The aggregator was fitted to the classes {listing(model.classes_.tolist())}, and the labels have "
            f"{listing(labels.classes.to_pylist())}. Give one that is not fitted, or declare the same classes."
        )
    return np.asarray(posterior[:, column])


class TargetObjective(TargetedObjective):
    """Cross-entropy to a target (N, K) that does not change."""

    target: Tensor

    def __init__(self, crowd: Crowd, target: Tensor) -> None:
        super().__init__(crowd)
        self.register_buffer("target", target)

    def loss(self, seen: NetworkOutput, batch: Batch) -> Tensor:
        """Mean over the batch's tasks of −Σ_k q[k] log f[k]."""
        return cross_entropy_to(self.target[batch.task], seen.logits)


@estimator
class TwoStage(Learner):
    """A classifier trained on the consensus of the labels alone.

    Facts of hard-labels
    --------------------
    Assumes: the majority is right: train on the vote's winner
    Fails with: few labels a task, most workers weak
    Paper: folklore; vanilla CNN of Tanno et al. 2019

    Facts of soft-labels
    --------------------
    Assumes: the shares of the votes are the chances of the classes: train on them
    Fails with: few labels a task, most workers weak
    Paper: Peterson et al. 2019, ICCV

    Facts of two-stage
    ------------------
    Assumes: first a consensus of the labels alone, then a classifier of it
    Fails with: one label a task: no consensus is better than its label
    Paper: Raykar et al. 2010, JMLR 11, as a baseline

    Parameters
    ----------
    aggregator
        The slug of any method of `crowdwise.methods()`, or an aggregator of yours; one that is already fitted is used
        as it is.
    soft
        Train on the consensus' probabilities (of majority vote: the shares of the labels) instead of its winner. Where
        classes tie for winner, they share.

    Notes
    -----
    When it fails: with one label a task no consensus is better than its label. With few labels the consensus is wrong
    where the features could have told; methods that learn both at once know better.

    With majority vote as the aggregator, `slug` is "hard-labels" or, soft, "soft-labels"; it is "two-stage" with all
    others.

    Examples
    --------
    >>> import crowdwise as cw
    >>> X, labels, truth = cw.simulate.simulate_features()
    >>> model = cw.TwoStage(aggregator="one-coin", network="linear", epochs=30, learning_rate=0.02).fit(X, labels)
    >>> model.score(X, truth) > 0.9
    True
    """

    family = TARGETS
    models_workers = False
    variants = (
        Variant("hard-labels", parameters={"aggregator": "majority-vote"}, former_slug="majority-vote"),
        Variant("soft-labels", parameters={"aggregator": "majority-vote", "soft": True}),
        Variant("two-stage", parameters={"aggregator": "dawid-skene", "soft": True}),
    )

    aggregator: Any = "dawid-skene"
    soft: bool = False

    @property
    def slug(self) -> str:  # type: ignore[override]
        """The name of the method that the parameters make."""
        name = self.aggregator if isinstance(self.aggregator, str) else getattr(self.aggregator, "slug", "")
        if name == "majority-vote":
            return "soft-labels" if self.soft else "hard-labels"
        return "two-stage"

    def _check(self) -> None:
        check_flag("soft", self.soft)
        if isinstance(self.aggregator, str):
            method(self.aggregator)
        elif not isinstance(self.aggregator, Aggregator):
            raise InputError(
                f"aggregator is {quote(self.aggregator)}; it must be the slug of a method of crowdwise.methods(), or "
                "an aggregator such as DawidSkene()."
            )

    def save(self, folder: str | Path) -> None:
        """Write the fitted model to a folder, as every learner; an aggregator of yours must be named first."""
        if not isinstance(self.aggregator, str):
            raise InputError(
                f"A file cannot hold the aggregator {quote(self.aggregator)}. The classifier needs it no more: give "
                f"its name alone, model.set_params(aggregator={self.aggregator.slug!r}), and save again."
            )
        super().save(folder)

    def _restored_objective(self, crowd: Crowd, classifier: Classifier, features: Features) -> Objective:  # noqa: ARG002
        # The consensus served training: there is no need to find one again.
        return TargetObjective(crowd, crowd.task_vote_shares())

    def _make_objective(self, crowd: Crowd, classifier: Classifier, features: Features) -> Objective:  # noqa: ARG002
        shares = torch.as_tensor(fit_consensus(self.aggregator, crowd.labels), device=crowd.task.device).float()
        return TargetObjective(crowd, shares if self.soft else one_hot_winners(shares))
