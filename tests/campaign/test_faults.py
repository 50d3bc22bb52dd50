"""Faults, small: servers killed under load, the database gone, a full disk. More: benchmarks/campaign_faults.py."""

from __future__ import annotations

import asyncio
import importlib
import json
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from tests.campaign.campaigns import TOKEN, make_campaign, serve

from crowdwise.campaign import Client

if TYPE_CHECKING:
    from collections.abc import Iterator

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(BENCHMARKS)
    module = importlib.import_module("campaign_faults")
    monkeypatch.setattr(module, "LEASE", 2.0)
    monkeypatch.setattr(module, "UNDISTURBED", 0.3)
    yield module
    for name in ("campaign_faults", "campaign_load"):
        sys.modules.pop(name, None)


def test_kills_under_load_lose_nothing(faults: Any, database: str, tmp_path: Path) -> None:
    """One kill; then a stop as the system asks for it."""
    project = faults.write_project(tmp_path, 1_000, faults.CAP, faults.LEASE)
    port = 18_500 + (database == "postgresql")
    arguments = [(project, port, "")]
    servers = [faults.start_server(*arguments[0])]
    try:
        load = faults.Load([port], faults.make_links(port, 8), seed=1)
        asyncio.run(faults.run_faults(load, servers, faults.Restart(None, arguments), 1, 0, 0.3))
        found = {**faults.check_leases(port), **faults.check_promises(load, port)}
        servers[0].send_signal(signal.SIGTERM)
        assert servers[0].wait(20) in (0, -signal.SIGTERM, 128 + signal.SIGTERM)
    finally:
        servers[0].kill()
        servers[0].wait()
    assert found["acknowledged"] > 30
    assert found["leases_free_after_s"] < faults.LEASE + 2
    broken = {name: found[name] for name in ("lost_or_changed", "twice", "above_cap", "never_sent", "leases_left")}
    assert broken == dict.fromkeys(broken, 0)
    lines = (tmp_path / "server.log").read_text().splitlines()
    logged = [json.loads(line) for line in lines if line.startswith("{")]
    assert logged
    assert TOKEN not in "".join(lines)


def test_a_full_disk_refuses_and_recovers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite may grow by a few pages only: answers are refused with 503 until there is room again."""
    monkeypatch.delenv("CROWDWISE_DATABASE", raising=False)
    campaign = make_campaign(tmp_path, 400, more="[answers]\nper_task = 1\nper_minute = 100000\n")

    def limit(pages: int) -> None:
        def work(given: Any) -> None:
            size = given.cursor.execute("PRAGMA page_count").fetchone()[0]
            given.cursor.execute(f"PRAGMA max_page_count = {size + pages}")

        campaign.writer.run_blocking(work)

    with serve(campaign) as address, Client(address, TOKEN, tries=1) as manager:
        headers = {"authorization": f"Bearer {manager.add_worker('ann').token}"}
        with httpx.Client(base_url=address, headers=headers) as worker:
            limit(1)
            reply = worker.post("/api/next", json={})
            acknowledged, refused = 0, 0
            question = reply.json()["questions"][0]
            for number in range(400):
                body = {
                    "task": question["task"],
                    "ticket": question["ticket"],
                    "answer": "cat",
                    "key": f"{number}{'k' * 40}",
                }
                reply = worker.post("/api/answers", json=body)
                if reply.status_code == 503:
                    refused += 1
                    assert "not stored" in reply.json()["detail"]
                    assert httpx.get(f"{address}/health").status_code == 503
                    limit(10_000)
                    reply = worker.post("/api/answers", json=body)
                assert reply.status_code == 200
                acknowledged += 1
                if refused and acknowledged > 20:
                    break
                question = reply.json()["questions"][0]
        assert refused == 1
        assert httpx.get(f"{address}/health").status_code == 200
        time.sleep(0.01)
        assert len(manager.export("labels", "jsonl").splitlines()) == acknowledged


def test_the_database_restarts_in_the_middle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, postgres: Any) -> None:
    """Every connection is cut, as by a restart: the next answer goes through on a new one."""
    postgres.psql("CREATE SCHEMA restarted;")
    monkeypatch.setenv("CROWDWISE_DATABASE", f"{postgres.get_uri()}&options=-csearch_path%3Drestarted")
    campaign = make_campaign(tmp_path, 6)
    with serve(campaign) as address, Client(address, TOKEN) as manager:
        with Client(address, manager.add_worker("ann").token) as worker:
            question = worker.next_questions().questions[0]
            postgres.psql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid();")
            reply = worker.answer(question, "cat", key="k")
            assert reply.status in ("accepted", "repeated")
            assert worker.answer(question, "cat", key="k").status == "repeated"
        assert len(manager.export("labels", "jsonl").splitlines()) == 1
