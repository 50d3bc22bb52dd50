"""PostgreSQL and both databases for tests of campaigns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.campaign.campaigns import postgresql

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A server of PostgreSQL, for the whole session."""
    with postgresql(tmp_path_factory.mktemp("pg")) as server:
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
