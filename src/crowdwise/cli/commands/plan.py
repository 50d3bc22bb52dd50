"""`crowdwise plan`: how many labels a target accuracy needs."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

from crowdwise.cli import console_tables, output_files
from crowdwise.cli.label_files import LabelFiles, read_files
from crowdwise.cli.options import ColumnOptions, Json, Labels, make_option
from crowdwise.cli.standard_input import refuse_two_inputs

if TYPE_CHECKING:
    from crowdwise.acquire.forecast import Plan

__all__ = ["plan"]

EPILOG = "Example:\n\n  crowdwise plan labels.csv --target 0.95 --gold gold.csv --out forecast.svg"


def plan(
    labels: Labels,
    *,
    target: Annotated[float, make_option("Accuracy wanted.")] = 0.95,
    gold: Annotated[str | None, make_option("Known answers (task, label) to measure accuracy on.", "FILE")] = None,
    level: Annotated[float, make_option("Of the intervals.")] = 0.9,
    out: Annotated[str | None, make_option("Draw the curve here: a name in .svg or .png.", "FILE")] = None,
    seed: Annotated[int, make_option("Same seed, same forecast.", least=0)] = 0,
    json: Json = False,
    columns: ColumnOptions,
) -> None:
    """Forecast how many labels a target accuracy needs."""
    from crowdwise.acquire.forecast import plan as forecast

    refuse_two_inputs([*labels, gold], "LABELS and --gold")
    if out is not None:
        from crowdwise.report.plan_chart import check_picture_name, write_plan_chart

        check_picture_name(out)
        output_files.check_file(out, "--out", [*labels, gold])
    files = LabelFiles(labels, columns)
    found = forecast(read_files(files), target, gold=files.open_side_table(gold), level=level, random_state=seed)
    if out is not None:
        write_plan_chart(found, out)
    if json:
        facts = {name: value.tolist() if hasattr(value, "tolist") else value for name, value in asdict(found).items()}
        output_files.print_json(facts | {"sentences": found.sentences()})
    else:
        _print_page(found, level)


def _print_page(found: Plan, level: float) -> None:
    console = console_tables.open_console()
    console_tables.print_heading(console, "Accuracy of the consensus against labels")
    seen = "measured" if found.n_gold else "claimed by the model"
    rows = [
        [f"{labels:,}", f"{accuracy:.1%}", f"{low:.1%} – {high:.1%}", seen if labels <= found.n_labels else "forecast"]
        for labels, accuracy, low, high in zip(found.labels, found.accuracy, found.low, found.high, strict=True)
    ]
    columns = [("labels", "right"), ("right", "right"), (f"{level:.0%} interval", "right"), ("", "left")]
    if not found.n_gold:  # the interval of a claim covers no truth
        columns.pop(2)
        rows = [[*row[:2], row[3]] for row in rows]
    console.print(console_tables.make_table(*columns, rows=rows))
    console_tables.print_heading(console, "What it says")
    console_tables.print_paragraph(console, " ".join(found.sentences()))
