"""Kill writers at random moments, and let several write to one place: what is there must be the old or the new.

    python tests/robustness/kill_writers.py --kills 60 --rounds 200
    python tests/robustness/kill_writers.py --steps

The second kills a writer before every single operation on files that it makes, one after the other.
They print what was found after each kill, or when two had written at once: `old or new` is right; `mixture`, `error`
and `lost` (a file of the user's) must be 0. Processes are forked, so that they start at once; run it with
OMP_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet as pq

import crowdwise as cw
from crowdwise.cli.commands.aggregate import AggregateOptions, fit_and_score
from crowdwise.cli.label_files import LabelFiles
from crowdwise.cli.output_files import write_results
from crowdwise.labels.atomic_output import replace_folder

if TYPE_CHECKING:
    from collections.abc import Callable

NOTES = "notes.txt"  # a file of the user's in the same folder
OFTEN = 20  # times that a checkpoint is written after each epoch, so that kills meet it


# ---- processes ----------------------------------------------------------------------------------------------------


def start(work: Callable[[], None]) -> int:
    """A forked process that does the work and ends."""
    process = os.fork()
    if process == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return process


def wait(process: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def repeat(*works: Callable[[], None]) -> None:
    while True:
        for work in works:
            work()


def kill_at_random(work: Callable[[], None], longest: float, chance: random.Random) -> None:
    process = start(work)
    time.sleep(chance.uniform(0, longest))
    os.kill(process, signal.SIGKILL)
    wait(process)


def drafts(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*.crowdwise") if path.name.startswith(".")]


# ---- what is written ----------------------------------------------------------------------------------------------


class Folders:
    """Folders of plain files, beside files and folders of the user's."""

    def __init__(self, folder: Path) -> None:
        self.place, self.at = folder / "plain", 0
        self.writes = [lambda text=text: self.write(text) for text in ("old", "new")]
        self.own = {"notes.txt", "pictures/one.png", "part/notes.txt"}

    def write(self, text: str) -> None:
        with replace_folder(self.place) as draft:
            (draft / "part").mkdir()
            for name in ("a", "b.json", "part/c"):
                (draft / name).write_text(text)

    def start(self) -> None:
        """The old version, and what is the user's."""
        self.write("old")
        (self.place / "pictures").mkdir(exist_ok=True)
        for name in self.own:
            (self.place / name).write_text("mine")

    def check(self) -> str:
        files = [path for path in self.place.rglob("*") if path.is_file()]
        found = {str(path.relative_to(self.place)): path.read_text() for path in files}
        if {name: text for name, text in found.items() if name in self.own} != dict.fromkeys(self.own, "mine"):
            return "lost"
        texts = {text for name, text in found.items() if name not in self.own}
        self.at = int(texts == {"new"})
        return "old or new" if len(found) == 6 and texts in ({"old"}, {"new"}) else "mixture"


class HeldFolders(Folders):
    """The same in the working directory, where files are renamed one by one: a new .json means that all is new."""

    def write(self, text: str) -> None:
        self.place.mkdir(exist_ok=True)
        os.chdir(self.place)
        super().write(text)

    def check(self) -> str:
        found = super().check()
        whole = {(self.place / name).read_text() for name in ("a", "part/c")} == {"new"}
        described = found == "mixture" and (whole or (self.place / "b.json").read_text() == "old")
        return "old or new" if described else found


class Models:
    """Two models that take each other's place."""

    def __init__(self, folder: Path) -> None:
        self.place, self.at = folder / "model", 0  # and which of the two was found there
        self.models = []
        for number, seed in enumerate((0, 1)):
            labels = cw.simulate.simulate("spammers", n_tasks=200 + 40 * number, random_state=seed).labels
            self.models.append(cw.DawidSkene(smoothing=0.5 + number).fit(labels))
            self.models[-1].workers()  # intervals, which are computed once: here, and not in each process
        self.writes = [lambda model=model: model.save(self.place) for model in self.models]

    def start(self) -> None:
        """The old version."""
        self.writes[0]()

    def check(self) -> str:
        """What the folder holds."""
        try:
            found = cw.load(self.place)
        except cw.InputError as error:
            return f"error: {error}"
        for at, model in enumerate(self.models):
            if len(found.tasks_) == len(model.tasks_):
                self.at = at
                same = found.smoothing == model.smoothing and np.array_equal(found.posterior_, model.posterior_)
                return "old or new" if same and np.array_equal(found.confusion_, model.confusion_) else "mixture"
        return "mixture"


