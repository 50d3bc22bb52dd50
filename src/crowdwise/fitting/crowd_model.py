"""What every fitted model of a crowd shares: its arrays, its two tables, and names of new labels matched to its own."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field, replace
from functools import cached_property
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, overload

import numpy as np
import pyarrow as pa

from crowdwise.fitting.estimator_parameters import Estimator
from crowdwise.fitting.saved_arrays import SHARED, SavedArray
from crowdwise.fitting.shared_errors import FEWEST_LABELS, has_enough_labels_per_task
from crowdwise.fitting.skill_intervals import beta_interval
from crowdwise.labels.crowd_labels import CrowdLabels
from crowdwise.labels.engine_choice import use_engine
from crowdwise.labels.errors import InputError, listing, quote
from crowdwise.labels.old_names import rename_parameters
from crowdwise.labels.table_output import native_table
from crowdwise.labels.vocabulary import positions

if TYPE_CHECKING:
    from typing import Self

    import numpy.typing as npt

    from crowdwise.fitting.em import Climb
    from crowdwise.fitting.method_facts import Family
    from crowdwise.fitting.skill_posterior import Deferred
    from crowdwise.labels.types import BoolArray, FloatArray, IntArray, TableKind

__all__ = [
    "CrowdModel",
    "Fit",
    "FittedArray",
    "ModelNames",
    "align_labels",
    "choose_classes",
    "make_consensus_columns",
]

TIE = 1e-12  # posteriors closer than this are a tie
FEWEST_WORKERS = 8  # from which on those who err together can be told from the others
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
        Parameters of a Beta distribution that says how sure the skill is; or what computes them when asked for.
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
    skill_beta: FloatArray | Deferred
    confusion: FloatArray | None = None
    log_likelihood: FloatArray = field(default_factory=lambda: np.empty(0))
    objective: FloatArray = field(default_factory=lambda: np.empty(0))
    n_iter: int = 1
    converged: bool = True
    worker_columns: dict[str, FloatArray] = field(default_factory=dict)
    task_columns: dict[str, FloatArray] = field(default_factory=dict)
    extra: dict[str, FloatArray] = field(default_factory=dict)

    def attach_climb_history(self, ended: Climb[Any] | Fit) -> Fit:
        """The same, with how the climb that led to it went."""
        return replace(
            self,
            log_likelihood=ended.log_likelihood,
            objective=ended.objective,
            n_iter=ended.n_iter,
            converged=ended.converged,
        )


class ModelNames(NamedTuple):
    """The names of a model's tasks, workers and classes, as the labels have them."""

    tasks: pa.Array
    workers: pa.Array
    classes: pa.Array


class FittedArray:
    """A fitted attribute that names one of the arrays a fit keeps apart: `ability_ = FittedArray(SavedArray(…), …)`.

    Parameters
    ----------
    saved
        The array, in "worker_columns", "task_columns" or "extra".
    words
        What it is.
    """

    def __init__(self, saved: SavedArray, words: str) -> None:
        self.saved, self.__doc__ = saved, words
        self.kept, _, self.name = saved.name.partition("/")

    @overload
    def __get__(self, model: None, owner: type[CrowdModel]) -> Self: ...
    @overload
    def __get__(self, model: CrowdModel, owner: type[CrowdModel]) -> FloatArray: ...
    def __get__(self, model: CrowdModel | None, owner: type[CrowdModel]) -> Self | FloatArray:
        if model is None:
            return self
        model._check_fitted()
        found: FloatArray = getattr(model, f"{self.kept}_")[self.name]
        return found


