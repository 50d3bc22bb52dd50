"""What an audit found: on the terminal, as JSON, and where its page is."""

from __future__ import annotations

import math
import warnings
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from rich.padding import Padding
from rich.text import Text

from crowdwise.audit.findings import FACT
from crowdwise.cli import console_tables, work
from crowdwise.cli.escaping import shell, shown, visible
from crowdwise.labels.errors import InputError, listing, quote
from crowdwise.labels.source_location import format_count
from crowdwise.report.claims import Claim, consensus_claims, skill_sentences
from crowdwise.report.kinds import kind_of
from crowdwise.report.scores import score_consensus

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import Console

    from crowdwise.audit.audit import Audit
    from crowdwise.audit.findings import Finding
    from crowdwise.cli.work import Reading
    from crowdwise.labels.times import TimedLabels
    from crowdwise.report.items import Items

__all__ = ["Asked", "AuditPage", "check_report", "facts", "put_page", "run_audit"]

WORKER_COLUMNS = ("worker", "n_labels", "skill", "skill_low", "skill_high")
MOST = 6  # findings of a kind that are told
MOST_NAMES = 8  # of a group, that are written out
ITEM_WIDTH = 72  # cells for the text of an item
MOST_NAMED = 12  # of those left out, that are written out


@dataclass(frozen=True)
class Asked:
    """The options of an audit besides where the labels are."""

    method: str = "auto"
    truth: str | None = None
    gold: str | None = None
    task_attributes: str | None = None
    worker_attributes: str | None = None
    items: str | None = None
    trusted: str | None = None
    level: float = 0.05
    seed: int = 0

    def words(self) -> list[str]:
        """Give the same on a command line, what is not said left out."""
        said = {name: value for name, value in asdict(self).items() if value != getattr(type(self), name)}
        return [word for name, value in said.items() for word in (f"--{name.replace('_', '-')}", str(value))]


def run_audit(reading: Reading, asked: Asked) -> tuple[TimedLabels, Audit, Items | None]:
    """The labels as the options say, with their times if they have any, their audit, and what their tasks show."""
    from crowdwise.audit.audit import audit_crowd
    from crowdwise.audit.findings import Screen
    from crowdwise.cli.first_run import say_if_compiling
    from crowdwise.fitting.em import NotConverged

    if not 0 < asked.level < 1:  # not a number is neither
        raise InputError("--level must lie between 0 and 1, both excluded.")
    files = [*reading.files, asked.truth, asked.gold, asked.items, asked.task_attributes, asked.worker_attributes]
    if files.count("-") > 1:
        raise InputError("Only one of LABELS and the files of options can be standard input (-).")
    say_if_compiling()
    timed = work.read_timed(reading)
    more = asdict(asked) | {"trusted": _named(asked.trusted, timed.labels.workers)}
    shows = work.read_shown_items(more.pop("items"), timed.labels)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)  # said as a note
        found = audit_crowd(timed.labels, time=timed.time, **more)
    if timed.why_not:
        found = replace(found, screens=(*found.screens, Screen("drift", skipped=timed.why_not)))
    return timed, found, shows


def _named(given: str | None, names: pa.Array) -> list[Any] | None:
    """The names on a list of the command line, as the labels have them."""
    if given is None:
        return None
    known = {str(name): name for name in names.to_pylist()}
    asked = work.listed_names(given, "--trusted")
    strange = [name for name in asked if name not in known]
    if strange:
        raise InputError(
            f"--trusted: no worker of these labels is called {listing(strange)}; there are {listing(known)}."
        )
    return [known[name] for name in asked]


def check_report() -> None:
    """Refuse, before any long work, a page for which something is not installed."""
    import crowdwise.report.page  # noqa: F401 (says what is missing)


def put_page(found: Audit, out: str, charts: str | None = None, **more: Any) -> None:
    """Write the page of an audit, and its charts if asked for, and say where they are; "-" is standard output."""
    from crowdwise.report.audit_page.charts import write_charts
    from crowdwise.report.page import made_report, write_report

    names = [] if charts is None else write_charts(found, charts)
    if out == "-":
        print(made_report(found, **more))
        return
    write_report(found, out, **more)
    console = console_tables.page()
    number = len(found.findings)
    console_tables.paragraph(console, f"{number:,} finding{'' if number == 1 else 's'}. Open this page in a browser:")
    console.print(Text(f"  {visible(out)}", style="cyan"), soft_wrap=True)
    if names:
        console_tables.paragraph(console, f"Charts, each as SVG and PNG ({', '.join(names)}):")
        console.print(Text(f"  {visible(charts)}", style="cyan"), soft_wrap=True)


