"""Generalised EM: the classifier is Dawid and Skene's prior; it and the workers' matrices are learnt in turn.

The generative story. The truth of task t is drawn from f(x_t), a classifier's probabilities. Worker w, seeing truth k,
says l with probability A[w, k, l], whatever the features. EM: given the posterior q of the truths, the classifier is
trained on q as on soft labels and the matrices are counted with q; given both, q follows by Bayes' rule. With a network
the first is done by some gradient steps only, hence "generalised".

V. C. Raykar et al. (2010), "Learning from crowds", JMLR 11 (logistic regression: `classifier=LogisticRegression()`);
S. Albarqouni et al. (2016), "AggNet", IEEE TMI 35 (a network); algorithm 2 of R. Tanno et al. (2019), CVPR.

| algorithm 2 of Tanno et al. 2019 | here |
|---|---|
| q⁰ = mean labels | `start_posterior`: `batches.Crowd.task_vote_shares` |
| M-step for θ: −Σ q log f, G iterations | `losses.cross_entropy_to`, the epochs of a step; or `fit_weighted` |
| M-step for A: counts with q | `m_step` |
| E-step: q ∝ f Π A | `e_step` |
| what the steps climb: Σ_t log Σ_k f[t, k] Π_w A[w, k, l] | `log_likelihood` |

An epoch costs nothing beside the network, a step one pass of the network over all tasks and O(labels × K).

Departures: counts are smoothed (`smoothing`), for an empty row would have no value, and a zero, once there, would never
leave again. The posterior that is reported uses the last classifier and A, as algorithm 2's last E-step. Tanno et al.
2019 run few steps of many epochs; here, by default, a step is one epoch, which converges faster and does not let the
network learn the first, crude posterior by heart. Cao et al.'s (2019) program has AggNet so: an epoch of the network,
then one E-step and one M-step. For cats and dogs that program takes an E-step before the first epoch as well, with
matrices counted with the votes and no classifier yet: `start="posterior"`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter
from torch import nn

from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.method_facts import ALTERNATION
from crowdwise.fitting.parameter_checks import check_choice, check_number, check_optional_count
from crowdwise.labels.errors import InputError, quote
from crowdwise.learn.base import Learner
from crowdwise.learn.batches import Crowd
from crowdwise.learn.losses import SMALLEST, cross_entropy_to
from crowdwise.learn.networks import Classifier
from crowdwise.learn.objective import Objective
from crowdwise.learn.predictions import FORWARD, predict_log_probabilities
from crowdwise.learn.training_state import TrainingState
from crowdwise.learn.worker_models import log_posterior_given_labels, soft_counts

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from torch import Tensor

    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import FloatArray
    from crowdwise.learn.batches import Batch, NetworkOutput
    from crowdwise.learn.features import Features
    from crowdwise.learn.training_state import ValidationSet

__all__ = ["GeneralizedEm"]

STEPS_WITH_CLASSIFIER = 50
STARTS = ("votes", "posterior")
GAIN = 1e-6  # of log-likelihood, in nats a task, under which EM with a scikit-learn classifier has converged


def m_step(crowd: Crowd, posterior: Tensor, smoothing: float) -> Tensor:
    """A[w, k, l] = Σ over w's labels l of q[t, k], over the row's sum (M, K, K); `smoothing` is added to every cell."""
    counts = soft_counts(crowd, posterior) + smoothing
    return counts / counts.sum(dim=2, keepdim=True)


def log_label_rows(crowd: Crowd, confusion: Tensor) -> Tensor:
    """Logarithms of A[w, :, l] of every label (E, K)."""
    return confusion[crowd.worker, :, crowd.label].clamp(min=SMALLEST).log()


def e_step(log_f: Tensor, crowd: Crowd, confusion: Tensor) -> Tensor:
    """q[t, k] ∝ f[t, k] Π over t's labels of A[w, k, l] (N, K)."""
    return log_posterior_given_labels(log_f, crowd.task, log_label_rows(crowd, confusion)).exp()


def log_likelihood(log_f: Tensor, crowd: Crowd, confusion: Tensor) -> Tensor:
    """Of all labels given the features: Σ_t log Σ_k f[t, k] Π over t's labels of A[w, k, l]."""
    return log_f.index_add(0, crowd.task, log_label_rows(crowd, confusion)).logsumexp(dim=1).sum()


