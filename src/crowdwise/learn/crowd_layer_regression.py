"""Crowd layer for numbers: a scale and a bias for each worker turn the network's output into their answer.

The generative story. A network's output f(x) is the value of a task as far as features tell it. Worker w answers
a[w] f(x) + b[w], and noise. Network and layers are trained together by the squared error of the answers that are there;
then the layers are taken away, and f predicts.

F. Rodrigues and F. C. Pereira (2018), "Deep learning from crowds", AAAI, section 4.2.

| of the paper | here |
|---|---|
| f_r(μ) = s^r μ; μ + b^r; s^r μ + b^r ("S", "B", "S+B") | `layer="scale"`, `"bias"`, `"scale+bias"` |
| squared error, answers that are missing masked | `CrowdLayerValues.loss`: answers there are, no mask |
| start at s = 1, b = 0 | `CrowdLayerValues` |

A step costs O(answers of the batch) beside the network.

Departures: answers are in units of their standard deviation, about their mean, so that a scale is about the mean of the
answers. Nothing in the loss says how long the network's own scale is: after training, values are those of the common
worker, the mean of the workers whose scales have the sign of most. The consensus of tasks that have answers is the
posterior of `value_posterior` with the layers as they were learnt, whose variances are estimated afterwards.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import nn

from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.learn.answer_objective import AnswerObjective
from crowdwise.learn.value_learner import ValueLearner
from crowdwise.learn.value_posterior import settle, start_lines

if TYPE_CHECKING:
    from torch import Tensor

    from crowdwise.kinds.values.answers import Values
    from crowdwise.labels.types import FloatArray
    from crowdwise.learn.answer_batches import AnswerBatch, AnswerRows
    from crowdwise.learn.batches import NetworkOutput
    from crowdwise.learn.value_posterior import Lines, ValueRows

__all__ = ["CrowdLayerRegression"]


class CrowdLayerValues(AnswerObjective):
    """Squared error of the answers, through the layers of their workers."""

    def __init__(self, rows: AnswerRows, *, scales: bool, biases: bool) -> None:
        super().__init__(rows)
        shape = (rows.n_workers, rows.said.shape[1])
        self.scale = nn.Parameter(torch.ones(shape, device=rows.device)) if scales else None
        self.bias = nn.Parameter(torch.zeros(shape, device=rows.device)) if biases else None

    def log_density(self, seen: NetworkOutput, batch: AnswerBatch) -> Tensor:
        """Minus the squared error of each answer (B,): the log-density, but for constants and a common variance."""
        told = seen.logits[batch.slot[:, 0]]
        told = told if self.scale is None else self.scale[batch.worker] * told
        told = told if self.bias is None else told + self.bias[batch.worker]
        return -(batch.said.to(told.dtype) - told).square().sum(dim=1)


@estimator
class CrowdLayerRegression(ValueLearner):
    """A network for values with a layer on top for each worker: a scale, a bias or both.

    Facts
    -----
    Assumes: a scale and a bias of each worker turn the network's output into their answer; all are equally noisy
    Fails with: workers who differ in noise; few answers per worker
    Paper: Rodrigues & Pereira 2018, AAAI

    Notes
    -----
    When it fails: a worker who answers at random counts as much as any other. Where `worker_learning_rate` is None it
    is `learning_rate`: the layers are part of the network.
    """

    slug = "crowd-layer-regression"
    workers_faster: ClassVar[float] = 1.0  # the paper's layers are part of the network
    held_out_measure: ClassVar[str] = "minus the mean squared error, in standard units"

    def _make_objective(self, answers: Values, rows: AnswerRows) -> CrowdLayerValues:  # noqa: ARG002
        return CrowdLayerValues(rows, **self._learnt)

    def _find_lines(self, rows: ValueRows, f: FloatArray, objective: CrowdLayerValues) -> Lines:
        layers = {
            name: parameter.detach().double().numpy()
            for name, parameter in (("scale", objective.scale), ("bias", objective.bias))
            if parameter is not None
        }
        return settle(rows, f, replace(start_lines(rows), **layers), scales=False, biases=False)
