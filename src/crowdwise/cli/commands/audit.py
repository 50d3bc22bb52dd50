"""`crowdwise audit`: who guesses, copies or says the opposite, how sure that is, and what to do about it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.padding import Padding
from rich.text import Text

from crowdwise.cli import console_tables, output_files
from crowdwise.cli.answer_files import KindAnswers, read_labels_or_answers
from crowdwise.cli.fitted_model_output import expected_wrong_facts
from crowdwise.cli.kind_audit import print_audit_of_kind
from crowdwise.cli.label_files import LabelFiles, read_timed_files
from crowdwise.cli.options import AuditOptions, Json, Labels, TimedColumnOptions
from crowdwise.cli.run_audit_command import run_audit
from crowdwise.cli.stored_labels import STORING_ENGINES, StoreOptions, audit_stored
from crowdwise.cli.terminal_names import display_name, escape_unprintable, quote_command
from crowdwise.labels.errors import InputError, quote
from crowdwise.labels.source_location import format_count

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import Console

    from crowdwise.audit.audit import Audit
    from crowdwise.audit.finding_types import Finding
    from crowdwise.report.task_items import TaskItems

__all__ = ["AuditPage", "audit"]

EPILOG = "Example:\n\n  crowdwise audit labels.csv --prune-to pruned.csv"
WORKER_COLUMNS = ("worker", "n_labels", "skill", "skill_low", "skill_high")
MOST = 6  # findings of a kind that are told
MOST_NAMES = 8  # of a group, that are written out
ITEM_WIDTH = 72  # cells for the text of an item
MOST_NAMED = 12  # of those left out, that are written out


def audit(
    labels: Labels,
    *,
    options: AuditOptions,
    details: Annotated[
        bool, typer.Option("--details", help="Also the numbers behind each finding, and how they were come by.")
    ] = False,
    prune_to: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Write the labels without the workers flagged, as CSV; - for standard output."
        ),
    ] = None,
    json: Json = False,
    columns: TimedColumnOptions,
    store: StoreOptions,
) -> None:
    """Say who guesses, who copies and who says the opposite, how sure that is, and what to do about it."""
    from crowdwise.audit.pruning import prune
    from crowdwise.labels.engine_choice import use_engine

    if prune_to is not None:
        output_files.check_file(prune_to, "--prune-to", (*labels, *options.files))
        if json and prune_to == "-":
            raise InputError("--json and --prune-to - would both go to standard output. Write the labels to a file.")
    files = LabelFiles(labels, columns)
    if options.engine in STORING_ENGINES:
        files_in_memory = [each for each in options.files if each is not None and each != options.gold]
        tested = options.trusted is not None or options.level != AuditOptions.level or details
        if prune_to is not None or files_in_memory or tested:
            raise InputError("Of labels on the disk there is a reduced audit, which takes --gold alone.")
        audit_stored(files, options, store, json=json)
        return
    with use_engine(options.engine):
        timed = read_labels_or_answers(files, read_timed_files)
        if isinstance(timed, KindAnswers):
            print_audit_of_kind(timed, files, options, prune_to=prune_to, details=details, json=json)
            return
        found, items = run_audit(files, timed, options)
    pruned = None
    if prune_to is not None:
        kept, pruned = prune(timed.labels, found.findings)
        output_files.output_csv(kept.to_table(), prune_to)
    if json:
        output_files.print_json(_to_json_dict(found, timed.column))
    elif prune_to != "-":
        AuditPage(found, files, options, timed.column, items, details=details).print_page(prune_to, pruned)


# ---- JSON -------------------------------------------------------------------------------------------------


def _to_json_dict(found: Audit, time_column: str | None) -> dict[str, Any]:
    """What `--json` prints."""
    from crowdwise.audit.consensus_scores import score_consensus
    from crowdwise.audit.consensus_sentences import consensus_claims

    size = found.effective
    score = score_consensus(found)
    return {
        "method": found.model.slug,
        "n_tasks": found.labels.n_tasks,
        "n_workers": found.labels.n_workers,
        "n_labels": found.labels.n_labels,
        "level": found.level,
        "time_column": time_column,
        "findings": [output_files.json_values(asdict(finding)) for finding in found.findings],
        "skipped": {screen.kind: screen.skipped for screen in found.screens if screen.skipped},
        **({} if size is None else {"effective_size": output_files.json_values(_effective_size_numbers(size))}),
        "says": [claim._asdict() for claim in consensus_claims(found, score)],
        **expected_wrong_facts(found.model),
        **({} if score is None else score.to_json_dict()),
        "consensus": _json_rows(found.model.consensus(), ("task", "label", "confidence", "n_labels")),
        "workers": [
            row | {"verdict": verdict}
            for row, verdict in zip(_json_rows(found.model.workers(), WORKER_COLUMNS), found.verdicts, strict=True)
        ],
    }


def _json_rows(table: pa.Table, names: tuple[str, ...]) -> list[dict[str, Any]]:
    """Some columns of a table of the model, row by row."""
    return [output_files.json_values(row) for row in table.select(names).to_pylist()]


def _effective_size_numbers(size: Any) -> dict[str, Any]:
    return {name: value for name, value in asdict(size).items() if name not in ("groups", "families")}


# ---- page -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AuditPage:
    """What was found, on the terminal.

    Attributes
    ----------
    time_column
        Where the times are, if there are any.
    items
        What the tasks show, if that is given.
    details
        Whether the numbers behind each finding are told as well.
    """

    found: Audit
    files: LabelFiles
    options: AuditOptions
    time_column: str | None
    items: TaskItems | None = None
    details: bool = False

    def print_page(self, prune_to: str | None, pruned: Any) -> None:
        """Show what was found, what was not asked and why, and what to do next."""
        from crowdwise.audit.consensus_sentences import Claim

        console = console_tables.open_console()
        self._print_opening(console)
        self._print_findings(console)
        if self.found.effective is not None:
            console_tables.print_heading(console, "What the crowd is worth")
            size = self.found.effective
            console_tables.print_claims(console, [Claim(size.summary or size.skipped, size.basis)])
        skipped = [f"{screen.kind}: {screen.skipped}" for screen in self.found.screens if screen.skipped]
        if skipped:
            console_tables.print_heading(console, "Not asked")
            console_tables.print_notes(console, skipped)
        if prune_to is not None:
            _print_pruned(console, prune_to, pruned)
        else:
            console_tables.print_next_steps(console, self._next_steps())

    def _print_opening(self, console: Console) -> None:
        from crowdwise.audit.consensus_scores import score_consensus
        from crowdwise.audit.consensus_sentences import consensus_claims

        labels, time = self.found.labels, self.time_column
        drift = "" if time is None else f" Drift is looked for over the times in column {quote(time)}."
        console_tables.print_paragraph(
            console,
            f"Audit of {format_count(labels.n_labels, 'label')} by {format_count(labels.n_workers, 'worker')} on "
            f"{format_count(labels.n_tasks, 'task')}. In a crowd where there is nothing to find, the chance that "
            f"anyone is flagged is at most {100 * self.found.level:.3g}%.{escape_unprintable(drift)}",
        )
        model = self.found.model
        console_tables.print_heading(console, f"The consensus, by {model.slug}")
        console_tables.print_claims(console, consensus_claims(self.found, score_consensus(self.found)))
        console_tables.print_notes(console, [told for fine, told in self.found.checks() if not fine])

    def _print_findings(self, console: Console) -> None:
        from crowdwise.audit.consensus_sentences import skill_sentences

        findings = self.found.findings
        console_tables.print_heading(console, "What was found" if findings else "Nothing was found")
        kinds: dict[str, list[Finding]] = {}
        for finding in findings:
            kinds.setdefault(finding.kind, []).append(finding)
        shown = [each for found in kinds.values() for each in found[:MOST] if each.about == "worker"]
        skills = skill_sentences(self.found, [each.names[0] for each in shown])
        for found in kinds.values():
            self._print_findings_of_kind(console, found, skills)
        if not findings:
            console_tables.print_paragraph(
                console, "Nobody stands out beyond what chance explains. That is no proof of honesty."
            )
        quiet = [
            screen.kind
            for screen in self.found.screens
            if not screen.findings and not screen.skipped and screen.kind != "identifiability"
        ]
        if findings and quiet:
            console_tables.print_paragraph(console, f"Asked as well, and not found: {', '.join(quiet)}.")
        if findings and not self.details:
            console_tables.print_paragraph(console, "Why, and how sure each of these is: --details.")

    def _print_findings_of_kind(self, console: Console, findings: list[Finding], skills: dict[Any, str]) -> None:
        """All findings of a kind, the surest first, and what to do about them once."""
        from crowdwise.audit.audit_tests import finding_kind
        from crowdwise.audit.finding_types import FACT

        console.print(Text(f"  {escape_unprintable(finding_kind(findings[0].kind).title)}", style="bold"))
        for finding in findings[:MOST]:
            console.print(
                Padding(Text.assemble(_finding_subject(finding), escape_unprintable(finding.verdict)), (0, 0, 0, 4))
            )
            for line in self._item_lines(finding):
                console.print(Padding(line, (0, 0, 0, 6)))
            if finding.about == "worker" and finding.names[0] in skills:
                console.print(Padding(Text(skills[finding.names[0]]), (0, 0, 0, 6)))
            if self.details:
                chance = "" if finding.how == FACT else f", p = {finding.p_value:.2g}"
                for detail in (finding.evidence, f"score {finding.score:.2f}{chance}: {finding.how}"):
                    console.print(Padding(Text(escape_unprintable(detail), style="dim"), (0, 0, 0, 6)))
        if len(findings) > MOST:
            console.print(Padding(Text(f"… and {len(findings) - MOST:,} more: --json has all of them."), (0, 0, 0, 4)))
        for advice in dict.fromkeys(finding.advice for finding in findings[:MOST]):
            console.print(Padding(Text(escape_unprintable(advice), style="green"), (0, 0, 0, 4)))

    def _item_lines(self, finding: Finding) -> list[Text]:
        """What the tasks of a finding show."""
        if self.items is None or finding.about != "task":
            return []
        texts = self.items.describe_named(finding.names[:MOST_NAMES])
        return [console_tables.format_item_line(text, ITEM_WIDTH) for text in texts if text]

    def _next_steps(self) -> list[tuple[str, str]]:
        words = self.files.build_command_arguments(*self.options.build_command_arguments())
        next_steps = [("workers, tasks and classes, on a page", quote_command("crowdwise", "report", *words))]
        if any(finding.about in ("worker", "workers") for finding in self.found.findings):
            pruning = quote_command("crowdwise", "audit", *words, "--prune-to", "pruned.csv")
            next_steps.insert(0, ("the labels without those flagged; of copies, one stays", pruning))
        return next_steps


def _print_pruned(console: Console, prune_to: str, pruned: Any) -> None:
    """Say who was left out of the labels written, and why."""
    console_tables.print_heading(console, "Left out")
    who = format_count(len(pruned), "worker is", "workers are")
    console_tables.print_paragraph(
        console, f"{who} left out of {escape_unprintable(prune_to)}{':' if len(pruned) else '.'}"
    )
    for row in pruned.to_pylist()[:MOST_NAMED]:
        console.print(
            Padding(Text.assemble(display_name(row["worker"], 40), escape_unprintable(f": {row['why']}")), (0, 0, 0, 4))
        )
    if len(pruned) > MOST_NAMED:
        console.print(Padding(Text(f"… and {len(pruned) - MOST_NAMED:,} more."), (0, 0, 0, 4)))


def _finding_subject(finding: Finding) -> Text:
    """Whom the verdict is about, before it; nothing where it names tasks, classes or groups itself."""
    if finding.about in ("task", "class", "attribute"):
        return Text()
    letters = 20 if finding.about in ("worker", "workers") else 80  # of a crowd it is a question
    names = Text(", ").join(display_name(name, letters) for name in finding.names[:MOST_NAMES])
    if len(finding.names) > MOST_NAMES:
        names.append(f" and {len(finding.names) - MOST_NAMES:,} more")
    return names.append(" " if finding.about == "crowd" else ": ")
