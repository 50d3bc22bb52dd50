"""Commands on labels that stay on the disk (`--engine stream`, `--engine dask`): what they read, write and show."""

from __future__ import annotations

import time
import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.text import Text

from crowdwise.cli import console_tables, fitted_model_output, output_files
from crowdwise.cli.options import make_option
from crowdwise.cli.terminal_names import escape_unprintable
from crowdwise.labels.errors import InputError, quote

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from crowdwise.cli.label_files import LabelFiles
    from crowdwise.labels.crowd_labels import CrowdLabels

__all__ = ["STORING_ENGINES", "StoreOptions", "aggregate_stored", "audit_stored", "describe_stored"]

STORING_ENGINES = ("stream", "dask")
DEFAULT_METHOD = "dawid-skene"  # auto compares many methods, which takes labels in memory
UNSURE = 0.6  # confidence below which a task counts as unsure
PAIRS = 5  # of classes that are told
READ = ("task", "worker", "label", "classes", "on_duplicate", "kind")  # options of reading
IN_MEMORY = ("outer", "question", "format", "include_predictions", "worker", "time_column")  # other ones
panel = "Labels beyond memory (--engine stream, --engine dask)"


@dataclass(frozen=True, kw_only=True)
class StoreOptions:
    """Where labels beyond memory are kept, and what may be used for them."""

    memory: Annotated[
        str | None, make_option("Most memory to use; half of what is free, if left out.", "2GB", panel=panel)
    ] = None
    scratch: Annotated[
        str | None,
        make_option("Folder for sorted labels and checkpoints, kept for the next run.", "DIR", panel=panel),
    ] = None
    scheduler: Annotated[
        str | None, make_option("The Dask scheduler of a cluster that sees the same folders.", "tcp://…", panel=panel)
    ] = None


@contextmanager
def open_stored(files: LabelFiles, engine: str, store: StoreOptions, out: str | None) -> Iterator[tuple[Any, Any]]:
    """The engine and the labels on the disk. A folder that was not named is removed once all went well."""
    from crowdwise.engines import Dask, Stream
    from crowdwise.engines.engines_on_disk import claim_scratch, remove_scratch

    _refuse_reading_in_memory(files)
    _refuse_other_kinds(files)
    own = out is not None and store.scratch is None
    scratch = f"{out.rstrip('/')}.scratch" if out is not None and own else store.scratch
    client = _connect(store.scheduler) if store.scheduler is not None else None
    runner = Stream(store.memory, scratch) if engine == "stream" else Dask(client, scratch)
    options = {name: files.reader_options()[name] for name in READ}
    if own and scratch is not None:
        claim_scratch(scratch)
    try:
        labels = runner.read(files.files, **options)
    except Exception:
        if own and scratch is not None and not (Path(scratch) / "store.json").exists():
            remove_scratch(scratch)  # nothing in it would save a second run any work
        raise
    yield runner, labels
    if client is not None:
        client.close()
    if own and scratch is not None:
        remove_scratch(scratch)


def _refuse_other_kinds(files: LabelFiles) -> None:
    """Refuse answers that are no labels by their columns, unless the columns of labels are named."""
    from crowdwise.cli.answer_files import find_kind_of_files

    columns = files.columns
    if columns.label_column is None and (kind := find_kind_of_files(files)) is not None:
        raise InputError(
            f"These are {kind.name} ({kind.words}), and --engine stream and dask take labels. Leave --engine out, or "
            "say --kind labels if they are classes."
        )


def _refuse_reading_in_memory(files: LabelFiles) -> None:
    """Refuse what takes labels in memory: standard input, exports of tools, other kinds of answers, times."""
    columns = files.columns
    for name in IN_MEMORY:
        if getattr(columns, name, None):
            raise InputError(f"--{name.replace('_', '-')} takes labels in memory. Leave it out, or --engine.")
    if columns.kind is not None and columns.kind.value != "labels":
        raise InputError(f"--kind {columns.kind.value} takes answers in memory. Leave out --engine.")
    if "-" in files.files:
        raise InputError("Standard input (-) takes labels in memory. Write it to a file, or leave out --engine.")


def _connect(address: str) -> Any:
    try:
        from distributed import Client
    except ImportError as error:
        raise InputError("--engine dask needs Dask. Install it: pip install 'crowdwise[cluster]'.") from error
    try:
        return Client(address, timeout="10s")  # type: ignore[no-untyped-call]
    except (OSError, ValueError, TypeError) as error:
        raise InputError(f"No Dask scheduler answers at {quote(address)}: {error}. Check --scheduler.") from error


def aggregate_stored(files: LabelFiles, options: Any, store: StoreOptions, *, place: Path | None, json: bool) -> None:
    """Fit labels on the disk, write consensus.parquet and workers.csv, and show what was found."""
    for name in ("truth", "class_prior", "known_workers", "items", "write_dpo", "write_back", "sequences", "graph"):
        if getattr(options, name) is not None:
            raise InputError(f"--{name.replace('_', '-')} takes labels in memory. Leave it out, or --engine.")
    with open_stored(files, options.engine, store, None if place is None else str(place)) as (runner, labels):
        model, seconds, notes = _fit(labels, options, runner, files)
        if place is not None:
            place.mkdir(parents=True, exist_ok=True)
            name = "consensus" if options.engine == "dask" else "consensus.parquet"
            _write_model(model, place, name, getattr(runner, "map", None))
            notes.append(f"Written to {escape_unprintable(str(place))}: {name}, workers.csv. No model is saved.")
        if json:
            facts = {name: getattr(labels, name) for name in ("n_tasks", "n_workers", "n_classes", "n_labels")}
            fit = {"n_iter": model.n_iter_, "converged": model.converged_, "seconds": round(seconds, 6)}
            output_files.print_json({"method": model.slug, **facts, **fit})
            fitted_model_output.print_notes_to_stderr(notes)
            return
        _print_page(labels, model, seconds, notes)