class Results:
    """The results of two methods, written as `crowdwise aggregate --out` does."""

    def __init__(self, folder: Path) -> None:
        self.place = folder / "out"
        labels = cw.simulate.simulate("spammers", n_tasks=60, random_state=0).labels
        made = [AggregateOptions(method=name) for name in ("majority-vote", "dawid-skene")]
        pq.write_table(labels.to_table(), folder / "labels.parquet")  # which the command looks for gold in
        files = LabelFiles(str(folder / "labels.parquet"))
        found = [fit_and_score(files, options, labels) for options in made]
        self.writes = [lambda result=result: write_results(result, self.place) for result in found]
        self.versions = []
        for write in self.writes:
            write()
            self.versions.append(self.read())

    def read(self) -> dict[str, str]:
        paths = sorted(path for path in self.place.rglob("*") if path.is_file() and path.name != NOTES)
        return {str(path.relative_to(self.place)): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}

    def check(self) -> str:
        """What the folder holds, while no one writes."""
        found = self.read()
        return "old or new" if found in self.versions else f"mixture: {sorted(found)}"


class Training:
    """A learner that is trained with a checkpoint, and goes on after it was killed."""

    def __init__(self, folder: Path, epochs: int = 12) -> None:
        self.place = folder / "checkpoint"
        self.X, self.labels, _ = cw.simulate.simulate_features()
        self.settings: dict[str, Any] = {"network": "linear", "epochs": epochs, "learning_rate": 0.02}
        self.whole = cw.TraceRegularized(**self.settings).fit(self.X, self.labels)

    def train(self) -> Any:
        return cw.TraceRegularized(**self.settings, checkpoint=self.place).fit(self.X, self.labels)

    def train_writing_often(self) -> None:
        """The same, in a process that mostly writes checkpoints."""
        from crowdwise.learn.checkpoints import Checkpoint

        write = Checkpoint.write

        def write_often(*given: Any) -> None:
            for _ in range(OFTEN):
                write(*given)

        Checkpoint.write = write_often  # type: ignore[method-assign]
        self.train()

    def check(self) -> str:
        try:
            model = self.train()
        except cw.InputError as error:
            return f"error: {error}"
        same = np.array_equal(model.posterior_, self.whole.posterior_)
        return "as if never stopped" if same and model.n_epochs_ == self.whole.n_epochs_ else "another result"


# ---- trials -------------------------------------------------------------------------------------------------------


def kill_saves(made: Models | Results, kills: int, chance: random.Random, longest: float) -> Counter[str]:
    """Kill a process that writes one thing after the other."""
    found: Counter[str] = Counter()
    made.writes[0]()
    (made.place / NOTES).write_text("mine")
    for _ in range(kills):
        kill_at_random(lambda: repeat(*made.writes[::-1]), longest, chance)
        found["killed while it wrote"] += bool(drafts(made.place.parent))
        found[made.check()] += 1
        found["lost"] += not (made.place / NOTES).exists()
    made.writes[0]()
    found["drafts left at the end"] = len(drafts(made.place.parent))
    return found


def kill_at_every_step(made: Folders | Models) -> Counter[str]:
    """Kill a process before the first operation on files of its write, another before the second, and so on."""
    found: Counter[str] = Counter()
    made.start()
    found[made.check()] += 1
    ended, steps = -1, itertools.count()
    while ended:  # what is written is always the other version than that which is there
        ended = wait(start(partial(kill_at_step, next(steps), made.writes[not made.at])))
        found[made.check()] += 1
    made.writes[0]()
    found["drafts left at the end"] = len(drafts(made.place.parent))
    return found


