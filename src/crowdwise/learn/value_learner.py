"""What the learners of values share: units, the lines of the workers after training, and prediction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch

from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.parameter_checks import check_choice
from crowdwise.fitting.saved_arrays import SMALLEST, SavedArray
from crowdwise.kinds.model import Found
from crowdwise.kinds.values.answers import Values
from crowdwise.kinds.values.model import ValueModel
from crowdwise.labels.errors import InputError
from crowdwise.learn.answer_learner import AnswerLearner
from crowdwise.learn.value_posterior import Lines, ValueRows, find_posterior

if TYPE_CHECKING:
    from torch import Tensor

    from crowdwise.labels.types import FloatArray
    from crowdwise.learn.batches import NetworkOutput

__all__ = ["LAYERS", "ValueLearner"]

LAYERS = ("scale+bias", "scale", "bias", "none")


class NetworkValues(ValueModel):
    """What values by a network keep besides.

    Attributes
    ----------
    unit_ : (D,)
        A network's output of 1 more is a value that is higher by this.
    origin_ : (D,)
        The value for an output of 0.
    residual_variance_ : (D,)
        Variance of the tasks' values about what the network says of them, τ².
    """

    saved: ClassVar[tuple[SavedArray, ...]] = (
        SavedArray("unit", "D"),
        SavedArray("origin", "D"),
        SavedArray("residual_variance", "D", low=SMALLEST),
    )
    unit_: FloatArray
    origin_: FloatArray
    residual_variance_: FloatArray


@estimator
class ValueLearner(AnswerLearner[Values], NetworkValues):
    """Base of the learners of values.

    Parameters
    ----------
    layer
        What a worker makes of a value, besides noise: "scale+bias", "scale", "bias", or "none" for nothing. Scales are
        about the mean of all answers.

    Examples
    --------
    >>> import numpy as np
    >>> import crowdwise as cw
    >>> from crowdwise.kinds import simulate_values
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> crowd = simulate_values(200, 10, bias=10.0, values=50 + X @ [10.0, -5.0], random_state=0)
    """

    example: ClassVar[str] = (
        '>>> model = cw.{name}(network="linear", epochs=30, learning_rate=0.02).fit(X, crowd.answers)\n'
        ">>> model.score(X, crowd.value) > 0.9\nTrue"
    )
    outputs: ClassVar[str] = "one for each number of a value"

    layer: str = "scale+bias"

    def _check(self) -> None:
        check_choice("layer", self.layer, LAYERS)

    @property
    def _learnt(self) -> dict[str, bool]:
        """Which of scales and biases workers have of their own."""
        return {"scales": "scale" in self.layer, "biases": "bias" in self.layer}

    # ---- what a method gives ----------------------------------------------------------------------------

    def _find_lines(self, rows: ValueRows, f: FloatArray, objective: Any) -> Lines:
        """Lines of the workers after training, from all answers in units."""
        raise NotImplementedError

    # ---- the rest ---------------------------------------------------------------------------------------

    def _count_outputs(self, answers: Values) -> int:
        return answers.n_coordinates

    def _say(self, answers: Values) -> Tensor:
        mean, spread = _units(answers)
        return torch.as_tensor((answers.value - mean) / spread, dtype=torch.float32)

    def _find(self, answers: Values, seen: NetworkOutput, objective: Any) -> Found:
        mean, spread = _units(answers)
        said, unseen = (answers.value - mean) / spread, self._unseen_tasks(answers)
        rows = ValueRows(answers.task, answers.worker, said, answers.n_tasks, answers.n_workers, unseen)
        f = seen.logits.numpy()
        lines = self._find_lines(rows, f, objective)
        found = find_posterior(rows, f, lines)
        typical, offset = common_line(lines, answers.answers_per_worker)
        doubt = common_line_variance(lines, answers.answers_per_worker)
        scale = lines.scale / typical
        told = 1 - lines.scale[rows.worker] ** 2 * found.variance[rows.task] / lines.variance[rows.worker][:, None]
        value = mean + spread * (typical * found.mean + offset)
        variance = (spread * typical) ** 2 * found.variance + spread**2 * (doubt[0] * found.mean**2 + doubt[1])
        answered = answers.answers_per_task > 0
        return Found({
            "value": value,
            "variance": variance,
            "worker_error": spread * np.sqrt(lines.variance),
            "worker_scale": scale,
            "worker_bias": spread * (lines.bias - scale * offset) + mean * (1 - scale),
            "freedom": np.maximum(np.bincount(rows.worker, told.mean(axis=1), rows.n_workers), 0.0),
            "prior_mean": value[answered].mean(axis=0),
            "prior_variance": np.maximum((value[answered].var(axis=0) + variance[answered].mean(axis=0)), SMALLEST),
            "unit": spread * typical,
            "origin": mean + spread * offset,
            "residual_variance": (spread * typical) ** 2 * lines.residual,
        })  # fmt: skip

    def _predict(self, seen: NetworkOutput, answers: Values | None) -> FloatArray:
        f: FloatArray = self.origin_ + self.unit_ * seen.logits.numpy()
        if answers is not None:
            if answers.n_coordinates != len(self.origin_):
                raise InputError(f"Answers have {answers.n_coordinates} numbers each, not {len(self.origin_)}.")
            own = (self.worker_scale_, self.worker_bias_, self.worker_error_**2)
            scale, bias, variance = (self._with_stranger(each) for each in own)
            lines = Lines(scale, bias, variance, self.residual_variance_)
            worker = self._positions_of_workers(answers)
            rows = ValueRows(answers.task, worker, answers.value, len(f), len(lines.variance))
            f = find_posterior(rows, f, lines).mean
        return f[:, 0] if f.shape[1] == 1 else f

    def _score(self, predicted: FloatArray, truth: Any) -> float:
        """Share of the variance of the true values that is predicted, R²."""
        true = np.asarray(truth, np.float64).reshape(predicted.shape)
        return float(1 - ((true - predicted) ** 2).sum() / ((true - true.mean(axis=0)) ** 2).sum())


def common_line(lines: Lines, counts: Any) -> tuple[FloatArray, FloatArray]:
    """Scale and bias (D,) of the common worker, whose answers are right but for noise.

    The mean, by their number of answers, of the workers whose scales have the sign of most answers': who turns the
    scale round says nothing of its length. Where the network itself is turned round, that sign is minus.
    """
    weight = _common_weights(lines, counts)
    whole = np.maximum(weight.sum(axis=0), 1)
    known = weight.sum(axis=0) > 0
    scale = np.where(known, (weight * lines.scale).sum(axis=0) / whole, 1.0)
    return scale, np.where(known, (weight * lines.bias).sum(axis=0) / whole, 0.0)


def common_line_variance(lines: Lines, counts: Any) -> tuple[FloatArray, FloatArray]:
    """Variances (D,) of the scale and the bias of the common worker, who is a mean of workers that differ."""
    weight = _common_weights(lines, counts)
    whole = np.maximum(weight.sum(axis=0), 1)
    size = whole**2 / np.maximum((weight**2).sum(axis=0), 1)  # of workers with as many answers each
    scale, bias = common_line(lines, counts)
    found = [
        (weight * (each - mean) ** 2).sum(axis=0) / whole / np.maximum(size - 1, 1)
        for each, mean in ((lines.scale, scale), (lines.bias, bias))
    ]
    return found[0], found[1]


def _common_weights(lines: Lines, counts: Any) -> FloatArray:
    """Answers (M, D) of the workers whose scales have the sign of most answers'; 0 for the others."""
    side = np.where((counts[:, None] * np.sign(lines.scale)).sum(axis=0) >= 0, 1.0, -1.0)
    weight: FloatArray = counts[:, None] * (lines.scale * side > 0)
    return weight


def _units(answers: Values) -> tuple[FloatArray, float]:
    """Mean of the answers (D,), and the standard deviation of all coordinates together."""
    mean = answers.value.mean(axis=0)
    spread = float(np.sqrt(((answers.value - mean) ** 2).mean()))
    return mean, spread if spread > 0 else 1.0
