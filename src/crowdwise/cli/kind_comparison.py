"""`crowdwise compare` for answers that are no classes."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.text import Text

from crowdwise.cli import console_tables, output_files
from crowdwise.cli.fitted_model_output import print_notes_section, print_notes_to_stderr
from crowdwise.cli.terminal_names import escape_unprintable, quote_command

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crowdwise.cli.answer_files import KindAnswers
    from crowdwise.cli.label_files import LabelFiles
    from crowdwise.evaluate.answer_comparison import AnswerComparison

__all__ = ["print_comparison_of_answers"]

WIDE = 100  # terminals at least this wide have room for two scores against the truth, others for one


def print_comparison_of_answers(
    read: KindAnswers,
    files: LabelFiles,
    methods: Sequence[str] | None,
    *,
    folds: int,
    truth: str | None,
    seed: int,
    json: bool,
) -> None:
    """Compare the methods of the kind, and print the league table, for programs as JSON."""
    from crowdwise.evaluate.answer_comparison import compare_answers

    found = compare_answers(read.answers, methods, folds=folds, truth=truth, random_state=seed)
    if json:
        print_notes_to_stderr(read.notes)
        output_files.print_json(
            {
                "kind": found.kind,
                "best": found.best,
                "tied": list(found.tied_with_best),
                "methods": [output_files.json_values(asdict(each)) for each in found.standings],
            }
        )
    else:
        _print_page(found, read, files)


def _print_page(found: AnswerComparison, read: KindAnswers, files: LabelFiles) -> None:
    console = console_tables.open_console()
    console.print(Text(f"{found.kind.capitalize()}: {str(read.answers).partition(': ')[2]}."))
    console_tables.print_heading(console, "Methods, by how probable they find answers hidden from them")
    names = [name for name in found.standings[0].scores if name != "n_truths"]
    names = names[: 2 if console.width >= WIDE else 1]
    rows: list[list[Any]] = [
        [
            Text(each.method, style="bold" if each.may_be_best else ""),
            _number(each.held_out),
            "" if each.method == found.best else _number(each.behind),
            "" if each.method == found.best else _number(each.behind_error),
            *[_number(each.scores.get(name, math.nan)) for name in names],
            _number(each.seconds, 1),
        ]
        for each in found.standings
    ]
    columns = ["score", "behind", "±", *[name.replace("_", " ") for name in names], "s"]
    console.print(
        console_tables.make_table(("method", "left"), *[(name, "right") for name in columns], rows=rows, indent=0)
    )
    notes = [f"{each.method} has no score: {each.note}" for each in found.standings if each.note]
    print_notes_section(console, [*read.notes, *notes])
    console_tables.print_heading(console, "How to read it")
    console_tables.print_paragraph(
        console,
        "score: mean log-density of a hidden answer; higher is better. behind: how far the best is ahead, with its "
        "standard error; methods in bold may be the best. A method that predicts answers well is often, not always, "
        "right." + (" The columns after that are scores against the truth." if names else ""),
    )
    command = ["crowdwise", "aggregate", *files.build_command_arguments()]
    method = [] if found.best is None else ["--method", found.best]
    steps = [("Use it:", escape_unprintable(quote_command(*command, *method, "--out", "results")))]
    console_tables.print_next_steps(console, steps)


def _number(value: float, digits: int = 3) -> str:
    return "–" if math.isnan(value) else f"{value:.{digits}f}"
