"""What every aggregator shares: the contract of fitting, predicting, tables and saving."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from crowdwise.fitting.intervals import beta_interval
from crowdwise.fitting.knowledge import knowledge_of
from crowdwise.kernels import NO_GOLD, blocks_of, confusion_pass
from crowdwise.labels.errors import InputError, listed
from crowdwise.labels.model import CrowdLabels
from crowdwise.labels.read import read_labels
from crowdwise.labels.tables import native_table
from crowdwise.labels.vocabulary import positions

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Self

    from crowdwise.fitting.em import Climb
    from crowdwise.fitting.knowledge import Knowledge
    from crowdwise.labels.types import BoolArray, FloatArray, IntArray, TableKind

__all__ = ["Aggregator", "Fit", "ModelNotFittedError"]

TIE = 1e-12  # posteriors closer than this are a tie
NEGLIGIBLE = 1e-12  # entropies below this are rounding


@dataclass(frozen=True)
class Fit:
    """What a method found: the arrays behind the fitted attributes and the two tables.

    Attributes
    ----------
    posterior : (N, K)
    prior : (K,)
    confusion : (M, K, K) [worker, truth, label], or None where the model has none
    skill : (M,)
        Chance that the worker is right.
    skill_beta : (M, 2)
        Parameters of a Beta distribution that says how sure the skill is.
    log_likelihood, objective : (n_iter,)
        One value per iteration; the objective adds the log-density of the parameters' prior, if there is one.
    worker_columns, task_columns
        What the method adds to its tables.
    extra
        Arrays of any shape that are the method's own; they are saved with the model.
    """

    posterior: FloatArray
    prior: FloatArray
    skill: FloatArray
    skill_beta: FloatArray
    confusion: FloatArray | None = None
    log_likelihood: FloatArray = field(default_factory=lambda: np.empty(0))
    objective: FloatArray = field(default_factory=lambda: np.empty(0))
    n_iter: int = 1
    converged: bool = True
    worker_columns: dict[str, FloatArray] = field(default_factory=dict)
    task_columns: dict[str, FloatArray] = field(default_factory=dict)
    extra: dict[str, FloatArray] = field(default_factory=dict)

    def after(self, ended: Climb[Any]) -> Fit:
        """The same, with how the climb that led to it went."""
        return replace(
            self,
            log_likelihood=ended.log_likelihood,
            objective=ended.objective,
            n_iter=ended.n_iter,
            converged=ended.converged,
        )


class ModelNotFittedError(InputError, NotFittedError):
    """A model was asked for results before `fit`."""


class Aggregator(BaseEstimator):  # type: ignore[misc,unused-ignore]
    """Base of all methods that turn labels into a consensus.

    A method gives `_fit(labels, known) -> Fit`, what of `known` it `uses`, and, where its posterior for new tasks is
    not Bayes' rule with `prior_` and `confusion_`, its own `_posterior_of`.
    """

    slug: ClassVar[str]
    uses: ClassVar[frozenset[str]] = frozenset()

    def fit(
        self,
        labels: Any,
        gold: Any = None,
        *,
        class_prior: Any = None,
        known_workers: Any = None,
        known_weight: float = 10.0,
    ) -> Self:
        """Learn the consensus and the workers from the labels alone.

        Parameters
        ----------
        labels
            `CrowdLabels`, or anything that `read_labels` takes: a path, a table, three columns. Where columns have
            names of their own, `fit(read_labels(table, task=…, worker=…, label=…))`.
        gold
            Known truth of some tasks: a mapping from task to label, or a path or table with columns task and label.
        class_prior
            Known shares of the classes, which are then not learnt: a mapping from class to share, or an array.
        known_workers
            Workers met in an earlier project, matched by name: a fitted model, or a mapping from worker to confusion
            matrix (K, K) [truth, label].
        known_weight
            How many answers for each true class a known matrix counts as; above 0, at most 1e9.

        Notes
        -----
        A method that has no use for one of these says so in an error.
        """
        answers = read_labels(labels)
        if answers.n_labels == 0:
            raise InputError("There are no labels to fit. Give at least one answer of one worker to one task.")
        if answers.n_classes < 2:
            only = listed(answers.classes.to_pylist())
            raise InputError(
                f"Labels need at least two classes to choose from; there is only {only}. "
                "Declare all that could have been chosen with classes= in read_labels (on the command line --classes)."
            )
        known = knowledge_of(
            answers,
            gold=gold,
            class_prior=class_prior,
            known_workers=known_workers,
            known_weight=known_weight,
            slug=self.slug,
            uses=self.uses,
        )
        self._remember(answers, self._fit(answers, known))
        return self

    def fit_predict(self, labels: Any, gold: Any = None, **known: Any) -> Any:
        """Fit, then the consensus label of each task; parameters as for `fit`."""
        return self.fit(labels, gold, **known).predict()

    def predict(self, labels: Any = None) -> Any:
        """The most probable class of each task, by name; ties go to the class more common in the labels.

        Parameters
        ----------
        labels
            New labels, by known workers; by default the tasks of `fit`.
        """
        chosen = self._decide(self.predict_proba(labels))
        return self.classes_.take(pa.array(chosen)).to_numpy(zero_copy_only=False)

    def predict_proba(self, labels: Any = None) -> FloatArray:
        """Posterior of each task, tasks × classes.

        Parameters
        ----------
        labels
            New tasks labelled by known workers; by default the tasks of `fit`. A worker unknown to the model
            counts as the average of its crowd.
        """
        self._check_fitted()
        if labels is None:
            fitted: FloatArray = self.posterior_
            return fitted
        return self._posterior_of(self._aligned(read_labels(labels)))

    def consensus(self) -> Any:
        """Table of task, label, confidence, n_labels and entropy (in nats), in the kind that came in."""
        self._check_fitted()
        chosen = self._decide(self.posterior_)
        plogp = np.where(self.posterior_ > 0, self.posterior_ * np.log(np.maximum(self.posterior_, 1e-300)), 0.0)
        columns: dict[str, Any] = {
            "task": self.tasks_,
            "label": self.classes_.take(pa.array(chosen)),
            "confidence": self.posterior_[np.arange(chosen.size), chosen],
            "n_labels": self.labels_per_task_,
            "entropy": np.where(plogp.sum(axis=1) < -NEGLIGIBLE, -plogp.sum(axis=1), 0.0),
        }
        return native_table(columns | self.task_columns_, self.kind_)

    def workers(self, level: float = 0.9) -> Any:
        """Table of worker, n_labels, skill and its interval, and what the method adds.

        Parameters
        ----------
        level
            Probability that the interval from skill_low to skill_high holds the skill, in (0, 1). An interval that
            would leave out the estimate itself is stretched to it.
        """
        self._check_fitted()
        if not 0 < level < 1:
            raise InputError(f"level is {level}; it must lie between 0 and 1, both excluded.")
        low, high = beta_interval(self.skill_beta_, level)
        columns: dict[str, Any] = {
            "worker": self.workers_,
            "n_labels": self.labels_per_worker_,
            "skill": self.skill_,
            "skill_low": np.minimum(low, self.skill_),
            "skill_high": np.maximum(high, self.skill_),
        }
        return native_table(columns | self.worker_columns_, self.kind_)

    def save(self, folder: str | Path) -> None:
        """Write the fitted model to a folder (JSON, Parquet and npz; no pickle). `crowdwise.load` reads it."""
        from crowdwise.fitting.saving import save

        self._check_fitted()
        save(self, folder)

    # ---- what a method gives ----------------------------------------------------------------------------

    def _fit(self, labels: CrowdLabels, known: Knowledge) -> Fit:
        raise NotImplementedError

    def _posterior_of(self, labels: CrowdLabels) -> FloatArray:
        """Bayes' rule with `prior_` and `confusion_`; labels are aligned, strangers are the last worker."""
        with np.errstate(divide="ignore"):
            log_prior = np.log(self.prior_)
        posterior = np.empty((labels.n_tasks, labels.n_classes))
        confusion_pass(blocks_of(labels), log_prior, self._log_table(), NO_GOLD, posterior)
        return posterior

    def _foretell(self, labels: CrowdLabels, task: IntArray, worker: IntArray) -> FloatArray | None:  # noqa: ARG002
        """Probability of every answer (n, K) of workers to tasks of the fit; None where `_states_of` says it all."""
        return None

    def _states_of(self, labels: CrowdLabels) -> FloatArray:  # noqa: ARG002
        """Posterior of the states of the truth that the model tells apart, given the labels of the fit."""
        fitted: FloatArray = self.posterior_
        return fitted

    # ---- shared ------------------------------------------------------------------------------------------

    def _remember(self, labels: CrowdLabels, fit: Fit) -> None:
        self.tasks_, self.workers_, self.classes_ = labels.tasks, labels.workers, labels.classes
        self.kind_: TableKind = labels.kind
        self.labels_per_task_, self.labels_per_worker_ = labels.labels_per_task, labels.labels_per_worker
        self.label_shares_ = labels.class_shares
        for name in Fit.__dataclass_fields__:
            value = getattr(fit, name)
            if value is not None:
                setattr(self, f"{name}_", value)

    def _aligned(self, labels: CrowdLabels) -> CrowdLabels:
        """New labels in the model's own classes and workers, strangers as one worker after the last."""
        classes = positions(labels.classes, self.classes_)
        used = np.unique(labels.label)
        strangers = [labels.classes[int(code)].as_py() for code in used if classes[code] < 0]
        if strangers:
            raise InputError(
                f"The labels hold classes that the model has not seen: {listed(strangers)}. It knows "
                f"{listed(self.classes_.to_pylist())}."
            )
        found = positions(labels.workers, self.workers_)
        workers = np.where(found < 0, len(self.workers_), found)
        return CrowdLabels.from_codes(
            labels.task,
            workers[labels.worker],
            classes[labels.label],
            tasks=labels.tasks,
            workers=len(self.workers_) + 1,
            classes=self.classes_,
            on_duplicate="all",
        )

    def _with_stranger(self, values: FloatArray) -> FloatArray:
        """Values of the workers (M, ...), and last those of a stranger: the mean, weighed by answers."""
        average = np.average(values, axis=0, weights=self.labels_per_worker_)
        return np.concatenate([values, average[None]])

    def _log_table(self) -> FloatArray:
        """Logarithm of P(label | truth), [worker, label, truth], of the workers and last of a stranger."""
        with np.errstate(divide="ignore"):
            return np.ascontiguousarray(np.log(self._with_stranger(self.confusion_)).transpose(0, 2, 1))

    def _decide(self, posterior: FloatArray) -> IntArray:
        """Position of the highest posterior; a tie goes to the class more common in the labels, then the first."""
        chosen: IntArray = np.where(self._tied(posterior), self.label_shares_, -1.0).argmax(axis=1)
        return chosen

    @staticmethod
    def _tied(posterior: FloatArray) -> BoolArray:
        tied: BoolArray = posterior >= posterior.max(axis=1, keepdims=True) - TIE
        return tied

    def _check_fitted(self) -> None:
        if not hasattr(self, "posterior_"):
            raise ModelNotFittedError(f"This {type(self).__name__} is not fitted yet. Call fit(labels) first.")
