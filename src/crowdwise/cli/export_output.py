"""What `crowdwise describe` shows of a labelling tool's export: its questions, and what is no answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.text import Text

from crowdwise.cli import console_tables
from crowdwise.cli.terminal_names import display_name, escape_unprintable, quote_command

if TYPE_CHECKING:
    from crowdwise.cli.label_files import LabelFiles
    from crowdwise.formats import Export

__all__ = ["export_facts", "print_export"]


def export_facts(export: Export) -> dict[str, Any]:
    """The same for programs."""
    return {
        "format": export.format.slug,
        "questions": [{"name": each.name, "kind": each.kind, "n_answers": each.n_answers} for each in export.questions],
        "question": None if export.question is None else export.question.name,
        "n_skipped": export.skipped.num_rows,
        "n_drafts": export.drafts.num_rows,
        "n_gold": export.gold.num_rows,
        "n_anchored": export.n_anchored,
        "n_predictions": export.predictions.num_rows,
        "left_out": export.left_out,
        "task_attributes": export.task_attributes.column_names[1:],
        "worker_attributes": export.worker_attributes.column_names[1:],
        "has_times": _is_known(export, "time"),
        "has_durations": _is_known(export, "duration"),
    }


def _is_known(export: Export, name: str) -> bool:
    return export.question is not None and export.answers[name].null_count < export.answers.num_rows


def print_export(export: Export, files: LabelFiles, notes: list[str]) -> None:
    """Show the questions of an export, and what is no answer."""
    console = console_tables.open_console()
    console.print(Text(f"An export of {export.format.name}: {escape_unprintable(export.origin)}."))
    console.print()
    rows = [
        ["→" if each == export.question else "", display_name(each.name, 40), each.kind, f"{each.n_answers:,}"]
        for each in export.questions
    ]
    columns = (("", "left"), ("question", "left"), ("kind", "left"), ("answers", "right"))
    console.print(console_tables.make_table(*columns, rows=rows))
    facts = export_facts(export)
    more = [name for name, there in {"times": facts["has_times"], "durations": facts["has_durations"]}.items() if there]
    more += [f"task attribute {name}" for name in facts["task_attributes"]]
    more += [f"worker attribute {name}" for name in facts["worker_attributes"]]
    if more:
        console_tables.print_paragraph(console, escape_unprintable(f"Also in it: {', '.join(more)}."))
    if notes:
        console_tables.print_heading(console, "What is no answer")
        console_tables.print_notes(console, notes)
    if export.question is None:
        command = ["crowdwise", "describe", *files.build_file_arguments()]
        steps = [(f"Take {each.name}:", quote_command(*command, "--question", each.name)) for each in export.questions]
        console_tables.print_next_steps(console, steps)
    console.print()
