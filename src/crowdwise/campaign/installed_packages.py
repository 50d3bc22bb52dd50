"""Whether what a campaign needs is installed; imports none of it."""

from __future__ import annotations

from importlib.util import find_spec

from crowdwise.labels.errors import InputError

__all__ = ["check_installed"]

NEEDED = ("fastapi", "uvicorn", "sqlalchemy", "alembic", "jinja2", "httpx", "PIL", "python_multipart")


def check_installed() -> None:
    """Refuse to begin if something is not installed."""
    if missing := [name for name in NEEDED if find_spec(name) is None]:
        names = ", ".join(missing)
        raise InputError(f"A campaign needs {names}, not installed: pip install 'crowdwise[campaign]'.")
