"""What the commands do between options and pages: call the other rooms."""

from __future__ import annotations

import math
import time
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crowdwise.cli.label_files import Reading, describe_files, listed_names, read, read_timed
from crowdwise.labels.errors import InputError, listing, quote
from crowdwise.labels.source_location import format_count
from crowdwise.labels.tables import defuse_text
from crowdwise.labels.vocabulary import positions

if TYPE_CHECKING:
    from crowdwise.labels import CrowdLabels
    from crowdwise.labels.truth import Truth
    from crowdwise.labels.types import FloatArray, IntArray
    from crowdwise.report.items import Items

__all__ = [
    "Fitted",
    "Reading",
    "Request",
    "Result",
    "aggregated",
    "defused_names",
    "describe_files",
    "expected_wrong_facts",
    "known_truth",
    "listed_names",
    "read",
    "read_shown_items",
    "read_timed",
    "scores_of",
]


@dataclass(frozen=True)
class Request:
    """What the user asked `aggregate` for."""

    reading: Reading
    method: str
    truth: str | None = None
    gold: str | None = None
    seed: int | None = None
    max_iter: int | None = None
    sequences: str | None = None
    graph: str | None = None
    class_prior: str | None = None
    known_workers: str | None = None
    items: str | None = None

    def words(self) -> list[str]:
        """Give the options that change the fit, or what is shown of it, on a command line."""
        options = {
            "--gold": self.gold,
            "--seed": self.seed,
            "--max-iter": self.max_iter,
            "--sequences": self.sequences,
            "--graph": self.graph,
            "--class-prior": self.class_prior,
            "--known-workers": self.known_workers,
            "--items": self.items,
        }
        return [word for option, value in options.items() if value is not None for word in (option, str(value))]


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """A fitted model, its two tables, and what to say about them.

    Attributes
    ----------
    seconds
        Time of the fit alone.
    scores
        Against the truth, if one was given.
    notes
        Sentences that the user should read.
    """

    labels: CrowdLabels
    model: Any
    consensus: pa.Table
    workers: pa.Table
    seconds: float
    scores: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Result(Fitted):
    """What `aggregate` found; `n_gold` tasks had a gold answer to learn from."""

    request: Request
    n_gold: int = 0

    def facts(self) -> dict[str, Any]:
        """Give what `--json` prints."""
        return {
            "method": self.model.slug,
            "n_tasks": self.labels.n_tasks,
            "n_workers": self.labels.n_workers,
            "n_classes": self.labels.n_classes,
            "n_labels": self.labels.n_labels,
            "n_iter": int(self.model.n_iter_),
            "converged": bool(self.model.converged_),
            "seconds": round(self.seconds, 6),
            **({"league": self.league} if self.league else {}),
            **expected_wrong_facts(self.model),
            **self.scores,
        }

    @property
    def league(self) -> list[dict[str, Any]]:
        """The table by which auto chose its methods; empty for other methods, and where nothing could be hidden."""
        return self.model.league().to_pylist() if hasattr(self.model, "league") else []


# ---- in ---------------------------------------------------------------------------------------------------


def read_shown_items(file: str | None, labels: CrowdLabels) -> Items | None:
    """Read what the tasks show, where a table of it is given."""
    from crowdwise.report.items import read_items

    return None if file is None else read_items(file, labels.tasks)


# ---- fit --------------------------------------------------------------------------------------------------


def aggregated(request: Request, labels: CrowdLabels) -> Result:
    """Fit the method, and score it where the truth is given."""
    from crowdwise.fitting.em import NotConverged
    from crowdwise.labels.truth import read_truth

    model = _model(request)
    gold = None if request.gold is None else read_truth(request.gold)
    labels, added = _with_gold_classes(gold, labels, model)
    codes, notes = (None, []) if request.truth is None else known_truth(request.truth, labels)
    known = _known(request, labels) | ({} if gold is None else {"gold": gold})
    notes += added
    if codes is not None and "gold" in known:
        codes, more = _untold(codes, known["gold"], labels)
        notes += more
    notes += _lacking(request)
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)  # said as a note
        model.fit(labels, **known)
    seconds = time.perf_counter() - started
    consensus, workers = model.consensus(), model.workers()
    if not model.converged_:
        notes.append(
            f"The fit stopped after {model.n_iter_:,} iterations while still improving. Give it more with --max-iter."
        )
    notes += defused_names(consensus, workers)
    gold = known.get("gold")
    return Result(
        request=request,
        n_gold=0 if gold is None else int((positions(gold.tasks, labels.tasks) >= 0).sum()),
        labels=labels,
        model=model,
        consensus=consensus,
        workers=workers,
        seconds=seconds,
        scores={} if codes is None else scores_of(consensus, model.posterior_, labels.classes, codes),
        notes=notes,
    )


def _known(request: Request, labels: CrowdLabels) -> dict[str, Any]:
    """What the user knows besides the labels, as `fit` takes it."""
    from crowdwise.saved import load

    known: dict[str, Any] = {}
    if request.class_prior is not None:
        known["class_prior"] = _shares(request.class_prior, [str(name) for name in labels.classes.to_pylist()])
    if request.known_workers is not None:
        known["known_workers"] = load(request.known_workers)
    return known


def _with_gold_classes(gold: Truth | None, labels: CrowdLabels, model: Any) -> tuple[CrowdLabels, list[str]]:
    """The labels with the classes that only --gold names, and a note that says so."""
    from crowdwise.labels.truth import add_classes_of_truth

    if gold is None or "gold" not in model.uses:
        return labels, []
    extended = add_classes_of_truth(gold, labels)
    added = extended.classes.to_pylist()[labels.n_classes :]
    return extended, [f"No worker said {listing(added)}, which --gold names: counted as a class."] if added else []


