"""Dawid–Skene on a graph: tasks that are joined tend to have the same truth.

The generative story. The truths of all tasks are drawn together from a Markov random field on a given graph: each task
weighs prior[truth], each pair exp(coupling · (u - prior)·(v - prior)), where u and v are the pair's truths as unit
vectors: agreement counts as far as it is more than chance. Each worker w who meets a task says l with probability
A[w, truth, l], independently given the truth. Rows of A have Dirichlet priors with pseudo-counts (none for maximum
likelihood). The truth is unknown: EM, with a mean field for the E-step.

P. A. Traganitis and G. B. Giannakis (2022), "Unsupervised ensemble classification with sequential and networked
data", IEEE Transactions on Knowledge and Data Engineering 34 (arXiv 1906.09356).

| in the paper (networked data) | here |
|---|---|
| the Markov random field on a known graph | `coupling`, for every pair alike |
| E-step: the posterior of a task given its labels and its neighbours | `kernels.markov_field.mean_field_pass` |
| M-step: matrices, as Dawid and Skene's | `dawid_skene.m_step` |
| M-step: prior | `update_class_prior` |

An iteration costs O((labels + pairs) × K).

Departures: the E-step is a mean field: neighbours count by their posteriors, each task in turn, so that every step
climbs one bound; it has not been compared with the paper's approximation line by line. The bound is on
log Σ_y weight(y) P(labels | y): the field's own normalising sum cannot be computed and is left out. For pairs that
weigh exp(coupling · [u = v]), that would reward a prior with all on one class; taking the prior off both ends makes
the sum one to first order in the coupling, and exactly one without pairs. The start is the share of votes, not a moment
estimate. Known truths, known class shares and known workers are additions. Without pairs this is Dawid–Skene.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.special import xlogy

from crowdwise.aggregate import dawid_skene
from crowdwise.engines import prepare
from crowdwise.fitting.categorical_em import ConfusionParameters, safe_log
from crowdwise.fitting.content_order import sort_graph_tasks
from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.family_bases import ClimbingAggregator
from crowdwise.fitting.method_facts import STRUCTURE
from crowdwise.fitting.parameter_checks import check_number
from crowdwise.fitting.prior_knowledge import GOLD, KNOWN_WORKERS, PRIOR
from crowdwise.fitting.structured_em import fit_structured, label_evidence, pseudo_counts
from crowdwise.kernels import mean_field_pass, vote_shares
from crowdwise.labels.task_graph import read_graph

if TYPE_CHECKING:
    from crowdwise.engines import Statistics
    from crowdwise.fitting.base import Fit
    from crowdwise.fitting.prior_knowledge import PriorKnowledge
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.task_graph import TaskGraph
    from crowdwise.labels.types import BoolArray, FloatArray

__all__ = ["GraphDawidSkene"]

SWEEPS = 3  # over all tasks in one E-step; the next one goes on from there


@dataclass(frozen=True)
class MarkovFieldParameters(ConfusionParameters):
    """Confusion parameters, and the posterior (N, K) that the sweeps of the next E-step start from."""

    believed: FloatArray


def update_class_prior(graph: TaskGraph, coupling: float, believed: FloatArray, log_prior: FloatArray) -> FloatArray:
    """Logarithm of the posterior's class shares, or of the prior so far where those would lower the bound."""
    shares = believed.mean(axis=0)
    near = np.diff(graph.ptr) @ believed

    def bound_at_prior(prior: FloatArray) -> float:
        pull = graph.n_pairs * (prior @ prior) - near @ prior
        return float(believed.shape[0] * xlogy(shares, prior).sum() + coupling * pull)

    if graph.n_pairs and bound_at_prior(shares) < bound_at_prior(np.exp(log_prior)):
        return log_prior
    with np.errstate(divide="ignore"):
        logs: FloatArray = np.log(shares)
    return logs


