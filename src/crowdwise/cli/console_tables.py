"""The parts of a page: small tables that fit 80 columns, made of inert text."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from crowdwise.cli.terminal_names import display_name, escape_unprintable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa

    from crowdwise.audit.consensus_sentences import Claim
    from crowdwise.cli.fitted_model_output import FittedResult
    from crowdwise.report.task_items import TaskItems

__all__ = [
    "class_shares_table",
    "confusion_table",
    "disputed_table",
    "format_item_line",
    "format_range",
    "format_votes",
    "make_table",
    "open_console",
    "print_claims",
    "print_heading",
    "print_next_steps",
    "print_notes",
    "print_paragraph",
    "score_table",
    "worker_table",
]

WIDEST = 96  # lines longer than this are hard to read
NARROWEST = 40  # of lines, whatever the terminal says: COLUMNS=1 would set a letter on each, and 0 none
NARROW = 72  # terminals narrower than this get numbers without drawings
MOST_CLASSES = 12
EIGHTHS = " ▏▎▍▌▋▊▉"


def open_console(*, stderr: bool = False) -> Console:
    """Give the terminal to write to; plain text where it is no terminal. Names are never read as markup."""
    console = Console(highlight=False, markup=False, emoji=False, stderr=stderr)
    console.width = min(max(console.width, NARROWEST), WIDEST)
    return console


def print_heading(console: Console, text: str) -> None:
    """Begin a part of the page."""
    console.print()
    console.print(Text(text, style="bold"))


def print_paragraph(console: Console, text: str) -> None:
    """Write running text, made inert."""
    console.print(Text(escape_unprintable(text)))


def print_notes(console: Console, sentences: Iterable[str]) -> None:
    """Write sentences that the reader should not miss, one bullet each."""
    for each in sentences:
        grid = Table.grid(padding=(0, 1))
        grid.add_row(Text("  !", style="yellow"), Text(escape_unprintable(each)))
        console.print(grid)


def print_claims(console: Console, found: Iterable[Claim]) -> None:
    """Write sentences, each with what it rests on."""
    for each in found:
        line = Text.assemble(escape_unprintable(each.text), " ", (escape_unprintable(each.source), "dim"))
        console.print(Padding(line, (0, 0, 0, 2)))


def print_next_steps(console: Console, lines: Iterable[tuple[str, str]]) -> None:
    """Write what to do next: a reason, and a command that can be copied whole."""
    print_heading(console, "What next")
    for reason, command in lines:
        console.print(Text(f"  {reason}", style="dim"))
        console.print(Text(f"    {command}", style="cyan"), soft_wrap=True)


def make_table(*columns: tuple[str, str], rows: Iterable[Sequence[Text | str]], indent: int = 2) -> Padding:
    """Lay out cells under headers; each column is (header, "left" or "right")."""
    columns_named = [header for header, _ in columns]
    made = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="dim", show_header=any(columns_named))
    for header, side in columns:
        made.add_column(header, justify="right" if side == "right" else "left", no_wrap=side != "wrap")
    for row in rows:
        made.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in row))
    return Padding(made, (0, 0, 0, indent), expand=False)


def format_range(low: int | None, high: int | None) -> str:
    """A range of whole numbers; one number where both ends are the same."""
    return f"{low}" if low == high else f"{low}–{high}"


# ---- what was found ---------------------------------------------------------------------------------------


def class_shares_table(console: Console, names: Sequence[Any], columns: dict[str, Any]) -> Padding:
    """Shares of each class, the largest of the first column first, with bars."""
    first = next(iter(columns.values()))
    order = sorted(range(len(names)), key=lambda at: -float(first[at]))[:MOST_CLASSES]
    rows: list[list[str | Text]] = [
        [
            display_name(names[at]),
            *(f"{share[at]:.1%}" for share in columns.values()),
            _draw_bar(console, float(first[at])) if console.width >= NARROW else "",
        ]
        for at in order
    ]
    if len(names) > MOST_CLASSES:
        rows.append([Text(f"… {len(names) - MOST_CLASSES:,} more", style="dim"), *([""] * (len(columns) + 1))])
    return make_table(("class", "left"), *((header, "right") for header in columns), ("", "left"), rows=rows)


def worker_table(console: Console, workers: pa.Table, rows: Sequence[int], habits: Sequence[str] = ()) -> Padding:
    """Portraits of the workers at the given rows: labels, skill and its interval, drawn from 0 to 1."""
    drawn = console.width >= NARROW
    columns = {name: workers[name] for name in ("worker", "n_labels", "skill", "skill_low", "skill_high")}
    cells: list[list[str | Text]] = []
    for position, at in enumerate(rows):
        name, n_labels, skill, low, high = (column[int(at)].as_py() for column in columns.values())
        cells.append(
            [
                display_name(name, min(20, console.width // 4)),
                f"{n_labels:,}",
                f"{skill:.2f}",
                f"{low:.2f} to {high:.2f}",
                *([_draw_interval(console, skill, low, high)] if drawn else []),
                *([habits[position]] if habits else []),
            ]
        )
    return make_table(
        ("worker", "left"), ("labels", "right"), ("skill", "right"), ("90% interval", "left"),
        *([(f"0{'1':>{STRIP - 1}}", "left")] if drawn else []), *([("usual mistake", "left")] if habits else []),
        rows=cells,
    )  # fmt: skip


def disputed_table(console: Console, result: FittedResult, most: int, items: TaskItems | None = None) -> Padding | None:
    """Show the tasks whose class is least sure, what they show, and how the votes fell; None if all are certain."""
    import numpy as np

    entropy = result.consensus["entropy"].to_numpy()
    order = np.argsort(result.consensus["confidence"].to_numpy(), kind="stable")
    disputed = (result.labels.vote_counts() > 0).sum(axis=1) > 1
    order = order[disputed[order]][:most]
    shown = [at for at in order.tolist() if entropy[at] > 1e-3]
    rows: list[list[str | Text]] = [
        [
            display_name(result.consensus["task"][at].as_py(), 26 if items is None else 11),
            display_name(result.consensus["label"][at].as_py(), 14),
            f"{result.consensus['confidence'][at].as_py():.1%}",
            format_votes(result, at),
        ]
        for at in shown
    ]
    if not rows:
        return None
    columns = [("task", "left"), ("consensus", "left"), ("sure", "right"), ("answers", "left")]
    if items is not None:  # in the room that the others leave, so that no number is cut
        taken = 2 + sum(
            3 + max(len(header), *(len(row[place]) for row in rows)) for place, (header, _) in enumerate(columns)
        )
        room = min(max(console.width - taken - 3, 8), 40)
        columns.insert(1, ("item", "left"))
        for row, at in zip(rows, shown, strict=True):
            row.insert(1, format_item_line(items.describe(at), room))
    return make_table(*columns, rows=rows)


def format_item_line(text: str, width: int) -> Text:
    """Show the text of an item on one line."""
    return display_name(" ".join(text.split()), width) if text else Text()


def score_table(scores: dict[str, Any]) -> Padding:
    """How good the consensus is, each number with its meaning."""
    right = round(scores["accuracy"] * scores["n_truth"])
    rows = [
        ["accuracy", f"{scores['accuracy']:.1%}", f"{right:,} of {scores['n_truth']:,} tasks right"],
        ["log loss", f"{scores['log_loss']:.3f}", "nats a task; 0 is perfect"],
        ["Brier score", f"{scores['brier']:.3f}", "0 is perfect, 2 is certain and wrong"],
        ["calibration error", f"{scores['ece']:.3f}", "how far confidence is from accuracy, on average"],
    ]
    return make_table(("", "left"), ("", "right"), ("", "left"), rows=rows)


def confusion_table(names: Sequence[Any], matrix: Any, indent: int = 2) -> Padding:
    """Show a confusion matrix, truth down and answer across, in percent; small chances as a dot."""
    rows = [
        [
            display_name(name, 12),
            *(Text("·" if chance < 0.005 else f"{chance:.0%}", style="bold" if row == column else "")
              for column, chance in enumerate(matrix[row])),
        ]
        for row, name in enumerate(names)
    ]  # fmt: skip
    return make_table(
        ("truth", "left"),
        *((f"says {display_name(name, 6).plain}", "right") for name in names),
        rows=rows,
        indent=indent,
    )


STRIP = 15


def _draw_interval(console: Console, skill: float, low: float, high: float) -> Text:
    """Draw an interval and the point in it on the way from 0 to 1."""
    line, point, empty = ("─", "●", "·") if _can_draw(console) else ("-", "o", ".")
    start, middle, end = (min(int(value * STRIP), STRIP - 1) for value in (low, skill, high))
    colour = "green" if low > 0.5 else "red" if high < 0.5 else ""
    return Text.assemble(
        (empty * start, "dim"),
        (line * (middle - start) + point + line * (end - middle), colour),
        (empty * (STRIP - 1 - end), "dim"),
    )


def _draw_bar(console: Console, share: float, width: int = 20) -> Text:
    if not _can_draw(console):
        return Text("#" * round(share * width))
    eighths = round(share * width * 8)
    return Text("█" * (eighths // 8) + EIGHTHS[eighths % 8].strip(), style="blue")


def _can_draw(console: Console) -> bool:
    return console.encoding.lower().startswith("utf")


def format_votes(result: FittedResult, task: int) -> Text:
    """How often each class was said of a task, most first."""
    labels = result.labels
    counts = Counter(labels.label[labels.task_ptr[task] : labels.task_ptr[task + 1]].tolist())
    order = sorted(counts, key=lambda at: (-counts[at], at))
    votes = Text(", ").join(
        Text.assemble(f"{counts[at]:,} × ", display_name(labels.classes[at].as_py(), 8)) for at in order[:3]
    )
    return votes + ", …" if len(order) > 3 else votes
