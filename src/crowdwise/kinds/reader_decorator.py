"""What the readers of all kinds share: answers that were read before come back as they are."""

from __future__ import annotations

import inspect
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable

    from crowdwise.kinds.answers import Answers

__all__ = ["reader_of"]

Read = TypeVar("Read", bound="Answers")
Own = ParamSpec("Own")

HEAD = "Parameters\n----------\n"


def reader_of(answers: type[Read]) -> Callable[[Callable[Own, Read]], Callable[Own, Read]]:
    """Let a reader take what it has read before; its docstring says so of `source`, unless it has words of its own."""

    def decorate(read: Callable[Own, Read]) -> Callable[Own, Read]:
        @wraps(read)
        def read_once(source: Any, **options: Any) -> Read:
            return source if isinstance(source, answers) else cast("Any", read)(source, **options)

        text = inspect.cleandoc(read.__doc__ or "")
        if f"{HEAD}source\n" not in text:
            said = f"A path or a table, as for `read_labels`, or `{answers.__name__}`, which come back as they are."
            read_once.__doc__ = text.replace(HEAD, f"{HEAD}source\n    {said}\n")
        return cast("Callable[Own, Read]", read_once)

    return decorate
