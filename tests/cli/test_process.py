"""The command as a process of its own: start-up, pipes, full disks, other encodings."""

from __future__ import annotations

import json
import os
import resource
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from crowdwise.simulate import simulate

HEAVY = ("torch", "altair", "matplotlib", "pandas", "polars", "sklearn", "numba", "scipy", "pyarrow", "numpy")
RUN = [sys.executable, "-c", "import sys; from crowdwise.cli import main; sys.exit(main())"]


def crowdwise(*arguments: object, **options: object) -> subprocess.CompletedProcess[bytes]:
    words = [*RUN, *map(str, arguments)]
    return subprocess.run(words, capture_output="stdout" not in options, check=False, **options)  # type: ignore[call-overload,no-any-return]


def test_help_is_quick_and_light() -> None:
    program = (
        "import sys, json; from crowdwise.cli import main; main(['--help']); "
        "print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})), file=sys.stderr)"
    )
    times = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        ran = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)  # other tests run meanwhile
    assert not set(HEAVY) & set(json.loads(ran.stderr))
    assert min(times) < 0.8


def test_few_labels_need_nothing_compiled(tmp_path: Path) -> None:
    """The first result on a fresh machine comes in seconds: loops are not compiled, nor what compiles them loaded."""
    path = tmp_path / "labels.csv"
    made = simulate("spammers", n_tasks=60, n_workers=12, n_classes=3, labels_per_task=6, random_state=0).labels
    rows = zip(made.task.tolist(), made.worker.tolist(), made.label.tolist(), strict=True)
    path.write_text("task,worker,label\n" + "".join(f"t{task},w{worker},{label}\n" for task, worker, label in rows))
    commands = [
        ["aggregate", str(path), "--method", "majority-vote"],
        ["aggregate", str(path), "--method", "dawid-skene"],
        ["aggregate", str(path), "--method", "auto"],
        ["audit", str(path)],
    ]
    program = (
        "import sys; from crowdwise.cli import main\n"
        f"for words in {commands}:\n"
        "    assert main(words) == 0\n"
        "    print(*({'numba', 'llvmlite', 'sklearn', 'torch'} & set(sys.modules)), file=sys.stderr)"
    )
    environment = {name: value for name, value in os.environ.items() if name != "CROWDWISE_ENGINE"}
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, env=environment)
    assert ran.stderr.split() == []


def test_installed_command(labels: Path) -> None:
    command = Path(sys.executable).parent / "crowdwise"
    if not command.exists():
        pytest.skip("the command is not installed beside this Python")
    ran = subprocess.run(
        [command, "aggregate", "-", "--json"], input=labels.read_bytes(), capture_output=True, check=True
    )
    assert json.loads(ran.stdout)["n_labels"] == 12
    assert ran.stderr == b""


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="no process substitution here")
def test_process_substitution_and_standard_input_by_name(labels: Path) -> None:
    command = " ".join(map(shlex.quote, RUN))
    for words in (f"describe <(sleep 0.2; cat {labels}) --json", f"describe /dev/stdin --json < {labels}"):
        ran = subprocess.run(["/bin/bash", "-c", f"{command} {words}"], capture_output=True, check=True)
        assert json.loads(ran.stdout)["n_labels"] == 12


def test_exit_code_and_single_message() -> None:
    ran = crowdwise("aggregate", "nowhere.csv")
    assert (ran.returncode, ran.stdout) == (2, b"")
    assert ran.stderr.startswith(b"crowdwise: There is no file 'nowhere.csv'.")
    assert ran.stderr.count(b"\n") == 1


def test_reader_that_goes_away() -> None:
    process = subprocess.Popen([*RUN, "simulate", "spammers"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline().strip() == b'"task","worker","label"'
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    process.wait(20)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("words", [["methods"], ["simulate", "cifar-annotators", "--tasks", "9"], ["--help"]])
def test_full_standard_output(words: list[str]) -> None:
    with open("/dev/full", "wb") as full:  # noqa: PTH123
        ran = crowdwise(*words, stdout=full, stderr=subprocess.PIPE)
    assert ran.returncode == 2
    assert ran.stderr == b"crowdwise: Writing the output failed: No space left on device.\n"


def test_plain_terminal(tmp_path: Path) -> None:
    """An encoding without boxes and bars, and names that it lacks, do no harm."""
    file = tmp_path / "labels.csv"
    file.write_text("task,worker,label\nt1,Zoë,cat\nt1,漢,dog\nt2,Zoë,cat\n", encoding="utf-8")
    plain = os.environ | {"PYTHONIOENCODING": "ascii", "COLUMNS": "80"}
    ran = crowdwise("aggregate", file, env=plain)
    assert ran.returncode == 0
    ran.stdout.decode("ascii")
    assert rb"Zo\xeb" in ran.stdout
