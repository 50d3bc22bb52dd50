"""The audit of a crowd: every test, at levels that together keep what is promised, and what they found."""

from __future__ import annotations

import importlib
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.aggregate.dawid_skene import DawidSkene
from crowdwise.aggregate.group_dawid_skene import GroupDawidSkene
from crowdwise.audit.bias import find_bias
from crowdwise.audit.colluders import find_colluders
from crowdwise.audit.dependence import company_of, screen_of
from crowdwise.audit.drift import find_drift
from crowdwise.audit.effective_size import size_of
from crowdwise.audit.fairness import find_disparity
from crowdwise.audit.gold import find_strange_truth
from crowdwise.audit.identifiability import find_unidentifiable
from crowdwise.audit.prune import prune
from crowdwise.audit.reference import fit_reference
from crowdwise.audit.spammers import find_spammers
from crowdwise.audit.subject import known_of, refuse_numbers
from crowdwise.audit.tasks import find_confused_classes, find_hard_tasks, find_mislabels
from crowdwise.fitting.base import check_enough
from crowdwise.fitting.parameters import check_count, check_number
from crowdwise.fitting.progress import counted_work
from crowdwise.labels.read import read_labels

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from crowdwise.audit.effective_size import EffectiveSize
    from crowdwise.audit.findings import Finding, Screen
    from crowdwise.fitting.base import Aggregator
    from crowdwise.fitting.company import Company
    from crowdwise.labels.model import CrowdLabels
    from crowdwise.labels.truth import Truth
    from crowdwise.labels.types import IntArray

__all__ = ["FINE", "Audit", "audit_crowd"]

FINE = "nothing found"
if TYPE_CHECKING:
    Test = tuple[Callable[..., Screen], dict[str, Any]]