def make_consensus_columns(
    posterior: FloatArray, chosen: IntArray, names: ModelNames, labels_per_task: IntArray
) -> dict[str, Any]:
    """The columns task, label, confidence, n_labels and entropy, of tasks with this posterior and these choices."""
    plogp = np.where(posterior > 0, posterior * np.log(np.maximum(posterior, 1e-300)), 0.0)
    return {
        "task": names.tasks,
        "label": names.classes.take(pa.array(chosen)),
        "confidence": posterior[np.arange(chosen.size), chosen],
        "n_labels": labels_per_task,
        "entropy": np.where(plogp.sum(axis=1) < -NEGLIGIBLE, -plogp.sum(axis=1), 0.0),
    }


def choose_classes(posterior: FloatArray, label_shares: FloatArray) -> IntArray:
    """Position of the highest posterior; a tie goes to the class more common in the labels, then the first."""
    tied = posterior >= posterior.max(axis=1, keepdims=True) - TIE
    chosen: IntArray = np.where(tied, label_shares, -1.0).argmax(axis=1)
    return chosen


def align_labels(labels: CrowdLabels, workers: pa.Array, classes: pa.Array) -> CrowdLabels:
    """New labels in the classes and workers that a model knows, strangers as one worker after the last."""
    code = positions(labels.classes, classes)
    strangers = [labels.classes[int(each)].as_py() for each in np.unique(labels.label) if code[each] < 0]
    if strangers:
        raise InputError(
            f"The labels hold classes that the model has not seen: {listing(strangers)}. It knows "
            f"{listing(classes.to_pylist())}."
        )
    found = positions(labels.workers, workers)
    return CrowdLabels.from_codes(
        labels.task,
        np.where(found < 0, len(workers), found)[labels.worker],
        code[labels.label],
        tasks=labels.tasks,
        workers=len(workers) + 1,
        classes=classes,
        on_duplicate="all",
    )


