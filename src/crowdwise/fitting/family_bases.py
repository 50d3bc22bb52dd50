"""What the methods of a family share: facts, parameters, what they say of their results, and the end of their fits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, TypedDict, TypeVar

import numpy as np

from crowdwise.fitting.base import Aggregator, Fit
from crowdwise.fitting.categorical_em import fit_coin_skill
from crowdwise.fitting.crowd_model import FittedArray
from crowdwise.fitting.em import climb
from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.method_facts import BAYESIAN, EM, MOMENTS, STRUCTURE, VOTES
from crowdwise.fitting.parameter_checks import check_flag, check_number
from crowdwise.fitting.prior_knowledge import GOLD, KNOWN_WORKERS, PRIOR
from crowdwise.fitting.saved_arrays import ROUNDING, SavedArray
from crowdwise.fitting.skill_intervals import mean_vote_agreement
from crowdwise.labels.sequences import NAMES, read_sequences, rule_for_new_tasks

if TYPE_CHECKING:
    from collections.abc import Callable

    from crowdwise.fitting.em import Climb
    from crowdwise.fitting.prior_knowledge import PriorKnowledge
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.sequences import Sequences
    from crowdwise.labels.types import BoolArray, FloatArray, IntArray

__all__ = [
    "AccuracyAggregator",
    "BayesianAggregator",
    "ClimbingAggregator",
    "GroupAggregator",
    "MomentAggregator",
    "RowPriorAggregator",
    "SequenceAggregator",
    "SmoothingAggregator",
    "VoteAggregator",
    "WeightedVoteAggregator",
]

P = TypeVar("P")


class Limits(TypedDict):
    """How long a climb may last, and what its progress bar says: keywords of `climb`."""

    max_iter: int
    tol: float
    name: str


@estimator
class ClimbingAggregator(Aggregator):
    """Base of methods whose iterations climb an objective until they gain no more."""

    uses = frozenset({GOLD, PRIOR})
    climbs = True

    max_iter: int = 500
    tol: float = 1e-6

    @property
    def _climb_options(self) -> Limits:
        return {"max_iter": self.max_iter, "tol": self.tol, "name": self.slug}

    def _climb(self, start: P, step: Callable[[P], tuple[float, float, P]], labels: CrowdLabels) -> Climb[P]:
        """Climb from one start, `tol` being the least gain for each label."""
        return climb([start], step, max_iter=self.max_iter, tol=self.tol * labels.n_labels, name=self.slug)


@estimator
class SmoothingAggregator(ClimbingAggregator):
    """Base of methods by EM whose matrices, or accuracies, have pseudo-counts."""

    family = EM

    smoothing: float = 0.0

    def _check(self) -> None:
        check_number("smoothing", self.smoothing, low=0)


@estimator
class BayesianAggregator(ClimbingAggregator):
    """Base of methods that find posteriors of the workers' confusion matrices.

    Attributes
    ----------
    prior_ : (K,)
        Mean of the class shares.
    confusion_ : (M, K, K)
        Mean of P(worker says l | truth is k) at [worker, k, l].
    skill_ : (M,)
        Chance that a worker is right, drawn towards the crowd's where her answers are few.
    log_likelihood_, objective_ : (n_iter_,)
        The E-step's value and the bound on the log-evidence, constants included, at each iteration.
    """

    family = BAYESIAN
    uses = frozenset({GOLD, PRIOR, KNOWN_WORKERS})


@estimator
class RowPriorAggregator(BayesianAggregator):
    """Base of those with a Dirichlet prior of every row of a worker's matrix.

    Parameters
    ----------
    right, wrong : float, above 0
        Pseudo-counts of the Dirichlet prior of every row of every worker, on the diagonal and off it.
    """

    right: float = 4.0
    wrong: float = 1.0

    def _check(self) -> None:
        for name in ("right", "wrong"):
            check_number(name, getattr(self, name), low=0, above=True)


@estimator
class VoteAggregator(Aggregator):
    """Base of methods whose posterior is a share of votes.

    Attributes
    ----------
    prior_ : (K,)
        Mean share of each class.
    skill_ : (M,)
        Chance that a worker is right, as `one-coin` would judge from the winners of the vote. The mean share of the
        vote behind a worker's labels, their own vote included, is the column `agreement` of `workers()`.
    """

    family = VOTES
    has_confusion = False
    saved: ClassVar[tuple[SavedArray, ...]] = (SavedArray("worker_columns/agreement", "M", low=0, high=1 + ROUNDING),)

    def _make_fit_from_votes(
        self,
        labels: CrowdLabels,
        known: PriorKnowledge,
        posterior: FloatArray,
        columns: dict[str, FloatArray],
        **more: Any,
    ) -> Fit:
        """The fit of shares of votes (N, K); `columns` are those of the workers, `more` is how it came to them."""
        prior = posterior.mean(axis=0)
        skill, skill_beta = fit_coin_skill(labels, known, posterior, prior)
        columns = columns | {"agreement": mean_vote_agreement(labels, posterior)}
        return Fit(posterior=posterior, prior=prior, skill=skill, skill_beta=skill_beta, worker_columns=columns, **more)


@estimator
class WeightedVoteAggregator(VoteAggregator):
    """Base of methods that weigh votes by one weight for each worker, found in rounds.

    Parameters
    ----------
    max_iter : int
        Most rounds.

    Attributes
    ----------
    posterior_ : (N, K)
        Share of the weight behind each class.
    weights_ : (M,)
        Weight of each worker (also a column of `workers()`).
    """

    uses = frozenset({GOLD})

    max_iter: int = 100

    weights_ = FittedArray(SavedArray("worker_columns/weight", "M", low=0), "Weight of each worker.")


@estimator
class GroupAggregator(Aggregator):
    """Base of methods that know of groups of workers who err together.

    Parameters
    ----------
    groups : "found", int, mapping, sequence
        Who belongs together: found from the labels, where the evidence is strong enough, and nobody otherwise; as many
        groups as this, of those who agree most beyond the truth; or given, as a mapping from worker to group or a group
        for each worker, None or -1 for those in no group.
    random_state : int
        For finding groups.

    Attributes
    ----------
    group_ : (M,)
        Group of each worker, counted from 0; -1 for those in no group (also a column of `workers()`).
    """

    random = True
    saved: ClassVar[tuple[SavedArray, ...]] = (SavedArray("worker_columns/group", "M", low=-1, codes="M"),)

    groups: Any = "found"
    random_state: int = 0

    @property
    def group_(self) -> IntArray:
        """Group of each worker (M,), -1 for those in no group."""
        self._check_fitted()
        group: IntArray = self.worker_columns_["group"].astype(np.int64)
        return group


@estimator
class AccuracyAggregator(Aggregator):
    """Base of methods that find one accuracy for every worker, and judge the tasks by Bayes' rule with them.

    Attributes
    ----------
    posterior_ : (N, K)
        Probability of each class for each task, by Bayes' rule with the accuracies.
    prior_ : (K,)
        Uniform, or the class prior given.
    confusion_ : (M, K, K)
        P(worker says l | truth is k) at [worker, k, l]: the accuracy on the diagonal, the rest spread evenly.
    skill_ : (M,)
        Accuracy of each worker.
    """

    family = MOMENTS
    uses = frozenset({PRIOR})


@estimator
class MomentAggregator(Aggregator):
    """Base of methods that find confusion matrices in the joint answers of workers.

    Parameters
    ----------
    max_workers : int
        Most workers whose matrix is found from joint answers: those with the most answers beside others'. The rest
        get the matrix that one M-step finds.

    Attributes
    ----------
    posterior_ : (N, K)
        Probability of each class for each task: Bayes' rule with `prior_` and `confusion_`.

    Examples
    --------
    >>> from crowdwise.simulate import simulate
    >>> sizes = {"n_tasks": 2000, "n_workers": 8, "n_classes": 3, "labels_per_task": None}
    >>> crowd = simulate("dawid-skene", **sizes, skill=0.8, random_state=1)
    >>> crowd.skill.round(2).tolist()
    [0.8, 0.82, 0.94, 0.77, 0.78, 0.84, 0.8, 0.84]
    """

    family = MOMENTS
    uses = frozenset({GOLD, PRIOR})
    example = ">>> {name}().fit(crowd.labels).skill_.round(2).tolist()\n[0.8, 0.81, 0.93, 0.77, 0.76, 0.83, 0.79, 0.85]"

    max_workers: int = 500


@estimator
class SequenceAggregator(ClimbingAggregator):
    """Base of methods for tasks in sequences, along which the truth is a Markov chain.

    Parameters
    ----------
    sequences : None, "names", mapping, path or table
        Which tasks follow one another. None: all stand alone. "names": a task named 12_3 is position 3 of sequence 12,
        and a task whose name has no number after a separator (_ - : / #) stands alone. A mapping from task to
        (sequence, position), or a path or table with columns task, sequence and position: as it says.
    bio : bool
        Whether classes that are BIO tags (O, B-x and I-x, each letter among them) keep the rule that I-x follows
        only B-x or I-x. Without effect on other classes, and where all tasks stand alone.

    Attributes
    ----------
    posterior_ : (N, K)
        Probability of each class for each task, given the labels of its whole sequence.
    prior_ : (K,)
        Share of each class among all tasks.
    start_ : (K,)
        Share of each class among the first tasks of sequences.
    transition_ : (K, K)
        P(the next truth is l | the truth is k) at [k, l].

    Examples
    --------
    >>> from crowdwise.labels import read_labels
    >>> words = [f"{sentence}_{place}" for sentence in range(3) for place in range(3)]
    >>> labels = read_labels({
    ...     "task": [word for word in words for _ in range(3)],
    ...     "worker": ["ann", "bob", "cy"] * 9,
    ...     "label": "B B O I I O O O O O O O B B B I I I B B O I I O O O O".split(),
    ... })
    """

    family = STRUCTURE
    uses = frozenset({GOLD, KNOWN_WORKERS})
    needs = "sequences"
    path_parameters: ClassVar[dict[str, tuple[str, ...]]] = {"sequences": (NAMES,)}

    sequences: Any = None
    bio: bool = True

    def _check(self) -> None:
        check_flag("bio", self.bio)

    def _tasks_to_fit(self, labels: CrowdLabels, told: BoolArray) -> BoolArray:
        """Tasks of sequences in which something is told: one without labels is a link of its sequence."""
        sequences = read_sequences(self.sequences, labels.tasks)
        lengths = np.diff(sequences.ptr)
        some = np.add.reduceat(told[sequences.order], sequences.ptr[:-1]) > 0
        chosen = np.empty(told.size, bool)
        chosen[sequences.order] = np.repeat(some, lengths)
        return chosen

    def _recalls_tasks(self) -> bool:
        """Where names do not tell the sequences, a task that is met again stands alone."""
        return self.sequences is not None and rule_for_new_tasks(self.sequences) is None

    def _sequences_of_fit(self, labels: CrowdLabels) -> Sequences:
        """The sequences of the labels of a fit; whether any name tells one was checked on all tasks."""
        return read_sequences(rule_for_new_tasks(self.sequences) or self.sequences, labels.tasks)

    def _predict_left_out(self, labels: CrowdLabels) -> FloatArray:
        return self._predict_in_sequences(labels, self._sequences_of_fit(labels))

    def _predict_posterior(self, labels: CrowdLabels) -> FloatArray:
        """As along the sequences that names of new tasks tell; strangers are the last worker."""
        return self._predict_in_sequences(labels, read_sequences(rule_for_new_tasks(self.sequences), labels.tasks))

    def _predict_in_sequences(self, labels: CrowdLabels, sequences: Sequences) -> FloatArray:
        raise NotImplementedError
