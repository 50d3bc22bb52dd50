"""PostgreSQL and both databases for tests of campaigns."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.campaign.campaigns import postgresql

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def postgres() -> Iterator[Any]:
    """A server of PostgreSQL, for the whole session; other runs of pytest must not clear its folder away."""
    with tempfile.TemporaryDirectory(prefix="crowdwise-pg-") as folder, postgresql(Path(folder)) as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """The name of a database, an empty one of which the environment names."""
    if request.param == "postgresql":
        server = request.getfixturevalue("postgres")
        name = f"s{abs(hash(str(tmp_path)))}"
        server.psql(f"CREATE SCHEMA {name};")
        monkeypatch.setenv("CROWDWISE_DATABASE", f"{server.get_uri()}&options=-csearch_path%3D{name}")
    else:
        monkeypatch.delenv("CROWDWISE_DATABASE", raising=False)
    return str(request.param)
