"""Parameters as scikit-learn's estimators have them, without importing scikit-learn.

Its `clone`, pipelines and searches ask for methods, not for a base class. Importing the base class takes longer than a
small crowd's fit: it loads scipy.stats and, where it is installed, pandas.
"""

from __future__ import annotations

import copy
import inspect
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from crowdwise.fitting.parameter_checks import plain_number
from crowdwise.fitting.underflow import ignore_underflow
from crowdwise.labels.errors import listing, quote

if TYPE_CHECKING:
    from typing import Self

__all__ = ["Estimator", "clone"]

RECKONING = (
    *("fit", "partial_fit", "predict", "predict_proba", "score", "log_density", "diagnose"),
    *("consensus", "workers", "calibration", "predict_sets", "expected_wrong"),
)

SomeEstimator = TypeVar("SomeEstimator", bound="Estimator")


class Estimator:
    """Whatever is made with parameters, which its attributes hold under the same names, and fitted later."""

    # Parameters that may name a file, and the words that do not: a loaded model keeps no path of a stranger's.
    path_parameters: ClassVar[dict[str, tuple[str, ...]]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        """Let what fits, predicts and tells of a fit ignore underflow, in every class that defines it."""
        super().__init_subclass__(**options)
        for name in RECKONING:
            if inspect.isfunction(vars(cls).get(name)):
                setattr(cls, name, ignore_underflow(vars(cls)[name]))

    @classmethod
    def _parameters(cls) -> dict[str, Any]:
        """Names of the parameters, in alphabetical order, and their defaults."""
        found: dict[str, Any] = {}
        for each in cls.__mro__:  # a class of the user's own may pass on what its base takes: **parameters
            given = (
                list(inspect.signature(vars(each)["__init__"]).parameters.values()) if "__init__" in vars(each) else []
            )
            others = [one for one in given if one.kind in (one.VAR_KEYWORD, one.VAR_POSITIONAL)]
            found = {one.name: one.default for one in given if one.name != "self" and one not in others} | found
            if given and not others:
                break
        return dict(sorted(found.items()))

    def __setattr__(self, name: str, value: Any) -> None:
        """Keep numbers that are parameters as Python's own, whichever way they are set."""
        declared = getattr(type(self), "__dataclass_fields__", {}).get(name)
        super().__setattr__(name, value if declared is None else plain_number(value, str(declared.type)))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name; with `deep` also those of parameters that have some, as `name__inner`."""
        found: dict[str, Any] = {}
        for name in self._parameters():
            value = getattr(self, name)
            if deep and hasattr(value, "get_params") and not isinstance(value, type):
                found |= {f"{name}__{inner}": each for inner, each in value.get_params().items()}
            found[name] = value
        return found

    def set_params(self, **parameters: Any) -> Self:
        """Change parameters; `name__inner` changes one of a parameter's own."""
        inner: dict[str, dict[str, Any]] = {}
        for name, value in parameters.items():
            outer, separator, rest = name.partition("__")
            if outer not in self._parameters():
                raise ValueError(
                    f"{type(self).__name__} has no parameter {quote(outer)}. It has: {listing(self._parameters())}."
                )
            if separator:
                inner.setdefault(outer, {})[rest] = value
            else:
                setattr(self, outer, value)
        for name, own in inner.items():
            value = getattr(self, name)
            if not hasattr(value, "set_params"):
                raise ValueError(f"{name} is {quote(value)}, which has no parameters of its own: {listing(own)}.")
            value.set_params(**own)
        return self

    def _check_parameters(self) -> None:
        """Refuse parameters that are out of range, or of another type."""

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn asks of an estimator before it uses it."""
        from sklearn.utils import Tags, TargetTags

        return Tags(estimator_type=None, target_tags=TargetTags(required=False))

    def __repr__(self) -> str:
        changed = [
            f"{name}={getattr(self, name)!r}"
            for name, default in self._parameters().items()
            if repr(getattr(self, name)) != repr(default)
        ]
        return f"{type(self).__name__}({', '.join(changed)})"


def clone(model: SomeEstimator) -> SomeEstimator:
    """The same, not fitted, with parameters that are copies."""
    given = model.get_params(deep=False)
    return type(model)(
        **{name: clone(each) if isinstance(each, Estimator) else copy.deepcopy(each) for name, each in given.items()}
    )
