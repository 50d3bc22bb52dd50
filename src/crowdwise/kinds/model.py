"""What every model of answers that are no classes shares: the contract of fitting, predicting and saving."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import numpy as np

from crowdwise.fitting.estimator_parameters import Estimator
from crowdwise.fitting.parameter_checks import check_climb, check_random_state
from crowdwise.fitting.saved_arrays import SavedArray
from crowdwise.kinds.answers import Answers
from crowdwise.kinds.kind_registry import kind
from crowdwise.labels.errors import InputError
from crowdwise.labels.old_names import rename_parameters
from crowdwise.labels.vocabulary import as_vocabulary, positions

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Self

    import numpy.typing as npt
    import pyarrow as pa

    from crowdwise.kinds.agreement import Agreement
    from crowdwise.labels.types import FloatArray, IntArray, TableKind

__all__ = ["Found", "KindModel", "check_level"]

A = TypeVar("A", bound=Answers)


@dataclass(frozen=True)
class Found:
    """What a method found: its arrays by the names under which it saves them, and how its iterations went.

    `names` are vocabularies that come of the fit and not of the answers.
    """

    arrays: dict[str, FloatArray]
    objective: FloatArray = field(default_factory=lambda: np.empty(0))
    n_iter: int = 1
    converged: bool = True
    names: dict[str, pa.Array] = field(default_factory=dict)


class KindModel(Estimator, Generic[A]):
    """Base of all methods for answers that are no classes.

    A kind has a base of its own, which reads its answers and gives the tables `consensus` and `workers`. A method is an
    `estimator` with its own parameters. It gives the facts below, `_check()` where it has parameters to refuse,
    `_fit(answers, gold) -> Found`, and where it can, `_log_density` of answers that it has not seen. The facts in words
    (what it assumes, when not to use it, its cost, where it was published) are the section Facts of its docstring, the
    others are class attributes:

    - `slug`: its name on the command line, one for each kind;
    - `kind`: the kind of answers that it takes;
    - `saved`: the arrays that a fit finds and a saved model holds, name by name: "value" is the attribute `value_`;
    - `vocabularies`: the names that a model keeps, and the size in `saved` that counts them;
    - `uses`: what it can be told besides the answers: "gold";
    - `climbs`: whether its iterations climb an objective that never falls;
    - `guessed`: what answers do not tell where no task has two of them; "" where that is not said.

    Parameters
    ----------
    max_iter : int
        Most iterations.
    tol : float
        Stop when an iteration gains no more than this per answer.
    random_state : int
        Same number, same answer.

    Attributes
    ----------
    objective_ : (n_iter_,)
        What the iterations climb, at each of them; empty where there is none.
    n_iter_, converged_
        How the iterations ended; 1 and True where there are none.
    """

    slug: ClassVar[str]
    kind: ClassVar[str]
    needs: ClassVar[str] = ""
    uses: ClassVar[frozenset[str]] = frozenset()
    climbs: ClassVar[bool] = False
    vocabularies: ClassVar[dict[str, str]] = {"tasks": "N", "workers": "M"}
    guessed: ClassVar[str] = ""
    example: ClassVar[str]
    saved: ClassVar[tuple[SavedArray, ...]] = (
        SavedArray("objective", "O", low=-np.inf, missing=True),
        SavedArray("answers_per_worker", "M", low=0, high=2**31, integer=True),
    )
    n_iter_: int
    converged_: bool
    objective_: FloatArray
    answers_per_worker_: IntArray
    answers_per_task_: IntArray
    table_kind_: TableKind
    _names: dict[str, pa.Array]

    def fit(self, answers: Any, gold: Any = None) -> Self:
        """Learn the consensus and the workers from the answers; a worker who gave none is left out.

        Parameters
        ----------
        answers
            Answers of this kind, or anything that they can be read from: a path, a table.
        gold
            Known truth of some tasks, for methods that can use it: a mapping, a path or a table.
        """
        read = self._read(answers)
        if not read.n_answers:
            raise InputError("There are no answers to fit. Give at least one.")
        if gold is not None and "gold" not in self.uses:
            raise InputError(f"{self.slug} has no use for gold. Leave it out, or take another method.")
        self._check_parameters()
        # A worker without answers would count in what workers have in common (means, spreads, folds).
        read = read.keep_active_workers()
        self._remember(read, self._fit(read, None if gold is None else self._align_gold(gold, read)))
        return self

    def predict(self, answers: Any = None) -> Any:
        """Table of the consensus: of the answers of the fit, or of new ones by known workers."""
        self._check_fitted()
        if answers is None:
            return self.consensus()
        return self._predict_table(self._read(answers))

    def consensus(self, level: float = 0.9) -> Any:
        """Table of the consensus, with intervals of this level."""
        raise NotImplementedError

    def workers(self, level: float = 0.9) -> Any:
        """Table of the workers, with intervals of this level."""
        raise NotImplementedError

    def log_density(self, answers: Any) -> FloatArray:
        """How probable each of these answers is, in logarithms (n,), to a model that has not seen them."""
        self._check_fitted()
        return self._log_density(self._read(answers))

    def caveat(self) -> str:
        """What the answers cannot tell, as a sentence; empty where they can tell."""
        self._check_fitted()
        if not self.guessed or (self.answers_per_task_ > 1).any():
            return ""
        return f"No task has two answers: nothing here tells {self.guessed} a guess."

    def save(self, folder: str | Path) -> None:
        """Write the fitted model to a folder (JSON, Parquet and npz; no pickle). `crowdwise.load` reads it."""
        from crowdwise.kinds.saving import save_kind_model

        self._check_fitted()
        save_kind_model(self, folder)

    @property
    def workers_(self) -> npt.NDArray[Any]:
        """Names of the workers (M,)."""
        return self._as_numpy("workers")

    def set_params(self, **parameters: Any) -> Self:
        """Change parameters, as scikit-learn's estimators do."""
        changed: Self = super().set_params(**rename_parameters(parameters, type(self).__name__))
        return changed

    # ---- what a kind gives --------------------------------------------------------------------------------

    def _read(self, answers: Any) -> A:
        """Answers of this kind, by its reader."""
        read: Any = kind(self.kind).read
        found: A = read(answers)
        return found

    def _align_gold(self, gold: Any, answers: A) -> Any:
        raise NotImplementedError

    def _predict_table(self, answers: A) -> Any:
        raise NotImplementedError

    # ---- what a method gives ------------------------------------------------------------------------------

    def _check(self) -> None:
        """Refuse parameters of the method's own; those that `KindModel` describes are checked for all."""

    def _fit(self, answers: A, gold: Any) -> Found:
        raise NotImplementedError

    def _log_density(self, answers: A) -> FloatArray:  # noqa: ARG002
        raise InputError(f"{self.slug} does not tell how probable answers are.")

    def _agreement(self, answers: A) -> Agreement:
        """How far answers of workers whom the model has not seen agree with its consensus, for the audit."""
        raise NotImplementedError

    # ---- the rest -----------------------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        given = self.get_params(deep=False)
        if "max_iter" in given:
            check_climb(given["max_iter"], given.get("tol", 0.0))
        if given.get("random_state") is not None:
            check_random_state(given["random_state"])
        self._check()

    def _check_fitted(self) -> None:
        if not hasattr(self, "_names"):
            raise InputError(f"This {type(self).__name__} is not fitted yet. Call fit first.")

    def _check_restored(self) -> None:
        """Refuse what no fit could have saved, though each array by itself is as declared."""

    def _remember(self, answers: A, found: Found) -> None:
        self._names = {
            name: as_vocabulary(found.names[name] if name in found.names else getattr(answers, name), name)
            for name in self.vocabularies
        }
        self.table_kind_ = answers.table_kind
        for name in ("answers_per_worker", "answers_per_task", "answers_per_item"):
            if hasattr(answers, name):
                setattr(self, f"{name}_", getattr(answers, name).astype(np.int64))
        self.objective_, self.n_iter_ = np.asarray(found.objective, np.float64), int(found.n_iter)
        self.converged_ = bool(found.converged)
        for name, values in found.arrays.items():
            setattr(self, f"{name}_", values)

    @classmethod
    def _saved_arrays(cls) -> tuple[SavedArray, ...]:
        """All arrays that a fitted model of this class saves."""
        declared: dict[str, SavedArray] = {}
        for base in reversed(cls.__mro__):
            declared |= {each.name: each for each in vars(base).get("saved", ())}
        return tuple(declared.values())

    def _as_numpy(self, name: str) -> npt.NDArray[Any]:
        self._check_fitted()
        names: npt.NDArray[Any] = self._names[name].to_numpy(zero_copy_only=False)
        return names

    def _positions_of_workers(self, answers: A) -> IntArray:
        """The model's position of the worker of each answer; M, one after the last, for a stranger."""
        found = positions(answers.workers, self._names["workers"])
        known: IntArray = np.where(found < 0, len(self._names["workers"]), found)[answers.worker]
        return known


def check_level(level: Any) -> float:
    """Return a probability of an interval, refusing what lies outside (0, 1)."""
    if not isinstance(level, int | float) or not 0 < level <= 1 - 1e-9:  # above it, ends are lost in rounding
        raise InputError(f"level is {level}; it must lie between 0 and 1, both excluded.")
    return float(level)
