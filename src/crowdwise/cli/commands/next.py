"""`crowdwise next`: which task to ask whom."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from crowdwise.cli import console_tables, output_files
from crowdwise.cli.label_files import LabelFiles, read_files, split_names
from crowdwise.cli.options import ColumnOptions, Json, Labels, make_option
from crowdwise.cli.standard_input import refuse_two_inputs
from crowdwise.cli.terminal_names import display_name

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.text import Text

    from crowdwise.acquire.next_question import Question

__all__ = ["next"]

EPILOG = "Example:\n\n  crowdwise next labels.csv --budget 200 --cap 7 --out questions.csv"
SHOWN = 20
GOLD_SHARE = 0.05


def next(  # noqa: A001 - commands are called as their files
    labels: Labels,
    *,
    budget: Annotated[float, make_option("Most that the questions may cost together; an answer costs 1.")] = 20.0,
    policy: Annotated[
        str,
        make_option(
            "Which task: uniform, round-robin, uncertainty, margin, information-gain, error-reduction; or joint: task "
            "and worker together."
        ),
    ] = "information-gain",
    worker_policy: Annotated[
        str | None,
        make_option("Whom: uniform, best, epsilon-greedy (if left out), thompson, bandit; not with joint.", "NAME"),
    ] = None,
    costs: Annotated[str | None, make_option("Table of what an answer costs (worker, cost).", "FILE")] = None,
    workers: Annotated[str | None, make_option("Who is available; all, if left out.", "A,B,C")] = None,
    capacity: Annotated[int | None, make_option("Most questions of one worker.", "N")] = None,
    cap: Annotated[int | None, make_option("Most labels of a task.", "N")] = None,
    gold: Annotated[
        str | None, make_option("Known answers (task, label), some of which are asked too.", "FILE")
    ] = None,
    gold_share: Annotated[
        float | None, make_option("Share of questions that are gold, with --gold; 0.05, if left out.")
    ] = None,
    out: Annotated[str | None, make_option("Write the questions here as CSV; - for standard output.", "FILE")] = None,
    seed: Annotated[int, make_option("Same seed, same questions.", least=0)] = 0,
    json: Json = False,
    columns: ColumnOptions,
) -> None:
    """Choose the next questions: which task, and whom to ask."""
    from crowdwise.acquire.next_question import as_online_model, next_questions
    from crowdwise.cli.side_costs import read_cost_table
    from crowdwise.fitting.parameter_checks import MOST, check_number

    if out == "-" and json:
        raise typer.BadParameter("--out - and --json both want standard output; choose one")
    refuse_two_inputs([*labels, gold, costs], "LABELS, --gold and --costs")
    check_number("--budget", budget, low=0, above=True)
    if out is not None and out != "-":
        output_files.check_file(out, "--out", [*labels, gold, costs])
    files = LabelFiles(labels, columns)
    model = as_online_model(read_files(files), files.open_side_table(gold))
    prices: Any = 1.0 if costs is None else read_cost_table(files.open_side_table(costs, has_labels=False))
    cheapest = min(prices.values()) if isinstance(prices, dict) and prices else 1.0
    most = len(model.tasks) * len(model.workers)  # nobody is asked the same twice
    found = next_questions(
        model,
        max(int(min(budget / min(cheapest, 1.0), most, MOST)), 1),
        policy=policy,
        worker_policy=worker_policy,
        costs=prices,
        workers=None if workers is None else split_names(workers, "--workers"),
        capacity=capacity,
        cap=cap,
        gold_share=0.0 if gold is None else GOLD_SHARE if gold_share is None else gold_share,
        budget=budget,
        random_state=seed,
    )
    if out is not None:
        output_files.output_csv(_as_table(found), out)
    if json:
        output_files.print_json([vars(question) for question in found])
    elif out != "-":
        _print_page(found)


def _as_table(questions: list[Question]) -> pa.Table:
    import pyarrow as pa

    names = ("task", "worker", "worth", "cost", "gold")
    kinds = {"worth": pa.float64(), "cost": pa.float64(), "gold": pa.bool_()}
    return pa.table({name: pa.array([getattr(each, name) for each in questions], kinds.get(name)) for name in names})


def _print_page(questions: list[Question]) -> None:
    console = console_tables.open_console()
    if not questions:
        console_tables.print_paragraph(
            console, "There is nothing to ask: workers, tasks or the budget do not allow it."
        )
        return
    cost = sum(question.cost for question in questions)
    console_tables.print_heading(console, f"The next {len(questions):,} questions, which cost {cost:g}")
    rows: list[list[Text | str]] = [
        [
            display_name(each.task),
            display_name(each.worker),
            "gold" if each.gold else f"{each.worth:.3f}",
            f"{each.cost:g}",
        ]
        for each in questions[:SHOWN]
    ]
    console.print(
        console_tables.make_table(
            ("task", "left"), ("worker", "left"), ("worth", "right"), ("cost", "right"), rows=rows
        )
    )
    if len(questions) > SHOWN:
        console_tables.print_paragraph(console, f"… and {len(questions) - SHOWN:,} more: --out FILE writes all.")
