"""The page of a paper's table: what was run, ours beside what was published, what holds, and what was tried."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from crowdwise.reproduction import verdicts
from crowdwise.reproduction.figures import draw_figures, error_bar_half_width, format_axis_value
from crowdwise.reproduction.markdown import escape_markdown, markdown_table
from crowdwise.reproduction.published_order import compare_orders
from crowdwise.reproduction.setup_section import setup_section

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crowdwise.reproduction.published_order import OrderComparison
    from crowdwise.reproduction.table_spec import Note, Published, Table, X
    from crowdwise.reproduction.verdicts import ClaimVerdict

__all__ = ["MARKS", "TableReport", "format_cell", "format_duration", "make_report", "summarise_verdicts"]

Row = dict[str, Any]
MARKS = {
    verdicts.REPRODUCED: "✓",
    verdicts.BETTER: "▲",
    verdicts.WORSE: "▼",
    verdicts.DIFFERS: "≠",
    verdicts.NOT_RUN: "",
    "": "",
}
MISSED = {verdicts.WORSE: "worse than published", verdicts.DIFFERS: "differs from what was published"}
MOST_FIGURES = 8  # of a claim that are told
SPREADS = {"sd": "the standard deviation over seeds", "99 %": "half the 99 % interval of the mean over seeds"}


@dataclass(frozen=True)
class TableReport:
    """A table, its runs, and what they come to."""

    table: Table
    rows: list[Row]
    failed: list[Row]  # of runs that ended in an error
    cells: list[verdicts.Cell]
    claims: list[ClaimVerdict]
    order: OrderComparison

    @property
    def tally(self) -> Counter[str]:
        """How many of the published numbers have each verdict."""
        ours = {_cell_key(cell): cell.verdict for cell in self.cells}
        return Counter(ours.get(_cell_key(each), verdicts.NOT_RUN) for each in self.table.published)

    @property
    def claim_tally(self) -> Counter[str]:
        """How many claims have each verdict."""
        return Counter(each.verdict for each in self.claims)

    @property
    def seconds(self) -> float:
        """That the fits took, together."""
        return float(sum(row["seconds"] for row in self.rows))

    def files(self, stem: str, command: str) -> dict[str, str]:
        """The page and its pictures, by the names of their files, all of which begin with `stem`."""
        drawn = draw_figures(self.table, self.cells, self.rows)
        pictures = {f"{stem}-{at}.svg": picture for at, (_, picture) in enumerate(drawn, start=1)}
        shown = list(zip(pictures, (title for title, _ in drawn), strict=True))
        return {f"{stem}.md": self._make_page(shown, command)} | pictures

    def _make_page(self, pictures: list[tuple[str, str]], command: str) -> str:
        table = self.table
        parts = [
            f"# {escape_markdown(table.title)}",
            f"{escape_markdown(table.paper)}, {escape_markdown(table.place)}.",
            *(escape_markdown(paragraph) for paragraph in table.about.strip().split("\n\n")),
            f"**{summarise_verdicts(self)}**",
            *_misses_at_the_top(self.order, self.claims),
            *self._results_section(),
            *_claims_section(self.claims),
            *(
                ["## Figures", *(f"![{escape_markdown(title)}]({quote(name)})" for name, title in pictures)]
                if pictures
                else []
            ),
            *_notes_section(table, self.cells),
            *setup_section(table),
            "## How it was run",
            self._describe_runs(command),
            *_failures_section(self.failed),
        ]
        return "\n\n".join(parts) + "\n"

    def _results_section(self) -> list[str]:
        table = self.table
        parts = ["## Results", _verdict_legend(table)]
        found: dict[tuple[Any, ...], verdicts.Cell | Published] = {_cell_key(each): each for each in table.published}
        found |= {_cell_key(cell): cell for cell in self.cells}
        axis = table.axis
        for name, measure in table.measures.items():
            better = "" if measure.better == "more" else " (less is better)"
            parts.append(f"### {escape_markdown(measure.title)}{better}")
            if axis is None:
                keys: list[tuple[str, X | None]] = [(setting.name, None) for setting in table.settings]
                parts.append(_measure_table(table, name, keys, [setting for setting, _ in keys], found))
                continue
            for setting in table.settings:
                values = [x for x in axis.values if setting.axis is None or x in setting.axis]
                if len(table.settings) > 1:
                    parts.append(f"**{escape_markdown(setting.name)}**, over {escape_markdown(axis.name)}:")
                keys = [(setting.name, x) for x in values]
                parts.append(
                    _measure_table(table, name, keys, [f"{axis.name} {format_axis_value(x)}" for x in values], found)
                )
        return parts

    def _describe_runs(self, command: str) -> str:
        if not self.rows:
            return f"Not run yet: `{command}`."
        seeds = Counter((row["setting"], row["x"], row["method"]) for row in self.rows)
        least, most = min(seeds.values()), max(seeds.values())
        counted = f"{most}" if least == most else f"{least} to {most}"
        where = ", ".join(sorted({escape_markdown(row["where"]) for row in self.rows if row.get("where")}))
        return (
            f"`{command}`: {len(self.rows):,} runs, {counted} seed{'s' if most > 1 else ''} each, "
            f"{format_duration(self.seconds)} of fitting, added up over the runs, on "
            f"{where or 'a machine that was not written down'}."
        )


def make_report(table: Table, rows: list[Row], failed: Sequence[Row] = ()) -> TableReport:
    """What the runs of a table come to."""
    found = verdicts.compute_cells(table, rows)
    return TableReport(
        table, rows, list(failed), found, verdicts.judge_claims(table, found), compare_orders(table, found)
    )


def _cell_key(each: verdicts.Cell | Published) -> tuple[Any, ...]:
    return (each.setting, each.x, each.method, each.measure)


def format_duration(seconds: float) -> str:
    """A time as one says it.

    >>> format_duration(0.5), format_duration(61), format_duration(90), format_duration(7300)
    ('0.5 s', '1 min', '1.5 min', '2 h')
    """
    for size, unit in ((3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.2g} {unit}"
    return f"{seconds:.2g} s"


def summarise_verdicts(report: TableReport) -> str:
    """Verdicts counted, in a sentence or two."""
    told, claims = report.tally, report.claim_tally
    parts = []
    if told:
        every = (verdicts.REPRODUCED, verdicts.BETTER, verdicts.WORSE, verdicts.DIFFERS, verdicts.NOT_RUN)
        named = ", ".join(f"{told[each]} {each}" for each in every if told[each])
        parts.append(f"Published numbers: {named}.")
    if report.order.pairs:
        parts.append(f"Pairs of methods in the published order: {report.order.kept} of {report.order.pairs}.")
    if claims:
        one = {verdicts.HOLDS: "holds", verdicts.FAILS: "does not hold", verdicts.NOT_RUN: "not run"}
        many = {verdicts.HOLDS: "hold", verdicts.FAILS: "do not hold", verdicts.NOT_RUN: "not run"}
        named = ", ".join(f"{n} {(one if n == 1 else many)[each]}" for each in one if (n := claims[each]))
        parts.append(f"Claims: {named}.")
    return " ".join(parts) or "Nothing was published to compare with."


def format_cell(cell: verdicts.Cell | Published | None, table: Table, *, mark: bool = True) -> str:
    """Ours ± its spread, what was published in brackets, and the mark of the verdict."""
    if cell is None:
        return "–"
    digits = table.measures[cell.measure].digits
    published = cell.published if isinstance(cell, verdicts.Cell) else cell
    told = "" if published is None else f" ({_format_spread(published.value, published.deviation, digits)})"
    if not isinstance(cell, verdicts.Cell) or not cell.values:
        return f"{verdicts.NOT_RUN}{told}"
    ours = _format_spread(cell.mean, error_bar_half_width(cell, table.interval), digits)
    return f"{ours}{told} {MARKS[cell.verdict]}".rstrip() if mark else f"{ours}{told}"


def _format_spread(value: float, half: float, digits: int) -> str:
    return f"{value:.{digits}f}" + ("" if math.isnan(half) else f" ± {half:.{digits}f}")


def _measure_table(
    table: Table,
    measure: str,
    keys: Sequence[tuple[str, X | None]],
    headings: Sequence[str],
    found: dict[tuple[Any, ...], verdicts.Cell | Published],
) -> str:
    """Methods down, settings or values of the axis across; a method that has none of them is left out."""
    rows = []
    for method in table.methods:
        mine = [found.get((setting, x, method.name, measure)) for setting, x in keys]
        if any(mine):
            rows.append([escape_markdown(method.name), *(format_cell(cell, table) for cell in mine)])
    return markdown_table(["method", *map(escape_markdown, headings)], rows)


def _misses_at_the_top(order: OrderComparison, claims: list[ClaimVerdict]) -> list[str]:
    """Where the order of the methods is not the paper's, and what it says that does not hold, before any number."""
    lines = [f"- Not in the published order: {escape_markdown(each)}." for each in order.turned]
    lines += [
        f"- Does not hold: “{escape_markdown(each.claim.says)}”." for each in claims if each.verdict == verdicts.FAILS
    ]
    return ["\n".join(lines)] if lines else []


