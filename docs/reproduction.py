"""The pages of the papers' tables: one for each, from its runs in benchmarks/results/tables, and one over all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crowdwise.reproduction import run_table, table_files
from crowdwise.reproduction.markdown import escape_markdown, markdown_table
from crowdwise.reproduction.table_page import make_report, summarise_verdicts
from crowdwise.reproduction.verdicts import BETTER, DIFFERS, FAILS, HOLDS, NOT_RUN, REPRODUCED, WORSE

if TYPE_CHECKING:
    from pathlib import Path

    from crowdwise.reproduction.table_page import TableReport

FOLDER = "reproduction"
NUMBERS = (REPRODUCED, BETTER, WORSE, DIFFERS, NOT_RUN)
MISSES = {WORSE: "Worse than published", DIFFERS: "Differs from what was published"}


def reports(folder: Path) -> list[TableReport]:
    """Every table that comes with the package, with the runs that the folder has of it."""
    found = []
    for name in table_files.table_names():
        table = table_files.read_table(name)
        found.append(
            make_report(table, run_table.select_rows(table.jobs(), run_table.read_rows(folder / f"{name}.jsonl")))
        )
    return found


def pages(docs: Path, folder: Path) -> dict[Path, str]:
    """All pages and pictures, by path."""
    every = reports(folder)
    made = {docs / f"{FOLDER}.md": overview(every)}
    for report in every:
        name = report.table.name
        for file, text in report.files(name, f"crowdwise bench {name}").items():
            made[docs / FOLDER / file] = text
    return made


def overview(every: list[TableReport]) -> str:
    rows = []
    for report in every:
        table, told, claims = report.table, report.tally, report.claim_tally
        numbers = [str(told[each]) if told else "" for each in NUMBERS]
        numbers.append(f"{report.order.kept} of {report.order.pairs}" if report.order.pairs else "")
        said = [str(claims[each]) if claims else "" for each in (HOLDS, FAILS, NOT_RUN)]
        link = f"[{escape_markdown(table.name)}]({FOLDER}/{table.name}.md)"
        rows.append([link, f"{escape_markdown(table.paper)}, {escape_markdown(table.place)}", *numbers, *said])
    headings = ["table", "paper", *NUMBERS, "pairs in order", "claims that hold", "do not hold", "not run"]
    words = "\n\n".join(in_words(report) for report in every)
    return f"""# The papers' tables, re-run

Made by `docs/make.py` from `benchmarks/results/tables`, which `crowdwise bench TABLE` writes.

Tables and figures of the papers behind the methods, run again with Crowdwise. A number is reproduced if it lies within
the tolerance that its page states, or within two of the paper's standard deviations; otherwise it is better or worse
than published, or differs. Only a method that the paper proposes is called better. A baseline that is better than
published, or worse by more than 5 points, differs: it is not the paper's baseline. On a page with a baseline that is
more than 5 points off, in either direction, no number is called better: those that are better differ as well, for the
set-up is not the paper's. "Pairs in order" counts, over all methods with published numbers, the pairs that the paper
tells apart and that come out in its order; a page says at its top which do not. Where a paper shows a figure and gives
no numbers, what it says of it is a claim, which holds or does not. Nothing is left out because it missed: a page says
what was tried.

To run one again: `crowdwise bench TABLE`, with `CROWDWISE_DATA` naming the folder of the data sets. What has been run
is kept in the folder of `--out`, and a run that is there is not repeated. A single small network leaves a GPU idle:
with `--processes 8` eight runs share it, best under Nvidia's multi-process service (`nvidia-cuda-mps-control -d`).
Networks for images then compute in bfloat16 where a table says `precision = "auto"`, with their data on the GPU.

{markdown_table(headings, rows)}

## In words

{words}
"""


def in_words(report: TableReport) -> str:
    """What reproduces, what does not, and what was done otherwise."""
    table = report.table
    parts = [
        f"### {escape_markdown(table.title)}",
        f"[{escape_markdown(table.name)}]({FOLDER}/{table.name}.md). {summarise_verdicts(report)}",
    ]
    missed: dict[tuple[str, str, str], list[str]] = {}
    for cell in report.cells:
        if cell.verdict in MISSES:
            missed.setdefault((cell.verdict, cell.measure, cell.setting), []).append(cell.method)
    lines = [f"- Not in the published order: {escape_markdown(each)}." for each in report.order.turned]
    lines += [
        f"- {MISSES[verdict]}: {escape_markdown(table.measures[measure].title)}, {escape_markdown(setting)}: "
        f"{', '.join(escape_markdown(name) for name in dict.fromkeys(methods))}."
        for (verdict, measure, setting), methods in missed.items()
    ]
    lines += [
        f"- Does not hold: “{escape_markdown(each.claim.says)}”. {escape_markdown(each.claim.note)}".rstrip()
        for each in report.claims
        if each.verdict == FAILS
    ]
    lines += [f"- Done otherwise: {escape_markdown(each)}" for each in table.differs]
    return "\n\n".join([*parts, *(["\n".join(lines)] if lines else [])])
