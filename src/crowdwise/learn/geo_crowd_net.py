"""GeoCrowdNet: coupled cross-entropy, with either the classifier's outputs or the workers' matrices spread wide.

The generative story. The truth of task t is drawn from f(x_t), a network's softmax. Worker w, seeing truth k, says l
with probability A[w, k, l], whatever the features. Of all pairs that explain the labels equally well, P = W F with W
the stacked matrices and F the classifier's outputs, the one is taken whose F (variant "F") or W (variant "W") fills the
largest volume. That makes the other factor the tightest simplex around the data, which is the true one, up to the order
of the classes, where F is scattered well enough ("F": many tasks, maybe no experts) or W is ("W": experts, maybe few
tasks).

S. Ibrahim, T. Nguyen and X. Fu (2023), "Deep learning from crowdsourced labels: coupled cross-entropy minimization,
identifiability, and regularization", ICLR; slides "Enhanced identifiability under CCEM" of Ibrahim et al. 2025.

| equation of Ibrahim et al. 2025 | here |
|---|---|
| 1/|S| Σ CE(A_m f(x_n), label) | `losses.divide_by_labels` of `losses.coupled_cross_entropy` |
| − λ log det(F Fᵀ), "F" | `losses.volume_of_outputs`, F of the batch (K, B) |
| − λ log det(Wᵀ W), "W" | `volume_of_workers`, W of all workers (M K, K) |
| start and simplex: 6·I − 5, softplus, rows normalised | `worker_models.Confusions` |

A step costs O(labels of the batch × K) beside the network, O(B K²) ("F") or O(M K³) ("W") for the Gram matrix, and
O(K³) for its determinant.

Departures: a ridge of 1e-3 is added to the Gram matrix before the determinant, which is 0 where a batch has fewer tasks
than classes or the classifier says the same of all (the authors' programs drop the term there). F Fᵀ is not divided by
the number of tasks: that would only add a constant, K log B. The authors choose λ on a validation set with the truth,
from {0.1, 0.2} for LabelMe in their published program and 0.01 in that of their later COINNet; here it is 0.01 and
chosen by no truth.
After training, `ConfusionLearner` makes matrices that go with the chosen epoch's classifier beside the learnt ones: the
epoch is chosen for the classifier's sake, often before they have come far from their start. W has the matrices of the
workers with labels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.method_facts import MATRICES, Variant
from crowdwise.fitting.parameter_checks import check_choice, check_number
from crowdwise.learn.confusion_learner import ConfusionLearner
from crowdwise.learn.losses import coupled_cross_entropy, divide_by_labels, log_det, volume_of_outputs
from crowdwise.learn.objective import ConfusionObjective
from crowdwise.learn.worker_models import Confusions

if TYPE_CHECKING:
    from torch import Tensor

    from crowdwise.learn.batches import Batch, Crowd, NetworkOutput
    from crowdwise.learn.features import Features
    from crowdwise.learn.networks import Classifier
    from crowdwise.learn.objective import Objective

__all__ = ["RIDGE", "GeoCrowdNet"]

RIDGE = 1e-3  # against determinants of 0, whose logarithm has no gradient; the authors' own for Wᵀ W
REGULARIZERS = ("F", "W")


def volume_of_workers(confusion: Tensor, ridge: float) -> Tensor:
    """Logarithm of det(Wᵀ W) of the stacked matrices (M, K, K), truths in W's columns: Wᵀ W = Σ_w A[w] A[w]ᵀ."""
    return log_det((confusion @ confusion.mT).sum(dim=0), ridge)


class GeoObjective(ConfusionObjective):
    """Coupled cross-entropy less λ times a log-volume."""

    def __init__(self, crowd: Crowd, regularizer: str, strength: float) -> None:
        super().__init__(crowd, Confusions(crowd.n_workers, crowd.n_classes))
        self.regularizer, self.strength = regularizer, strength

    def loss(self, seen: NetworkOutput, batch: Batch) -> Tensor:
        """The criterion of Ibrahim et al. 2025, sums over tasks and labels as those of the batch."""
        f, confusion = seen.logits.softmax(dim=1), self.workers()
        volume = self._log_volume(f, confusion)
        return divide_by_labels(coupled_cross_entropy(f, confusion, batch), batch) - self.strength * volume

    def _log_volume(self, f: Tensor, confusion: Tensor) -> Tensor:
        """Of the classifier's outputs, or of the matrices of the workers who have labels."""
        if self.regularizer == "F":
            return volume_of_outputs(f, RIDGE)
        return volume_of_workers(self.crowd.select_workers_with_labels(confusion), RIDGE)


@estimator
class GeoCrowdNet(ConfusionLearner):
    """A classifier and confusion matrices at once, of which one kind is spread as wide as the labels allow.

    Works with a single label for each task.

    Facts of geo-f
    --------------
    Assumes: as coupled-ce, with the classifier's outputs spread as wide as can be
    Fails with: few tasks; classes that are rare
    Paper: Ibrahim et al. 2023, ICLR

    Facts of geo-w
    --------------
    Assumes: as coupled-ce, with the workers' matrices spread as wide as can be
    Fails with: no expert for some class
    Paper: Ibrahim et al. 2023, ICLR

    Parameters
    ----------
    regularizer
        "F" spreads the classifier's outputs: for many tasks and perhaps no experts. "W" spreads the matrices: for
        experts and perhaps few tasks.
    strength
        λ, at least 0; 0 is coupled cross-entropy. Too large, and the outputs or matrices are surer than the labels.

    Notes
    -----
    When it fails: "F" with a class so rare that a batch seldom has it, or batches smaller than the classes; "W" where
    no worker knows some class; both where a worker's mistakes depend on the features.

    Examples
    --------
    >>> import crowdwise as cw
    >>> X, labels, truth = cw.simulate.simulate_features()
    >>> model = cw.GeoCrowdNet(regularizer="W", network="linear", epochs=30, learning_rate=0.01).fit(X, labels)
    >>> model.slug, model.score(X, truth) > 0.9
    ('geo-w', True)
    """

    family = MATRICES
    variants = (
        Variant("geo-f", parameters={"regularizer": "F"}),
        Variant("geo-w", parameters={"regularizer": "W"}),
    )

    regularizer: str = "F"
    strength: float = 0.01

    @property
    def slug(self) -> str:  # type: ignore[override]
        """The name of the variant: geo-f or geo-w."""
        return f"geo-{str(self.regularizer).lower()}"

    def _check(self) -> None:
        check_choice("regularizer", self.regularizer, REGULARIZERS)
        check_number("strength", self.strength, low=0)

    def _make_objective(self, crowd: Crowd, classifier: Classifier, features: Features) -> Objective:  # noqa: ARG002
        return GeoObjective(crowd, self.regularizer, self.strength)
