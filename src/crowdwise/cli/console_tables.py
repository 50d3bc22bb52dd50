"""The parts of a page: small tables that fit 80 columns, made of inert text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from crowdwise.cli.escaping import shown, visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa

    from crowdwise.audit.claims import Claim
    from crowdwise.cli.work import Result
    from crowdwise.report.items import Items

__all__ = [
    "claims",
    "class_table",
    "commands",
    "confusion_table",
    "disputed_tasks",
    "heading",
    "interval",
    "item_text",
    "notes",
    "page",
    "paragraph",
    "score_table",
    "sentence",
    "table",
    "votes",
    "worker_table",
]

WIDEST = 96  # lines longer than this are hard to read
NARROW = 72  # terminals narrower than this get numbers without drawings
MOST_CLASSES = 12
EIGHTHS = " ▏▎▍▌▋▊▉"


def page(*, stderr: bool = False) -> Console:
    """Give the terminal to write to; plain text where it is no terminal. Names are never read as markup."""
    console = Console(highlight=False, markup=False, emoji=False, stderr=stderr)
    console.width = min(console.width, WIDEST)
    return console


def heading(console: Console, text: str) -> None:
    """Begin a part of the page."""
    console.print()
    console.print(Text(text, style="bold"))


def paragraph(console: Console, text: str) -> None:
    """Write running text, made inert."""
    console.print(Text(visible(text)))


def notes(console: Console, sentences: Iterable[str]) -> None:
    """Write sentences that the reader should not miss, one bullet each."""
    for each in sentences:
        grid = Table.grid(padding=(0, 1))
        grid.add_row(Text("  !", style="yellow"), Text(visible(each)))
        console.print(grid)


def claims(console: Console, found: Iterable[Claim]) -> None:
    """Write sentences, each with what it rests on."""
    for each in found:
        line = Text.assemble(visible(each.text), " ", (visible(each.source), "dim"))
        console.print(Padding(line, (0, 0, 0, 2)))


def commands(console: Console, lines: Iterable[tuple[str, str]]) -> None:
    """Write what to do next: a reason, and a command that can be copied whole."""
    for reason, command in lines:
        console.print(Text(f"  {reason}", style="dim"))
        console.print(Text(f"    {command}", style="cyan"), soft_wrap=True)


def table(*columns: tuple[str, str], rows: Iterable[Sequence[Text | str]], indent: int = 2) -> Padding:
    """Lay out cells under headers; each column is (header, "left" or "right")."""
    columns_named = [header for header, _ in columns]
    made = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="dim", show_header=any(columns_named))
    for header, side in columns:
        made.add_column(header, justify="right" if side == "right" else "left", no_wrap=side != "wrap")
    for row in rows:
        made.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in row))
    return Padding(made, (0, 0, 0, indent), expand=False)


def interval(low: int | None, high: int | None) -> str:
    """A range of whole numbers; one number where both ends are the same."""
    return f"{low}" if low == high else f"{low}–{high}"


def sentence(result: Result) -> str:
    """Say in two lines what was done."""
    labels, model = result.labels, result.model
    rounds = f" and {model.n_iter_:,} iterations" if model.n_iter_ > 1 else ""
    return (
        f"Consensus on {labels.n_tasks:,} tasks from {labels.n_labels:,} labels by {labels.n_workers:,} "
        f"workers, {labels.n_classes:,} classes.\n"
        f"By {model.slug}, in {result.seconds:.2g} s{rounds}."
    )


# ---- what was found ---------------------------------------------------------------------------------------


def class_table(console: Console, names: Sequence[Any], columns: dict[str, Any]) -> Padding:
    """Shares of each class, the largest of the first column first, with bars."""
    first = next(iter(columns.values()))
    order = np.argsort(-np.asarray(first), kind="stable")[:MOST_CLASSES]
    rows: list[list[str | Text]] = [
        [
            shown(names[at]),
            *(f"{share[at]:.1%}" for share in columns.values()),
            _bar(console, float(first[at])) if console.width >= NARROW else "",
        ]
        for at in order
    ]
    if len(names) > MOST_CLASSES:
        rows.append([Text(f"… {len(names) - MOST_CLASSES:,} more", style="dim"), *([""] * (len(columns) + 1))])
    return table(("class", "left"), *((header, "right") for header in columns), ("", "left"), rows=rows)


def worker_table(console: Console, workers: pa.Table, rows: Sequence[int], habits: Sequence[str] = ()) -> Padding:
    """Portraits of the workers at the given rows: labels, skill and its interval, drawn from 0 to 1."""
    drawn = console.width >= NARROW
    columns = {name: workers[name] for name in ("worker", "n_labels", "skill", "skill_low", "skill_high")}
    cells: list[list[str | Text]] = []
    for position, at in enumerate(rows):
        name, n_labels, skill, low, high = (column[int(at)].as_py() for column in columns.values())
        cells.append(
            [
                shown(name, min(20, console.width // 4)),
                f"{n_labels:,}",
                f"{skill:.2f}",
                f"{low:.2f} to {high:.2f}",
                *([_strip(console, skill, low, high)] if drawn else []),
                *([habits[position]] if habits else []),
            ]
        )
    return table(
        ("worker", "left"), ("labels", "right"), ("skill", "right"), ("90% interval", "left"),
        *([(f"0{'1':>{STRIP - 1}}", "left")] if drawn else []), *([("usual mistake", "left")] if habits else []),
        rows=cells,
    )  # fmt: skip


def disputed_tasks(result: Result, most: int, items: Items | None = None) -> Padding | None:
    """Show the tasks whose class is least sure, what they show, and how the votes fell; None if all are certain."""
    entropy = result.consensus["entropy"].to_numpy()
    order = np.argsort(result.consensus["confidence"].to_numpy(), kind="stable")
    disputed = (result.labels.vote_counts() > 0).sum(axis=1) > 1
    order = order[disputed[order]][:most]
    rows: list[list[str | Text]] = [
        [
            shown(result.consensus["task"][at].as_py(), 26 if items is None else 14),
            *([] if items is None else [item_text(items.describe(at), 26)]),
            shown(result.consensus["label"][at].as_py(), 14),
            f"{result.consensus['confidence'][at].as_py():.1%}",
            votes(result, at),
        ]
        for at in order.tolist()
        if entropy[at] > 1e-3
    ]
    if not rows:
        return None
    shows = [] if items is None else [("item", "left")]
    columns = (("task", "left"), *shows, ("consensus", "left"), ("sure", "right"), ("answers", "left"))
    return table(*columns, rows=rows)


def item_text(text: str, width: int) -> Text:
    """Show the text of an item on one line."""
    return shown(" ".join(text.split()), width) if text else Text()


def score_table(scores: dict[str, Any]) -> Padding:
    """How good the consensus is, each number with its meaning."""
    right = round(scores["accuracy"] * scores["n_truth"])
    rows = [
        ["accuracy", f"{scores['accuracy']:.1%}", f"{right:,} of {scores['n_truth']:,} tasks right"],
        ["log loss", f"{scores['log_loss']:.3f}", "nats a task; 0 is perfect"],
        ["Brier score", f"{scores['brier']:.3f}", "0 is perfect, 2 is certain and wrong"],
        ["calibration error", f"{scores['ece']:.3f}", "how far confidence is from accuracy, on average"],
    ]
    return table(("", "left"), ("", "right"), ("", "left"), rows=rows)


def confusion_table(names: Sequence[Any], matrix: Any, indent: int = 2) -> Padding:
    """Show a confusion matrix, truth down and answer across, in percent; small chances as a dot."""
    rows = [
        [
            shown(name, 12),
            *(Text("·" if chance < 0.005 else f"{chance:.0%}", style="bold" if row == column else "")
              for column, chance in enumerate(matrix[row])),
        ]
        for row, name in enumerate(names)
    ]  # fmt: skip
    return table(
        ("truth", "left"),
        *((f"says {shown(name, 6).plain}", "right") for name in names),
        rows=rows,
        indent=indent,
    )


STRIP = 15


def _strip(console: Console, skill: float, low: float, high: float) -> Text:
    """Draw an interval and the point in it on the way from 0 to 1."""
    line, point, empty = ("─", "●", "·") if _draws(console) else ("-", "o", ".")
    start, middle, end = (min(int(value * STRIP), STRIP - 1) for value in (low, skill, high))
    colour = "green" if low > 0.5 else "red" if high < 0.5 else ""
    return Text.assemble(
        (empty * start, "dim"),
        (line * (middle - start) + point + line * (end - middle), colour),
        (empty * (STRIP - 1 - end), "dim"),
    )


def _bar(console: Console, share: float, width: int = 20) -> Text:
    if not _draws(console):
        return Text("#" * round(share * width))
    eighths = round(share * width * 8)
    return Text("█" * (eighths // 8) + EIGHTHS[eighths % 8].strip(), style="blue")


def _draws(console: Console) -> bool:
    return console.encoding.lower().startswith("utf")


def votes(result: Result, task: int) -> Text:
    """How often each class was said of a task, most first."""
    labels = result.labels
    said = np.bincount(labels.label[labels.task_ptr[task] : labels.task_ptr[task + 1]], minlength=labels.n_classes)
    order = [at for at in np.argsort(-said, kind="stable").tolist() if said[at]]
    votes = Text(", ").join(Text.assemble(f"{said[at]:,} × ", shown(labels.classes[at].as_py(), 8)) for at in order[:3])
    return votes + ", …" if len(order) > 3 else votes
