"""Attack the package at random, as long as you like.

    python -m tests.fuzz.run --cases 20000 --processes 2            # all targets in turn
    python -m tests.fuzz.run --only models --first 500 --cases 100  # some cases of one target
    python -m tests.fuzz.run --only models --first 517 --cases 1    # one case again

A case that crashes the process, or takes longer than a minute, counts as broken like any other; the rest goes on in a
new process. Exit code 1 if anything broke.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 60  # seconds that a case may take
CHUNK = 250  # cases of a process: what one leaves behind does not reach far


def work(target: str, first: int, cases: int) -> None:
    """Run cases in this process, a line of JSON for each before and after."""
    import faulthandler

    from tests.fuzz.targets import run_case, saved_models

    faulthandler.enable()
    if target == "models":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            saved_models()  # not in the time of the first case
    for number in range(first, first + cases):
        print(json.dumps({"case": number}), flush=True)
        faulthandler.dump_traceback_later(LIMIT, exit=True)
        began = time.monotonic()
        try:
            came = run_case(target, number)
        except BaseException as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            came = f"BROKEN {type(error).__name__}: {str(error)[:400]} ({Path(where.filename).name}:{where.lineno})"
        faulthandler.cancel_dump_traceback_later()
        print(json.dumps({"case": number, "came": came, "seconds": time.monotonic() - began}), flush=True)


def run_chunk(target: str, first: int, cases: int) -> list[dict[str, Any]]:
    """Run cases in a child process, and another one after each that ends it."""
    results: list[dict[str, Any]] = []
    end = first + cases
    while first < end:
        words = ["--work", "--only", target, "--first", str(first), "--cases", str(end - first)]
        done = subprocess.run(
            [sys.executable, "-m", "tests.fuzz.run", *words],
            cwd=ROOT,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"case"')]
        results += [line | {"target": target} for line in lines if "came" in line]
        open_cases = {line["case"] for line in lines} - {line["case"] for line in lines if "came" in line}
        if not open_cases:
            if not lines:
                raise SystemExit(done.stderr[-2000:])
            break
        last = max(open_cases)
        came = f"BROKEN process ended with {done.returncode}: {done.stderr[-600:]}"
        results.append({"target": target, "case": last, "came": came, "seconds": float(LIMIT)})
        first = last + 1
    return results


def main() -> int:
    from tests.fuzz.targets import MODELS, TARGETS, saved_models

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--only", choices=sorted(TARGETS), nargs="*")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.work:
        work(asked.only[0], asked.first, asked.cases)
        return 0
    targets = asked.only or sorted(TARGETS)
    os.environ.setdefault(MODELS, tempfile.mkdtemp(prefix="crowdwise-fuzz-models-"))
    if "models" in targets:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            saved_models()
    each = -(-asked.cases // len(targets))
    chunks = [
        (target, asked.first + start, min(CHUNK, each - start)) for start in range(0, each, CHUNK) for target in targets
    ]
    came: Counter[tuple[str, str]] = Counter()
    broken = 0
    with ThreadPoolExecutor(asked.processes) as pool:
        for results in pool.map(lambda chunk: run_chunk(*chunk), chunks):
            for result in results:
                came[result["target"], result["came"].split()[0]] += 1
                if result["came"].startswith("BROKEN"):
                    broken += 1
                    print(f"{result['target']} {result['case']}: {result['came']!a}", flush=True)
    for (target, outcome), count in sorted(came.items()):
        print(f"{target:12}{outcome:10}{count:7,}")
    print(f"{sum(came.values()):,} cases, {broken:,} broken")
    return int(broken > 0)


if __name__ == "__main__":
    sys.exit(main())
