"""EM with a conditional random field: truths along a sequence depend on each other, and on the features.

The generative story. Tasks come in sequences, as words do in sentences. Given the features of its tasks, the truths of
a sequence are those of a linear-chain CRF: P(y | x) = exp(start[y_1] + Σ φ(x_t)[y_t] + Σ step[y_t, y_t+1]) / Z(x),
where φ is a network's logits. Worker w, seeing truth k, says l with probability A[w, k, l], whatever the neighbours.

F. Rodrigues, F. Pereira and B. Ribeiro (2014), "Sequence labeling with multiple annotators", Machine Learning 95, has
the frame: a CRF and the workers' reliability, in turn, by EM (Ibrahim et al. 2025: "conditional random field" as the
classifier of EM).

| step | here |
|---|---|
| Z: the sum over all paths, by recursion | `log_partition` |
| P(truth of a task given all labels of its sequence): forward–backward | `marginals` |
| E-step and M-step for the workers: A from expected answers, before each epoch | `EmCrfObjective.begin_epoch` |
| M-step for the CRF: by gradient, −log P(labels given x) = log Z(x) − log Z(x, labels) | `EmCrfObjective.loss` |

Z(x, labels) is Z with log A[w, :, l] of each label added to its task's φ. The gradient of the M-step's expected
log-likelihood, where the expectation is taken at the present parameters, is that of log P(labels given x): so the loss
is the likelihood itself, and no posterior has to be kept. Backward recursions are the gradients of forward ones.

A step costs O(tasks of the batch × K²) beside the network, in as many operations as its longest sequence is long.

Departures: Rodrigues et al. suppose that of each *sequence* one worker's labels are right, the others' random, and
estimate how often each is the one. Here a worker is right or wrong task by task, with a confusion matrix of their own,
as in the other methods; truths are soft throughout. The CRF's features are the network's, and Adam trains it instead of
L-BFGS. A starts from the shares of the votes.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
import torch
from torch import nn

from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.method_facts import ALTERNATION
from crowdwise.fitting.parameter_checks import check_number
from crowdwise.labels.errors import InputError
from crowdwise.labels.read import read_labels
from crowdwise.labels.sequences import NAMES, read_sequences, rule_for_new_tasks
from crowdwise.learn.alignment import align_to_rows
from crowdwise.learn.base import Learner
from crowdwise.learn.batches import Crowd
from crowdwise.learn.em import m_step
from crowdwise.learn.features import make_features
from crowdwise.learn.losses import SMALLEST, divide_by_tasks
from crowdwise.learn.objective import Objective
from crowdwise.learn.predictions import predict_log_probabilities

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.sequences import Sequences
    from crowdwise.labels.types import FloatArray
    from crowdwise.learn.batches import Batch, NetworkOutput
    from crowdwise.learn.features import Features
    from crowdwise.learn.networks import Classifier
    from crowdwise.learn.training_state import ValidationSet

__all__ = ["EmCrf"]

TOGETHER = 4096  # tasks whose posterior is found at one time


# ---- chains ---------------------------------------------------------------------------------------------------------


def pad_sequences(first: Tensor) -> tuple[Tensor, Tensor]:
    """Places of the tasks of each sequence (S, L), and which of them are real, where tasks come sequence by sequence.

    Parameters
    ----------
    first : (n,)
        Whether a task begins a sequence. The very first does.
    """
    begins = torch.cat([first.new_ones(1), first[1:]]).nonzero()[:, 0]
    lengths = torch.diff(begins, append=begins.new_tensor([len(first)]))
    along = torch.arange(int(lengths.max()), device=first.device)
    real = along < lengths[:, None]
    return (begins[:, None] + along).where(real, 0), real


def log_partition(nodes: Tensor, real: Tensor, start: Tensor, steps: Tensor) -> Tensor:
    """Log of the sum over all paths (S,).

    Parameters
    ----------
    nodes : (S, L, K)
        Potentials of the classes at each task.
    real : (S, L)
        Where there is a task; those of a sequence come first.
    start : (K,)
    steps : (K, K) [before, after]
    """
    reached = start + nodes[:, 0]
    for place in range(1, nodes.shape[1]):
        further = (reached[:, :, None] + steps).logsumexp(dim=1) + nodes[:, place]
        reached = torch.where(real[:, place, None], further, reached)
    return reached.logsumexp(dim=1)


def marginals(nodes: Tensor, first: Tensor, start: Tensor, steps: Tensor) -> Tensor:
    """Probability of each class at each task (n, K) given its whole sequence: the gradient of log Z by the potentials.

    Parameters
    ----------
    nodes : (n, K)
        Potentials of tasks that come sequence by sequence.
    first : (n,)
        Whether a task begins a sequence.
    """
    found = []
    cuts = [0]
    for begin, end in pairwise([*first.nonzero()[:, 0].tolist(), len(first)]):
        if end - cuts[-1] > TOGETHER and begin > cuts[-1]:
            cuts.append(begin)
    cuts.append(len(first))
    for low, high in pairwise(cuts):
        with torch.enable_grad():
            part = nodes[low:high].detach().requires_grad_()
            place, real = pad_sequences(first[low:high])
            total = log_partition(part[place], real, start.detach(), steps.detach()).sum()
            found.append(torch.autograd.grad(total, part)[0])
    return torch.cat(found)


def order_by_sequence(sequences: Sequences, device: torch.device | None = None) -> tuple[Tensor, Tensor]:
    """Tasks sequence by sequence (N,), and whether each begins one."""
    return torch.as_tensor(sequences.order, device=device), torch.as_tensor(sequences.first, device=device)


# ---- the method -----------------------------------------------------------------------------------------------------


class EmCrfObjective(Objective):
    """The likelihood of the labels under a CRF and confusion matrices, which begin_epoch re-estimates."""

    order: Tensor
    first: Tensor
    place: Tensor
    matrices: Tensor

    def __init__(self, crowd: Crowd, sequences: Sequences, smoothing: float) -> None:
        super().__init__(crowd)
        self.smoothing = smoothing
        self.start = nn.Parameter(torch.zeros(crowd.n_classes))
        self.steps = nn.Parameter(torch.zeros(crowd.n_classes, crowd.n_classes))
        self.register_buffer("matrices", m_step(crowd, crowd.task_vote_shares(), smoothing))
        order, first = order_by_sequence(sequences, crowd.task.device)
        # The training tasks' sequences say nothing of other tasks: they are not kept with the model.
        self.register_buffer("order", order, persistent=False)
        self.register_buffer("first", first, persistent=False)
        self.register_buffer("place", order.argsort(), persistent=False)

    def add_label_potentials(
        self, nodes: Tensor, owner: Tensor, worker: Tensor, label: Tensor, confusion: Tensor
    ) -> Tensor:
        """Potentials (n, K) with those of the labels added."""
        said = confusion[worker, :, label].clamp(min=SMALLEST).log()
        return nodes.index_add(0, owner, said.to(nodes.dtype))

    def arrange_batches(self, order: Tensor, size: int) -> tuple[Tensor, list[int]]:
        """Whole sequences, in the order in which shuffled tasks touch them, about `size` tasks at a time."""
        sequence = (self.first.cumsum(0) - 1)[self.place]  # of each task
        place = torch.arange(len(order), device=order.device)
        met = torch.full_like(sequence, len(order)).scatter_reduce(0, sequence[order], place, "amin")
        chosen = met.argsort()[: int((met < len(order)).sum())]
        begins = self.first.nonzero()[:, 0]
        lengths = torch.diff(begins, append=begins.new_tensor([len(self.order)]))
        counts = lengths[chosen]
        ends = counts.cumsum(0)
        place = torch.arange(int(ends[-1]), device=order.device)
        place += torch.repeat_interleave(begins[chosen] - (ends - counts), counts)
        # A batch is full with the sequence that brings it to `size` tasks or beyond a multiple of it.
        full = torch.diff(ends // size, prepend=ends.new_zeros(1)) > 0
        full[-1] = True
        return self.order[place], torch.diff(ends[full], prepend=ends.new_zeros(1)).tolist()

    def begin_epoch(self, epoch: int, forecast: Callable[[], Tensor]) -> None:
        """Re-estimate the workers, from the second epoch on: the first has the votes'."""
        if epoch:
            crowd = self.crowd
            posterior = self.log_posterior(forecast(), crowd.task, crowd.worker, crowd.label, self.matrices).exp()
            self.matrices.copy_(m_step(crowd, posterior, self.smoothing))

    def loss(self, seen: NetworkOutput, batch: Batch) -> Tensor:
        """Return −log P(labels given x) of whole sequences, per task."""
        nodes = self.log_f(seen)
        labelled = self.add_label_potentials(nodes, batch.owner, batch.worker, batch.label, self.matrices)
        place, real = pad_sequences(self.first[self.place[batch.task]])
        free, bound = (log_partition(all_of[place], real, self.start, self.steps) for all_of in (nodes, labelled))
        return divide_by_tasks((free - bound).sum(), batch)

    def confusion(self) -> Tensor:
        """Each worker's matrix."""
        return self.matrices

    def log_marginals(self, nodes: Tensor, order: Tensor, first: Tensor) -> Tensor:
        """Log-probabilities of each task's truth (n, K) given its sequence, tasks as they stand in `nodes`."""
        found = marginals(nodes[order], first, self.start, self.steps)
        return torch.zeros_like(found).index_copy(0, order, found).clamp(min=SMALLEST).log()

    def log_posterior(self, log_f: Tensor, owner: Tensor, worker: Tensor, label: Tensor, confusion: Tensor) -> Tensor:
        """Of the training tasks, given all features and labels of their sequences."""
        return self.log_marginals(
            self.add_label_potentials(log_f, owner, worker, label, confusion), self.order, self.first
        )


