"""`crowdwise report`: the audit of labels as one HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from crowdwise.cli import console_tables, output_files
from crowdwise.cli.answer_files import KindAnswers, read_labels_or_answers
from crowdwise.cli.kind_audit import make_page_of_kind
from crowdwise.cli.label_files import LabelFiles, read_timed_files
from crowdwise.cli.options import AuditOptions, Labels, TimedColumnOptions
from crowdwise.cli.run_audit_command import run_audit
from crowdwise.cli.terminal_names import escape_unprintable
from crowdwise.labels.errors import InputError

if TYPE_CHECKING:
    from crowdwise.audit.audit import Audit

__all__ = ["check_installed", "report", "write_page"]

EPILOG = "Example:\n\n  crowdwise report labels.csv --truth truth.csv --out report.html"


def report(
    labels: Labels,
    *,
    options: AuditOptions,
    out: Annotated[
        str, typer.Option(metavar="FILE", help="Where the page goes; - for standard output.")
    ] = "report.html",
    charts: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="Also write every chart there, as SVG and as PNG.")
    ] = None,
    compare: Annotated[
        bool, typer.Option("--compare", help="Also compare the methods that apply; takes a while.")
    ] = False,
    title: Annotated[str | None, typer.Option(metavar="TEXT", help="Heading of the page.")] = None,
    columns: TimedColumnOptions,
) -> None:
    """Write the audit as one HTML page: consensus, workers, findings, disputed tasks, and how sure it all is."""
    from crowdwise.evaluate.compare_methods import compare as compare_methods
    from crowdwise.labels.engine_choice import use_engine

    output_files.check_file(out, "--out", (*labels, *options.files))
    if charts is not None:
        output_files.check_folder(charts, "--charts")
        if Path(out).resolve() == Path(charts).resolve():
            raise typer.BadParameter("--out and --charts have the same name; one is a file, the other a folder")
        if Path(out).resolve().parent == Path(charts).resolve() and Path(out).suffix in (".svg", ".png"):
            raise typer.BadParameter("--out is called as a chart in the folder of --charts; name the page *.html")
    check_installed()
    with use_engine(options.engine):
        files = LabelFiles(labels, columns)
        timed = read_labels_or_answers(files, read_timed_files)
        if isinstance(timed, KindAnswers):
            _report_answers(timed, files, options, out, charts=charts, compare=compare, title=title)
            return
        found, items = run_audit(files, timed, options)
        league = compare_methods(timed.labels, truth=found.truth, random_state=options.seed) if compare else None
    write_page(found, out, charts, league=league, title=title, items=items)


def _report_answers(
    read: KindAnswers,
    files: LabelFiles,
    options: AuditOptions,
    out: str,
    *,
    charts: str | None,
    compare: bool,
    title: str | None,
) -> None:
    """The page of answers that are no classes."""
    if charts is not None or compare:
        option = "--charts" if charts is not None else "--compare"
        raise InputError(f"The page of {read.kind.name} takes no {option}. Leave it out.")
    page, n_findings = make_page_of_kind(read, files, options, title)
    if out == "-":
        output_files.print_text(page)
        return
    output_files.write_text(page, Path(out))
    _say_where(out, n_findings)


def _say_where(out: str, n_findings: int) -> None:
    console = console_tables.open_console()
    console_tables.print_paragraph(
        console, f"{n_findings:,} finding{'' if n_findings == 1 else 's'}. Open this page in a browser:"
    )
    console.print(Text(f"  {escape_unprintable(out)}", style="cyan"), soft_wrap=True)


def check_installed() -> None:
    """Refuse, before any long work, a page for which something is not installed."""
    import crowdwise.report.page  # noqa: F401 (says what is missing)


def write_page(found: Audit, out: str, charts: str | None = None, **more: Any) -> None:
    """Write the page of an audit, and its charts if asked for, and say where they are; "-" is standard output."""
    from crowdwise.labels.atomic_output import replace_files
    from crowdwise.report.audit_page.charts import write_charts
    from crowdwise.report.page import make_report

    page = make_report(found, **more)
    with replace_files([] if out == "-" else [Path(out)]) as drafts:  # neither page nor charts, if one cannot be
        for draft in drafts:
            draft.write_text(page, encoding="utf-8")
        names = [] if charts is None else write_charts(found, charts)
    if out == "-":
        output_files.print_text(page)
        return
    _say_where(out, len(found.findings))
    if names:
        console = console_tables.open_console()
        console_tables.print_paragraph(console, f"Charts, each as SVG and PNG ({', '.join(names)}):")
        console.print(Text(f"  {escape_unprintable(charts)}", style="cyan"), soft_wrap=True)
