"""What a method is to the training loop: worker parameters, a loss of a batch and, if it alternates, an E-step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from crowdwise.learn.epoch_scores import score_labels
from crowdwise.learn.losses import SMALLEST, noisy_log_likelihood
from crowdwise.learn.worker_models import log_posterior_given_labels, soft_counts_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from crowdwise.learn.batches import Batch, Crowd, NetworkOutput, TrainingData
    from crowdwise.learn.features import Features
    from crowdwise.learn.networks import Classifier
    from crowdwise.learn.training_state import TrainingJob

__all__ = ["Objective", "TargetedObjective", "TrainingObjective"]


class TrainingObjective(nn.Module):
    """What the training loop knows of an objective, whatever the answers are.

    Parameters are trained with the network, buffers are kept in checkpoints.

    Attributes
    ----------
    crowd
        The answers that are learnt from.
    n_epochs : int
        How many there will be, known once training begins: a method of several stages divides them.
    """

    crowd: TrainingData
    n_epochs: int

    def loss(self, seen: NetworkOutput, batch: Any) -> Tensor:
        """What a batch costs, to be minimised: (). A batch without answers must cost a finite number."""
        raise NotImplementedError

    def output(self, seen: NetworkOutput) -> Tensor:
        """What the network says, as E-steps and predictions take it (B, …)."""
        return seen.logits

    def arrange_batches(self, order: Tensor, size: int) -> tuple[Tensor, int | list[int]]:
        """The tasks of an epoch in the order in which they are met, and how many make a batch (or each of them).

        A last task that would be alone joins the batch before: batch normalisation cannot learn from a single task.

        Parameters
        ----------
        order
            The training tasks, shuffled; answers, where an epoch goes through answers.
        size
            Tasks of a batch that are asked for.
        """
        if size == 1 or len(order) <= size or len(order) % size != 1:
            return order, size
        return order, [*(size for _ in range(len(order) // size - 1)), size + 1]

    def begin_epoch(self, epoch: int, forecast: Callable[[], Tensor]) -> None:
        """Before each epoch, an E-step, if the method has one.

        Parameters
        ----------
        epoch
            From 0.
        forecast
            Gives the network's `output` of all rows of the features (N, …), without dropout or gradient: of
            classifiers, log-probabilities.
        """

    def allow_lazy_steps(self, n_tasks: int, batch_size: int) -> None:
        """From now on, gradients of worker parameters may be sparse: of the workers of the batch alone (`lazy_adam`).

        Called before the first step, where nothing needs dense gradients. For a method whose loss of a batch speaks of
        its workers alone, with crowds much larger than a batch's.

        Parameters
        ----------
        n_tasks
            Training tasks, of which each batch is a random part.
        """

    def tally_shape(self) -> tuple[int, ...] | None:
        """Shape of what is counted in training, where there is such: see `Objective`."""
        return None

    def count_batch(self, seen: NetworkOutput, batch: Any, dtype: torch.dtype) -> Tensor:
        """What a batch adds to the counts."""
        raise NotImplementedError

    def score_epoch(
        self, classifier: Classifier, features: Features, job: TrainingJob, tally: Tensor | None
    ) -> dict[str, float]:
        """What is measured after an epoch: "held_out" chooses the epoch, "accuracy" does where it is there.

        Parameters
        ----------
        tally
            What was counted in the epoch, where `tally_shape` asks for it.
        """
        raise NotImplementedError

    def check_restored(self) -> None:
        """Refuse a saved state that no training left: positions that are out of range above all."""

    @property
    def device(self) -> torch.device:
        """Where the answers are."""
        return self.crowd.device


class Objective(TrainingObjective):
    """Base of all objectives of classifiers.

    A method gives `loss`; `confusion`, if it has a model of the workers; `begin_epoch`, if it alternates; `settle`, if
    a last E-step is to follow; `log_posterior`, where features and labels together say something else than Bayes' rule
    with the classifier and the confusions; and `held_out`, where the best epoch is another than that of the likeliest
    labels.

    Parameters
    ----------
    crowd
        The labels of the training tasks; E-steps go through them.
    """

    crowd: Crowd

    def __init__(self, crowd: Crowd) -> None:
        super().__init__()
        self.crowd = crowd

    def loss(self, seen: NetworkOutput, batch: Batch) -> Tensor:
        """What a batch costs, to be minimised: (). A batch without labels must cost a finite number."""
        raise NotImplementedError

    def settle(self, log_f: Tensor) -> Tensor | None:  # noqa: ARG002
        """After training, a last E-step on all labels, those held out included, which `self.crowd` then has.

        Gives log-probabilities of the truth of every task (N, K) given everyone's labels, where these are more than
        `log_posterior` with the confusions at hand; None otherwise.

        Parameters
        ----------
        log_f : (N, K)
            Of the epoch that was chosen.
        """
        return None

    def confusion(self) -> Tensor | None:
        """Each worker's matrix (M, K, K) [worker, truth, label], or None where the method models no workers."""
        return None

    def task_columns(self) -> dict[str, Tensor]:
        """What the method adds to the consensus table: columns (N,), not a number for tasks it has not learnt from."""
        return {}

    def log_f(self, seen: NetworkOutput) -> Tensor:
        """The classifier's own log-probabilities (B, K)."""
        return seen.logits.log_softmax(dim=1)

    def output(self, seen: NetworkOutput) -> Tensor:
        """The same: what E-steps and predictions take."""
        return self.log_f(seen)

    def tally_shape(self) -> tuple[int, ...] | None:
        """Of the workers' matrices, which are counted in training where the method has none to score labels by."""
        crowd = self.crowd
        return None if self.confusion() is not None else (crowd.n_workers, crowd.n_classes, crowd.n_classes)

    def count_batch(self, seen: NetworkOutput, batch: Batch, dtype: torch.dtype) -> Tensor:
        """How often each worker gave each label, by the classifier's opinion of the truth (M, K, K)."""
        rows = self.log_f(seen).detach().exp()[batch.owner].to(dtype)
        return soft_counts_rows(rows, batch.worker, batch.label, self.crowd.n_workers)

    def score_epoch(
        self, classifier: Classifier, features: Features, job: TrainingJob, tally: Tensor | None
    ) -> dict[str, float]:
        """By labels held out and by a validation set."""
        return score_labels(self, classifier, features, job, tally)

    def log_posterior(self, log_f: Tensor, owner: Tensor, worker: Tensor, label: Tensor, confusion: Tensor) -> Tensor:
        """Log-probabilities of the truth given features and labels (B, K).

        Parameters
        ----------
        log_f : (B, K)
        owner, worker, label : (E,)
            Each label's task (position in the batch), worker and class.
        confusion : (M + 1, K, K)
            Matrices of the workers and, last, of a stranger.
        """
        return log_posterior_given_labels(log_f, owner, confusion[worker, :, label].clamp(min=SMALLEST).log())

    def held_out(self, log_f: Tensor, crowd: Crowd) -> Tensor | None:  # noqa: ARG002
        """How well the classifier predicts labels held out, the higher the better; chooses the epoch.

        None for the mean log-probability of the labels through the workers' matrices, which are counted where the
        method has none. Those cannot tell a classifier from its mirror image: see `TargetedObjective`.

        Parameters
        ----------
        log_f : (n, K)
            Of the tasks held out.
        crowd
            Their labels.
        """
        return None


class ConfusionObjective(Objective):
    """Base of objectives that learn a matrix of each worker by small steps, together with the classifier."""

    def __init__(self, crowd: Crowd, workers: nn.Module) -> None:
        super().__init__(crowd)
        self.workers = workers

    def confusion(self) -> Tensor:
        """Each worker's matrix."""
        matrices: Tensor = self.workers()
        return matrices


class TargetedObjective(Objective):
    """Base of objectives whose target is made of the labels themselves, without any model of the workers."""

    def held_out(self, log_f: Tensor, crowd: Crowd) -> Tensor:
        """Mean log-probability of the labels under the classifier itself.

        Matrices that are counted could not tell a classifier from its mirror image.
        """
        return noisy_log_likelihood(log_f, crowd)
