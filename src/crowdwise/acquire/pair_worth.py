"""How much a pair of task and worker is worth: task and worker are chosen together, not one after the other.

q is the posterior of task t, A the confusion matrix of worker w, both of the model; K classes; ½ tempers, since labels
are not independent given the truth.

| quantity | equation |
|---|---|
| what others say of an answer | u = P(l is right by the others' labels of t): q[k] / A[k, l], summing to 1, at k = l |
| likelihood of a skill s | L_w(s) = Π over w's answers of (s u + (1 - s) (1 - u) / (K - 1))^½ |
| skills in the crowd | shares π of a grid of s, by EM, with one more worker who may be anything (Laird 1978) |
| skill of w | P(s) ∝ π(s) L_w(s): `estimate_skills` |
| matrix of w | counts of w and 5 for each truth, as a one-coin worker of w's mean skill answers: `estimate_matrices` |
| worth of (t, w) | I(answer of w; truth of t) with that matrix, from q^½ made to sum to 1: `score_pairs` |

A worker's counts in the model include what their own labels made of the posteriors: who has labelled tasks that nobody
else did looks always right. u leaves the own label out, and such answers then say nothing of the skill.

The constants were chosen on simulated crowds, three kinds (half spammers; skills from Beta(2, 2) and a fifth of the
tasks hard; the same and wrong answers that workers share), who label the tasks that the workers of dog and web
labelled. By the labels needed to come within .002, .005 and .01 of the accuracy with all labels, 5 was ahead of 0 and
20, and ½ ahead of 1 and .3, which the area under the curve does not tell apart; Thompson's draws of the skill were no
better, the reduction of error in place of information worse. The replays of dog and web, with their truth, were looked
at while this was chosen, and agree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdwise.acquire.task_policies import entropy

if TYPE_CHECKING:
    from crowdwise.fitting.online_model import OnlineModel
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["JOINT", "SKILLS", "PairWorth", "estimate_matrices", "estimate_skills", "score_pairs"]

JOINT = "joint"  # the policy that chooses by this worth
SKILLS = np.linspace(0.02, 0.98, 25)
ROW_COUNTS = 5.0  # see above
TEMPER = 0.5
SWEEPS = 30


def estimate_skills(model: OnlineModel) -> FloatArray:
    """Probability of each of `SKILLS` for each worker, (M, S), from what the others say of their answers."""
    worker, _, support = model.support_of_labels()
    n_workers, others = len(model.workers), max(len(model.classes) - 1, 1)
    each = np.log(support[:, None] * SKILLS + (1 - support[:, None]) * (1 - SKILLS) / others)
    total = TEMPER * np.stack([np.bincount(worker, column, n_workers) for column in each.T], axis=1)
    likelihood = np.exp(total - total.max(axis=1, keepdims=True))
    asked = likelihood[np.bincount(worker, minlength=n_workers) > 0]
    shares = np.full(SKILLS.size, 1 / SKILLS.size)
    for _ in range(SWEEPS):
        mine = asked * shares
        mine /= mine.sum(axis=1, keepdims=True)
        shares = (mine.sum(axis=0) + 1 / SKILLS.size) / (len(asked) + 1)
    joint = likelihood * shares
    found: FloatArray = joint / joint.sum(axis=1, keepdims=True)
    return found


def estimate_matrices(model: OnlineModel) -> FloatArray:
    """P(label | truth) of each worker, (M, K, K) [worker, truth, label], nearer to one coin the fewer their answers."""
    n_classes = len(model.classes)
    skill = (estimate_skills(model) @ SKILLS)[:, None, None]
    right = np.eye(n_classes)
    coin = right * skill + (1 - right) * (1 - skill) / max(n_classes - 1, 1)
    counts = model.answer_counts + ROW_COUNTS * coin
    found: FloatArray = counts / counts.sum(axis=2, keepdims=True)
    return found


class PairWorth:
    """Worth of pairs of a model as it is now; the workers' matrices are estimated once."""

    def __init__(self, model: OnlineModel) -> None:
        self._matrices = estimate_matrices(model)
        self._new_worker = model.confusion_of_new_worker

    def score(self, posterior: FloatArray, worker: int | None) -> FloatArray:
        """Mutual information of answer and truth in nats, (P,), of tasks with these posteriors and one worker.

        None is someone new.
        """
        matrix = self._new_worker if worker is None else self._matrices[worker]
        tempered = _temper(posterior)
        gain: FloatArray = np.maximum(entropy(tempered @ matrix) - tempered @ entropy(matrix), 0)
        return gain

    def score_pairs(self, posterior: FloatArray, worker: IntArray) -> FloatArray:
        """The same of tasks with a worker each."""
        tempered = _temper(posterior)
        noise = np.einsum("pk,pk->p", tempered, entropy(self._matrices)[worker])
        answer = np.einsum("pk,pkl->pl", tempered, self._matrices[worker])
        gain: FloatArray = np.maximum(entropy(answer) - noise, 0)
        return gain


def score_pairs(model: OnlineModel, task: IntArray, worker: IntArray) -> FloatArray:
    """Mutual information of answer and truth in nats, (P,), of pairs by position."""
    return PairWorth(model).score_pairs(model.posteriors_at(task), worker)


def _temper(posterior: FloatArray) -> FloatArray:
    tempered = posterior**TEMPER
    found: FloatArray = tempered / tempered.sum(axis=1, keepdims=True)
    return found
