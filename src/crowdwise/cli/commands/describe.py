"""`crowdwise describe`: what labels look like before any model."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from rich.text import Text

from crowdwise.cli import console_tables, kind_output, output_files
from crowdwise.cli.answer_files import find_kind_of_files
from crowdwise.cli.export_output import export_facts, print_export
from crowdwise.cli.label_files import LabelFiles, collect_warnings, describe_files
from crowdwise.cli.options import ColumnOptions, Duplicates, Engine, Json, Labels, OnDuplicate
from crowdwise.cli.stored_labels import STORING_ENGINES, StoreOptions, describe_stored
from crowdwise.cli.terminal_names import quote_command
from crowdwise.labels.errors import InputWarning

if TYPE_CHECKING:
    from crowdwise.kinds.kind_registry import Kind
    from crowdwise.labels.describe import Description

__all__ = ["describe"]


@dataclass(frozen=True, kw_only=True)
class DescribedColumns(ColumnOptions):
    """As for the other commands, but every answer counts: a repeated one is described and is no error."""

    on_duplicate: Duplicates = OnDuplicate.all


def describe(
    labels: Labels, *, json: Json = False, columns: DescribedColumns, engine: Engine = None, store: StoreOptions
) -> None:
    """Say what labels look like before any model, and what seems wrong."""
    files = LabelFiles(labels, columns)
    if engine in STORING_ENGINES:
        described = describe_stored(files, engine, store)
        if json:
            output_files.print_json(described.to_dict())
        else:
            _print_page(described, files)
        return
    export, notes = collect_warnings(InputWarning, lambda: files.export)
    facts = {} if export is None else {"export": export_facts(export)}
    if export is not None and not json:
        print_export(export, files, notes)
    if export is not None and export.question is None:  # which one to describe is to be said
        if json:
            output_files.print_json(facts)
        return
    kind, _ = collect_warnings(InputWarning, lambda: find_kind_of_files(files))  # warned of again as they are read
    if kind is not None:
        _describe_other_kind(kind, files, facts | {"warnings": notes}, json=json)
        return
    description = describe_files(files)
    if json:
        described = description.to_dict()
        output_files.print_json(facts | described | {"warnings": [*notes, *described["warnings"]]})
    else:
        _print_page(description, files)


def _describe_other_kind(kind: Kind, files: LabelFiles, found: dict[str, Any], *, json: bool) -> None:
    """Sizes of answers that are no classes, and the command that aggregates them."""
    from crowdwise.labels.describe import Spread

    sizes, facts, notes = kind_output.describe_answers(kind, files)
    if json:
        plain = {name: asdict(value) if isinstance(value, Spread) else value for name, value in facts.items()}
        output_files.print_json(found | plain | {"warnings": [*found["warnings"], *notes]})
        return
    console = console_tables.open_console()
    console.print(Text(f"{kind.name.capitalize()} ({kind.words}): {sizes}."))
    console.print()
    rows = [
        [name.replace("answers_per_", "answers an " if name.endswith("item") else "answers a "), str(value)]
        for name, value in facts.items()
        if isinstance(value, Spread)
    ]
    console.print(console_tables.make_table(("", "left"), ("", "wrap"), rows=rows))
    if notes:
        console_tables.print_heading(console, "What looks wrong")
        console_tables.print_notes(console, notes)
    if files.columns.on_duplicate is OnDuplicate.all:  # of this command alone; the other says what to choose
        files = replace(files, columns=replace(files.columns, on_duplicate=OnDuplicate.error))
    command = quote_command("crowdwise", "aggregate", *files.build_command_arguments())
    console_tables.print_next_steps(console, [("Find the consensus:", command)])


def _print_page(description: Description, files: LabelFiles) -> None:
    console = console_tables.open_console()
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
    console.print(console_tables.make_table(("", "left"), ("", "wrap"), rows=rows))
    console_tables.print_heading(console, "Classes")
    shares = description.class_shares
    console.print(console_tables.class_shares_table(console, list(shares), {"of the labels": list(shares.values())}))
    if description.warnings:
        console_tables.print_heading(console, "What looks wrong")
        console_tables.print_notes(console, description.warnings)
    if not description.repeated_answers and files.columns.on_duplicate is OnDuplicate.all:
        files = replace(files, columns=replace(files.columns, on_duplicate=OnDuplicate.error))
    command = quote_command("crowdwise", "aggregate", *files.build_command_arguments())
    console_tables.print_next_steps(console, [("Find the consensus:", command)])