@estimator
class EmCrf(Learner):
    """A classifier of tasks in sequences: a linear-chain CRF on a network's logits, and confusion matrices, by EM.

    Facts
    -----
    Assumes: labels along a sequence depend on each other: EM with a linear-chain CRF
    Fails with: tasks that are no sequences
    Paper: Rodrigues, Pereira & Ribeiro 2014, Machine Learning 95

    Parameters
    ----------
    sequences : None, "names", mapping, path or table
        Which tasks follow one another, as for `HmmCrowd`. None: all stand alone, which is EM with a softmax. "names": a
        task named 12_3 is position 3 of sequence 12 (rows of X are named by `tasks=`). A mapping from task to
        (sequence, position), or a path or table with columns task, sequence and position.
    smoothing
        Pseudo-count of every cell of every confusion matrix, above 0.
    batch_size
        Tasks in a step, about: batches hold whole sequences, even longer ones.
    held_out
        Must be 0: the last epoch is taken, or the best on a validation set.

    Attributes
    ----------
    posterior_ : (N, K)
        Given features and labels of the whole sequence.
    transition_ : (K, K) [before, after]
        The CRF's potentials of steps, in nats; only differences matter.

    Notes
    -----
    When it fails: tasks that are no sequences (nothing is gained), or mistakes of a worker that depend on each other
    along a sequence, each of which counts as evidence of its own. The label of a task is its own likeliest class, not
    part of a likeliest path. `score` and a validation set know no sequences: they see each task alone.

    One device. `worker_learning_rate` is that of the CRF's steps; where it
    is None, it is `learning_rate`.

    Examples
    --------
    >>> import numpy as np, crowdwise as cw
    >>> rng = np.random.default_rng(0)
    >>> truth = np.repeat(rng.integers(2, size=(60, 2)), 4, axis=1).ravel()  # 60 sequences of 8, two stretches each
    >>> X = rng.normal(size=(480, 2)) + truth[:, None]
    >>> said = np.where(rng.random((480, 3)) < 0.75, truth[:, None], 1 - truth[:, None])
    >>> words = [f"{row // 8}_{row % 8}" for row in range(480)]
    >>> labels = cw.CrowdLabels.from_dense(said, tasks=words)
    >>> model = cw.EmCrf(sequences="names", network="linear", learning_rate=0.05, epochs=15)
    >>> _ = model.fit(X, labels, tasks=words)
    >>> bool((model.predict(X, tasks=words) == truth).mean() > 0.8)
    True
    """

    slug = "em-crf"
    family = ALTERNATION
    alternates = True
    needs = "sequences"
    path_parameters: ClassVar[dict[str, tuple[str, ...]]] = Learner.path_parameters | {"sequences": (NAMES,)}
    workers_faster: ClassVar[float] = 1.0  # its parameters are the CRF's, and so the classifier's; matrices are counted

    sequences: Any = None
    smoothing: float = 0.1
    held_out: float = 0.0

    @property
    def transition_(self) -> FloatArray:
        """The CRF's potentials of steps (K, K) [before, after]."""
        self._check_fitted()
        potentials: FloatArray = self._crf.steps.detach().double().numpy()
        return potentials

    @property
    def _crf(self) -> EmCrfObjective:
        return cast("EmCrfObjective", self.module_)

    def predict_proba(self, X: Any, labels: Any = None, *, tasks: Any = None, sequences: Any = None) -> FloatArray:
        """Probability of every class (n, K) given the whole sequence: features alone, or features and labels.

        Parameters
        ----------
        X, labels, tasks
            As for every learner.
        sequences
            Of these tasks, as for the learner. None: by their names if the learner's is "names"; else they stand alone.
        """
        self._check_fitted()
        features = make_features(X)
        self._check_shape(features)
        nodes = predict_log_probabilities(self.network_, self.module_, features, torch.arange(len(features)))
        names: Any = tasks
        if labels is not None:
            answers = align_to_rows(read_labels(labels, kind="labels"), features, tasks)
            names, crowd = answers.tasks, Crowd(self._align_labels(answers))
            table = torch.as_tensor(self._append_unknown_worker(self.confusion_), dtype=nodes.dtype)
            nodes = self._crf.add_label_potentials(nodes, crowd.task, crowd.worker, crowd.label, table)
        if names is None:
            names = features.names[0] if features.names else np.arange(len(features))
        source = rule_for_new_tasks(self.sequences) if sequences is None else sequences
        log_f = self._crf.log_marginals(nodes, *order_by_sequence(read_sequences(source, names)))
        self._refuse_missing_probabilities(log_f)
        given = log_f.double().exp()
        shares: FloatArray = (given / given.sum(dim=1, keepdim=True)).numpy()
        return shares

    def _train(self, features: Features, answers: CrowdLabels, validation: ValidationSet | None) -> None:
        self.sequences_ = read_sequences(self.sequences, answers.tasks)
        super()._train(features, answers, validation)

    def _check(self) -> None:
        check_number("smoothing", self.smoothing, low=0, above=True)
        if self.held_out != 0:
            raise InputError(
                f"held_out is {self.held_out}; em-crf cannot take tasks out of their sequences. Set held_out=0, and "
                "give valid=(X, truth) to choose the best epoch."
            )
        if self.devices > 1:
            raise InputError(f"devices is {self.devices}; em-crf trains on one device, whole sequences at a time.")

    def _make_objective(self, crowd: Crowd, classifier: Classifier, features: Features) -> Objective:  # noqa: ARG002
        # A model that is made anew, to be loaded, knows no tasks: they stand alone.
        alone = read_sequences(None, np.arange(crowd.n_tasks))
        return EmCrfObjective(crowd, getattr(self, "sequences_", alone), self.smoothing)
