"""What a person sees: one page for each command."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.padding import Padding
from rich.text import Text

from crowdwise.audit.claims import confidence_claims
from crowdwise.cli import console_tables
from crowdwise.cli.digits import METHODS
from crowdwise.cli.escaping import shell, shown, visible

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from crowdwise.cli.digits import Digits
    from crowdwise.cli.work import Fitted, Reading, Result
    from crowdwise.labels.describe import Description
    from crowdwise.learner_registry import LearnerEntry
    from crowdwise.registry import Method
    from crowdwise.report.items import Items

__all__ = [
    "aggregate_page",
    "classes_part",
    "demo_end",
    "demo_page",
    "describe_page",
    "digits_page",
    "methods_page",
    "say_notes",
    "workers_part",
    "written_part",
]

TOP = 10
DISPUTED = 8
PICTURE = "confusions.svg"


def say_notes(notes: Sequence[str]) -> None:
    """Write notes to standard error, beside output that is meant for programs."""
    console = console_tables.page(stderr=True)
    for note in notes:
        console.print(Text(f"crowdwise: note: {visible(note)}"), soft_wrap=True)


def aggregate_page(result: Result, place: Path | None, items: Items | None = None) -> None:
    """Show the consensus, the workers, what is in doubt, and what to do next."""
    console = console_tables.page()
    _said(console, result)
    if result.scores:
        console_tables.heading(console, f"Against the truth of {result.scores['n_truth']:,} tasks")
        console.print(console_tables.score_table(result.scores))
    classes_part(console, result)
    workers_part(console, result)
    _disputed(console, result, DISPUTED, items)
    _league(console, result)
    if result.notes:
        console_tables.heading(console, "Please note")
        console_tables.notes(console, result.notes)
    if place is not None:
        written_part(console, place)
    console_tables.heading(console, "What next")
    console_tables.commands(console, _next(result, place))


def demo_page(result: Result) -> None:
    """Tell a newcomer the main job, done on the anaesthetists."""
    console = console_tables.page()
    model, names = result.model, result.labels.classes.to_pylist()
    console_tables.heading(console, "Five anaesthetists, 45 patients, no truth")
    console_tables.paragraph(
        console,
        "Five anaesthetists graded how fit 45 patients were for an operation, in four classes; the first of "
        "them graded every patient three times. They disagree, and nobody knows the right grades. From the "
        "answers alone, Dawid and Skene (1979) worked out which grade is probably right for each patient and "
        "how each doctor errs. Crowdwise does it again, in their way:",
    )
    console.print()
    _said(console, result)
    classes_part(console, result)
    console_tables.heading(console, "The first patients")
    console.print(_first_tasks(result, 6))
    _disputed(console, result, 6)
    console_tables.heading(console, "Worker portraits, best first; skill is the chance that an answer is right")
    order = np.argsort(-model.skill_, kind="stable").tolist()
    console.print(
        console_tables.worker_table(console, result.workers, order, [_habit(model, names, at) for at in order])
    )
    for title, at in (("the best", order[0]), ("the worst", order[-1])):
        console_tables.heading(console, f"How worker {result.workers['worker'][at].as_py()}, {title}, answers")
        console.print(console_tables.confusion_table(names, model.confusion_[at]))


def digits_page(digits: Digits) -> None:
    """Tell a newcomer what features add, on the digits."""
    console = console_tables.page()
    console_tables.heading(console, "Five careless workers, 1,300 handwritten digits, one label each")
    console_tables.paragraph(
        console,
        "Where tasks have features, here the pixels of scikit-learn's digits, a classifier can be learnt from the "
        "labels. These five workers are simulated: each takes every digit for one other of their choice more often "
        f"than not, so that {digits.labels_right:.0%} of the labels are right, and no image has a second opinion. "
        "Trace regularisation (Tanno et al. 2019) learns the classifier and the workers' mistakes at once. On "
        f"{digits.n_held_out:,} images that nobody labelled:",
    )
    console.print()
    rows = [[slug, f"{digits.accuracy[slug]:.1%}", f"{digits.error[slug]:.2f}", what] for slug, what in METHODS.items()]
    columns = (("method", "left"), ("right", "right"), ("error", "right"), ("", "left"))
    console.print(console_tables.table(*columns, rows=rows))
    console.print()
    console_tables.paragraph(
        console, "error: of the workers' confusion matrices, the share of answers misjudged, from 0 to 1."
    )


def demo_end(place: Path, missing: str) -> None:
    """What was written, and what to do next; `missing` says why there was no second act, if so."""
    console = console_tables.page()
    if missing:
        console_tables.heading(console, "The second act, a classifier learnt from such labels, was left out")
        console_tables.paragraph(console, f"  {missing}")
    written_part(console, place)
    if not missing:
        console.print(Text(f"  {visible(place / PICTURE)}  how the five workers err"), soft_wrap=True)
    console_tables.heading(console, "What next")
    console_tables.commands(
        console,
        [
            (
                "Your own labels (columns task, worker, label):",
                "crowdwise aggregate labels.csv --out results",
            ),
            ("With features of the tasks:", "crowdwise train --features X.npz --labels labels.csv --out results"),
            ("What they look like before any model:", "crowdwise describe labels.csv"),
            ("The other methods:", "crowdwise methods"),
            ("The same in Python:", f"import crowdwise; model = crowdwise.load({str(place / 'model')!r})"),
        ],
    )


def describe_page(description: Description, reading: Reading) -> None:
    """Show what labels look like before any model."""
    console = console_tables.page()
    lines = [line.strip() for line in str(description).partition("\nWhat looks wrong")[0].splitlines()]
    console.print(Text(lines[0]))
    rows = [
        ["labels a task", str(description.labels_per_task)],
        ["labels a worker", str(description.labels_per_worker)],
        [
            "agreement",
            "no task has two answers"
            if description.agreement is None
            else f"{description.agreement:.1%} of pairs of answers to one task agree",
        ],
    ]
    console.print()
    console.print(console_tables.table(("", "left"), ("", "wrap"), rows=rows))
    console_tables.heading(console, "Classes")
    shares = description.class_shares
    console.print(console_tables.class_table(console, list(shares), {"of the labels": list(shares.values())}))
    if description.warnings:
        console_tables.heading(console, "What looks wrong")
        console_tables.notes(console, description.warnings)
    repeated = description.repeated_answers > 0 or reading.on_duplicate != "all"
    words = (reading if repeated else replace(reading, on_duplicate="error")).words()
    console_tables.heading(console, "What next")
    console_tables.commands(console, [("Find the consensus:", shell("crowdwise", "aggregate", *words))])


def methods_page(rooms: dict[str, Sequence[Method | LearnerEntry]], *, long: bool) -> None:
    """Every method, what it assumes and where it was published, by what it is given."""
    console = console_tables.page()
    for title, methods in rooms.items():
        console_tables.heading(console, title)
        if long:
            _methods_in_full(console, methods)
            continue
        rows = [[method.slug, method.summary, method.paper] for method in methods]
        console.print(
            console_tables.table(("method", "left"), ("assumes", "wrap"), ("paper", "wrap"), rows=rows, indent=0)
        )
    if not long:
        console_tables.heading(console, "What next")
        console_tables.commands(
            console,
            [
                ("When each method fails:", "crowdwise methods --long"),
                ("Use one:", "crowdwise aggregate labels.csv --method majority-vote"),
                ("Learn a classifier:", "crowdwise train --features X.npz --labels labels.csv --method trace"),
            ],
        )


def _methods_in_full(console: Any, methods: Sequence[Method | LearnerEntry]) -> None:
    for method in methods:
        console_tables.heading(console, method.slug)
        rows = [["assumes", method.summary], ["fails with", method.fails], ["paper", method.paper]]
        console.print(console_tables.table(("", "left"), ("", "wrap"), rows=rows))


# ---- parts ------------------------------------------------------------------------------------------------


def classes_part(console: Any, result: Fitted) -> None:
    """Shares of the classes, as found and as labelled."""
    console_tables.heading(console, "Classes")
    shares = {
        "of the tasks": result.model.posterior_.mean(axis=0),
        "of the labels": result.labels.class_shares,
    }
    console.print(console_tables.class_table(console, result.labels.classes.to_pylist(), shares))


def workers_part(console: Any, result: Fitted) -> None:
    """All workers if they are few; else those who are surely good, and those who are surely poor."""
    _worker_tables(console, result.workers)
    caveat = result.model.skill_caveat()
    if caveat:
        console_tables.paragraph(console, caveat)


def _worker_tables(console: Any, workers: Any) -> None:
    if workers.num_rows <= 2 * TOP:
        console_tables.heading(console, "Workers, best first; skill is the chance that an answer is right")
        order = np.argsort(-workers["skill"].to_numpy(), kind="stable").tolist()
        console.print(console_tables.worker_table(console, workers, order))
        return
    best = np.argsort(-workers["skill_low"].to_numpy(), kind="stable")[:TOP].tolist()
    worst = [at for at in np.argsort(workers["skill_high"].to_numpy(), kind="stable").tolist() if at not in best][:TOP]
    console_tables.heading(
        console, f"The {TOP} best of {workers.num_rows:,} workers, by the lower end of their interval"
    )
    console.print(console_tables.worker_table(console, workers, best))
    console_tables.heading(console, f"The {TOP} worst, by the upper end")
    console.print(console_tables.worker_table(console, workers, worst))


def _said(console: Any, result: Result) -> None:
    """What was done, and what the consensus says of itself."""
    for line in console_tables.sentence(result).split("\n"):
        console.print(Text(line))
    console_tables.claims(console, confidence_claims(result.model, result.n_gold, measured=bool(result.scores)))


def _disputed(console: Any, result: Result, most: int, items: Items | None = None) -> None:
    console_tables.heading(console, "The most disputed tasks, least sure first")
    disputed = console_tables.disputed_tasks(result, most, items)
    console.print(Text("  None: every task is as good as certain.") if disputed is None else disputed)


def _league(console: Any, result: Result) -> None:
    """How auto came to its methods."""
    members = sorted((row for row in result.league if row["weight"] > 0.005), key=lambda row: -row["weight"])
    if members:
        named = ", ".join(f"{row['method']} ({row['weight']:.0%})" for row in members)
        console_tables.heading(console, "Combined from, by how well they predict hidden labels")
        console.print(Padding(Text(named), (0, 0, 0, 2)))


def _first_tasks(result: Result, most: int) -> Padding:
    rows: list[list[str | Text]] = [
        [shown(row["task"]), shown(row["label"]), f"{row['confidence']:.1%}", console_tables.votes(result, at)]
        for at, row in enumerate(result.consensus.slice(0, most).to_pylist())
    ]
    return console_tables.table(
        ("task", "left"), ("consensus", "left"), ("sure", "right"), ("answers", "left"), rows=rows
    )


def _habit(model: Any, names: list[Any], worker: int) -> str:
    """Put the mistake that a worker makes most often in words."""
    wrong = model.confusion_[worker] * model.prior_[:, None]
    np.fill_diagonal(wrong, 0)
    truth, said = np.unravel_index(int(wrong.argmax()), wrong.shape)
    chance = model.confusion_[worker, truth, said]
    return f"{shown(names[truth], 8).plain} as {shown(names[said], 8).plain} ({chance:.0%})" if chance > 0 else "none"


def written_part(console: Any, place: Path, **more: str) -> None:
    """Every file that was written, and what is in it."""
    console_tables.heading(console, "Written")
    for name, what in {
        "consensus.csv": "label, confidence and more of every task",
        "workers.csv": "skill and more of every worker",
        **{f"{table}.csv": what for table, what in more.items()},
        "model": "the fitted model",
    }.items():
        console.print(Text(f"  {visible(place / name)}  {what}"), soft_wrap=True)


def _next(result: Result, place: Path | None) -> list[tuple[str, str]]:
    request = result.request
    base = ["crowdwise", "aggregate", *request.reading.words()]
    same = [*base, "--method", request.method, *request.words()]
    steps = []
    if not result.model.converged_:
        longer = replace(request, max_iter=10 * int(result.model.n_iter_))
        steps.append(("Let it converge:", shell(*base, "--method", request.method, *longer.words())))
    if place is None:
        steps.append(("Keep the result:", shell(*same, "--out", "results")))
    else:
        steps.append(("Use the model in Python:", f"import crowdwise; crowdwise.load({str(place / 'model')!r})"))
    if not result.scores:
        steps.append(("Score it, if you know the truth of some tasks:", shell(*same, "--truth", "truth.csv")))
    known = ["--truth", request.truth] if request.truth else []
    steps.append(("Compare the methods:", shell("crowdwise", "compare", *request.reading.words(), *known)))
    return [(reason, visible(command)) for reason, command in steps]