def begins_step(epoch: int, n_epochs: int, steps: int | None) -> bool:
    """Whether a new step begins with this epoch: `steps` of them, spread evenly; None for one each epoch."""
    number = n_epochs if steps is None else min(steps, n_epochs)
    return epoch > 0 and epoch * number // n_epochs > (epoch - 1) * number // n_epochs


def start_posterior(crowd: Crowd, start: str, smoothing: float) -> Tensor:
    """q⁰ (N, K): the shares of the votes, or their posterior with matrices counted with them and even classes."""
    votes = crowd.task_vote_shares()
    if start == "votes":
        return votes
    return e_step(torch.zeros_like(votes), crowd, m_step(crowd, votes, smoothing))


class EmObjective(Objective):
    """Cross-entropy to the posterior of the last E-step."""

    posterior: Tensor
    matrices: Tensor

    def __init__(self, crowd: Crowd, steps: int | None, smoothing: float, start: str = "votes") -> None:
        super().__init__(crowd)
        self.steps, self.smoothing = steps, smoothing
        self.register_buffer("posterior", start_posterior(crowd, start, smoothing))
        self.register_buffer("matrices", m_step(crowd, self.posterior, smoothing))

    def loss(self, seen: NetworkOutput, batch: Batch) -> Tensor:
        """The M-step of the classifier: mean over the batch's tasks of −Σ_k q[k] log f[k]."""
        return cross_entropy_to(self.posterior[batch.task], seen.logits)

    def begin_epoch(self, epoch: int, forecast: Callable[[], Tensor]) -> None:
        """If a step begins: the E-step, and the M-step of the matrices."""
        if begins_step(epoch, self.n_epochs, self.steps):
            self.update_posterior_and_confusions(forecast())

    def update_posterior_and_confusions(self, log_f: Tensor) -> None:
        """Posterior and matrices, given what the classifier says of all tasks (N, K)."""
        self.posterior = e_step(log_f, self.crowd, self.matrices)
        self.matrices = m_step(self.crowd, self.posterior, self.smoothing)

    def confusion(self) -> Tensor:
        """Each worker's matrix."""
        return self.matrices


def fit_weighted(classifier: Any, x: FloatArray, posterior: FloatArray) -> Any:
    """A copy of the classifier, fitted to a copy of each task for each class, weighted with the class's probability."""
    task, label = np.nonzero(posterior > SMALLEST)
    try:
        return clone(classifier).fit(x[task], label, sample_weight=posterior[task, label])
    except Exception as error:  # whatever a stranger's classifier can raise
        raise InputError(
            f"{quote(classifier)} cannot be fitted to {np.unique(label).size} classes of {len(x)} tasks: "
            f"{quote(str(error))}."
        ) from error


class SklearnNetwork(nn.Module):
    """A fitted scikit-learn classifier as a network: features in, logarithms of its probabilities out."""

    def __init__(self, fitted: Any, n_classes: int) -> None:
        super().__init__()
        self.fitted, self.n_classes = fitted, n_classes

    def forward(self, x: Tensor) -> Tensor:
        """Logits (B, K); a class that had no weight is as good as impossible."""
        given = torch.as_tensor(self.fitted.predict_proba(x.flatten(1).numpy()), dtype=torch.float32)
        if given.shape != (len(x), len(self.fitted.classes_)) or not given.isfinite().all():
            raise InputError(f"{quote(self.fitted)} gives no probability of every class it has met for every task.")
        chances = given.new_zeros(len(x), self.n_classes)
        chances[:, torch.as_tensor(self.fitted.classes_)] = given
        return chances.clamp(min=SMALLEST).log()


