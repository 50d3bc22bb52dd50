"""The oracle: the workers' true matrices are given, and only the classifier is learnt.

The generative story is that of `trace`: the truth of task t is drawn from f(x_t), and worker w, seeing truth k, says l
with probability A[w, k, l]. A is known, so that the cross-entropy of the labels has f alone to explain them by. It is
the upper bound of what a method that has to learn A can hope for, and a method of its own where workers have been
tested before.

R. Tanno et al. (2019), "Learning from noisy labels by regularized estimation of annotator confusion", CVPR:
"the idealistic scenario where CMs of the annotators are a priori known to the model" of figure 3.

| equation of Tanno et al. 2019 | here |
|---|---|
| (3) the cross-entropy of all labels, A fixed | `losses.coupled_cross_entropy`, as the mean over the tasks of a batch |

A step costs O(labels of the batch × K) beside the network.

Departures: none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from crowdwise.fitting.crowd_model import align_labels
from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.method_facts import MATRICES
from crowdwise.fitting.parameter_checks import as_numbers, check_shares
from crowdwise.labels.errors import InputError
from crowdwise.learn.base import Learner
from crowdwise.learn.losses import coupled_cross_entropy, divide_by_tasks
from crowdwise.learn.objective import Objective

if TYPE_CHECKING:
    from torch import Tensor

    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import FloatArray
    from crowdwise.learn.batches import Batch, Crowd, NetworkOutput
    from crowdwise.learn.features import Features
    from crowdwise.learn.networks import Classifier

__all__ = ["OracleConfusion"]


class OracleObjective(Objective):
    """Coupled cross-entropy with matrices that do not change."""

    matrices: Tensor

    def __init__(self, crowd: Crowd, matrices: Tensor) -> None:
        super().__init__(crowd)
        self.register_buffer("matrices", matrices)

    def loss(self, seen: NetworkOutput, batch: Batch) -> Tensor:
        """Equation (3), as a mean over the batch's tasks."""
        return divide_by_tasks(coupled_cross_entropy(seen.logits.softmax(dim=1), self.matrices, batch), batch)

    def confusion(self) -> Tensor:
        """Each worker's matrix, as given."""
        return self.matrices


@estimator
class OracleConfusion(Learner):
    """A classifier learnt through workers' matrices that are known.

    Facts
    -----
    Assumes: the workers' matrices are known: the best that can be hoped for
    Fails with: the matrices are not known
    Paper: upper bound of Tanno et al. 2019, CVPR

    Parameters
    ----------
    confusion : (M, K, K) [worker, truth, label]
        The matrices, workers and classes in the order of the labels' `workers` and `classes`; rows sum to one.

    Notes
    -----
    When it fails: the matrices are not known, or not of these workers; the classifier makes up for what they get wrong.

    Examples
    --------
    >>> import numpy as np, crowdwise as cw
    >>> from crowdwise.simulate import simulate_workers
    >>> crowd = simulate_workers([[[0.9, 0.1], [0.1, 0.9]], [[0.3, 0.7], [0.7, 0.3]]], n_tasks=300)
    >>> X = np.random.default_rng(0).normal(size=(300, 2)) + 3 * crowd.truth[:, None]
    >>> model = cw.OracleConfusion(confusion=crowd.confusion, network="linear", epochs=30, learning_rate=0.02)
    >>> model.fit(X, crowd.labels).score(X, crowd.truth) > 0.95
    True
    """

    slug = "oracle"
    family = MATRICES
    needs = "confusion"

    confusion: Any = None

    def _check(self) -> None:
        if self.confusion is None:
            raise InputError(
                "The oracle needs the workers' true matrices: OracleConfusion(confusion=…), an array [worker, truth, "
                "label]. Where they are not known, learn them with trace."
            )
        check_shares("confusion", as_numbers(self.confusion, "confusion"))

    def _warn_if_not_identifiable(self, answers: CrowdLabels, f: FloatArray) -> None:
        """The workers are known: there is nothing to be told apart."""

    def _align_labels(self, labels: CrowdLabels) -> CrowdLabels:
        """New labels as the model knows them; of workers without labels to learn from, the matrices are known too."""
        return align_labels(labels, self._names.workers, self._names.classes)

    def _make_objective(self, crowd: Crowd, classifier: Classifier, features: Features) -> Objective:  # noqa: ARG002
        matrices = torch.as_tensor(as_numbers(self.confusion, "confusion"), device=crowd.task.device).float()
        wanted = (crowd.n_workers, crowd.n_classes, crowd.n_classes)
        if tuple(matrices.shape) != wanted:
            raise InputError(
                f"confusion has shape {tuple(matrices.shape)}; for {wanted[0]} workers and {wanted[1]} classes it must "
                f"be {wanted}, in the order of the labels' workers and classes."
            )
        return OracleObjective(crowd, matrices)