def _verdict_legend(table: Table) -> str:
    spread = f"Mean ± {SPREADS[table.interval]}"
    if not table.published:
        return f"{spread}."
    points = ", ".join(
        dict.fromkeys(f"{verdicts.FAR * table.measures[each.measure].times:g}" for each in table.published)
    )
    own = ", ".join(escape_markdown(method.name) for method in table.methods if method.proposed)
    words = [
        f"{MARKS[verdicts.REPRODUCED]} reproduced (within the tolerance below, or two published standard deviations)",
        f"{MARKS[verdicts.BETTER]} better than published, said only of the paper's own methods ({own or 'none'})",
        f"{MARKS[verdicts.WORSE]} worse",
        f"{MARKS[verdicts.DIFFERS]} differs: a baseline that is better than published, or worse by more than {points}",
        "on a page with a baseline off by more than that, any better number, for the set-up is then not the paper's",
    ]
    tolerances = {each.measure: each.tolerance for each in table.published}
    within = ", ".join(
        f"{escape_markdown(table.measures[name].title)}: {value:g}" for name, value in tolerances.items()
    )
    return (
        f"{spread}; in brackets what was published. {'; '.join(words)}; no mark: nothing was published. "
        f"Tolerance: {within}."
    )


def _claims_section(claims: list[ClaimVerdict]) -> list[str]:
    if not claims:
        return []
    rows = []
    for each in claims:
        said = escape_markdown(each.claim.says)
        tried = f"<br>{escape_markdown(each.claim.note)}" if each.claim.note and each.verdict == verdicts.FAILS else ""
        rows.append(
            [
                said,
                f"**{each.verdict}**" if each.verdict == verdicts.FAILS else each.verdict,
                _list_claim_evidence(each) + tried,
            ]
        )
    return ["## What the paper says", markdown_table(["claim", "verdict", "figures"], rows)]


