"""The families of methods, with the cost of each method, for choosing.md; those of learners, for learning.md."""

from __future__ import annotations

from typing import NamedTuple


class Family(NamedTuple):
    """A family: what its methods have in common, and each method's cost."""

    name: str
    words: str
    costs: dict[str, str]


LABELS = "O(labels) an iteration"
EDGES = "O(labels × K) an iteration"
MATRICES = "O(labels × K + workers × K²) an iteration"
PAIRS = "O(pairs of workers who share a task) an iteration"

FAMILIES = (
    Family(
        "By itself",
        "Chooses and combines the others.",
        {"auto": "several fits of each method on its shortlist, to at most 100,000 labels, and one to all labels"},
    ),
    Family(
        "Votes",
        "Count votes, weighted or not. Fast, steady with few labels, blind to confusion between classes.",
        {
            "majority-vote": "O(labels), once",
            "group-majority-vote": "O(labels), once, and finding groups: O(pairs of labels of a task × K²)",
            "weighted-majority-vote": LABELS,
            "crh": LABELS,
            "bwa": EDGES,
            "max-margin": MATRICES,
        },
    ),
    Family(
        "EM",
        "A model of how workers answer, fitted by expectation and maximisation. From one number a worker to a matrix.",
        {
            "one-coin": LABELS,
            "zencrowd": LABELS,
            "glad": "O(labels × K) for each gradient step",
            "confusion-vector": EDGES,
            "lfc-binary": "O(labels) an iteration, for each class where there are more than two",
            "dawid-skene": EDGES,
            "group-dawid-skene": "O(labels × K + groups of a task × K²) an iteration, and finding groups",
            "spammer-em": MATRICES,
        },
    ),
    Family(
        "Bayesian",
        "The same models with priors and posteriors in place of estimates: steadier where a worker gave few labels.",
        {
            "mace": EDGES,
            "mean-field": MATRICES,
            "bcc": "O(labels × K + workers × K²) a sweep",
            "cbcc": "O(labels × K + workers × communities × K²) an iteration",
            "ebcc": "O((labels × K + workers × K²) × subtypes) an iteration",
            "belief-propagation": "O(labels × answers of a worker) an iteration, × K for matrices",
        },
    ),
    Family(
        "Moments",
        "From how pairs or triples of workers agree, without local optima to get lost in; they need workers who share "
        "many tasks.",
        {
            "dalvi": PAIRS,
            "pgd": PAIRS,
            "m-msr": "O(P log P) an iteration for P pairs of workers who share a task",
            "sml": PAIRS,
            "ghosh-svd": EDGES,
            "kos": EDGES,
            "multi-spa": "O(pairs of workers × K³), once",
            "cnmf": "O(pairs of workers × K³) an iteration",
            "sym-nmf": "O(pairs of workers × K³) an iteration",
            "spectral": "O(labels × K + tasks × K³) for the start, then O(labels × K) an iteration",
            "coupled-cpd": "O(triples of workers × K⁴) an iteration",
        },
    ),
    Family(
        "Difficulty of tasks",
        "Tasks differ as well as workers. GLAD, under EM, is the plain one.",
        {"minimax-entropy": "O(labels × K²) for each Newton step"},
    ),
    Family(
        "Structure",
        "Tasks that hang together: words of a sentence, nodes of a graph.",
        {
            "hmm-crowd": "O(labels × K + tasks × K²) an iteration",
            "bsc": "O(labels × K + tasks × K² + habits × K²) an iteration",
            "graph-dawid-skene": "O((labels + joined pairs) × K) an iteration",
        },
    ),
)


class LearnerFamily(NamedTuple):
    """A family of learners, and what they have in common."""

    name: str
    words: str
    slugs: tuple[str, ...]


LEARNER_FAMILIES = (
    LearnerFamily(
        "Targets made from the labels",
        "No model of single workers: labels, or a consensus of them, are what the classifier is trained on. What the "
        "others must beat.",
        ("majority-vote", "soft-labels", "two-stage", "learn-from-all", "soft-bootstrap", "single-cm"),
    ),
    LearnerFamily(
        "A matrix for each worker, by gradient descent",
        "The classifier's output goes through each worker's matrix to her label; both are learnt at once, and the "
        "methods differ in what keeps them apart.",
        ("crowd-layer", "coupled-ce", "trace", "geo-f", "geo-w", "union-net", "oracle"),
    ),
    LearnerFamily(
        "The classifier and the workers in turn",
        "The truth of each task is estimated from the classifier and the labels, the classifier is trained on the "
        "estimate, and again: EM, or with priors on the workers.",
        ("em", "mbem", "deep-mf", "deep-bp", "bayes-dgc", "em-crf"),
    ),
    LearnerFamily(
        "Mistakes that depend on the task",
        "What a worker takes for what is not the same for every task.",
        ("instance-trace", "tai-dtm", "coinnet", "conal"),
    ),
    LearnerFamily(
        "Heads, information and agreement",
        "A network for each worker, or none at all: what classifier and crowd have in common.",
        ("doctor-net", "weighted-doctor-net", "max-mig", "learn2agree"),
    ),
)
