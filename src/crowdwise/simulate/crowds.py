"""Every crowd by its slug: what the command line, the benchmarks and the tests are made from."""

from __future__ import annotations

import inspect
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from crowdwise.labels.errors import InputError, quote
from crowdwise.labels.old_names import accept_seed
from crowdwise.simulate.adversaries import colluders, malicious, spammers
from crowdwise.simulate.coins import one_coin, two_coin
from crowdwise.simulate.dawid_skene import simulate_crowd
from crowdwise.simulate.dependence import dependent_groups
from crowdwise.simulate.experts import copied_coin, correlated_mistakes, independent_mistakes, naive_majority
from crowdwise.simulate.judge_families import judge_families
from crowdwise.simulate.kappa_raters import kappa_raters
from crowdwise.simulate.tanno_annotators import cifar_annotators, hammer_spammers, pairwise_flippers
from crowdwise.simulate.tasks_on_graph import tasks_on_graph

if TYPE_CHECKING:
    from collections.abc import Callable

    from crowdwise.simulate.simulation import Simulation

__all__ = ["CROWDS", "simulate"]

CROWDS: dict[str, Callable[..., Simulation]] = {
    "dawid-skene": simulate_crowd,
    "pairwise-flippers": pairwise_flippers,
    "hammer-spammers": hammer_spammers,
    "cifar-annotators": cifar_annotators,
    "independent-mistakes": independent_mistakes,
    "naive-majority": naive_majority,
    "correlated-mistakes": correlated_mistakes,
    "copied-coin": copied_coin,
    "kappa-raters": kappa_raters,
    "one-coin": one_coin,
    "two-coin": two_coin,
    "spammers": spammers,
    "malicious": malicious,
    "colluders": colluders,
    "groups": dependent_groups,
    "families": judge_families,
    "graph": tasks_on_graph,
}


@accept_seed
def simulate(slug: str, **parameters: Any) -> Simulation:
    """Simulate the crowd of a slug; parameters are those of its function in `CROWDS`.

    Examples
    --------
    >>> simulate("one-coin", n_tasks=400, n_workers=300, random_state=7).labels
    CrowdLabels: 1,200 labels by 300 workers on 400 tasks, 2 classes (0, 1)
    """
    if not isinstance(slug, str):
        raise InputError(f"There is no crowd {quote(slug)}. Crowds: {', '.join(CROWDS)}.")
    if slug not in CROWDS:
        close = get_close_matches(slug, CROWDS, 1)
        hint = f" Did you mean {quote(close[0])}?" if close else ""
        raise InputError(f"There is no crowd {quote(slug)}.{hint} Crowds: {', '.join(CROWDS)}.")
    crowd = CROWDS[slug]
    known = inspect.signature(crowd).parameters
    strangers = [name for name in parameters if name not in known]
    if strangers:
        raise InputError(f"The crowd {quote(slug)} has no parameter {quote(strangers[0])}; it has {', '.join(known)}.")
    return crowd(**parameters)
