"""Messages when a task is finished, and limits of requests."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING

import httpx
from tests.campaign.campaigns import TOKEN, make_campaign, serve

from crowdwise.campaign import Client
from crowdwise.campaign.request_limits import RateLimit
from crowdwise.campaign.webhooks import Webhooks

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    import pytest


def test_a_finished_task_is_told_again_after_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CROWDWISE_DATABASE", raising=False)
    got: list[tuple[dict[str, str], str]] = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"])).decode()
            got.append(({name.lower(): value for name, value in self.headers.items()}, body))
            self.send_response(500 if len(got) == 1 else 204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Receiver) as receiver:
        threading.Thread(target=receiver.serve_forever, daemon=True).start()
        more = f'[answers]\nper_task = 1\n[server]\nwebhooks = ["http://127.0.0.1:{receiver.server_port}/x"]\n'
        campaign = make_campaign(tmp_path, 1, more=more)
        with serve(campaign) as address, Client(address, TOKEN) as manager:
            with Client(address, manager.add_worker("ann").token) as worker:
                assert worker.answer_all(lambda _: "cat") == 1
            end = time.monotonic() + 10
            while len(got) < 2 and time.monotonic() < end:
                time.sleep(0.05)
            assert manager.status().finished == 1
        receiver.shutdown()
    (first, body), (second, again) = got
    assert body == again
    assert {**json.loads(body), "time": 0} == {"event": "task.finished", "task": "t0", "time": 0}
    assert first["x-crowdwise-delivery"] == second["x-crowdwise-delivery"]
    assert first["x-crowdwise-signature"] == campaign.signer.sign_delivery(body)


def test_what_a_receiver_says_is_not_read_and_one_taken_out_is_told_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CROWDWISE_DATABASE", raising=False)
    address = "http://127.0.0.1:1/"
    campaign = make_campaign(tmp_path, 1, more=f'[server]\nwebhooks = ["{address}"]\n')
    campaign.start()
    campaign.writer.run_blocking(lambda work: campaign.announce_finished(work, [1]))
    sender = Webhooks(campaign)
    (row,) = sender._read_due()

    async def say_much() -> AsyncIterator[bytes]:
        yield b"much"
        raise AssertionError("what it says was read")

    async def send() -> None:
        endless = httpx.MockTransport(lambda _request: httpx.Response(200, content=say_much()))
        async with httpx.AsyncClient(transport=endless) as client:
            await sender._send(client, row)

    campaign.project = replace(campaign.project, webhooks=())
    assert sender._read_due() == []
    campaign.project = replace(campaign.project, webhooks=(address,))
    asyncio.run(send())
    assert sender._read_due() == []  # it was sent
    campaign.stop()


def test_a_limit_fills_up_again(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("crowdwise.campaign.request_limits.time.monotonic", lambda: now[0])
    limit = RateLimit(per_minute=60, burst=3)
    assert [limit.allows("a") for _ in range(4)] == [True, True, True, False]
    assert limit.allows("b")
    now[0] = 1.0
    assert [limit.allows("a") for _ in range(2)] == [True, False]


def test_who_is_too_fast_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CROWDWISE_DATABASE", raising=False)
    campaign = make_campaign(tmp_path, 60, more="[answers]\nper_minute = 1\n")
    with serve(campaign) as address, Client(address, TOKEN) as manager:
        token = manager.add_worker("hasty").token
        with Client(address, token, tries=1) as worker:
            codes = [worker._http.post("/api/next", json={}).status_code for _ in range(25)]
    assert codes == [200] * 20 + [429] * 5