def facts(found: Audit, time_column: str | None) -> dict[str, Any]:
    """What `--json` prints."""
    size = found.effective
    score = score_consensus(found)
    return {
        "method": found.model.slug,
        "n_tasks": found.labels.n_tasks,
        "n_workers": found.labels.n_workers,
        "n_labels": found.labels.n_labels,
        "level": found.level,
        "time_column": time_column,
        "findings": [_plain(asdict(finding)) for finding in found.findings],
        "skipped": {screen.kind: screen.skipped for screen in found.screens if screen.skipped},
        **({} if size is None else {"effective_size": _plain(_numbers(size))}),
        "says": [claim._asdict() for claim in consensus_claims(found, score)],
        **work.expected_wrong_facts(found.model),
        **({} if score is None else score.facts()),
        "consensus": _rows(found.model.consensus(), ("task", "label", "confidence", "n_labels")),
        "workers": [
            row | {"verdict": verdict}
            for row, verdict in zip(_rows(found.model.workers(), WORKER_COLUMNS), found.verdicts, strict=True)
        ],
    }


def _rows(table: pa.Table, names: tuple[str, ...]) -> list[dict[str, Any]]:
    """Some columns of a table of the model, row by row."""
    return [_plain(row) for row in table.select(names).to_pylist()]


def _numbers(size: Any) -> dict[str, Any]:
    return {name: value for name, value in asdict(size).items() if name not in ("groups", "families")}


