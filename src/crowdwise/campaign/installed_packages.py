"""Whether what a campaign needs is installed, and how to install it; imports none of it."""

from __future__ import annotations

from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

from crowdwise.labels.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["check_installed", "explain_missing_package"]

NEEDED = ("fastapi", "uvicorn", "httptools", "sqlalchemy", "alembic", "jinja2", "httpx", "PIL", "python_multipart")


def check_installed() -> None:
    """Refuse to begin if something is not installed."""
    if missing := [name for name in NEEDED if find_spec(name) is None]:
        names = ", ".join(missing)
        raise InputError(f"A campaign needs {names}, not installed: pip install 'crowdwise[campaign]'.")


@contextmanager
def explain_missing_package() -> Iterator[None]:
    """Say how to install what an import does not find."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise InputError(
            f"A campaign needs {error.name}, which is not installed: pip install 'crowdwise[campaign]'."
        ) from error