def _shares(given: str, classes: list[str]) -> list[float]:
    """Shares in the order of the classes, from NAME=SHARE with commas between."""
    shares = dict.fromkeys(classes, math.nan)
    for part in listed_names(given, "--class-prior"):
        name, _, share = part.rpartition("=")
        if name not in shares:
            raise InputError(f"--class-prior: {quote(part)} names no class; give NAME=SHARE for {listing(classes)}.")
        try:
            shares[name] = float(share)
        except ValueError as error:
            raise InputError(f"--class-prior: {quote(share)} is no number, in {quote(part)}.") from error
    silent = [name for name, share in shares.items() if math.isnan(share)]
    if silent:
        raise InputError(f"--class-prior gives no share to {listing(silent)}. Name every class, 0 for one never true.")
    return list(shares.values())


def _model(request: Request) -> Any:
    from crowdwise.registry import method, methods

    model = method(request.method).load()()
    for name in ("seed", "max_iter", "sequences", "graph"):
        value = getattr(request, name)
        if value is None:
            continue
        if name not in model.get_params():
            made = [other.slug for other in methods() if other.needs == name]
            hint = f", or take a method that does: {', '.join(made)}" if made else ""
            raise InputError(f"{request.method} takes no --{name.replace('_', '-')}. Leave it out{hint}.")
        model.set_params(**{name: value})
    return model


def known_truth(file: str, labels: CrowdLabels) -> tuple[IntArray, list[str]]:
    """Read the true classes of the tasks, with notes about truths that cannot be used."""
    from crowdwise.labels.truth import Truth, read_truth, truth_codes

    truth = read_truth(file)
    met = positions(truth.tasks, labels.tasks) >= 0
    said = positions(truth.labels, labels.classes) >= 0
    if met.any() and not (met & said).any():
        raise InputError(
            f"No class of the truth {quote(file)} is a class of the labels: their tasks have "
            f"{listing(pc.unique(truth.labels.filter(pa.array(met))).to_pylist())}, the labels have "
            f"{listing(labels.classes.to_pylist())}. "
            "Use the same names in both."
        )
    notes = []
    if not met.all():
        notes.append(f"{format_count(int((~met).sum()), 'truth')} left out of the scores: no label for the task.")
    unsaid = met & ~said
    if unsaid.any():
        names = pc.unique(truth.labels.filter(pa.array(unsaid))).to_pylist()
        notes.append(
            f"{format_count(int(unsaid.sum()), 'truth')} left out of the scores: of a class that nobody said, "
            f"{listing(names)}. Name all classes with --classes to count them."
        )
    usable = pa.array(said | ~met)
    return truth_codes(Truth(truth.tasks.filter(usable), truth.labels.filter(usable)), labels), notes


def _untold(codes: IntArray, gold: Any, labels: CrowdLabels) -> tuple[IntArray, list[str]]:
    """The truths that the fit was not told, which alone can score it, and a note about the others."""
    from crowdwise.labels.truth import truth_codes

    told = (truth_codes(gold, labels) >= 0) & (codes >= 0)
    if not told.any():
        return codes, []
    if (told == (codes >= 0)).all():
        raise InputError("Every task of --truth is also in --gold: none is left to score with. Give other truths.")
    note = f"{format_count(int(told.sum()), 'truth')} left out of the scores: told by --gold."
    return np.where(told, -1, codes), [note]


def _lacking(request: Request) -> list[str]:
    """Say that a method made for sequences or a graph was given none."""
    from crowdwise.registry import method

    needs = method(request.method).needs
    if not needs or getattr(request, needs) is not None:
        return []
    said = "is made for tasks that belong together, and was not told which do: every task stands alone."
    return [f"{request.method} {said} Tell it with --{needs}."]


def expected_wrong_facts(model: Any) -> dict[str, Any]:
    """How many answers are expected to be wrong, for JSON; nothing where the model has no such estimate."""
    from crowdwise.report.claims import expected_wrong
    from crowdwise.report.scores import LEVEL

    wrong = expected_wrong(model)
    if wrong is None:
        return {}
    numbers = {name: float(getattr(wrong, name)) for name in ("count", "low", "high")}
    return {"expected_wrong": numbers | {"level": LEVEL, "basis": wrong.basis}}


def scores_of(decided: pa.Table, posterior: FloatArray, classes: pa.Array, truth: IntArray) -> dict[str, Any]:
    """How good decisions (a column label) and a posterior are, where the truth is known (not -1)."""
    from crowdwise import metrics
    from crowdwise.report.scores import Score

    known = truth >= 0
    predicted = positions(decided["label"].combine_chunks(), classes)
    found = Score(np.minimum(posterior[known].max(axis=1), 1.0), predicted[known] == truth[known]).facts()
    ece = found.pop("ece")
    proper = {"log_loss": metrics.log_loss(truth, posterior), "brier": metrics.brier(truth, posterior)}
    return found | proper | {"ece": ece}


def defused_names(*tables: pa.Table) -> list[str]:
    """Say how many names look different in CSV."""
    changed = 0
    for table in tables:
        first = table.column(0)
        safe = defuse_text(first)
        if safe is not first:
            changed += sum(new != old for new, old in zip(safe.to_pylist(), first.to_pylist(), strict=True))
    if not changed:
        return []
    names = f"{format_count(changed, 'name')} that a spreadsheet may take for a formula, or with control characters"
    return [f"Defused in CSV: {names}. The saved model keeps {'it' if changed == 1 else 'them'} as given."]
