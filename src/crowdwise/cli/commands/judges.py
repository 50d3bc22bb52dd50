"""`crowdwise judges`: can a panel of language models be trusted, what would people say, what to check next."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from crowdwise.cli import console_tables, output_files
from crowdwise.cli.fitted_model_output import print_notes_to_stderr
from crowdwise.cli.label_files import collect_warnings, split_names
from crowdwise.cli.options import Json
from crowdwise.cli.terminal_names import display_name, escape_unprintable
from crowdwise.labels.errors import InputError, InputWarning

if TYPE_CHECKING:
    from rich.console import Console

    from crowdwise.judges.panel_evaluation import PanelEvaluation

__all__ = ["judges"]

EPILOG = "Example:\n\n  crowdwise judges votes.csv --human humans.csv --out judges.html --fail-under 0.9"


def judges(
    votes: Annotated[
        str,
        typer.Argument(
            metavar="VOTES",
            help="Votes of judges (task, judge, vote; or task, judge, left, right, winner): CSV, TSV, JSON lines, "
            "Parquet or the export of a tool; - for standard input.",
        ),
    ],
    *,
    human: Annotated[
        str | None, typer.Option(metavar="FILE", help="Labels of people (task, worker, label) for some of the tasks.")
    ] = None,
    costs: Annotated[str | None, typer.Option(metavar="FILE", help="Cost of a vote (judge, cost).")] = None,
    classes: Annotated[
        str | None, typer.Option(metavar="A,B,C", help="All classes; other votes count as unparseable.")
    ] = None,
    question: Annotated[
        str | None, typer.Option(metavar="NAME", help="Which question of an export, where it holds several.")
    ] = None,
    epsilon: Annotated[
        float, typer.Option(min=0, help="ε of the alternative annotator test: how much worse a judge may be.")
    ] = 0.1,
    next_tasks: Annotated[int, typer.Option("--next", min=1, help="How many tasks to propose to people.")] = 40,
    next_to: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the tasks that people should label, with weights, as CSV.")
    ] = None,
    items: Annotated[
        str | None, typer.Option(metavar="FILE", help="What the tasks show (task, text), for the page.")
    ] = None,
    out: Annotated[str | None, typer.Option(metavar="FILE", help="Also write everything as one HTML page.")] = None,
    charts: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="Also write every chart there, as SVG and as PNG.")
    ] = None,
    fail_under: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="Exit with 1 unless the panel agrees with people at least this often, with 95% confidence.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="For all that is drawn.")] = 0,
    json: Json = False,
) -> None:
    """Say how far language models can be trusted as judges."""
    from crowdwise.formats import read_export
    from crowdwise.judges.panel_evaluation import evaluate_panel
    from crowdwise.labels.several_files import expand_paths

    inputs = (votes, human, costs, items)
    if inputs.count("-") > 1:
        raise InputError("Only one of VOTES and the files of options can be standard input (-).")
    if human is not None:
        expand_paths([votes, human])  # refuses the same file twice, also where a question of it is asked for
    _check_outputs(out, next_to, charts, fail_under, human, inputs)
    named = None if classes is None else split_names(classes)

    def evaluate() -> PanelEvaluation:
        source = votes if question is None else read_export(votes, question=question)
        return evaluate_panel(
            source, human, costs=costs, classes=named, epsilon=epsilon, n_next=next_tasks, random_state=seed
        )

    found, notes = collect_warnings(InputWarning, evaluate)
    print_notes_to_stderr(notes)
    _write_files(found, out, next_to, charts, items)
    if json:
        output_files.print_json(found.to_dict())
    elif out != "-":
        _print_page(found, out, next_to)
    if fail_under is not None and not found.passes(fail_under):
        bound = found.consensus.lower_bound
        console_tables.open_console(stderr=True).print(
            Text(f"Below --fail-under: the panel's lower bound is {bound:.4f}, asked for is {fail_under:g}.")
        )
        raise typer.Exit(1)


def _check_outputs(
    out: str | None,
    next_to: str | None,
    charts: str | None,
    fail_under: float | None,
    human: str | None,
    inputs: tuple[str | None, ...],
) -> None:
    """Refuse, before any long work, what cannot be written or asked."""
    for file, option in ((out, "--out"), (next_to, "--next-to")):
        if file is not None:
            output_files.check_file(file, option, inputs)
    if charts is not None:
        output_files.check_folder(charts, "--charts")
    if [out, next_to].count("-") > 1:
        raise InputError("--out - and --next-to - would both go to standard output. Write one of them to a file.")
    named = [Path(each).resolve() for each in (out, next_to, charts) if each is not None and each != "-"]
    if len(set(named)) < len(named):
        raise InputError("Two of --out, --next-to and --charts have the same name. Give each its own.")
    if out is not None or charts is not None:
        from crowdwise.cli.commands.report import check_installed

        check_installed()
    if fail_under is not None:
        if not 0 <= fail_under <= 1:  # not a number is neither
            raise InputError(f"--fail-under is {fail_under}; it must lie between 0 and 1.")
        if human is None:
            raise InputError("--fail-under needs the labels of people: give them with --human FILE.")


def _write_files(
    found: PanelEvaluation, out: str | None, next_to: str | None, charts: str | None, items: str | None
) -> None:
    if next_to is not None and found.next_tasks is None:
        raise InputError("--next-to: people labelled every task, so that there is none to propose. Leave it out.")
    page = ""
    if out is not None:  # made before anything is written: the items may be refused
        from crowdwise.report.judges_page import make_judges_page

        page = make_judges_page(found, items=items)
    if charts is not None:
        from crowdwise.report.judge_charts import write_judge_charts

        write_judge_charts(found, charts)
    if out == "-":
        output_files.print_text(page)
    elif out is not None:
        output_files.write_text(page, Path(out))
    if next_to is not None and found.next_tasks is not None:
        import pyarrow as pa

        chosen = found.next_tasks
        table = pa.table(
            {
                "task": found.panel.votes.tasks.take(pa.array(chosen.task)),
                "weight": chosen.weight,
                "stratum": chosen.stratum,
            }
        )
        output_files.output_csv(table, next_to)


def _print_page(found: PanelEvaluation, out: str | None, next_to: str | None) -> None:
    console = console_tables.open_console()
    console_tables.print_heading(console, "Judges")
    _print_judges(console, found)
    console_tables.print_heading(console, "What it says")
    for sentence in found.sentences():
        console_tables.print_paragraph(console, sentence)
    for file, what in ((out, "Open this page in a browser:"), (next_to, "Tasks for people to label, with weights:")):
        if file is not None and file != "-":
            console.print()
            console_tables.print_paragraph(console, what)
            console.print(Text(f"  {escape_unprintable(file)}", style="cyan"), soft_wrap=True)


def _print_judges(console: Console, found: PanelEvaluation) -> None:
    from crowdwise.judges.judge_table import tabulate_judges

    columns, judges = tabulate_judges(found)
    rows: list[list[str | Text]] = [[display_name(name, 28), *cells] for name, *cells in judges]
    shown = [(name, "right" if place else "left") for place, name in enumerate(columns)]
    console.print(console_tables.make_table(*shown, rows=rows, indent=0))