def _plain(facts: dict[str, Any]) -> dict[str, Any]:
    """The same in what JSON has: no NaN, names that are no text or number as text."""

    def one(value: Any) -> Any:
        if isinstance(value, float) and not math.isfinite(value):
            return None
        return value if isinstance(value, str | int | float | bool) or value is None else str(value)

    return {name: [one(each) for each in value] if isinstance(value, tuple | list) else one(value)
            for name, value in facts.items()}  # fmt: skip


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
    reading: Reading
    asked: Asked
    time_column: str | None
    items: Items | None = None
    details: bool = False

    def put(self, prune_to: str | None, pruned: Any) -> None:
        """Show what was found, what was not asked and why, and what to do next."""
        console = console_tables.page()
        self._begin(console)
        self._findings(console)
        if self.found.effective is not None:
            console_tables.heading(console, "What the crowd is worth")
            size = self.found.effective
            console_tables.claims(console, [Claim(size.summary or size.skipped, size.basis)])
        skipped = [f"{screen.kind}: {screen.skipped}" for screen in self.found.screens if screen.skipped]
        if skipped:
            console_tables.heading(console, "Not asked")
            console_tables.notes(console, skipped)
        if prune_to is not None:
            _left_out(console, prune_to, pruned)
        else:
            console_tables.heading(console, "What next")
            console_tables.commands(console, self._next())

    def _begin(self, console: Console) -> None:
        labels, time = self.found.labels, self.time_column
        drift = "" if time is None else f" Drift is looked for over the times in column {quote(time)}."
        console_tables.paragraph(
            console,
            f"Audit of {format_count(labels.n_labels, 'label')} by {format_count(labels.n_workers, 'worker')} on "
            f"{format_count(labels.n_tasks, 'task')}. In a crowd where there is nothing to find, the chance that "
            "anyone is "
            f"flagged is at most {100 * self.found.level:.3g}%.{visible(drift)}",
        )
        model = self.found.model
        console_tables.heading(console, f"The consensus, by {model.slug}")
        console_tables.claims(console, consensus_claims(self.found, score_consensus(self.found)))
        if not model.converged_:
            console_tables.notes(console, [f"The fit was still changing after {model.n_iter_:,} iterations."])

    def _findings(self, console: Console) -> None:
        findings = self.found.findings
        console_tables.heading(console, "What was found" if findings else "Nothing was found")
        kinds: dict[str, list[Finding]] = {}
        for finding in findings:
            kinds.setdefault(finding.kind, []).append(finding)
        told = [each for found in kinds.values() for each in found[:MOST] if each.about == "worker"]
        skills = skill_sentences(self.found, [each.names[0] for each in told])
        for found in kinds.values():
            self._kind(console, found, skills)
        if not findings:
            console_tables.paragraph(
                console, "Nobody stands out beyond what chance explains. That is no proof of honesty."
            )
        quiet = [
            screen.kind
            for screen in self.found.screens
            if not screen.findings and not screen.skipped and screen.kind != "identifiability"
        ]
        if findings and quiet:
            console_tables.paragraph(console, f"Asked as well, and not found: {', '.join(quiet)}.")
        if findings and not self.details:
            console_tables.paragraph(console, "Why, and how sure each of these is: --details.")

    def _kind(self, console: Console, findings: list[Finding], skills: dict[Any, str]) -> None:
        """All findings of a kind, the surest first, and what to do about them once."""
        console.print(Text(f"  {visible(kind_of(findings[0].kind).title)}", style="bold"))
        for finding in findings[:MOST]:
            console.print(Padding(Text.assemble(_who(finding), visible(finding.verdict)), (0, 0, 0, 4)))
            for line in self._shows(finding):
                console.print(Padding(line, (0, 0, 0, 6)))
            if finding.about == "worker" and finding.names[0] in skills:
                console.print(Padding(Text(skills[finding.names[0]]), (0, 0, 0, 6)))
            if self.details:
                chance = "" if finding.how == FACT else f", p = {finding.p_value:.2g}"
                for detail in (finding.evidence, f"score {finding.score:.2f}{chance}: {finding.how}"):
                    console.print(Padding(Text(visible(detail), style="dim"), (0, 0, 0, 6)))
        if len(findings) > MOST:
            console.print(Padding(Text(f"… and {len(findings) - MOST:,} more: --json has all of them."), (0, 0, 0, 4)))
        for advice in dict.fromkeys(finding.advice for finding in findings[:MOST]):
            console.print(Padding(Text(visible(advice), style="green"), (0, 0, 0, 4)))

    def _shows(self, finding: Finding) -> list[Text]:
        """What the tasks of a finding show."""
        if self.items is None or finding.about != "task":
            return []
        texts = self.items.describe_named(finding.names[:MOST_NAMES])
        return [console_tables.item_text(text, ITEM_WIDTH) for text in texts if text]

    def _next(self) -> list[tuple[str, str]]:
        words = [*self.reading.words(), *self.asked.words()]
        next_steps = [("workers, tasks and classes, on a page", shell("crowdwise", "report", *words))]
        if any(finding.about in ("worker", "workers") for finding in self.found.findings):
            pruning = shell("crowdwise", "audit", *words, "--prune-to", "pruned.csv")
            next_steps.insert(0, ("the labels without those flagged; of copies, one stays", pruning))
        return next_steps


def _left_out(console: Console, prune_to: str, pruned: Any) -> None:
    """Say who was left out of the labels written, and why."""
    console_tables.heading(console, "Left out")
    who = format_count(len(pruned), "worker is", "workers are")
    console_tables.paragraph(console, f"{who} left out of {visible(prune_to)}{':' if len(pruned) else '.'}")
    for row in pruned.to_pylist()[:MOST_NAMED]:
        console.print(Padding(Text.assemble(shown(row["worker"], 40), visible(f": {row['why']}")), (0, 0, 0, 4)))
    if len(pruned) > MOST_NAMED:
        console.print(Padding(Text(f"… and {len(pruned) - MOST_NAMED:,} more."), (0, 0, 0, 4)))


def _who(finding: Finding) -> Text:
    """Whom the verdict is about, before it; nothing where it names tasks, classes or groups itself."""
    if finding.about in ("task", "class", "attribute"):
        return Text()
    letters = 20 if finding.about in ("worker", "workers") else 80  # of a crowd it is a question
    names = Text(", ").join(shown(name, letters) for name in finding.names[:MOST_NAMES])
    if len(finding.names) > MOST_NAMES:
        names.append(f" and {len(finding.names) - MOST_NAMES:,} more")
    return names.append(" " if finding.about == "crowd" else ": ")
