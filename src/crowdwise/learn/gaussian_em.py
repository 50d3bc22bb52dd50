"""EM for numbers with a network as the mean: values, workers and network in turn.

The generative story. The value of a task is normal about what a network says of its features, t[n] ~ N(f(x[n]), τ²).
Worker w answers on a line of their own, y ~ N(a[w] t + b[w], σ[w]²): who is noisy counts for less, and who is on
another scale is put right.

V. C. Raykar et al. (2010), "Learning from crowds", JMLR 11, section 5, whose workers have a precision alone and whose
regression is linear; with the lines of Rodrigues and Pereira (2018).

| equation | here |
|---|---|
| posterior of t given f and the answers | `value_posterior.find_posterior` |
| M-step of a, b, σ² and τ² | `value_posterior.improve` |
| M-step of the network: log p(y) by f, (f - m)² / (τ² + variance of m) | `GaussianEmObjective.loss`, an epoch |
| log p(y) and the priors | `value_posterior.objective` |

An E-step costs O(answers), and a step of the network O(answers of the batch).

Departures: lines and variances have priors (`value_posterior`). The network's M-step climbs log p(y) itself, the values
integrated out, which takes fewer steps than climbing towards posterior means (ECME, Liu and Rubin 1994). An epoch of it
is taken, so that the objective need not rise in every epoch; it does in every other update. With a linear network,
a = 1, b = 0 and given variances, the fixed point is generalised least squares. τ² of the fitted model is estimated from
the tasks held out, where there are some. Both were chosen on simulated crowds, by the error and the coverage there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch

from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.learn.answer_objective import AnswerObjective
from crowdwise.learn.value_learner import ValueLearner
from crowdwise.learn.value_posterior import Lines, ValueRows, find_evidence, improve, settle, start_lines

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from crowdwise.kinds.values.answers import Values
    from crowdwise.labels.types import FloatArray
    from crowdwise.learn.answer_batches import AnswerBatch, AnswerRows
    from crowdwise.learn.batches import NetworkOutput

__all__ = ["GaussianEm"]

STEPS = 3  # of EM between two epochs of the network


class GaussianEmObjective(AnswerObjective):
    """Squared distance of the network to what the answers say, by how sure that is; the workers before each epoch."""

    def __init__(self, rows: AnswerRows, *, scales: bool, biases: bool) -> None:
        super().__init__(rows)
        self.learnt = {"scales": scales, "biases": biases}
        lines = start_lines(self._rows())
        for name in ("target", "weight"):
            self.register_buffer(name, torch.zeros(rows.n_items, rows.said.shape[1]))
        for name in ("scale", "bias", "variance", "residual"):
            self.register_buffer(name, torch.as_tensor(getattr(lines, name), dtype=torch.float32))
        # Every task counts once, however many answers it has.
        counts = np.bincount(rows.item[:, 0].cpu().numpy(), minlength=rows.n_items)
        share = rows.n_answers / max(int((counts > 0).sum()), 1) / np.maximum(counts, 1)
        self.register_buffer("share", torch.as_tensor(share[:, None], dtype=torch.float32))

    def _rows(self) -> ValueRows:
        rows = self.crowd
        task, worker, said = (each.cpu().numpy() for each in (rows.item[:, 0], rows.worker, rows.said))
        return ValueRows(task, worker, said.astype(np.float64), rows.n_items, rows.n_workers)

    def lines(self) -> Lines:
        """The workers as they are now, in double precision."""
        names = ("scale", "bias", "variance", "residual")
        return Lines(*(self.get_buffer(name).cpu().double().numpy() for name in names))

    def begin_epoch(self, epoch: int, forecast: Callable[[], Tensor]) -> None:  # noqa: ARG002
        """E-steps and M-steps of the workers; then what the network is to learn, and with which weights."""
        rows, lines, f = self._rows(), self.lines(), forecast().cpu().double().numpy()
        for _ in range(STEPS):
            lines = improve(rows, f, lines, **self.learnt)
        said = find_evidence(rows, lines)
        found = {"target": said.mean, "weight": 1 / (said.variance + lines.residual), **vars(lines)}
        for name, values in found.items():
            self.get_buffer(name).copy_(torch.as_tensor(values))

    def loss(self, seen: NetworkOutput, batch: AnswerBatch) -> Tensor:
        """Half the mean of (f - m)² / (τ² + variance of m) over tasks."""
        item = batch.item
        apart = seen.logits - self.get_buffer("target")[item]
        squares = (0.5 * self.get_buffer("share")[item] * self.get_buffer("weight")[item] * apart.square()).sum(dim=1)
        return squares[batch.slot[:, 0]].sum() / max(len(batch), 1)

    def log_density(self, seen: NetworkOutput, batch: AnswerBatch) -> Tensor:
        """Log-density of each answer (B,), the values of tasks integrated out."""
        scale, bias = self.get_buffer("scale")[batch.worker], self.get_buffer("bias")[batch.worker]
        spread = self.get_buffer("variance")[batch.worker][:, None] + scale.square() * self.get_buffer("residual")
        apart = batch.said.to(scale.dtype) - scale * seen.logits[batch.slot[:, 0]] - bias
        return -0.5 * ((2 * torch.pi * spread).log() + apart.square() / spread).sum(dim=1)


@estimator
class GaussianEm(ValueLearner):
    """A network for values, and workers with a scale, a bias and a noise of their own, by EM.

    Facts
    -----
    Assumes: values are normal about the network's output, and a worker's answers about a line in the value
    Fails with: answers that are far off now and then; few answers per worker
    Paper: Raykar et al. 2010, JMLR 11; Rodrigues & Pereira 2018, AAAI

    Notes
    -----
    When it fails: one answer that is far off pulls the worker's noise up and, with it, all their answers down.
    """

    slug = "gaussian-em"
    is_default = True
    alternates: ClassVar[bool] = True
    held_out_measure: ClassVar[str] = "mean log-density of an answer, in standard units"

    def _make_objective(self, answers: Values, rows: AnswerRows) -> GaussianEmObjective:  # noqa: ARG002
        return GaussianEmObjective(rows, **self._learnt)

    def _find_lines(self, rows: ValueRows, f: FloatArray, objective: GaussianEmObjective) -> Lines:
        return settle(rows, f, objective.lines(), **self._learnt)