class CrowdModel(Estimator):
    """Base of all that is fitted to a crowd's labels: the consensus and the workers, once there is a `Fit`."""

    slug: ClassVar[str]
    family: ClassVar[Family]
    needs: ClassVar[str] = ""
    example: ClassVar[str]  # for a method that shows none of its own
    has_confusion: ClassVar[bool] = True
    # The arrays that the class adds to those that its bases save, or changes; a `FittedArray` is declared by itself.
    saved: ClassVar[tuple[SavedArray, ...]] = SHARED
    posterior_: FloatArray
    prior_: FloatArray
    skill_: FloatArray
    confusion_: FloatArray
    log_likelihood_: FloatArray
    objective_: FloatArray
    n_iter_: int
    converged_: bool
    worker_columns_: dict[str, FloatArray]
    task_columns_: dict[str, FloatArray]
    extra_: dict[str, Any]
    _skill_beta: FloatArray | Deferred
    _engine_of_fit: str | None = None
    _stream: Any = None  # the online model behind `partial_fit`
    _is_loaded: bool = False  # and not fitted since
    _names: ModelNames

    @cached_property
    def tasks_(self) -> npt.NDArray[Any]:
        """Names of the tasks (N,), in the order of `posterior_`."""
        return self._as_numpy("tasks")

    @cached_property
    def workers_(self) -> npt.NDArray[Any]:
        """Names of the workers (M,), in the order of `skill_`."""
        return self._as_numpy("workers")

    @cached_property
    def classes_(self) -> npt.NDArray[Any]:
        """Names of the classes (K,), in the order of the columns of `posterior_`."""
        return self._as_numpy("classes")

    def consensus(self) -> Any:
        """Table of task, label, confidence, n_labels and entropy (in nats), in the kind that came in."""
        self._check_fitted()
        return native_table(self.consensus_columns(slice(0, self.posterior_.shape[0])), self.kind_)

    def consensus_columns(self, tasks: slice) -> dict[str, Any]:
        """The columns of `consensus()`, of some tasks."""
        posterior = np.asarray(self.posterior_[tasks])
        columns = make_consensus_columns(
            posterior,
            self._decide(posterior),
            ModelNames(self._names.tasks[tasks.start : tasks.stop], self._names.workers, self._names.classes),
            self.labels_per_task_[tasks],
        )
        # What is not a number is not known: a null, as tables say it.
        own = {name: pa.array(values[tasks], from_pandas=True) for name, values in self.task_columns_.items()}
        return columns | own

    def workers(self, level: float = 0.9) -> Any:
        """Table of worker, n_labels, skill and its interval, and what the method adds.

        Parameters
        ----------
        level
            Probability that the interval from skill_low to skill_high holds the skill, in (0, 1). An interval that
            would leave out the estimate itself is stretched to it.

        Notes
        -----
        Skill is the chance that the worker is right. No truth is seen, so an interval rests on the model: on the
        worker's own answers, on how sure their truths are, and on the other workers, all drawn from their posterior
        (`fitting.skill_sampler`; a closed form for more than 100,000 labels). Where the labels show that workers err
        together, or are too few to tell, it is lower and wider (`fitting.shared_errors`). No label can show that most
        of a crowd is misled in the same way: `skill_caveat()` says what these labels cannot tell.
        """
        self._check_fitted()
        if not isinstance(level, Real) or not 0 < level < 1:
            raise InputError(f"level is {quote(level)}; it must lie between 0 and 1, both excluded.")
        low, high = beta_interval(self.skill_beta_, float(level))
        columns: dict[str, Any] = {
            "worker": self._names.workers,
            "n_labels": self.labels_per_worker_,
            "skill": self.skill_,
            "skill_low": np.minimum(low, self.skill_),
            "skill_high": np.maximum(high, self.skill_),
        }
        return native_table(columns | self.worker_columns_, self.kind_)

    def skill_caveat(self) -> str:
        """What the labels cannot tell of the workers' skill, as a sentence; empty where they can tell."""
        self._check_fitted()
        labelled = self.labels_per_task_[self.labels_per_task_ > 0]
        alone = float(np.mean(labelled == 1)) if labelled.size else 1.0
        if alone == 1:
            return "No task has two labels: nothing here tells whether a worker is right. The skill is a guess."
        n_workers = int((self.labels_per_worker_ > 0).sum())
        if has_enough_labels_per_task(self.labels_per_task_):
            if n_workers >= FEWEST_WORKERS:
                return ""
            return (
                f"With {n_workers} workers, labels hardly tell who is right from who errs together with others; if "
                "they do (models of one make often do), the skills are too high. Known answers (gold) would tell."
            )
        return (
            f"A task has {labelled.mean():.1f} labels on average. With fewer than {FEWEST_LABELS:.0f}, labels cannot "
            "tell skilled workers from workers who make the same mistakes; the intervals of skill assume that some "
            "mistakes are shared, and hold no further than that."
        )

    def plot(self, what: str = "overview", **options: Any) -> Any:
        """A Vega-Altair chart of the fitted model, for notebooks; `.save("x.svg")` or `"x.png"` writes it.

        Parameters
        ----------
        what
            "overview" (how sure the consensus is, and skill against volume of the workers), "confidence", "workers",
            "confusion" (of the whole crowd, or of one: `worker="ann"`) or "calibration" (on `truth=`, given as the
            gold of `fit`; without it on the gold of the fit).
        """
        self._check_fitted()
        # Found by name: the room of charts lies above this one, and needs an extra that fitting does not.
        return importlib.import_module("crowdwise.report.charts").plot_model(self, what, **options)

    def set_params(self, **parameters: Any) -> Self:
        """Change parameters, as scikit-learn's estimators do; `seed` is an old name of `random_state`."""
        changed: Self = super().set_params(**rename_parameters(parameters, type(self).__name__))
        return changed

    @classmethod
    def _saved_arrays(cls) -> tuple[SavedArray, ...]:
        """All arrays that a fitted model of this class saves."""
        declared: dict[str, SavedArray] = {}
        for base in reversed(cls.__mro__):
            own = [each.saved for each in vars(base).values() if isinstance(each, FittedArray)]
            declared |= {each.name: each for each in (*vars(base).get("saved", ()), *own)}
        return tuple(each for name, each in declared.items() if cls.has_confusion or name != "confusion")

    def _check_restored(self) -> None:
        """Refuse what no fit could have saved, though each array by itself is as declared."""
        if not self.labels_per_task_.any() or self.labels_per_task_.sum() != self.labels_per_worker_.sum():
            raise InputError("labels_per_task and labels_per_worker do not count the same labels")

    def _remember(self, labels: CrowdLabels, fit: Fit) -> None:
        self._set_names(ModelNames(labels.tasks, labels.workers, labels.classes))
        self.kind_: TableKind = labels.kind
        self.labels_per_task_, self.labels_per_worker_ = labels.labels_per_task, labels.labels_per_worker
        self.label_shares_ = labels.class_shares
        for name in Fit.__dataclass_fields__:
            value = getattr(fit, name)
            if value is not None:
                setattr(self, f"{name}_", value)
        self.n_iter_, self.converged_ = int(fit.n_iter), bool(fit.converged)  # a file holds no NumPy scalars

    def _set_names(self, names: ModelNames) -> None:
        self._names = names
        for name in names._fields:
            self.__dict__.pop(f"{name}_", None)  # of an earlier fit

    def _as_numpy(self, name: str) -> npt.NDArray[Any]:
        """Integers, or objects that are plain strings; made when asked for, since millions of strings take room."""
        self._check_fitted("_names")
        names: npt.NDArray[Any] = getattr(self._names, name).to_numpy(zero_copy_only=False)
        return names

    @property
    def skill_beta_(self) -> FloatArray:
        """Parameters (M, 2) of the Beta distributions behind the intervals of skill."""
        self._check_fitted()
        found = self._skill_beta
        if callable(found):
            with (
                use_engine(self._engine_of_fit),
                np.errstate(under="ignore"),
            ):  # intervals are made later, where the fit was made
                found = self._skill_beta = found()
        return found

    @skill_beta_.setter
    def skill_beta_(self, value: FloatArray | Deferred) -> None:
        self._skill_beta = value

    def __getstate__(self) -> Any:
        """The model with its intervals computed, so that it can be pickled and copied without its labels."""
        if hasattr(self, "_skill_beta"):
            self._skill_beta = self.skill_beta_
        return super().__getstate__()

    def _align_labels(self, labels: CrowdLabels) -> CrowdLabels:
        return align_labels(labels, self._names.workers, self._names.classes)

    def _append_unknown_worker(self, values: FloatArray) -> FloatArray:
        """Values of the workers (M, ...), and last those of a stranger: the mean, weighed by answers."""
        average = np.average(values, axis=0, weights=self.labels_per_worker_)
        return np.concatenate([values, average[None]])

    def _log_confusion_table(self) -> FloatArray:
        """Logarithm of P(label | truth), [worker, truth, label], of the workers and last of a stranger."""
        with np.errstate(divide="ignore"):
            table: FloatArray = np.log(self._append_unknown_worker(self.confusion_))
        return table

    def _decide(self, posterior: FloatArray) -> IntArray:
        """Position of the highest posterior; a tie goes to the class more common in the labels, then the first.

        It is here alone, where labels do not tell classes apart, that a result depends on the order of the classes.
        """
        return choose_classes(posterior, self.label_shares_)

    @staticmethod
    def _find_ties(posterior: FloatArray) -> BoolArray:
        tied: BoolArray = posterior >= posterior.max(axis=1, keepdims=True) - TIE
        return tied

    def _check_fitted(self, attribute: str = "posterior_") -> None:
        if not hasattr(self, attribute):
            from crowdwise.fitting.scikit_learn_errors import ModelNotFittedError

            raise ModelNotFittedError(f"This {type(self).__name__} is not fitted yet. Call fit first.")
