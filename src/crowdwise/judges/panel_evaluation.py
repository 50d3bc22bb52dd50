"""Evaluate a panel of language models as judges: everything that `crowdwise judges` says, in one call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.fitting.parameter_checks import check_count, check_number, check_random_state
from crowdwise.fitting.underflow import ignore_underflow
from crowdwise.judges.agreement_with_people import Estimate, estimate_share, measure_human_agreement
from crowdwise.judges.alternative_annotator import run_alternative_annotator_test
from crowdwise.judges.comparison_bias import measure_biases
from crowdwise.judges.error_correlation import compare_versions, measure_error_correlation
from crowdwise.judges.judge_costs import read_costs
from crowdwise.judges.next_tasks import choose_next_tasks, count_labels_needed
from crowdwise.judges.panel_model import find_cheapest_panel, fit_panel
from crowdwise.judges.panel_scores import compare_systems, estimate_scores, unexplained_spread
from crowdwise.judges.vote_table import class_values, read_panel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crowdwise.judges.agreement_with_people import HumanAgreement
    from crowdwise.judges.alternative_annotator import AlternativeAnnotator
    from crowdwise.judges.comparison_bias import JudgeBias
    from crowdwise.judges.error_correlation import Drift, ErrorCorrelation
    from crowdwise.judges.next_tasks import NextTasks
    from crowdwise.judges.panel_model import PanelConsensus, SmallerPanel
    from crowdwise.judges.panel_scores import PanelScore, SystemDifference
    from crowdwise.judges.vote_table import PanelVotes

__all__ = ["JudgeReport", "PanelEvaluation", "evaluate_panel"]

NEXT = 40  # tasks that are proposed
OFTEN = 3  # tasks of a class, for a judge to be said to miss it


@dataclass(frozen=True, eq=False)
class JudgeReport:
    """One judge.

    Attributes
    ----------
    accuracy
        Share of tasks on which the judge says what most people say; NaN without people.
    replaces
        The alternative annotator test; None without people.
    cost
        Of a vote; NaN where it is not known.
    n_answers, unparseable, n_repeated, consistency
        Answers, those without a class, tasks answered more than once, and the chance that two answers to one task
        agree.
    missing
        Classes that people and other judges use and this judge never does.
    """

    name: str
    accuracy: Estimate
    replaces: AlternativeAnnotator | None
    cost: float
    n_answers: int
    unparseable: int
    n_repeated: int
    consistency: float
    missing: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class PanelEvaluation:
    """What is known of a panel; made by `evaluate_panel`.

    Attributes
    ----------
    panel
        The votes and labels, as read.
    judges
        Each judge.
    humans
        How people agree; None without people.
    consensus
        What the panel says, how sure, how often it is right.
    errors
        Which judges err together, and what the panel is worth.
    smaller
        Smaller panels, from the whole to one judge; empty where they were not compared.
    scores, differences
        What people would score, and systems against each other.
    biases
        Of judges of comparisons.
    drift
        Of judges with versions.
    next_tasks
        For people to label; None where all are labelled.
    """

    panel: PanelVotes
    judges: tuple[JudgeReport, ...]
    humans: HumanAgreement | None
    consensus: PanelConsensus
    errors: ErrorCorrelation
    smaller: tuple[SmallerPanel, ...]
    scores: tuple[PanelScore, ...]
    differences: tuple[SystemDifference, ...]
    biases: tuple[JudgeBias, ...]
    drift: tuple[Drift, ...]
    next_tasks: NextTasks | None
    spread: tuple[str, float, Estimate] | None

    @property
    def cheapest(self) -> SmallerPanel | None:
        """The cheapest panel that is as good as the whole; None where none was compared."""
        fitting = [each for each in self.smaller if each.as_good]
        return min(fitting, key=lambda each: (each.cost, len(each.judges)), default=None)

    def passes(self, least: float) -> bool:
        """Whether the panel's lower bound is at least this: wrongly so in about 5 % of samples."""
        check_number("least", least, low=0, high=1)
        return bool(self.consensus.lower_bound >= least)

    def labels_needed(self, width: float) -> int | None:
        """Tasks that people must label in all for a 90 % interval of the first score of this whole width."""
        return None if self.spread is None else count_labels_needed(self.spread[1], width)

    def sentences(self) -> list[str]:
        """The answers, each a plain sentence."""
        from crowdwise.judges.panel_sentences import describe_panel

        return describe_panel(self)

    def to_dict(self) -> dict[str, Any]:
        """The answers as plain numbers and texts, for JSON; what is not known is None."""
        from crowdwise.judges.panel_sentences import panel_facts

        return panel_facts(self)

    def __str__(self) -> str:
        """The sentences."""
        return "\n".join(self.sentences())

    def _repr_html_(self) -> str:
        """What a notebook shows: the table of judges and the sentences."""
        from crowdwise.judges.judge_table import show_in_notebook

        return show_in_notebook(self)


