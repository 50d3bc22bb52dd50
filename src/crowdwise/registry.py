"""Every method, once: the command, the documentation, the contract tests and the benchmarks are made from this."""

from __future__ import annotations

from dataclasses import dataclass

from crowdwise.entries import Entry, found
from crowdwise.learner_registry import learners

__all__ = ["Method", "method", "methods"]


@dataclass(frozen=True)
class Method(Entry):
    """A method that takes labels alone, and the facts about it besides those of any.

    Attributes
    ----------
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
    """

    iterative: bool = True
    climbs: bool = True
    uses: tuple[str, ...] = ("gold", "class_prior")
    random: bool = False
    plug_in: bool = False
    needs: str = ""


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
        "group-majority-vote",
        "crowdwise.aggregate.group_majority_vote:GroupMajorityVote",
        "every group of workers who err together has one vote, as has everyone else",
        "Traganitis & Giannakis 2022; Jaffe et al. 2016, AISTATS",
        "groups differ in skill, or one worker outside is no match for a good group",
        iterative=False,
        climbs=False,
        uses=(),
        random=True,
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
        "group-dawid-skene",
        "crowdwise.aggregate.group_dawid_skene:GroupDawidSkene",
        "workers of a group share a hidden opinion on each task; group and worker have a confusion matrix each",
        "Traganitis & Giannakis 2022; Jaffe et al. 2016, AISTATS",
        "one group outweighs the rest of the crowd; few tasks, where groups cannot be found",
        random=True,
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
        "every worker either knows the answer or spams, by a habit of their own",
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
        "mean-field",
        "crowdwise.aggregate.mean_field:MeanField",
        "Dawid-Skene with Dirichlet priors, and posteriors in place of estimates",
        "Kim et al. 2022, AISTATS",
        "copying workers, one label per task; the posterior is too sure of itself",
        uses=("gold", "class_prior", "known_workers"),
    ),
    Method(
        "ebcc",
        "crowdwise.aggregate.ebcc:EnhancedBcc",
        "every class has subtypes, on which workers err together",
        "Li, Rubinstein & Cohn 2019, ICML",
        "few labels per worker; workers who err independently, where it is only slower",
        uses=("gold", "class_prior", "known_workers"),
        random=True,
    ),
    Method(
        "bwa",
        "crowdwise.aggregate.bwa:BayesianWeightedAverage",
        "votes are noisy measurements, averaged with each worker's precision",
        "Li, Rubinstein & Cohn 2019, WWW",
        "workers who are biased or contrary; its scores are not calibrated probabilities",
    ),
    Method(
        "bcc",
        "crowdwise.aggregate.bcc:BayesianClassifierCombination",
        "Dawid-Skene with Dirichlet priors, by Gibbs sampling or mean field",
        "Kim & Ghahramani 2012, AISTATS",
        "copying workers, one label per task, crowds where most are contrary",
        uses=("gold", "class_prior", "known_workers"),
    ),
    Method(
        "cbcc",
        "crowdwise.aggregate.cbcc:CommunityBcc",
        "workers belong to communities, whose confusion matrices are the prior of their members'",
        "Venanzi et al. 2014, WWW",
        "workers all alike or all different, copying workers",
        uses=("gold", "class_prior", "known_workers"),
    ),
    Method(
        "belief-propagation",
        "crowdwise.aggregate.belief_propagation:BeliefPropagation",
        "every worker has one accuracy (or a matrix) from a known prior, integrated out on the graph of labels",
        "Liu, Peng & Ihler 2012, NeurIPS; Kim et al. 2022, AISTATS",
        "a prior whose mean accuracy is that of guessing, unbalanced classes, copying workers",
        climbs=False,
        plug_in=True,
    ),
    Method(
        "multi-spa",
        "crowdwise.aggregate.multi_spa:MultiSpa",
        "a worker's matrix is the corners of their joint answers with others",
        "Ibrahim et al. 2019, NeurIPS",
        "no class experts, few shared tasks",
        iterative=False,
        climbs=False,
    ),
    Method(
        "cnmf",
        "crowdwise.aggregate.cnmf:CoupledNmf",
        "confusion matrices explain how every two workers answered the tasks they share",
        "Ibrahim et al. 2019, NeurIPS",
        "few shared tasks; two classes of unknown shares",
    ),
    Method(
        "spectral",
        "crowdwise.aggregate.spectral:SpectralDawidSkene",
        "every worker has a confusion matrix; EM starts from the moments of three groups of workers",
        "Zhang et al. 2014, NeurIPS",
        "few labels per task, rare classes; and as dawid-skene",
    ),
    Method(
        "sym-nmf",
        "crowdwise.aggregate.sym_nmf:SymmetricNmf",
        "one low-rank matrix lies behind the joint answers of all pairs, seen or not",
        "Ibrahim & Fu 2021, ICML",
        "few shared tasks; everyone says everything now and then",
    ),
    Method(
        "coupled-cpd",
        "crowdwise.aggregate.coupled_cpd:CoupledCpd",
        "confusion matrices explain how every three workers answered the tasks they share",
        "Traganitis et al. 2018, IEEE TSP 66",
        "few tasks that three workers share, many classes",
    ),
    Method(
        "pgd",
        "crowdwise.aggregate.pgd:RankOneCompletion",
        "one skill for every worker; the matrix of their agreements is rank one, completed by gradient descent",
        "Ma et al. 2018, ICML",
        "workers who share few tasks, copy each other or favour some class",
        uses=("class_prior",),
    ),
    Method(
        "dalvi",
        "crowdwise.aggregate.dalvi:Dalvi",
        "one skill for every worker: the eigenvector of who agrees over that of who met",
        "Dalvi et al. 2013, WWW",
        "groups of workers who hardly meet, who copy each other or favour some class",
        climbs=False,
        uses=("class_prior",),
    ),
    Method(
        "m-msr",
        "crowdwise.aggregate.m_msr:MMsr",
        "one skill for every worker, from agreements of which the most extreme are dropped",
        "Ma & Olshevsky 2020, NeurIPS",
        "pairs that share a handful of tasks, workers who favour some class",
        climbs=False,
        uses=("class_prior",),
    ),
    Method(
        "kos",
        "crowdwise.aggregate.kos:Kos",
        "one reliability for every worker, by messages between tasks and workers",
        "Karger, Oh & Shah 2011, NIPS",
        "few workers with most of the answers, unbalanced classes",
        climbs=False,
        plug_in=True,
        uses=("class_prior",),
    ),
    Method(
        "ghosh-svd",
        "crowdwise.aggregate.ghosh_svd:GhoshSvd",
        "the answers are rank one on average: their leading singular vector is the truth",
        "Ghosh, Kale & McAfee 2011, EC",
        "few workers with most of the answers, unbalanced classes",
        climbs=False,
        uses=("class_prior",),
    ),
    Method(
        "sml",
        "crowdwise.aggregate.sml:SpectralMetaLearner",
        "every worker has a sensitivity and a specificity; the covariance of workers is rank one",
        "Parisi et al. 2014, PNAS; Jaffe et al. 2015, AISTATS",
        "few labels, workers who copy each other, rare classes",
        climbs=False,
        uses=("class_prior",),
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
        "every worker has a confusion matrix near their habit; those who follow only the habit are dropped",
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
    Method(
        "hmm-crowd",
        "crowdwise.aggregate.hmm_crowd:HmmCrowd",
        "every worker has a confusion matrix; the truth along a sequence of tasks is a Markov chain",
        "Nguyen et al. 2017, ACL",
        "a worker's mistakes depend on each other along a sequence, as when a whole span is missed",
        uses=("gold", "known_workers"),
        needs="sequences",
    ),
    Method(
        "bsc",
        "crowdwise.aggregate.bsc:BayesianSequenceCombination",
        "a worker's label depends on the truth and on their label before; the truth is a Markov chain",
        "Simpson & Gurevych 2019, EMNLP",
        "few labels per worker: each has a confusion matrix for every label they gave before",
        uses=("gold", "known_workers"),
        needs="sequences",
    ),
    Method(
        "graph-dawid-skene",
        "crowdwise.aggregate.graph_dawid_skene:GraphDawidSkene",
        "every worker has a confusion matrix; tasks that are joined on a given graph tend to share their truth",
        "Traganitis & Giannakis 2022, IEEE TKDE 34",
        "joined tasks do not tend to agree, or the coupling is too strong for tasks with many neighbours",
        uses=("gold", "class_prior", "known_workers"),
        needs="graph",
    ),
    Method(
        "auto",
        "crowdwise.evaluate.auto:Auto",
        "the methods that predict hidden labels best are near the truth together; workers share some of their errors",
        "stacking: Yao et al. 2018, Bayesian Analysis 13; tempering: Holmes & Walker 2017, Biometrika 104",
        "most workers share a mistake: no hidden label tells",
        iterative=False,
        climbs=False,
        uses=("gold", "class_prior", "known_workers"),
        random=True,
        plug_in=True,
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
    hint = ""
    if any(entry.slug == slug for entry in learners()):
        hint = " The learner of that name needs features: crowdwise.learner, or `crowdwise train`."
    return found(slug, _BY_SLUG, "method", hint)
