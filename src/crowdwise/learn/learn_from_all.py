"""Learning from all: every worker's label is a target, as good as any other.

The generative story. A label of task t is drawn from f(x_t), whoever gives it. The classifier maximises the likelihood
of all labels. A task with many labels counts as so many tasks, which is all that sets this apart from training on the
shares of the labels (`soft-labels`).

C. Wang et al. (2023), "Learn2Agree: fitting with multiple annotators without objective ground truth", the
"learn-from-all" rows of table 1, with logarithmic loss and without annotation balance.

| equation of Wang et al. 2023 | here |
|---|---|
| log-loss of every annotation | `label_cost` |

A step costs O(labels of the batch) beside the network.

Departures: none. The rows of table 1 with annotation balance and with the weighted kappa loss are those losses of
`learn2agree`, without its agreement stream.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.method_facts import TARGETS
from crowdwise.learn.base import Learner
from crowdwise.learn.losses import divide_by_labels
from crowdwise.learn.objective import TargetedObjective

if TYPE_CHECKING:
    from torch import Tensor

    from crowdwise.learn.batches import Batch, Crowd, NetworkOutput
    from crowdwise.learn.features import Features
    from crowdwise.learn.networks import Classifier
    from crowdwise.learn.objective import Objective

__all__ = ["LearnFromAll"]


def label_cost(logits: Tensor, batch: Batch) -> Tensor:
    """Mean over labels of −log f[label]; 0 where there are none."""
    return divide_by_labels(-logits.log_softmax(dim=1)[batch.owner, batch.label].sum(), batch)


class AllObjective(TargetedObjective):
    """The mean cross-entropy of the labels themselves."""

    def loss(self, seen: NetworkOutput, batch: Batch) -> Tensor:
        """Mean over the batch's labels of −log f[label]."""
        return label_cost(seen.logits, batch)


@estimator
class LearnFromAll(Learner):
    """A classifier of all labels, as if each were the truth.

    Facts
    -----
    Assumes: every label is a target as good as any
    Fails with: workers who differ in skill
    Paper: baseline of Wang et al. 2023

    Notes
    -----
    When it fails: workers who differ in skill, or of whom some give most of the labels; what they say most is learnt.

    Parameters are those of every learner.
    """

    slug = "learn-from-all"
    family = TARGETS
    models_workers = False

    def _make_objective(self, crowd: Crowd, classifier: Classifier, features: Features) -> Objective:  # noqa: ARG002
        return AllObjective(crowd)