@estimator
class GeneralizedEm(Learner):
    """EM for a classifier and confusion matrices: Raykar's method with a linear classifier, AggNet with a network.

    Facts
    -----
    Assumes: the classifier is Dawid-Skene's prior; the classifier and the matrices in turn
    Fails with: one label a task, copying workers
    Paper: Raykar et al. 2010, JMLR 11; AggNet: Albarqouni et al. 2016, IEEE TMI 35

    Parameters
    ----------
    steps
        EM steps, at least 1, spread evenly over the epochs; None for one an epoch. With `classifier`, the most that are
        taken, None for 50: it ends when the log-likelihood hardly gains.
    smoothing
        Answers added to every cell of every matrix, above 0: a Dirichlet(1 + smoothing) prior on its rows.
    start
        What the classifier is first trained on: "votes", the shares of the votes, or "posterior", what they become by
        one E-step with the matrices that go with them. That does not believe workers who say one class of everything.
    classifier
        A scikit-learn classifier with `predict_proba`, whose `fit` takes `sample_weight`: it takes the network's place
        and is fitted anew in each step to all labelled tasks (flattened, not scaled). Parameters of training are not
        used, nor are labels held out. None trains `network`.

    Notes
    -----
    When it fails: with one label a task, q starts as that label and the matrices as the identity, and EM stays there:
    the classifier is then trained on the labels as they are (Tanno et al. 2019, figure 4). Workers who copy each other
    are believed.

    Examples
    --------
    >>> import numpy as np, crowdwise as cw
    >>> from sklearn.linear_model import LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.integers(2, size=300)
    >>> X = rng.normal(size=(300, 2)) + 3 * truth[:, None]
    >>> said = np.where(rng.random((300, 3)) < 0.8, truth[:, None], 1 - truth[:, None])
    >>> model = cw.GeneralizedEm(classifier=LogisticRegression()).fit(X, cw.CrowdLabels.from_dense(said))
    >>> model.score(X, truth) > 0.95
    True
    """

    slug = "em"
    family = ALTERNATION
    alternates = True

    steps: int | None = None
    smoothing: float = 0.01
    start: str = "votes"
    classifier: Any = None

    def _check(self) -> None:
        check_optional_count("steps", self.steps)
        check_number("smoothing", self.smoothing, low=0, above=True)
        check_choice("start", self.start, STARTS)
        if self.classifier is None:
            return
        wanted = hasattr(self.classifier, "predict_proba") and not isinstance(self.classifier, type)
        if not wanted or not has_fit_parameter(self.classifier, "sample_weight"):
            raise InputError(
                f"classifier is {quote(self.classifier)}; it must be a scikit-learn classifier with predict_proba, "
                "whose fit takes sample_weight, such as LogisticRegression(). Scale features beforehand, not in a "
                "pipeline."
            )

    def save(self, folder: str | Path) -> None:
        """Write the fitted model to a folder, as every learner; one with a scikit-learn classifier is refused."""
        if self.classifier is not None:
            raise InputError(
                f"A {type(self.classifier).__name__} cannot be saved without pickle, which may run anything when it is "
                "read. Train network='linear' or another network, or keep model.network_.network.fitted yourself."
            )
        super().save(folder)

    def _make_objective(self, crowd: Crowd, classifier: Classifier, features: Features) -> Objective:  # noqa: ARG002
        return EmObjective(crowd, self.steps, self.smoothing, self.start)

    def _train(self, features: Features, answers: CrowdLabels, validation: ValidationSet | None) -> None:
        if self.classifier is None:
            super()._train(features, answers, validation)
            return
        if validation is not None:
            raise InputError("A validation set chooses among epochs, of which a scikit-learn classifier has none.")
        objective = EmObjective(Crowd(answers), self.steps, self.smoothing, self.start)
        everyone, labelled = torch.arange(len(features)), np.flatnonzero(answers.labels_per_task)
        x = torch.cat([part.flatten(1) for part in features.batches(everyone, FORWARD)]).numpy()[labelled]
        n_steps = self.steps or STEPS_WITH_CLASSIFIER
        state, before = TrainingState(), -np.inf
        while True:
            fitted = fit_weighted(self.classifier, x, objective.posterior.numpy()[labelled])
            network = Classifier(SklearnNetwork(fitted, answers.n_classes))
            log_f = predict_log_probabilities(network, objective, features, everyone)
            now = float(log_likelihood(log_f.double(), objective.crowd, objective.matrices.double())) / labelled.size
            state.epoch = state.best_epoch = state.epoch + 1
            state.history.append({"epoch": float(state.epoch), "loss": -now})
            if state.epoch == n_steps or now - before < GAIN:
                break
            before = now
            objective.update_posterior_and_confusions(log_f)
        self._finish(features, answers, network, objective, state)
