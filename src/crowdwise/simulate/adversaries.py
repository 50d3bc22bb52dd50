"""Spammers, malicious workers and colluders (Ibrahim et al. 2025, part III, "Adversary aware crowdsourcing").

S. Ibrahim, P. A. Traganitis, X. Fu and G. B. Giannakis (2025), "End-to-end learning from crowdsourced labels: a signal
processing perspective", tutorial at ICASSP.

The slides give sizes, not the honest workers' confusion matrices, nor the shares of adversaries (they are an
axis of a figure): honest rows are Dirichlet with a mean skill that is a parameter here, the share defaults
to .3. Adversaries come last, as on the slides.
"""

from __future__ import annotations

import numpy as np

from crowdwise.simulate.checks import check_share
from crowdwise.simulate.draws import draw_labels
from crowdwise.simulate.setting import Setting, add_setting_parameters
from crowdwise.simulate.simulation import Simulation
from crowdwise.simulate.workers import draw_skilled_confusion, symmetric_confusion, unrelated_confusion

__all__ = ["colluders", "malicious", "spammers"]


@add_setting_parameters(n_tasks=10_000, n_workers=20, n_classes=4, labels_per_task=None)
def spammers(setting: Setting, *, share: float = 0.3, skill: float = 0.7, concentration: float = 10.0) -> Simulation:
    """Honest workers among spammers whose labels have nothing to do with the truth (Ibrahim et al. 2025).

    A spammer's confusion matrix has zero capacity: every row is the same distribution s, and s is drawn
    uniformly from the simplex for each spammer.

    Parameters
    ----------
    share
        Share α of spammers; `round(share * n_workers)` of them come last.
    skill, concentration
        Of the honest workers, as for `simulate_crowd`.
    """
    codes, shares = setting.draw_truth()
    n_honest, n_bad = _split_workers(setting, share)
    honest = draw_skilled_confusion(n_honest, setting.n_classes, setting.rng, skill=skill, concentration=concentration)
    bad = unrelated_confusion(setting.rng.dirichlet(np.ones(setting.n_classes), n_bad))
    kinds = ("honest",) * n_honest + ("spammer",) * n_bad
    return setting.simulate_independent(codes, shares, np.concatenate([honest, bad]), kinds=kinds)


@add_setting_parameters(n_tasks=10_000, n_workers=20, n_classes=4, labels_per_task=None)
def malicious(setting: Setting, *, share: float = 0.3, skill: float = 0.7, concentration: float = 10.0) -> Simulation:
    """Honest workers among malicious ones who know the truth and say something else (Ibrahim et al. 2025).

    Ibrahim et al. 2025 want a wrong class that is likelier than the right one. A malicious worker here is as skilled as
    an honest one, and says the next class instead of the one that they mean: who knows their matrix can turn the
    answers back.

    Parameters
    ----------
    share
        Share α of malicious workers; `round(share * n_workers)` of them come last.
    skill, concentration
        Of all workers, as for `simulate_crowd`.
    """
    codes, shares = setting.draw_truth()
    n_honest, n_bad = _split_workers(setting, share)
    confusion = draw_skilled_confusion(
        setting.n_workers, setting.n_classes, setting.rng, skill=skill, concentration=concentration
    )
    confusion[n_honest:] = np.roll(confusion[n_honest:], 1, axis=2)
    kinds = ("honest",) * n_honest + ("malicious",) * n_bad
    return setting.simulate_independent(codes, shares, confusion, kinds=kinds)


@add_setting_parameters(n_tasks=5000, n_workers=60, n_classes=3, labels_per_task=None)
def colluders(
    setting: Setting, *, share: float = 0.3, p_corr: float = 0.9, skill: float = 0.7, concentration: float = 10.0
) -> Simulation:
    """Honest workers against adversaries who agree on the same wrong answer (Ibrahim et al. 2025).

    "Colluding adversaries provide wrong response w.p. p_corr, and ground-truth label w.p. 1 - p_corr", and
    "cooperate to change labels of some data": a task is attacked with probability `p_corr`, all adversaries
    then give the same wrong class (uniform over the wrong ones), and on other tasks all give the truth.
    `groups` is -1 for honest workers, who depend on nobody, and 0 for the adversaries.
    `extras["attacked"]` marks the attacked tasks, `extras["answer"]` holds the adversaries' answers.

    Parameters
    ----------
    share
        Share α of adversaries; `round(share * n_workers)` of them come last.
    p_corr
        Probability that a task is attacked.
    skill, concentration
        Of the honest workers, as for `simulate_crowd`.
    """
    rng, n_classes = setting.rng, setting.n_classes
    attack = check_share(p_corr, "p_corr")
    codes, shares = setting.draw_truth()
    n_honest, n_bad = _split_workers(setting, share)
    honest = draw_skilled_confusion(n_honest, n_classes, rng, skill=skill, concentration=concentration)
    confusion = np.concatenate([honest, symmetric_confusion(np.full(n_bad, 1 - attack), n_classes)])
    attacked = rng.random(codes.size) < attack
    wrong = (codes + rng.integers(1, n_classes, codes.size)) % n_classes
    answer = np.where(attacked, wrong, codes).astype(np.int32)

    assignment = setting.assign(codes.size)
    label = draw_labels(assignment, codes, confusion, rng)
    theirs = assignment.worker >= n_honest
    label[theirs] = answer[assignment.task[theirs]]
    kinds = ("honest",) * n_honest + ("colluder",) * n_bad
    groups = np.repeat(np.array([-1, 0], np.int32), [n_honest, n_bad])
    extras = {"attacked": attacked, "answer": answer}
    return Simulation.assemble(assignment, label, codes, confusion, shares, kinds=kinds, groups=groups, extras=extras)


def _split_workers(setting: Setting, share: float) -> tuple[int, int]:
    """Return how many workers are honest and how many are not."""
    n_bad = round(check_share(share, "share") * setting.n_workers)
    return setting.n_workers - n_bad, n_bad