def audit_stored(files: LabelFiles, options: Any, store: StoreOptions, *, json: bool) -> None:
    """The reduced audit of labels on the disk: skills, confused classes and unsure tasks."""
    import numpy as np

    from crowdwise.audit.audit_tests import audit_tests

    with open_stored(files, options.engine, store, None) as (runner, labels):
        model, seconds, notes = _fit(labels, options, runner, files)
        left_out = [test.title if hasattr(test, "title") else test.kind for test in audit_tests()]
        notes.append(
            "A reduced audit: labels on the disk are not tested for workers who copy, guess or drift, nor for bias. "
            f"Left out: {'; '.join(str(each) for each in left_out)}. Take a sample of the tasks for these."
        )
        unsure = sum(
            int((np.asarray(model.posterior_[at : at + 2**18]).max(axis=1) < UNSURE).sum())
            for at in range(0, labels.n_tasks, 2**18)
        )
        pairs = _confused_classes(model, labels) if hasattr(model, "confusion_") else []
        if json:
            workers = [output_files.json_values(row) for row in model.workers().to_pylist()]
            facts = {"n_tasks": labels.n_tasks, "n_labels": labels.n_labels, "unsure_tasks": unsure}
            confused = [{"truth": truth, "label": label, "share": share} for truth, label, share in pairs]
            output_files.print_json({"method": model.slug, **facts, "confused": confused, "workers": workers})
            fitted_model_output.print_notes_to_stderr(notes)
            return
        console = _print_page(labels, model, seconds, [])
        console_tables.print_heading(console, "Classes that are confused, and tasks in doubt")
        for truth, label, share in pairs:
            console.print(Text(f"  {quote(truth)} is called {quote(label)} in {share:.1%} of its labels"))
        console.print(Text(f"  {unsure:,} of {labels.n_tasks:,} tasks have a confidence below {UNSURE}"))
        fitted_model_output.print_notes_section(console, notes)


def describe_stored(files: LabelFiles, engine: str, store: StoreOptions) -> Any:
    """What labels on the disk look like."""
    with open_stored(files, engine, store, None) as (_, labels):
        return labels.describe()


def _fit(labels: CrowdLabels, options: Any, runner: Any, files: LabelFiles) -> tuple[Any, float, list[str]]:
    from crowdwise.fitting.em import StillImproving
    from crowdwise.registry import method

    notes = []
    slug = options.method
    if slug == "auto":
        slug = DEFAULT_METHOD
        notes.append(f"By {slug}: auto compares methods, which takes labels in memory. Name another with --method.")
    model = method(slug).load()(engine=runner)
    for option, name in (("seed", "random_state"), ("max_iter", "max_iter")):
        value = getattr(options, option, None)
        if value and name not in model.get_params():  # a seed of 0 is the default of every method
            raise InputError(f"{slug} takes no --{option.replace('_', '-')}. Leave it out.")
        if value:
            model.set_params(**{name: value})
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StillImproving)  # said as a note
        model.fit(labels, **({} if options.gold is None else {"gold": files.open_side_table(options.gold)}))
    return model, time.perf_counter() - started, [*notes, *fitted_model_output.note_unfinished_fit(model)]


def _write_model(model: Any, place: Path, name: str, map_work: Any) -> None:
    from crowdwise.fitting.consensus_files import write_consensus
    from crowdwise.labels.table_output import write_csv

    write_consensus(model, place / name, map_work)
    write_csv(model.workers(), place / "workers.csv")


def _confused_classes(model: Any, labels: CrowdLabels) -> list[tuple[Any, Any, float]]:
    """The pairs of classes that the crowd confuses most: truth, label, and the share of the truth's labels."""
    import numpy as np

    crowd = np.average(model.confusion_, axis=0, weights=labels.labels_per_worker)
    np.fill_diagonal(crowd, 0)
    names = labels.classes.to_pylist()
    order = np.argsort(-crowd, axis=None)[:PAIRS]
    found: Sequence[Any] = [divmod(int(at), len(names)) for at in order]
    return [(names[truth], names[label], float(crowd[truth, label])) for truth, label in found]


def _print_page(labels: CrowdLabels, model: Any, seconds: float, notes: list[str]) -> Any:
    console = console_tables.open_console()
    console.print(
        Text(
            f"Consensus on {labels.n_tasks:,} tasks from {labels.n_labels:,} labels by {labels.n_workers:,} "
            f"workers, {labels.n_classes:,} classes."
        )
    )
    rounds = f" and {model.n_iter_:,} iterations" if model.n_iter_ > 1 else ""
    console.print(Text(f"By {model.slug}, in {seconds:.2g} s{rounds}, from labels on the disk."))
    result = fitted_model_output.FittedResult(
        labels=labels, model=model, consensus=None, workers=model.workers(), seconds=seconds
    )
    fitted_model_output.print_classes(console, result)
    fitted_model_output.print_workers(console, result)
    fitted_model_output.print_notes_section(console, notes)
    return console
