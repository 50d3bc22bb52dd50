"""`crowdwise demo`: the main job done on real labels, a classifier learnt from bad ones, and a live campaign."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from crowdwise.cli import console_tables, output_files
from crowdwise.cli.commands.aggregate import AggregateOptions, fit_and_score, print_disputed, print_opening
from crowdwise.cli.commands.report import check_installed, write_page
from crowdwise.cli.fitted_model_output import print_classes, print_notes_to_stderr, print_written_files
from crowdwise.cli.label_files import LabelFiles
from crowdwise.cli.terminal_names import display_name, escape_unprintable
from crowdwise.labels.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    from rich.padding import Padding

    from crowdwise.campaign.simulated_campaign import PlayedCampaign
    from crowdwise.cli.commands.aggregate import Result
    from crowdwise.labels.types import FloatArray

__all__ = ["METHODS", "demo"]

PICTURE, CAMPAIGN = "confusions.svg", "campaign.html"
TRAINING = 1300  # of 1,797 images; the others are never labelled
WORKERS, SKILL = 5, 0.4
METHODS = {"hard-labels": "labels taken as they are", "trace": "workers learnt with the classifier"}
PLAN: dict[str, Any] = {"epochs": 30, "learning_rate": 3e-3, "device": "cpu"}  # a few seconds on any machine


def demo(
    out: Annotated[str, typer.Option(metavar="DIR", help="Where the results go.")] = "crowdwise-demo",
) -> None:
    """See the main job done on real labels, a classifier learnt from bad ones, and a campaign of simulated workers."""
    from crowdwise.audit.audit import audit_crowd
    from crowdwise.datasets import load

    place = output_files.check_folder(out)
    options = AggregateOptions(method="dawid-skene")
    result = fit_and_score(LabelFiles("anaesthetists"), options, load("anaesthetists").labels, from_files=False)
    output_files.write_results(result, place)
    _print_anaesthetists(result)
    missing = _learn_from_digits(place)
    no_campaign = _play_campaign(place)
    _print_end(place, missing)
    if no_campaign:
        print_notes_to_stderr([no_campaign])
    try:
        check_installed()
    except InputError as error:  # altair is not installed
        print_notes_to_stderr([str(error)])
    else:
        found = audit_crowd(result.labels, method=result.model.slug)  # the page shows the consensus told above
        write_page(found, str(place / "report.html"), title="The anaesthetists of 1979")


# ---- the anaesthetists ------------------------------------------------------------------------------------


def _print_anaesthetists(result: Result) -> None:
    """Tell a newcomer the main job, done on the anaesthetists."""
    console = console_tables.open_console()
    model, names = result.model, result.labels.classes.to_pylist()
    console_tables.print_heading(console, "Five anaesthetists, 45 patients, no truth")
    console_tables.print_paragraph(
        console,
        "Five anaesthetists graded how fit 45 patients were for an operation, in four classes; the first of "
        "them graded every patient three times. They disagree, and nobody knows the right grades. From the "
        "answers alone, Dawid and Skene (1979) worked out which grade is probably right for each patient and "
        "how each doctor errs. Crowdwise does it again, in their way:",
    )
    console.print()
    print_opening(console, result)
    print_classes(console, result)
    console_tables.print_heading(console, "The first patients")
    console.print(_first_tasks_table(result, 6))
    print_disputed(console, result, 6)
    console_tables.print_heading(console, "Worker portraits, best first; skill is the chance that an answer is right")
    order = sorted(range(len(model.skill_)), key=lambda at: -model.skill_[at])
    mistakes = [_describe_usual_mistake(model, names, at) for at in order]
    console.print(console_tables.worker_table(console, result.workers, order, mistakes))
    for title, at in (("the best", order[0]), ("the worst", order[-1])):
        console_tables.print_heading(console, f"How worker {result.workers['worker'][at].as_py()}, {title}, answers")
        console.print(console_tables.confusion_table(names, model.confusion_[at]))


def _first_tasks_table(result: Result, most: int) -> Padding:
    rows: list[list[str | Text]] = [
        [
            display_name(row["task"]),
            display_name(row["label"]),
            f"{row['confidence']:.1%}",
            console_tables.format_votes(result, at),
        ]
        for at, row in enumerate(result.consensus.slice(0, most).to_pylist())
    ]
    columns = (("task", "left"), ("consensus", "left"), ("sure", "right"), ("answers", "left"))
    return console_tables.make_table(*columns, rows=rows)


def _describe_usual_mistake(model: Any, names: list[Any], worker: int) -> str:
    """Put the mistake that a worker makes most often in words."""
    from crowdwise.audit.consensus_sentences import most_common_mistake

    truth, label, chance = most_common_mistake(model, worker)
    named = f"{display_name(names[truth], 8).plain} as {display_name(names[label], 8).plain}"
    return f"{named} ({chance:.0%})" if chance > 0 else "none"


# ---- the digits -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DigitsResult:
    """What each method made of the digits.

    Attributes
    ----------
    accuracy
        Share of images without labels that each method's classifier gets right, by slug.
    error
        How far its confusion matrices are from the true ones: mean over rows of the total variation, from 0 to 1.
    labels_right
        Share of the labels that were right.
    true, found : (M, K, K) [worker, truth, label]
        The workers' matrices, and what trace regularisation found.
    """

    accuracy: dict[str, float]
    error: dict[str, float]
    labels_right: float
    n_images: int
    n_held_out: int
    true: FloatArray
    found: FloatArray


def _learn_from_digits(place: Path) -> str:
    """The second act, with its picture; what is missing for it, if it had to be left out."""
    from crowdwise.registry import learner

    try:
        learner("trace").load()
    except InputError as error:  # torch is not installed
        return str(error)
    digits = _fit_digits()
    output_files.write_text(_draw_digit_confusions(digits), place / PICTURE)
    _print_digits(digits)
    return ""


def _fit_digits(seed: int = 0) -> DigitsResult:
    """Learn scikit-learn's digits from pairwise flippers (Tanno et al. 2019); the same every time."""
    import numpy as np
    from sklearn.datasets import load_digits

    from crowdwise.registry import learner
    from crowdwise.simulate.tanno_annotators import pairwise_flippers

    digits: Any = load_digits()
    order = np.random.default_rng(seed).permutation(len(digits.target))
    seen, hidden = order[:TRAINING], order[TRAINING:]
    crowd = pairwise_flippers(
        TRAINING, WORKERS, labels_per_task=1, skill=SKILL, truth=digits.target[seen], random_state=seed
    )
    accuracy, error, found = {}, {}, crowd.confusion
    for slug in METHODS:
        model = learner(slug).make(**PLAN, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the truth is known here: the reader sees for themselves
            model.fit(digits.data[seen], crowd.labels)
        accuracy[slug] = model.score(digits.data[hidden], digits.target[hidden])
        error[slug] = float(0.5 * np.abs(model.confusion_ - crowd.confusion).sum(axis=2).mean())
        found = model.confusion_
    return DigitsResult(accuracy, error, crowd.accuracy, TRAINING, len(hidden), crowd.confusion, found)


def _draw_digit_confusions(digits: DigitsResult) -> str:
    """How the workers err, in truth and as recovered, as SVG text."""
    from crowdwise.reproduction.matrix_chart import draw_matrices

    words = (
        f"{digits.n_images:,} images, one label each, {digits.labels_right:.0%} of the labels right. The classifier "
        f"gets {digits.accuracy['trace']:.0%} of new images right; trained on these as they are, "
        f"{digits.accuracy['hard-labels']:.0%}."
    )
    return draw_matrices(
        digits.true,
        digits.found,
        range(10),
        "How five workers take one digit for another",
        words,
        recovered_from="from labels and images",
        shown="digit shown",
    )


def _print_digits(digits: DigitsResult) -> None:
    """Tell a newcomer what features add, on the digits."""
    console = console_tables.open_console()
    console_tables.print_heading(console, "Five careless workers, 1,300 handwritten digits, one label each")
    console_tables.print_paragraph(
        console,
        "Where tasks have features, here the pixels of scikit-learn's digits, a classifier can be learnt from the "
        "labels. These five workers are simulated: each takes every digit for one other of their choice more often "
        f"than not, so that {digits.labels_right:.0%} of the labels are right, and no image has a second opinion. "
        "Trace regularisation (Tanno et al. 2019) learns the classifier and the workers' mistakes at once. On "
        f"{digits.n_held_out:,} images that nobody labelled:",
    )
    console.print()
    rows = [[slug, f"{digits.accuracy[slug]:.1%}", f"{digits.error[slug]:.2f}", what] for slug, what in METHODS.items()]
    columns = (("method", "left"), ("right", "right"), ("error", "right"), ("", "left"))
    console.print(console_tables.make_table(*columns, rows=rows))
    console.print()
    console_tables.print_paragraph(
        console, "error: of the workers' confusion matrices, the share of answers misjudged, from 0 to 1."
    )


# ---- the campaign -----------------------------------------------------------------------------------------


def _play_campaign(place: Path) -> str:
    """The third act, with its page; what is missing for it, if it had to be left out."""
    import tempfile
    from pathlib import Path as LocalPath

    from crowdwise.campaign.installed_packages import check_installed as check_campaign

    try:
        check_campaign()
    except InputError as error:  # fastapi or the like is not installed
        return str(error)
    from crowdwise.campaign.simulated_campaign import play_campaign

    with tempfile.TemporaryDirectory() as folder:
        played = play_campaign(LocalPath(folder))
    output_files.write_text(played.page, place / CAMPAIGN)
    _print_campaign(played)
    return ""


def _print_campaign(played: PlayedCampaign) -> None:
    """Tell a newcomer what a campaign does, on the simulated one."""
    console = console_tables.open_console()
    console_tables.print_heading(console, f"Twelve simulated workers, {played.n_tasks} tasks, a live campaign")
    console_tables.print_paragraph(
        console,
        "crowdwise serve asks people and models itself. Here twelve simulated workers, from careful to careless, have "
        "just answered over HTTP; a task was asked no more once the consensus was 97% sure of it. "
        f"{played.n_answers:,} answers were bought where {played.n_possible:,} were allowed, and "
        f"{played.accuracy:.0%} of the tasks came out right. Skill, as it is and as the campaign found it:",
    )
    console.print()
    rows: list[list[str | Text]] = [
        [name, f"{true:.2f}", f"{found:.2f}"] for name, (true, found) in sorted(played.skills.items(), key=_by_skill)
    ]
    console.print(console_tables.make_table(("worker", "left"), ("true", "right"), ("found", "right"), rows=rows))


def _by_skill(row: tuple[str, tuple[float, float]]) -> float:
    return -row[1][0]


def _print_end(place: Path, missing: str) -> None:
    """What was written, and what to do next; `missing` says why there was no second act, if so."""
    console = console_tables.open_console()
    if missing:
        console_tables.print_heading(console, "The second act, a classifier learnt from such labels, was left out")
        console_tables.print_paragraph(console, f"  {missing}")
    print_written_files(console, place)
    if not missing:
        console.print(Text(f"  {escape_unprintable(place / PICTURE)}  how the five workers err"), soft_wrap=True)
    if (place / CAMPAIGN).exists():
        console.print(Text(f"  {escape_unprintable(place / CAMPAIGN)}  the campaign's page"), soft_wrap=True)
    steps = [
        ("Your own labels (columns task, worker, label):", "crowdwise aggregate labels.csv --out results"),
        ("With features of the tasks:", "crowdwise train --features X.npz --labels labels.csv --out results"),
        ("What they look like before any model:", "crowdwise describe labels.csv"),
        ("The other methods:", "crowdwise methods"),
        ("People to ask (docs/campaign.md):", "crowdwise serve project.toml"),
        ("The same in Python:", f"import crowdwise; model = crowdwise.load({str(place / 'model')!r})"),
    ]
    console_tables.print_next_steps(console, steps)