@estimator
class GraphDawidSkene(ClimbingAggregator):
    """Consensus with a confusion matrix for every worker, where neighbours on a graph tend to share their truth.

    Facts
    -----
    Assumes: every worker has a confusion matrix; tasks that are joined on a given graph tend to share their truth
    Fails with: joined tasks do not tend to agree, or the coupling is too strong for tasks with many neighbours
    Cost: O((labels + joined pairs) × K) an iteration
    Paper: Traganitis & Giannakis 2022, IEEE TKDE 34

    Parameters
    ----------
    graph : None, pairs, mapping, path or table
        Which tasks are joined: a list or array of pairs of task names, a mapping from task to its neighbours, or a
        path or table with two columns. None: no pairs, and the method is Dawid–Skene.
    coupling : float, 0 or more
        How many nats a neighbour that certainly has a class adds to that class, over the others. Less where tasks have
        many neighbours.
    smoothing : float, 0 or more
        Pseudo-count of every cell of every confusion matrix, as for Dawid–Skene; 0 is maximum likelihood.

    Attributes
    ----------
    posterior_ : (N, K)
        Probability of each class for each task, given its labels and its neighbours.
    skill_ : (M,)
        Chance that a worker is right, as for Dawid–Skene.
    log_likelihood_, objective_ : (n_iter_,)
        The bound that the E-step raises, and with the log-density of the matrices' prior added, at each iteration.
        Comparable between fits with the same graph and coupling only.

    Notes
    -----
    Where the coupling is too strong for the graph, neighbours outvote the labels. Mean field is too sure of itself. New
    tasks stand alone; those of the fit, met again with the same labels, keep its posterior. A worker unknown at
    prediction counts as the average of the crowd.

    Examples
    --------
    >>> from crowdwise.labels import read_labels
    >>> labels = read_labels({
    ...     "task": [1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 5],
    ...     "worker": ["ann", "bob", "cy"] * 4 + ["cy"],
    ...     "label": ["x", "x", "y", "y", "y", "y", "x", "x", "x", "y", "y", "x", "x"],
    ... })
    >>> GraphDawidSkene().fit(labels).predict().tolist()
    ['x', 'y', 'x', 'y', 'x']
    >>> GraphDawidSkene(graph=[(5, 2), (5, 4)]).fit(labels).predict().tolist()
    ['x', 'y', 'x', 'y', 'y']
    """

    slug = "graph-dawid-skene"
    numpy_cost = 16
    family = STRUCTURE
    uses = frozenset({GOLD, PRIOR, KNOWN_WORKERS})
    needs = "graph"
    path_parameters: ClassVar[dict[str, tuple[str, ...]]] = {"graph": ()}

    graph: Any = None
    coupling: float = 1.0
    smoothing: float = 0.0

    def _check(self) -> None:
        check_number("coupling", self.coupling, low=0)
        check_number("smoothing", self.smoothing, low=0)

    def _tasks_to_fit(self, labels: CrowdLabels, told: BoolArray) -> BoolArray:
        """Those without labels take part where they have neighbours."""
        chosen: BoolArray = told | (np.diff(read_graph(self.graph, labels.tasks).ptr) > 0)
        return chosen

    def _recalls_tasks(self) -> bool:
        return self.graph is not None  # its tasks stand alone when they are new

    def _fit(self, labels: CrowdLabels, known: PriorKnowledge) -> Fit:
        graph = read_graph(self.graph, labels.tasks)
        order = sort_graph_tasks(labels, known, graph)
        prepared = prepare(labels)
        pseudo = pseudo_counts(self.smoothing, labels, known)
        sweeps = SWEEPS if graph.n_pairs else 1
        coupling = float(self.coupling)
        degree = np.diff(graph.ptr)[:, None]
        ruled_out = np.zeros((labels.n_tasks, labels.n_classes), bool)
        if known.gold.size:
            told = np.flatnonzero(known.gold >= 0)
            ruled_out[told] = True
            ruled_out[told, known.gold[told]] = False

        def e_step(parameters: MarkovFieldParameters) -> tuple[float, FloatArray, FloatArray]:
            value, evidence = label_evidence(prepared, parameters.log_table, known.gold)
            believed, prior = parameters.believed.copy(), np.exp(parameters.log_prior)
            # What prior or gold rules out stays out, however many neighbours pull at it: no finite logarithm would do.
            log_evidence = safe_log(evidence) + (parameters.log_prior - coupling * degree * prior)
            log_evidence[ruled_out] = -np.inf
            value += mean_field_pass(graph, order, log_evidence, coupling, believed, sweeps)
            return value + coupling * graph.n_pairs * float(prior @ prior), believed, parameters.log_prior

        def m_step(found: Statistics, believed: FloatArray, log_prior: FloatArray) -> MarkovFieldParameters:
            if known.log_prior is None:
                log_prior = update_class_prior(graph, coupling, believed, log_prior)
            return MarkovFieldParameters(log_prior, dawid_skene.m_step(found, pseudo).log_table, believed)

        votes = vote_shares(labels, known.gold)
        with np.errstate(divide="ignore"):
            log_prior = np.log(votes.mean(axis=0)) if known.log_prior is None else known.log_prior
        fit, _ = fit_structured(
            labels,
            prepared,
            start=m_step(prepared.accumulate(votes), votes, log_prior),
            e_step=e_step,
            m_step=m_step,
            with_rows=lambda parameters, rows: replace(parameters, log_table=rows),
            log_density=lambda parameters: dawid_skene.log_density(parameters, pseudo),
            **self._climb_options,
        )
        return fit
