"""The page of a paper's table: what was run, ours beside what was published, what holds, and what was tried."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from crowdwise.reproduction.figures import draw_figures, error_bar_half_width, format_axis_value
from crowdwise.reproduction.markdown import escape_markdown, markdown_table
from crowdwise.reproduction.verdicts import (
    BETTER,
    FAILS,
    HOLDS,
    NOT_RUN,
    REPRODUCED,
    WORSE,
    Cell,
    compute_cells,
    judge_claims,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crowdwise.reproduction.table_spec import Method, Note, Published, Setting, Table, X
    from crowdwise.reproduction.verdicts import ClaimVerdict

__all__ = ["MARKS", "TableReport", "format_cell", "format_duration", "make_report", "summarise_verdicts"]

Row = dict[str, Any]
MARKS = {REPRODUCED: "✓", BETTER: "▲", WORSE: "▼", NOT_RUN: "", "": ""}
MOST_FIGURES = 8  # of a claim that are told
SPREADS = {"sd": "the standard deviation over seeds", "99 %": "half the 99 % interval of the mean over seeds"}
APART = ("measures", "quick", "limits")  # tables of TOML that are no set-up


@dataclass(frozen=True)
class TableReport:
    """A table, its runs, and what they come to."""

    table: Table
    rows: list[Row]
    failed: list[Row]  # of runs that ended in an error
    cells: list[Cell]
    claims: list[ClaimVerdict]

    @property
    def tally(self) -> Counter[str]:
        """How many of the published numbers have each verdict."""
        ours = {_cell_key(cell): cell.verdict for cell in self.cells}
        return Counter(ours.get(_cell_key(each), NOT_RUN) for each in self.table.published)

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
            *self._results_section(),
            *_claims_section(self.claims),
            *(
                ["## Figures", *(f"![{escape_markdown(title)}]({quote(name)})" for name, title in pictures)]
                if pictures
                else []
            ),
            *_notes_section(table, self.cells),
            *_setup_section(table),
            "## How it was run",
            self._describe_runs(command),
            *_failures_section(self.failed),
        ]
        return "\n\n".join(parts) + "\n"

    def _results_section(self) -> list[str]:
        table = self.table
        parts = ["## Results", _verdict_legend(table)]
        found: dict[tuple[Any, ...], Cell | Published] = {_cell_key(each): each for each in table.published}
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
    found = compute_cells(table, rows)
    return TableReport(table, rows, list(failed), found, judge_claims(table, found))


def _cell_key(each: Cell | Published) -> tuple[Any, ...]:
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
        named = ", ".join(f"{told[each]} {each}" for each in (REPRODUCED, BETTER, WORSE, NOT_RUN) if told[each])
        parts.append(f"Published numbers: {named}.")
    if claims:
        one = {HOLDS: "holds", FAILS: "does not hold", NOT_RUN: "not run"}
        many = {HOLDS: "hold", FAILS: "do not hold", NOT_RUN: "not run"}
        named = ", ".join(f"{n} {(one if n == 1 else many)[each]}" for each in one if (n := claims[each]))
        parts.append(f"Claims: {named}.")
    return " ".join(parts) or "Nothing was published to compare with."


def format_cell(cell: Cell | Published | None, table: Table, *, mark: bool = True) -> str:
    """Ours ± its spread, what was published in brackets, and the mark of the verdict."""
    if cell is None:
        return "–"
    digits = table.measures[cell.measure].digits
    published = cell.published if isinstance(cell, Cell) else cell
    told = "" if published is None else f" ({_format_spread(published.value, published.deviation, digits)})"
    if not isinstance(cell, Cell) or not cell.values:
        return f"{NOT_RUN}{told}"
    ours = _format_spread(cell.mean, error_bar_half_width(cell, table.interval), digits)
    return f"{ours}{told} {MARKS[cell.verdict]}".rstrip() if mark else f"{ours}{told}"


def _format_spread(value: float, half: float, digits: int) -> str:
    return f"{value:.{digits}f}" + ("" if math.isnan(half) else f" ± {half:.{digits}f}")


def _measure_table(
    table: Table,
    measure: str,
    keys: Sequence[tuple[str, X | None]],
    headings: Sequence[str],
    found: dict[tuple[Any, ...], Cell | Published],
) -> str:
    """Methods down, settings or values of the axis across; a method that has none of them is left out."""
    rows = []
    for method in table.methods:
        mine = [found.get((setting, x, method.name, measure)) for setting, x in keys]
        if any(mine):
            rows.append([escape_markdown(method.name), *(format_cell(cell, table) for cell in mine)])
    return markdown_table(["method", *map(escape_markdown, headings)], rows)


def _verdict_legend(table: Table) -> str:
    spread = f"Mean ± {SPREADS[table.interval]}"
    if not table.published:
        return f"{spread}."
    words = [
        f"{MARKS[REPRODUCED]} reproduced (within the tolerance below, or two published standard deviations)",
        f"{MARKS[BETTER]} better than published",
        f"{MARKS[WORSE]} worse",
    ]
    tolerances = {each.measure: each.tolerance for each in table.published}
    within = ", ".join(
        f"{escape_markdown(table.measures[name].title)}: {value:g}" for name, value in tolerances.items()
    )
    return (
        f"{spread}; in brackets what was published. {', '.join(words)}; no mark: nothing was published. "
        f"Tolerance: {within}."
    )


def _claims_section(claims: list[ClaimVerdict]) -> list[str]:
    if not claims:
        return []
    rows = []
    for each in claims:
        said = escape_markdown(each.claim.says)
        tried = f"<br>{escape_markdown(each.claim.note)}" if each.claim.note and each.verdict == FAILS else ""
        rows.append(
            [said, f"**{each.verdict}**" if each.verdict == FAILS else each.verdict, _list_claim_evidence(each) + tried]
        )
    return ["## What the paper says", markdown_table(["claim", "verdict", "figures"], rows)]


def _list_claim_evidence(judged: ClaimVerdict) -> str:
    """Those that tell against the claim first; of many, only the first few."""
    against = [each for each in judged.figures if each.endswith(f"({FAILS})")]
    order = [*against, *(each for each in judged.figures if each not in against)]
    told = order[: max(MOST_FIGURES, len(against))]
    more = f"; and {len(order) - len(told)} more" if len(order) > len(told) else ""
    return "; ".join(map(escape_markdown, told)) + more


def _notes_section(table: Table, found: list[Cell]) -> list[str]:
    """Why cells differ and what was tried; cells that miss and of which nothing is said are named as well."""
    lines = [f"- {_note_subject(table, note)}{escape_markdown(note.text)}" for note in table.notes]
    lines += [
        f"- {escape_markdown(_describe_cell(table, cell))}: worse than published, and not looked into yet."
        for cell in found
        if cell.verdict == WORSE and not cell.note
    ]
    return ["## Where it misses, and what was tried", "\n".join(lines)] if lines else []


def _note_subject(table: Table, note: Note) -> str:
    measure = None if note.measure is None else table.measures[note.measure].title
    said = [note.setting, None if note.x is None else format_axis_value(note.x), note.method, measure]
    named = ", ".join(each for each in said if each is not None)
    return f"{escape_markdown(named)}: " if named else ""


def _describe_cell(table: Table, cell: Cell) -> str:
    said = [cell.setting, *([] if cell.x is None else [format_axis_value(cell.x)]), cell.method]
    return ", ".join([*said, table.measures[cell.measure].title])


def _setup_section(table: Table) -> list[str]:
    rows = [[part, _list_values(given)] for part, given in _setup_parts(table)]
    if table.axis is not None:
        values = ", ".join(format_axis_value(x) for x in table.axis.values)
        rows.append(
            [escape_markdown(table.axis.name), escape_markdown(f"{_format_setting(table.axis.sets)} = {values}")]
        )
    rows += [
        [f"setting *{escape_markdown(each.name)}*", _setting_changes(each) or "as above"] for each in table.settings
    ]
    for method in table.methods:
        model = f"`{method.learner or method.aggregator}`"
        more = [_list_values(given, "" if part == "parameters" else part) for part, given in _setup_parts(method)]
        more += [] if method.remove is None else [f"remove = {escape_markdown(method.remove)}"]
        rows.append([f"method *{escape_markdown(method.name)}*", ", ".join([model, *more])])
    parts = ["## Set-up", markdown_table(["", ""], rows)]
    if table.differs:
        parts += ["What differs from the paper:", "\n".join(f"- {escape_markdown(each)}" for each in table.differs)]
    return parts


def _setup_parts(each: Table | Setting | Method) -> list[tuple[str, dict[str, Any]]]:
    """What it says of data, crowd, training and the like."""
    named = [(one.name, getattr(each, one.name)) for one in fields(each) if one.name not in APART]
    return [(name, given) for name, given in named if isinstance(given, dict) and given]


def _setting_changes(setting: Setting) -> str:
    return ", ".join(_list_values(given, part) for part, given in _setup_parts(setting))


def _list_values(values: dict[str, Any], part: str = "") -> str:
    return ", ".join(
        escape_markdown(f"{part + '.' if part else ''}{name} = {_format_setting(value)}")
        for name, value in values.items()
    )


def _format_setting(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name} = {_format_setting(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_format_setting, value)) + "]"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _failures_section(failed: list[Row]) -> list[str]:
    if not failed:
        return []
    lines = []
    for row in failed:
        cell = ", ".join(str(row[name]) for name in ("setting", "x", "method") if row[name] is not None)
        lines.append(f"- {escape_markdown(cell)}, seed {row['seed']}: {escape_markdown(row['error'])}")
    return ["## Runs that failed", "\n".join(lines)]