@dataclass(frozen=True, eq=False, repr=False)
class Audit:
    """Everything that was found in a crowd.

    Attributes
    ----------
    labels
        What was audited.
    model
        The fitted aggregator whose consensus, workers and matrices are shown: Dawid and Skene's, group-aware where
        workers depend on each other.
    screens
        What each test says, the ones that do not apply included.
    group : (M,)
        Workers with the same number depend on each other; -1 for those who depend on nobody.
    level
        Chance that anyone is flagged in a crowd where there is nothing to find.
    effective
        How many independent workers the crowd is worth; None if it was not asked.
    truth
        True labels that were given, if any were.
    company
        How far every two workers agree beyond the truth; None if it was not asked, or cannot be said.
    """

    labels: CrowdLabels
    model: Any
    screens: tuple[Screen, ...]
    group: IntArray
    level: float
    effective: EffectiveSize | None = None
    truth: Truth | None = None
    company: Company | None = None

    def __repr__(self) -> str:
        times = Counter(finding.kind for finding in self.findings)
        found = ", ".join(f"{kind} ({n:,})" for kind, n in times.items()) or FINE
        return f"Audit of {self.labels!r}: {found}"

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All of them, the surest first."""
        every = [finding for screen in self.screens for finding in screen.findings]
        return tuple(sorted(every, key=lambda finding: (finding.p_value, -finding.score)))

    @property
    def verdicts(self) -> list[str]:
        """The kind of each worker's worst finding, by position in the labels' workers."""
        worst = np.full(self.labels.n_workers, -1.0)
        found = [FINE] * self.labels.n_workers
        place = {name: number for number, name in enumerate(self.labels.workers.to_pylist())}
        for finding in self.findings:
            if finding.about not in ("worker", "workers"):
                continue
            for name in finding.names:
                if finding.score > worst[place[name]]:
                    worst[place[name]], found[place[name]] = finding.score, finding.kind
        return found

    def plot(self, what: str = "workers", *, truth: Any = None) -> Any:
        """A Vega-Altair chart of the audit, for notebooks; `.save("x.svg")` or `"x.png"` writes it.

        Parameters
        ----------
        what
            "workers" (skill against volume, coloured by what was found), "agreement" (who agrees with whom beyond what
            skill explains, if anyone does), "confidence", "confusion", or "calibration" (with `truth`).
        truth
            True labels of some tasks: a mapping, or a path or table with columns task and label.
        """
        # Found by name: the room of charts lies above this one, and needs an extra that audits do not.
        return importlib.import_module("crowdwise.report.drawings").plot(self, what, truth)


def audit_crowd(
    labels: Any,
    *,
    truth: Any = None,
    task_attributes: Any = None,
    worker_attributes: Any = None,
    time: Any = None,
    trusted: Sequence[Any] | None = None,
    level: float = 0.05,
    seed: int = 0,
) -> Audit:
    """Ask of a crowd who guesses, who copies, what is in doubt, and what it is worth; no truth is needed.

    Parameters
    ----------
    labels
        `CrowdLabels`, or anything that `read_labels` takes.
    truth
        Labels that tasks are given as true, as a mapping, a path or a table (task, label): to be doubted, and to judge
        bias by.
    task_attributes, worker_attributes
        Groups of tasks or workers that may be treated, or judge, differently: mappings, paths or tables.
    time
        Time of each label, in the order of the labels, as `read_timed_labels` gives them: for drift.
    trusted
        Workers who are known to be honest; without them, at least half of the crowd is taken to be.
    level
        Chance that any worker is flagged in a crowd where there is nothing to find, above 0 and below 1: the tests that
        accuse share it. Tests of tasks and of classes have it each.
    seed
        Same seed, same answer.

    Examples
    --------
    >>> from crowdwise.simulate import simulate
    >>> crowd = simulate("spammers", n_tasks=500, n_workers=10, n_classes=3, share=0.2, seed=0)
    >>> found = audit_crowd(crowd.labels)
    >>> [(finding.kind, finding.names) for finding in found.findings if finding.about == "worker"]
    [('spammer', (8,)), ('spammer', (9,))]
    >>> found
    Audit of CrowdLabels: 5,000 labels by 10 workers on 500 tasks, 3 classes (0, 1, 2): spammer (2)
    """
    check_number("level", level, low=0, high=1, above=True)
    check_count("seed", seed, low=0)
    answers = read_labels(labels)
    check_enough(answers)
    refuse_numbers(answers)
    known = known_of(answers, truth, task_attributes, worker_attributes, time, trusted)
    reference = {"reference": fit_reference(answers)}
    accusing: list[Test] = []
    attributes = {"task_attributes": known.of_tasks, "worker_attributes": known.of_workers}
    if any(attributes.values()):
        accusing.append((find_bias, attributes | {"truth": known.truth} | reference))
    if known.of_tasks:
        accusing.append((find_disparity, {"task_attributes": known.of_tasks, "truth": known.truth} | reference))
    if time is not None:
        accusing.append((find_drift, {"time": time, "truth": known.truth} | reference))
    others: list[Test] = [
        (find_mislabels, {"truth": known.truth}),
        (find_hard_tasks, reference),
        (find_confused_classes, reference),
        (find_unidentifiable, reference),
    ]
    if known.truth is not None:
        others.insert(0, (find_strange_truth, {"truth": known.truth}))
    share = level / (len(accusing) + 3)  # besides these dependence, collusion and spam, of which one hears of another
    with counted_work("audit", len(accusing) + len(others) + 3, "tests") as advance:
        company = company_of(answers, share, seed)
        screens = [screen_of(answers, company)]
        effective = size_of(answers, company, seed, truth=known.truth)
        advance()
        blocks = find_colluders(answers, level=share, seed=seed, trusted=trusted, groups=effective.groups)
        advance()
        # Who colludes is known by now; heard once more, a block would make the honest look opposite.
        alone = int((answers.labels_per_worker > 0).sum()) > sum(len(block.names) for block in blocks.findings)
        heard = prune(answers, blocks.findings)[0] if alone else answers
        screens += [find_spammers(heard, level=share, seed=seed), blocks]
        advance()
        for tests, each in ((accusing, share), (others, level)):
            for test, more in tests:
                screens.append(test(answers, level=each, seed=seed, **more))
                advance()
    model: Aggregator = DawidSkene()
    if (effective.groups >= 0).any():
        model = GroupDawidSkene(groups=effective.groups)
    return Audit(answers, model.fit(answers), tuple(screens), effective.groups, level, effective, known.truth, company)
