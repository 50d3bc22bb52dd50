"""Every method, once: the command, the documentation, the contract tests and the benchmarks are made from this."""

from __future__ import annotations

import difflib
import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from crowdwise.labels.errors import InputError, quoted

if TYPE_CHECKING:
    from pathlib import Path

    from crowdwise.fitting.base import Aggregator

__all__ = ["Method", "load", "method", "methods"]


@dataclass(frozen=True)
class Method:
    """A method and the facts about it.

    Attributes
    ----------
    slug
        Its name on the command line.
    path
        Module and class, imported when first used.
    summary
        What it assumes, in one line.
    paper
        Where it was published.
    iterative
        Whether it has `max_iter`, and `tol` where it can tell that it has converged.
    climbs
        Whether its iterations climb an objective (a likelihood, a posterior or a bound on the evidence) that never
        falls, and warn when they stop while it is still rising.
    uses
        What it can be told besides the labels: "gold", "class_prior", "known_workers".
    random
        Whether it draws at random, so that its answer depends (a little) on the seed and on how tasks are numbered.
    plug_in
        Whether it predicts with point estimates where the fit averaged over them, so that a prediction for the tasks
        of the fit is only nearly their posterior.
    needs
        Structure that it is made for and does little without: "", "sequences", "graph".
    fails
        When not to use it.
    """

    slug: str
    path: str
    summary: str
    paper: str
    fails: str
    iterative: bool = True
    climbs: bool = True
    uses: tuple[str, ...] = ("gold", "class_prior")
    random: bool = False
    plug_in: bool = False
    needs: str = ""

    @property
    def class_name(self) -> str:
        """Name of the class."""
        return self.path.rpartition(":")[2]

    def load(self) -> type[Aggregator]:
        """Import the class."""
        module, _, name = self.path.rpartition(":")
        found: type[Aggregator] = getattr(importlib.import_module(module), name)
        return found


_METHODS = (
    Method(
        "majority-vote",
        "crowdwise.aggregate.majority_vote:MajorityVote",
        "every vote counts the same; the share of votes is the confidence",
        "folklore",
        "workers differ in skill, or a majority shares a mistake",
        iterative=False,
        climbs=False,
        uses=(),
    ),
    Method(
        "weighted-majority-vote",
        "crowdwise.aggregate.weighted_majority_vote:WeightedMajorityVote",
        "votes weigh as much as their worker agrees with the weighted vote",
        "folklore (Wawa: worker agreement with aggregate)",
        "most workers share a mistake: agreement is then rewarded, not skill",
        climbs=False,
        uses=("gold",),
    ),
    Method(
        "dawid-skene",
        "crowdwise.aggregate.dawid_skene:DawidSkene",
        "every worker has a confusion matrix",
        "Dawid & Skene 1979, Applied Statistics 28",
        "few labels per worker and class, copying workers, one label per task",
        uses=("gold", "class_prior", "known_workers"),
    ),
    Method(
        "one-coin",
        "crowdwise.aggregate.one_coin:OneCoin",
        "every worker has one accuracy; errors fall on the other classes alike",
        "Dawid & Skene 1979 with one parameter; Ghosh et al. 2011",
        "workers with a bias towards some class, classes that are easily confused",
    ),
    Method(
        "confusion-vector",
        "crowdwise.aggregate.confusion_vector:ConfusionVector",
        "every worker has one accuracy for each true class; errors fall alike",
        "Dawid & Skene 1979 with K parameters; Liu & Wang 2012",
        "errors of one class that go mostly to one other",
    ),
    Method(
        "glad",
        "crowdwise.aggregate.glad:Glad",
        "every worker has an ability, every task an ease; their product is the log-odds of a right answer",
        "Whitehill et al. 2009, NeurIPS",
        "very few labels per task, workers with a bias towards some class",
    ),
    Method(
        "mace",
        "crowdwise.aggregate.mace:Mace",
        "every worker either knows the answer or spams, by a habit of her own",
        "Hovy et al. 2013, NAACL",
        "honest confusion between classes: it is taken for spamming",
        plug_in=True,
    ),
    Method(
        "zencrowd",
        "crowdwise.aggregate.zencrowd:ZenCrowd",
        "every worker has one reliability; all classes are equally likely beforehand",
        "Demartini et al. 2012, WWW",
        "unbalanced classes, workers with a bias towards some class",
    ),
    Method(
        "minimax-entropy",
        "crowdwise.aggregate.minimax_entropy:MinimaxEntropy",
        "every worker and every task tilts the answers given the truth; largest entropy otherwise",
        "Zhou et al. 2012, NeurIPS; 2014, ICML",
        "one or two labels per task, which say nothing of a task's own difficulty",
        random=True,
    ),
    Method(
        "spammer-em",
        "crowdwise.aggregate.spammer_em:SpammerEm",
        "every worker has a confusion matrix near her habit; those who follow only the habit are dropped",
        "Raykar & Yu 2012, JMLR 13",
        "few labels per worker, or most workers are spammers with the same habit",
    ),
    Method(
        "crh",
        "crowdwise.aggregate.crh:Crh",
        "votes weigh as minus the logarithm of their worker's share of all disagreement with the winners",
        "Li et al. 2014, SIGMOD",
        "most workers share a mistake; workers with a bias towards some class",
        climbs=False,
        uses=("gold",),
    ),
    Method(
        "max-margin",
        "crowdwise.aggregate.max_margin:MaxMarginMajorityVote",
        "votes weigh so that truths win by a margin, with confusion matrices besides (CrowdSVM)",
        "Tian & Zhu 2015, NeurIPS",
        "most workers share a mistake",
        climbs=False,
        random=True,
        plug_in=True,
    ),
    Method(
        "lfc-binary",
        "crowdwise.aggregate.lfc_binary:LfcBinary",
        "every worker has a sensitivity and a specificity, with Beta priors; more classes one against the rest",
        "Raykar et al. 2010, JMLR 11",
        "few labels per worker of either kind; classes that are easily confused with some others",
    ),
)
_BY_SLUG = {entry.slug: entry for entry in _METHODS}


def methods() -> tuple[Method, ...]:
    """All methods."""
    return _METHODS


def method(slug: str) -> Method:
    """The method of this name.

    >>> method("dawid-skene").class_name
    'DawidSkene'
    """
    if not isinstance(slug, str) or slug not in _BY_SLUG:
        close = difflib.get_close_matches(str(slug), _BY_SLUG, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise InputError(f"There is no method {quoted(slug)}.{hint} There are: {', '.join(_BY_SLUG)}.")
    return _BY_SLUG[slug]


def load(folder: str | Path) -> Any:
    """Read a model that `save` wrote. Safe with a stranger's file: nothing in it is run."""
    from crowdwise.fitting.saving import read_header, restore

    header = read_header(folder)
    model = method(header["slug"]).load()()
    restore(model, folder, header)
    return model