def kill_at_step(number: int, work: Callable[[], None]) -> None:
    left = [number]

    def count(event: str, _: Any) -> None:
        if event.partition(".")[0] in ("open", "os", "shutil", "tempfile", "ctypes"):
            left[0] -= 1
            if left[0] < 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)
    work()


def kill_training(made: Training, kills: int, chance: random.Random, longest: float) -> Counter[str]:
    """Kill trainings; after each third kill let it end, and compare it with one that was never stopped."""
    found: Counter[str] = Counter()
    file = made.place / "checkpoint.safetensors"
    for number in range(kills):
        kill_at_random(made.train_writing_often, longest, chance)
        found["killed while it wrote"] += bool(drafts(made.place)) if made.place.exists() else 0
        if number % 3 == 2:
            found[made.check()] += 1
            file.unlink(missing_ok=True)
    return found


def write_at_once(made: Models | Results, rounds: int) -> Counter[str]:
    """Two processes write to one place at the same time, and look at it when both are done."""
    found: Counter[str] = Counter()
    made.writes[0]()
    for _ in range(rounds):
        ends = [wait(process) for process in [start(write) for write in made.writes]]
        found["error"] += sum(end != 0 for end in ends)
        found[made.check()] += 1
    found["drafts left at the end"] = len(drafts(made.place.parent))
    return found


def load_meanwhile(made: Models, rounds: int) -> Counter[str]:
    """Two processes save without pause, so many times each, and this one loads all the time."""
    made.writes[0]()

    def save(write: Callable[[], None]) -> None:
        for _ in range(rounds):
            write()

    savers = {start(lambda write=write: save(write)) for write in made.writes}  # type: ignore[misc]
    found: Counter[str] = Counter()
    while savers:
        found[made.check()] += 1
        for process in list(savers):
            ended, status = os.waitpid(process, os.WNOHANG)
            if ended:
                savers.remove(process)
                found["error"] += status != 0
    found["drafts left at the end"] = len(drafts(made.place.parent))
    return found


def try_steps() -> dict[str, Counter[str]]:
    """Writers killed before every operation on files."""
    with tempfile.TemporaryDirectory() as name:
        kinds = {"folder": Folders, "working directory": HeldFolders, "save": Models}
        return {f"{kind}, every step": kill_at_every_step(make(Path(name))) for kind, make in kinds.items()}


def try_at_random(kills: int, rounds: int, seed: int) -> dict[str, Counter[str]]:
    """Every other trial, with what it found."""
    chance = random.Random(seed)  # noqa: S311
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        models, results, training = Models(folder), Results(folder), Training(folder)
        return {
            "save, killed": kill_saves(models, kills, chance, 0.1),
            "--out, killed": kill_saves(results, kills, chance, 0.2),
            "checkpoint, killed": kill_training(training, kills, chance, 1.0),
            "two saves at once": write_at_once(models, rounds),
            "two --out at once": write_at_once(results, rounds),
            "loads while two save": load_meanwhile(models, rounds),
        }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--kills", type=int, default=60, help="of each kind of writer")
    parser.add_argument("--rounds", type=int, default=200, help="of two processes that write to one place")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", action="store_true", help="kill before every operation, instead of at random")
    given = parser.parse_args()
    began = time.perf_counter()
    every = try_steps() if given.steps else try_at_random(given.kills, given.rounds, given.seed)
    for trial, found in every.items():
        print(f"{trial:30}", ", ".join(f"{number} {what}" for what, number in sorted(found.items())))
    print(f"{time.perf_counter() - began:.0f} s")
    right = {"old or new", "as if never stopped", "killed while it wrote"}
    sys.exit(any(number for found in every.values() for what, number in found.items() if what not in right))