@ignore_underflow
def evaluate_panel(
    votes: Any,
    humans: Any = None,
    *,
    costs: Any = None,
    classes: Sequence[str] | None = None,
    epsilon: float = 0.1,
    n_next: int = NEXT,
    random_state: int = 0,
) -> PanelEvaluation:
    """Evaluate a panel of judges.

    Parameters
    ----------
    votes
        A file or table with a row for each answer: task, judge and vote; or task, judge, left, right and winner. See
        `read_panel`.
    humans
        Labels of people about some of the tasks: task, worker and label.
    costs
        Of a vote: a mapping from judge to cost, or a file or table with columns judge and cost.
    classes
        All classes; other votes are unparseable.
    epsilon
        ε of the alternative annotator test.
    n_next
        How many tasks to propose to people.
    random_state
        Same seed, same answer.

    Examples
    --------
    >>> votes = {"task": [1, 1, 2, 2], "judge": ["a", "b", "a", "b"], "vote": ["yes", "yes", "no", "yes"]}
    >>> found = evaluate_panel(votes, {"task": [1, 2], "worker": ["ann", "ann"], "label": ["yes", "no"]})
    >>> [judge.accuracy.value for judge in found.judges]
    [1.0, 0.5]
    """
    check_random_state(random_state)
    check_count("n_next", n_next)
    panel = read_panel(votes, humans, classes=classes)
    cost = read_costs(costs, panel.judges)
    people = measure_human_agreement(panel)
    consensus = fit_panel(panel, random_state=random_state)
    known = np.flatnonzero(panel.count_human_labels().sum(axis=1) > 0)
    chosen = None
    if known.size < panel.votes.n_tasks:
        chosen = choose_next_tasks(consensus.posterior, n_next, labelled=known, random_state=random_state)
    paid = np.where(np.isnan(cost), np.nanmean(cost) if not np.isnan(cost).all() else 1.0, cost)
    return PanelEvaluation(
        panel,
        tuple(_report_judges(panel, cost, epsilon)),
        people,
        consensus,
        measure_error_correlation(panel, random_state=random_state),
        tuple(find_cheapest_panel(panel, paid, random_state=random_state)),
        tuple(estimate_scores(panel, consensus, random_state=random_state)),
        tuple(compare_systems(panel, consensus)),
        tuple(measure_biases(panel)),
        tuple(compare_versions(panel)),
        chosen,
        unexplained_spread(panel, consensus),
    )


def _report_judges(panel: PanelVotes, cost: Any, epsilon: float) -> list[JudgeReport]:
    votes, reference = panel.to_matrix(), panel.find_reference()
    values = class_values(panel.classes)
    often = np.bincount(reference[reference >= 0], minlength=len(panel.classes)) >= OFTEN
    used = np.flatnonzero(often & (np.bincount(votes[votes >= 0], minlength=often.size) > 0))
    found = []
    for at, name in enumerate(panel.judges):
        vote = votes[:, at]
        both = (vote >= 0) & (reference >= 0)
        test = None
        if panel.humans is not None:
            test = run_alternative_annotator_test(
                vote, panel.humans, epsilon=epsilon, score="accuracy" if values is None else "rmse", values=values
            )
        missing = tuple(panel.classes[each] for each in np.setdiff1d(used, vote))
        found.append(
            JudgeReport(
                name,
                estimate_share(vote[both] == reference[both], panel.weight[both]),
                test,
                float(cost[at]),
                int(panel.n_answers[at]),
                int(panel.unparseable[at]),
                int(panel.n_repeated[at]),
                float(panel.consistency[at]),
                missing,
            )
        )
    return found
