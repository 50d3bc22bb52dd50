"""Spammers, malicious workers and colluders of the tutorial (seed 002, part III, "Adversary aware crowdsourcing").

The slides give sizes, not the honest workers' confusion matrices, nor the shares of adversaries (they are an
axis of a figure): honest rows are Dirichlet with a mean skill that is a parameter here, the share defaults
to .3. Adversaries come last, as on the slides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.labels.old_names import accept_seed
from crowdwise.simulate.assignment import assign
from crowdwise.simulate.checks import as_generator, checked_count, checked_share
from crowdwise.simulate.draws import draw_labels, draw_truth
from crowdwise.simulate.simulation import Simulation
from crowdwise.simulate.workers import skilled, symmetric, unrelated

if TYPE_CHECKING:
    from crowdwise.simulate.checks import Seed

__all__ = ["colluders", "malicious", "spammers"]


@accept_seed
def spammers(
    n_tasks: int = 10_000,
    n_workers: int = 20,
    n_classes: int = 4,
    labels_per_task: int | None = None,
    *,
    share: float = 0.3,
    skill: float = 0.7,
    concentration: float = 10.0,
    prior: Any = None,
    truth: Any = None,
    random_state: Seed = 0,
) -> Simulation:
    """Honest workers among spammers whose labels have nothing to do with the truth (002).

    A spammer's confusion matrix has zero capacity: every row is the same distribution s, and s is drawn
    uniformly from the simplex for each spammer.

    Parameters
    ----------
    labels_per_task
        None for everyone.
    share
        Share α of spammers; `round(share * n_workers)` of them come last.
    skill, concentration
        Of the honest workers, as for `simulate_crowd`.
    n_tasks, n_workers, n_classes, prior, truth, random_state
        As for `simulate_crowd`.
    """
    rng = as_generator(random_state)
    n_workers = checked_count(n_workers, "n_workers")
    codes, shares = draw_truth(n_tasks, n_classes, rng, prior=prior, truth=truth)
    n_bad = round(checked_share(share, "share") * n_workers)
    honest = skilled(n_workers - n_bad, n_classes, rng, skill=skill, concentration=concentration)
    confusion = np.concatenate([honest, unrelated(rng.dirichlet(np.ones(n_classes), n_bad))])
    assignment = assign(codes.size, n_workers, labels_per_task, rng)
    label = draw_labels(assignment, codes, confusion, rng)
    kinds = ("honest",) * (n_workers - n_bad) + ("spammer",) * n_bad
    return Simulation.assembled(assignment, label, codes, confusion, shares, kinds=kinds)


@accept_seed
def malicious(
    n_tasks: int = 10_000,
    n_workers: int = 20,
    n_classes: int = 4,
    labels_per_task: int | None = None,
    *,
    share: float = 0.3,
    skill: float = 0.7,
    concentration: float = 10.0,
    prior: Any = None,
    truth: Any = None,
    random_state: Seed = 0,
) -> Simulation:
    """Honest workers among malicious ones who know the truth and say something else (002).

    002 wants a wrong class that is likelier than the right one. A malicious worker here is as skilled as an honest
    one, and says the next class instead of the one that she means: who knows her matrix can turn her answers back.

    Parameters
    ----------
    labels_per_task
        None for everyone.
    share
        Share α of malicious workers; `round(share * n_workers)` of them come last.
    skill, concentration
        Of all workers, as for `simulate_crowd`.
    n_tasks, n_workers, n_classes, prior, truth, random_state
        As for `simulate_crowd`.
    """
    rng = as_generator(random_state)
    n_workers = checked_count(n_workers, "n_workers")
    codes, shares = draw_truth(n_tasks, n_classes, rng, prior=prior, truth=truth)
    n_bad = round(checked_share(share, "share") * n_workers)
    confusion = skilled(n_workers, n_classes, rng, skill=skill, concentration=concentration)
    confusion[n_workers - n_bad :] = np.roll(confusion[n_workers - n_bad :], 1, axis=2)
    assignment = assign(codes.size, n_workers, labels_per_task, rng)
    label = draw_labels(assignment, codes, confusion, rng)
    kinds = ("honest",) * (n_workers - n_bad) + ("malicious",) * n_bad
    return Simulation.assembled(assignment, label, codes, confusion, shares, kinds=kinds)


@accept_seed
def colluders(
    n_tasks: int = 5000,
    n_workers: int = 60,
    n_classes: int = 3,
    labels_per_task: int | None = None,
    *,
    share: float = 0.3,
    p_corr: float = 0.9,
    skill: float = 0.7,
    concentration: float = 10.0,
    prior: Any = None,
    truth: Any = None,
    random_state: Seed = 0,
) -> Simulation:
    """Honest workers against adversaries who agree on the same wrong answer (002).

    "Colluding adversaries provide wrong response w.p. p_corr, and ground-truth label w.p. 1 - p_corr", and
    "cooperate to change labels of some data": a task is attacked with probability `p_corr`, all adversaries
    then give the same wrong class (uniform over the wrong ones), and on other tasks all give the truth.
    `groups` is -1 for honest workers, who depend on nobody, and 0 for the adversaries.
    `extras["attacked"]` marks the attacked tasks, `extras["answer"]` holds the adversaries' answers.

    Parameters
    ----------
    labels_per_task
        None for everyone.
    share
        Share α of adversaries; `round(share * n_workers)` of them come last.
    p_corr
        Probability that a task is attacked.
    skill, concentration
        Of the honest workers, as for `simulate_crowd`.
    n_tasks, n_workers, n_classes, prior, truth, random_state
        As for `simulate_crowd`.
    """
    rng = as_generator(random_state)
    n_workers = checked_count(n_workers, "n_workers")
    attack = checked_share(p_corr, "p_corr")
    codes, shares = draw_truth(n_tasks, n_classes, rng, prior=prior, truth=truth)
    n_bad = round(checked_share(share, "share") * n_workers)
    n_honest = n_workers - n_bad
    honest = skilled(n_honest, n_classes, rng, skill=skill, concentration=concentration)
    confusion = np.concatenate([honest, symmetric(np.full(n_bad, 1 - attack), n_classes)])
    attacked = rng.random(codes.size) < attack
    wrong = (codes + rng.integers(1, n_classes, codes.size)) % n_classes
    answer = np.where(attacked, wrong, codes).astype(np.int32)

    assignment = assign(codes.size, n_workers, labels_per_task, rng)
    label = draw_labels(assignment, codes, confusion, rng)
    theirs = assignment.worker >= n_honest
    label[theirs] = answer[assignment.task[theirs]]
    return Simulation.assembled(
        assignment,
        label,
        codes,
        confusion,
        shares,
        kinds=("honest",) * n_honest + ("colluder",) * n_bad,
        groups=np.repeat(np.array([-1, 0], np.int32), [n_honest, n_bad]),
        extras={"attacked": attacked, "answer": answer},
    )
