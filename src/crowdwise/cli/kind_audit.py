"""`crowdwise audit` and `crowdwise report` for answers that are no classes."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.padding import Padding
from rich.text import Text

from crowdwise.cli import console_tables, output_files
from crowdwise.cli.fitted_model_output import print_notes_section, print_notes_to_stderr
from crowdwise.cli.terminal_names import display_name, escape_unprintable, quote_command
from crowdwise.labels.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from crowdwise.audit.answer_audit import AnswerAudit
    from crowdwise.audit.finding_types import Finding
    from crowdwise.cli.answer_files import KindAnswers
    from crowdwise.cli.label_files import LabelFiles
    from crowdwise.cli.options import AuditOptions

__all__ = ["audit_kind", "make_page_of_kind", "print_audit_of_kind"]

LABELS_ONLY = ("task_attributes", "worker_attributes", "trusted", "items")
MOST = 8  # findings that are told


def audit_kind(read: KindAnswers, files: LabelFiles, options: AuditOptions) -> AnswerAudit:
    """Audit answers as the options say."""
    from crowdwise.audit.answer_audit import audit_answers

    refused = [each for each in LABELS_ONLY if getattr(options, each) is not None]
    if refused:
        raise InputError(f"An audit of {read.kind.name} takes no --{refused[0].replace('_', '-')}. Leave it out.")
    if not 0 < options.level < 1:
        raise InputError("--level must lie between 0 and 1, both excluded.")
    method = None if options.method == "auto" else options.method
    gold = files.open_side_table(options.gold)
    return audit_answers(read.answers, method=method, gold=gold, level=options.level)


def print_audit_of_kind(
    read: KindAnswers, files: LabelFiles, options: AuditOptions, *, prune_to: str | None, details: bool, json: bool
) -> None:
    """Audit, write the answers without those named where asked for, and show what was found."""
    found = audit_kind(read, files, options)
    left_out: list[Any] = []
    if prune_to is not None:
        kept, left_out = found.prune()
        output_files.output_csv(kept.to_table(), prune_to)
    if json:
        print_notes_to_stderr(read.notes)
        output_files.print_json(_to_json_dict(found, files.open_side_table(options.truth)))
    elif prune_to != "-":
        _print_page(found, read, files, details=details, prune_to=prune_to, left_out=left_out)


def make_page_of_kind(
    read: KindAnswers, files: LabelFiles, options: AuditOptions, title: str | None
) -> tuple[str, int]:
    """The page, and the number of findings on it."""
    from crowdwise.report.answers_page import make_answers_page

    found = audit_kind(read, files, options)
    scores = None if options.truth is None else read.kind.score(found.model, files.open_side_table(options.truth))
    return make_answers_page(found, title=title, scores=scores, notes=read.notes), len(found.findings)


def _to_json_dict(found: AnswerAudit, truth: Any) -> dict[str, Any]:
    from crowdwise.kinds.kind_registry import kind

    return {
        "kind": found.answers.kind,
        "method": found.model.slug,
        "n_workers": found.answers.n_workers,
        "n_answers": found.answers.n_answers,
        "level": found.level,
        "findings": [output_files.json_values(asdict(finding)) for finding in found.findings],
        "skipped": found.skipped,
        **({} if truth is None else output_files.json_values(kind(found.answers.kind).score(found.model, truth))),
        "workers": [
            output_files.json_values(row | {"agreement": agreement, "verdict": verdict})
            for row, agreement, verdict in zip(
                found.model.workers().to_pylist(), found.agreement.tolist(), found.verdicts, strict=True
            )
        ],
    }


def _print_page(
    found: AnswerAudit,
    read: KindAnswers,
    files: LabelFiles,
    *,
    details: bool,
    prune_to: str | None,
    left_out: list[Any],
) -> None:
    console = console_tables.open_console()
    console_tables.print_paragraph(
        console,
        f"Audit of {str(found.answers).partition(': ')[2]}, by {found.model.slug}. In a crowd where there is nothing "
        f"to find, the chance that anyone is named is at most {100 * found.level:.3g}%.",
    )
    console_tables.print_heading(console, "What was found" if found.findings else "Nothing was found")
    for kind in dict.fromkeys(finding.kind for finding in found.findings):
        _print_findings_of_kind(console, [each for each in found.findings if each.kind == kind], details=details)
    if not found.findings:
        console_tables.print_paragraph(
            console, "Nobody stands out beyond what chance explains. That is no proof of honesty."
        )
    elif not details:
        console_tables.print_paragraph(console, "Why, and how sure each of these is: --details.")
    print_notes_section(console, read.notes)
    if found.skipped:
        console_tables.print_heading(console, "Not asked")
        console_tables.print_notes(console, [f"{name}: {why}" for name, why in found.skipped.items()])
    if prune_to is not None:
        console_tables.print_heading(console, "Left out")
        names = Text(", ").join(display_name(name, 40) for name in left_out[:MOST]) if left_out else Text("nobody")
        more = f" and {len(left_out) - MOST:,} more" if len(left_out) > MOST else ""
        console.print(Padding(Text.assemble(names, more, f" of {escape_unprintable(prune_to)}"), (0, 0, 0, 2)))
        return
    words = files.build_command_arguments()
    steps = [("all of it on a page", escape_unprintable(quote_command("crowdwise", "report", *words)))]
    if any(finding.kind != "leaning" for finding in found.findings):
        pruned = quote_command("crowdwise", "audit", *words, "--prune-to", "pruned.csv")
        steps.insert(0, ("the answers without those named; of copies, one stays", escape_unprintable(pruned)))
    console_tables.print_next_steps(console, steps)


def _print_findings_of_kind(console: Console, findings: list[Finding], *, details: bool) -> None:
    """All findings of a kind, the surest first, and what to do about them once."""
    console.print(Text(f"  {findings[0].kind.capitalize()}", style="bold"))
    for finding in findings[:MOST]:
        names = Text(", ").join(display_name(name, 20) for name in finding.names[:MOST])
        if len(finding.names) > MOST:
            names.append(f" and {len(finding.names) - MOST:,} more")
        console.print(Padding(Text.assemble(names, ": ", escape_unprintable(finding.verdict)), (0, 0, 0, 4)))
        if details:
            for line in (finding.evidence, f"p = {finding.p_value:.2g}: {finding.how}"):
                console.print(Padding(Text(escape_unprintable(line), style="dim"), (0, 0, 0, 6)))
    if len(findings) > MOST:
        console.print(Padding(Text(f"… and {len(findings) - MOST:,} more: --json has all of them."), (0, 0, 0, 4)))
    console.print(Padding(Text(escape_unprintable(findings[0].advice), style="green"), (0, 0, 0, 4)))