def _list_claim_evidence(judged: ClaimVerdict) -> str:
    """Those that tell against the claim first; of many, only the first few."""
    against = [each for each in judged.figures if each.endswith(f"({verdicts.FAILS})")]
    order = [*against, *(each for each in judged.figures if each not in against)]
    told = order[: max(MOST_FIGURES, len(against))]
    more = f"; and {len(order) - len(told)} more" if len(order) > len(told) else ""
    return "; ".join(map(escape_markdown, told)) + more


def _notes_section(table: Table, found: list[verdicts.Cell]) -> list[str]:
    """Why cells differ and what was tried; cells that miss and of which nothing is said are named as well."""
    lines = [f"- {_note_subject(table, note)}{escape_markdown(note.text)}" for note in table.notes]
    lines += [
        f"- {escape_markdown(_describe_cell(table, cell))}: {MISSED[cell.verdict]}, and not looked into yet."
        for cell in found
        if cell.verdict in MISSED and not cell.note
    ]
    return ["## Where it misses, and what was tried", "\n".join(lines)] if lines else []


def _note_subject(table: Table, note: Note) -> str:
    measure = None if note.measure is None else table.measures[note.measure].title
    said = [note.setting, None if note.x is None else format_axis_value(note.x), note.method, measure]
    named = ", ".join(each for each in said if each is not None)
    return f"{escape_markdown(named)}: " if named else ""


def _describe_cell(table: Table, cell: verdicts.Cell) -> str:
    said = [cell.setting, *([] if cell.x is None else [format_axis_value(cell.x)]), cell.method]
    return ", ".join([*said, table.measures[cell.measure].title])


def _failures_section(failed: list[Row]) -> list[str]:
    if not failed:
        return []
    lines = []
    for row in failed:
        cell = ", ".join(str(row[name]) for name in ("setting", "x", "method") if row[name] is not None)
        lines.append(f"- {escape_markdown(cell)}, seed {row['seed']}: {escape_markdown(row['error'])}")
    return ["## Runs that failed", "\n".join(lines)]
