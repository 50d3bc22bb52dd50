"""What an evaluation says: plain sentences for people, plain values for programs."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.dependence.effective_size import cap_sizes
from crowdwise.labels.errors import listing

if TYPE_CHECKING:
    from crowdwise.dependence.effective_size import EffectiveSize
    from crowdwise.judges.agreement_with_people import Estimate
    from crowdwise.judges.panel_evaluation import JudgeReport, PanelEvaluation

__all__ = ["describe_panel", "panel_facts"]

FEW = 30  # labelled tasks, below which intervals are wide
LIMIT = (
    "A better way to combine votes cannot make judges independent who err together: only other judges or people can."
)


def describe_panel(found: PanelEvaluation) -> list[str]:
    """The answers, each a plain sentence, in the order of the questions."""
    said = [
        *_describe_input(found),
        *_describe_judges(found),
        *_describe_consensus(found),
        *_describe_errors(found),
        *_describe_scores(found),
        *_describe_biases(found),
        *_describe_next(found),
    ]
    return [sentence for sentence in said if sentence]


def _describe_input(found: PanelEvaluation) -> list[str]:
    votes = found.panel.votes
    said = [f"{_count(votes.n_workers, 'judge')}, {_count(votes.n_tasks, 'task')}, {_count(votes.n_labels, 'vote')}."]
    said += found.panel.notes
    repeated = [judge for judge in found.judges if judge.n_repeated]
    if repeated:
        worst = min(repeated, key=lambda judge: judge.consistency)
        said.append(
            f"Answers were repeated; repeats count as one vote. Two answers of {worst.name} to one task agree in "
            f"{worst.consistency:.1%}, the lowest of the judges."
        )
    people = found.humans
    if people is None:
        said.append(
            "No labels of people were given: how often the judges are right is not known, only how they agree. "
            "Give --human with the labels of people for a hundred tasks drawn at random."
        )
        return said
    undecided = (
        f"; on {_count(people.n_undecided, 'task')} they tie, and these have no answer" if people.n_undecided else ""
    )
    said.append(f"{_count(people.n_people, 'person')} labelled {_count(people.n_tasks, 'task')}{undecided}.")
    if math.isnan(people.ceiling.value):
        said.append("No task was labelled by several people who could be compared: how well people agree is not known.")
    else:
        alpha = (
            "Krippendorff's alpha has no value, as they gave one label only."
            if math.isnan(people.alpha)
            else f"Krippendorff's alpha of the people is {people.alpha:.2f}."
        )
        said.append(
            f"A person gives the label that most of the others gave in {people.ceiling} of cases: the ceiling for "
            f"judges. {alpha}"
        )
    return said


def _describe_judges(found: PanelEvaluation) -> list[str]:
    if found.humans is None:
        return []
    known = [judge for judge in found.judges if not math.isnan(judge.accuracy.value)]
    if not known:
        return ["On no task with a vote do people have one answer: the judges' accuracy cannot be counted."]
    best = max(known, key=lambda judge: judge.accuracy.value)
    said = [f"{best.name} agrees with people most often: {best.accuracy} of {_count(best.accuracy.n, 'task')}."]
    tests = [judge for judge in found.judges if judge.replaces is not None]
    skipped = next((judge.replaces.skipped for judge in tests if judge.replaces and judge.replaces.skipped), "")
    if skipped:
        said.append(f"The alternative annotator test could not be made. {skipped}")
    elif tests and tests[0].replaces:
        passing = [judge.name for judge in tests if judge.replaces and judge.replaces.passes]
        epsilon = tests[0].replaces.epsilon
        said.append(
            f"May stand in for a person by the alternative annotator test (ε = {epsilon:g}): "
            + (f"{', '.join(passing)}." if passing else "no judge.")
        )
    missing = {judge.name: judge.missing for judge in found.judges if judge.missing}
    for name, classes in list(missing.items())[:3]:
        said.append(f"{name} never says {listing(classes)}, which people do.")
    for each in found.drift:
        change = "" if math.isnan(each.difference.value) else f"; its accuracy changed by {_signed(each.difference)}"
        said.append(f"From {each.earlier} to {each.later}, {each.changed:.1%} of the votes changed{change}.")
    return said


def _describe_consensus(found: PanelEvaluation) -> list[str]:
    panel = found.consensus
    if math.isnan(panel.accuracy.value):
        return []
    accuracy = f"The panel says what most people say in {panel.accuracy} of tasks"
    said = [f"{accuracy}; its accuracy is at least {panel.lower_bound:.1%} with 95% confidence."]
    if panel.accuracy.n < FEW:
        said.append(
            f"Only {_count(panel.accuracy.n, 'task')} with people's answers: label a hundred for useful intervals."
        )
    best = found.judges[panel.best_judge].name
    said.append(f"Panel less best judge ({best}): {_signed(panel.advantage)}, points of accuracy on the same tasks.")
    error = f"{panel.calibration_error:.3f} on average"
    said.append(f"Its confidence is off by {error}, counted on tasks whose answer it was not told.")
    cheap = found.cheapest
    if cheap is not None and len(cheap.judges) < len(found.judges):
        said.append(
            f"The cheapest panel found that is as good: {', '.join(cheap.judges)} "
            f"({_signed(cheap.difference)} against the whole panel)."
        )
    return said


def _describe_errors(found: PanelEvaluation) -> list[str]:
    size = found.errors.size
    said = [size.skipped or size.summary.replace("workers", "judges").replace("worker", "judge")]
    alone = found.errors.size_by_votes
    if alone is not None and not alone.skipped and not size.skipped:
        by_people, by_votes = (
            "{:.1f} votes ({:.1f} to {:.1f})".format(*cap_sizes(each.n_workers, each.size, each.low, each.high))
            for each in (size, alone)
        )
        said.append(f"People's labels put the judges at {by_people}, the votes alone at {by_votes}.")
    if not size.skipped and size.n_workers > 1:
        families: dict[int, list[str]] = {}
        for name, family in zip(found.panel.judges, size.families, strict=True):
            if family >= 0:
                families.setdefault(int(family), []).append(name)
        said += [f"{', '.join(names)} err together." for names in families.values()]
        said.append(LIMIT)
    return said


def _describe_scores(found: PanelEvaluation) -> list[str]:
    said = []
    for score in found.scores[:12]:
        whose = f" of {score.system}" if score.system else ""
        what = f"the mean grade{whose}" if score.what == "mean grade" else f"the share of {score.what!r}{whose}"
        shown = str(score.estimate) if score.what != "mean grade" else _plain(score.estimate)
        alone = score.by_people
        shorter = 1 - (score.estimate.high - score.estimate.low) / max(alone.high - alone.low, 1e-300)
        saved = f", an interval {shorter:.0%} shorter than from people's labels alone" if shorter > 0.005 else ""
        said.append(f"People would put {what} at {shown}{saved}.")
    for gap in found.differences:
        text = (
            f"{gap.first} against {gap.second}, {gap.what}: {_signed(gap.estimate) if gap.even == 0 else gap.estimate}"
        )
        verdict = {"first": f"people prefer {gap.first}", "second": f"people prefer {gap.second}"}
        said.append(f"{text}: {verdict.get(gap.verdict, 'it cannot be told which people prefer')}.")
    return said


def _describe_biases(found: PanelEvaluation) -> list[str]:
    said = []
    for bias in found.biases:
        if bias.n_ties == bias.n_comparisons:
            said.append(f"{bias.judge} called every comparison a tie: it has no biases, and is of no use.")
            continue
        parts = []
        for what, estimate in (("the first position", bias.position), ("its own answers", bias.self_preference)):
            if not math.isnan(estimate.value):
                parts.append(f"{what} by {_signed(estimate)}")
        if parts:
            said.append(f"{bias.judge} prefers {' and '.join(parts)}.")
        if not math.isnan(bias.length.value):
            said.append(f"{bias.judge}: an answer twice as long is preferred more often by {_signed(bias.length)}.")
    return said


def _describe_next(found: PanelEvaluation) -> list[str]:
    said = []
    if found.spread is not None:
        what, spread, estimate = found.spread
        if spread > 0 and (needed := found.labels_needed((estimate.high - estimate.low) / 2)):
            name = what if what in ("mean grade", "win rate") else f"share of {what!r}"
            more = "" if needed <= found.panel.votes.n_tasks else ", more than there are"
            said.append(f"To halve the interval of the {name}, people must label about {needed:,} tasks in all{more}.")
    if found.next_tasks is not None:
        chosen = found.next_tasks
        said.append(
            f"Next, let people label the {_count(chosen.task.size, 'task')} listed: more of those that the panel is "
            "unsure of, drawn at random within strata. Keep their weights, and estimates stay unbiased."
        )
    return said


# ---- values for programs -------------------------------------------------------------------------------------


def panel_facts(found: PanelEvaluation) -> dict[str, Any]:
    """The answers as plain values."""
    panel, consensus, size = found.panel, found.consensus, found.errors.size
    alone = found.errors.size_by_votes
    facts: dict[str, Any] = {
        "n_judges": panel.votes.n_workers,
        "n_tasks": panel.votes.n_tasks,
        "n_votes": panel.votes.n_labels,
        "classes": panel.classes,
        "notes": list(panel.notes),
        "people": None,
        "judges": [_judge_facts(judge) for judge in found.judges],
        "panel": {
            "accuracy": asdict(consensus.accuracy),
            "lower_bound": consensus.lower_bound,
            "calibrated": consensus.calibrated,
            "calibration_error": consensus.calibration_error,
            "less_best_judge": asdict(consensus.advantage),
        },
        "effective_votes": _size_facts(size),
        "effective_votes_without_people": None if alone is None else _size_facts(alone),
        "error_correlation": found.errors.correlation.tolist(),
        "smaller_panels": [asdict(each) for each in found.smaller],
        "scores": [asdict(each) for each in found.scores],
        "differences": [asdict(each) | {"verdict": each.verdict} for each in found.differences],
        "biases": [asdict(each) for each in found.biases],
        "drift": [asdict(each) for each in found.drift],
        "next_tasks": [],
        "sentences": found.sentences(),
    }  # fmt: skip
    if found.humans is not None:
        people = found.humans
        facts["people"] = {
            "n_people": people.n_people, "n_tasks": people.n_tasks, "n_labels": people.n_labels,
            "n_undecided": people.n_undecided, "ceiling": asdict(people.ceiling), "alpha": people.alpha,
            "people": [
                {"name": name, "accuracy": float(share), "n": int(n)}
                for name, share, n in zip(people.people, people.accuracy, people.labels, strict=True) if n
            ][:200],
        }  # fmt: skip
    if found.next_tasks is not None:
        names = panel.tasks
        facts["next_tasks"] = [
            {"task": names[at], "weight": float(weight), "stratum": int(stratum)}
            for at, weight, stratum in zip(
                found.next_tasks.task, found.next_tasks.weight, found.next_tasks.stratum, strict=True
            )
        ]
    plain: dict[str, Any] = _without_nan(facts)
    return plain


def _size_facts(size: EffectiveSize) -> dict[str, Any]:
    return {
        "value": size.size, "low": size.low, "high": size.high, "correlation": size.correlation,
        "basis": size.basis, "families": size.families.tolist(), "skipped": size.skipped,
    }  # fmt: skip


def _judge_facts(judge: JudgeReport) -> dict[str, Any]:
    test = judge.replaces
    return {
        "name": judge.name,
        "accuracy": asdict(judge.accuracy),
        "winning_rate": test.winning_rate if test else None,
        "advantage": test.advantage if test else None,
        "epsilon": test.epsilon if test else None,
        "replaces_people": test.passes if test and not test.skipped else None,
        "cost": judge.cost,
        "n_answers": judge.n_answers,
        "unparseable": judge.unparseable,
        "n_repeated": judge.n_repeated,
        "consistency": judge.consistency,
        "missing": list(judge.missing),
    }


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nan(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(each) for each in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _count(n: int, noun: str) -> str:
    several = "people" if noun == "person" else f"{noun}s"
    return f"{n:,} {noun if n == 1 else several}"


def _signed(estimate: Estimate) -> str:
    if math.isnan(estimate.value):
        return "not known"
    return f"{estimate.value:+.3f} ({estimate.low:+.3f} to {estimate.high:+.3f})"


def _plain(estimate: Estimate) -> str:
    return f"{estimate.value:.3g} ({estimate.low:.3g} to {estimate.high:.3g})"
