"""What a method is to the training loop where answers are no classes: how probable an answer is, and a prior."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from crowdwise.learn.objective import TrainingObjective
from crowdwise.learn.predictions import FORWARD

if TYPE_CHECKING:
    from torch import Tensor

    from crowdwise.learn.answer_batches import AnswerBatch, AnswerRows
    from crowdwise.learn.batches import NetworkOutput
    from crowdwise.learn.features import Features
    from crowdwise.learn.networks import Classifier
    from crowdwise.learn.training_state import TrainingJob

__all__ = ["AnswerObjective"]

WARM_UP = 10  # the first of so many parts of the epochs


class AnswerObjective(TrainingObjective):
    """Base of all objectives of answers that are no classes.

    A method gives `log_density`, and `penalty` if its workers have a prior; `loss`, if it minimises something else;
    `begin_epoch`, if it alternates. `seen.logits[batch.slot]` (B, S, D) is what the network says of the items of each
    answer.

    Parameters
    ----------
    rows
        The answers that are learnt from.
    """

    crowd: AnswerRows

    def __init__(self, rows: AnswerRows) -> None:
        super().__init__()
        self.crowd = rows

    def is_warming_up(self, epoch: int) -> bool:
        """Whether workers are to stay as they start in this epoch: the first tenth, at least one of several.

        A network that has learnt nothing says nothing of the workers, whose parameters learn faster: they would turn
        round to suit its random start, as they did on simulated crowds with adversaries.
        """
        return self.n_epochs > 1 and epoch < max(self.n_epochs // WARM_UP, 1)

    def log_density(self, seen: NetworkOutput, batch: AnswerBatch) -> Tensor:
        """How probable each answer of a batch is, in logarithms (B,); answers held out choose the epoch by its mean."""
        raise NotImplementedError

    def penalty(self) -> Tensor:
        """Minus the log-density of the prior of all workers, ()."""
        return torch.zeros((), device=self.device)

    def loss(self, seen: NetworkOutput, batch: AnswerBatch) -> Tensor:
        """Minus the mean log-density of the answers of a batch, and the penalty divided by the number of answers."""
        return -self.log_density(seen, batch).sum() / max(len(batch), 1) + self.penalty() / self.crowd.n_answers

    def score_epoch(
        self,
        classifier: Classifier,
        features: Features,
        job: TrainingJob,
        tally: Tensor | None,  # noqa: ARG002
    ) -> dict[str, float]:
        """Mean log-density of the answers held out."""
        if job.held_crowd is None:
            return {}
        was_training = classifier.training
        classifier.eval()
        held = job.held_crowd
        order = torch.arange(len(job.held_tasks) if job.held_tasks is not None else 0, device=self.device)
        total = torch.zeros((), device=self.device)
        with torch.no_grad():
            for batch in held.batches(features, order, FORWARD):
                total += self.log_density(classifier.logits_and_representation(batch.x), batch).sum()
        classifier.train(was_training)
        return {"held_out": float(total) / max(len(order), 1)}
