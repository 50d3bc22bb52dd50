"""Every learner, once: the command, the documentation, the contract tests and the benchmarks are made from this."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from crowdwise.entries import Entry, found
from crowdwise.labels.errors import InputError

__all__ = ["LearnerEntry", "learner", "learners"]


@dataclass(frozen=True)
class LearnerEntry(Entry):
    """A learner, and the facts about it besides those of any method.

    Attributes
    ----------
    parameters
        Parameters of the class that make it this method.
    models_workers
        Whether it has matrices of the workers of its own; otherwise they are counted afterwards.
    alternates
        Whether it learns in turns: E-steps, or stages.
    needs
        What it cannot be made without: "", "confusion" (true matrices), "sequences".
    """

    parameters: dict[str, Any] = field(default_factory=dict)
    models_workers: bool = True
    alternates: bool = False
    needs: str = ""

    def load(self) -> type[Any]:
        """Import the class, a `Learner`; torch comes with it."""
        try:
            return super().load()
        except ModuleNotFoundError as error:
            if error.name is None or error.name.partition(".")[0] not in ("torch", "lightning", "safetensors"):
                raise
            raise InputError(
                f"Learning a classifier needs {error.name}, which is not installed: pip install 'crowdwise[learn]'."
            ) from error

    def make(self, **parameters: Any) -> Any:
        """An unfitted learner with these parameters besides its own."""
        return self.load()(**self.parameters | parameters)


_LEARNERS = (
    LearnerEntry(
        "majority-vote",
        "crowdwise.learn.two_stage:TwoStage",
        "the majority is right: train on the vote's winner",
        "folklore; vanilla CNN of Tanno et al. 2019",
        "few labels a task, most workers weak",
        parameters={"aggregator": "majority-vote"},
        models_workers=False,
    ),
    LearnerEntry(
        "soft-labels",
        "crowdwise.learn.two_stage:TwoStage",
        "the shares of the votes are the chances of the classes: train on them",
        "Peterson et al. 2019, ICCV",
        "few labels a task, most workers weak",
        parameters={"aggregator": "majority-vote", "soft": True},
        models_workers=False,
    ),
    LearnerEntry(
        "two-stage",
        "crowdwise.learn.two_stage:TwoStage",
        "first a consensus of the labels alone, then a classifier of it",
        "Raykar et al. 2010, JMLR 11, as a baseline",
        "one label a task: no consensus is better than its label",
        parameters={"aggregator": "dawid-skene", "soft": True},
        models_workers=False,
    ),
    LearnerEntry(
        "crowd-layer",
        "crowdwise.learn.crowd_layer:CrowdLayer",
        "a layer for each worker turns the classifier's output into their answer",
        "Rodrigues & Pereira 2018, AAAI",
        "most workers name one class whatever they see, few labels per worker",
    ),
    LearnerEntry(
        "coupled-ce",
        "crowdwise.learn.coupled_ce:CoupledCrossEntropy",
        "the classifier's output through each worker's matrix explains their labels",
        "Ibrahim et al. 2023, ICLR",
        "no experts or no sure tasks of some class",
    ),
    LearnerEntry(
        "trace",
        "crowdwise.learn.trace:TraceRegularized",
        "as coupled-ce, with workers as confused as the labels allow",
        "Tanno et al. 2019, CVPR",
        "the crowd's mean matrix is not diagonally dominant, copying workers",
    ),
    LearnerEntry(
        "geo-f",
        "crowdwise.learn.geo_crowd_net:GeoCrowdNet",
        "as coupled-ce, with the classifier's outputs spread as wide as can be",
        "Ibrahim et al. 2023, ICLR",
        "few tasks; classes that are rare",
        parameters={"regularizer": "F"},
    ),
    LearnerEntry(
        "geo-w",
        "crowdwise.learn.geo_crowd_net:GeoCrowdNet",
        "as coupled-ce, with the workers' matrices spread as wide as can be",
        "Ibrahim et al. 2023, ICLR",
        "no expert for some class",
        parameters={"regularizer": "W"},
    ),
    LearnerEntry(
        "em",
        "crowdwise.learn.em:GeneralizedEm",
        "the classifier is Dawid-Skene's prior; the classifier and the matrices in turn",
        "Raykar et al. 2010, JMLR 11; AggNet: Albarqouni et al. 2016, IEEE TMI 35",
        "one label a task, copying workers",
        alternates=True,
    ),
    LearnerEntry(
        "mbem",
        "crowdwise.learn.mbem:ModelBootstrappedEm",
        "the classifier's own decisions grade the workers",
        "Khetan et al. 2018, ICLR",
        "a classifier that is often wrong",
        alternates=True,
    ),
    LearnerEntry(
        "single-cm",
        "crowdwise.learn.single_cm:SingleConfusion",
        "all workers share one matrix",
        "Sukhbaatar et al. 2014",
        "workers who differ",
        models_workers=False,
    ),
    LearnerEntry(
        "soft-bootstrap",
        "crowdwise.learn.soft_bootstrap:SoftBootstrap",
        "a target is the vote's winner and a little of the classifier's own opinion",
        "Reed et al. 2014",
        "labels that are often wrong in the same way",
        models_workers=False,
    ),
    LearnerEntry(
        "doctor-net",
        "crowdwise.learn.doctor_net:DoctorNet",
        "a head for each worker on a shared trunk; their mean decides",
        "Guan et al. 2018, AAAI",
        "most workers weak, few labels per worker",
        models_workers=False,
    ),
    LearnerEntry(
        "weighted-doctor-net",
        "crowdwise.learn.doctor_net:DoctorNet",
        "a head for each worker on a shared trunk; their mean, with weights learnt afterwards, decides",
        "Guan et al. 2018, AAAI",
        "most workers weak, few labels per worker",
        parameters={"weighted": True},
        models_workers=False,
        alternates=True,
    ),
    LearnerEntry(
        "max-mig",
        "crowdwise.learn.max_mig:MaxMig",
        "classifier and crowd know of each other only through the truth, however workers copy",
        "Cao et al. 2019, ICLR",
        "very few labels per worker; small batches",
        models_workers=False,
    ),
    LearnerEntry(
        "deep-mf",
        "crowdwise.learn.deep_mf:DeepMeanField",
        "matrices with a Dirichlet prior, classifier and truth in turn, by mean field",
        "Kim et al. 2022, AISTATS",
        "a wrong prior, workers with very many random answers",
        alternates=True,
    ),
    LearnerEntry(
        "deep-bp",
        "crowdwise.learn.deep_bp:DeepBeliefPropagation",
        "matrices with any prior, integrated out by belief propagation; the classifier in turn",
        "Kim et al. 2022, AISTATS",
        "a crowd, or a prior, no better than guessing; copying workers",
        alternates=True,
    ),
    LearnerEntry(
        "bayes-dgc",
        "crowdwise.learn.bayes_dgc:BayesDgc",
        "matrices and truths with Dirichlet priors, by natural gradients",
        "Li et al. 2021, SCIENCE CHINA 64",
        "a prior that is far from the crowd",
        alternates=True,
    ),
    LearnerEntry(
        "coinnet",
        "crowdwise.learn.coinnet:CoinNet",
        "as coupled-ce, with a few tasks on which everyone errs in a way of their own",
        "Nguyen et al. 2024, NeurIPS",
        "many odd tasks, one label a task",
    ),
    LearnerEntry(
        "instance-trace",
        "crowdwise.learn.instance_trace:InstanceTrace",
        "a worker's matrix depends on the features; its trace is kept small",
        "Zhang et al. 2020, NeurIPS",
        "few labels per worker",
    ),
    LearnerEntry(
        "tai-dtm",
        "crowdwise.learn.tai_dtm:InstanceTransition",
        "matrices that depend on the features, learnt from tasks of which the classifier is sure",
        "Li, Xia, Deng, Ge & Liu 2023, arXiv 2306.03116, without its graph network; Guo, Wang & Yi 2023, NeurIPS",
        "few sure tasks, few labels per worker",
        alternates=True,
    ),
    LearnerEntry(
        "conal",
        "crowdwise.learn.conal:Conal",
        "a mistake is the worker's own or everyone's, which an auxiliary network tells by task and worker",
        "Chu, Ma & Wang 2021, AAAI",
        "few labels per worker",
    ),
    LearnerEntry(
        "union-net",
        "crowdwise.learn.union_net:UnionNet",
        "all workers' labels of a task as one answer, through one long transition matrix",
        "Wei et al. 2022, IEEE TNNLS",
        "very many workers, few labels each",
    ),
    LearnerEntry(
        "learn-from-all",
        "crowdwise.learn.learn_from_all:LearnFromAll",
        "every label is a target as good as any",
        "baseline of Wang et al. 2023",
        "workers who differ in skill",
        models_workers=False,
    ),
    LearnerEntry(
        "learn2agree",
        "crowdwise.learn.learn2agree:LearnToAgree",
        "there is no truth but agreement: a second stream learns it and regularises the classifier",
        "Wang et al. 2023, AAAI",
        "there is a truth, and the majority misses it",
        models_workers=False,
    ),
    LearnerEntry(
        "oracle",
        "crowdwise.learn.oracle:OracleConfusion",
        "the workers' matrices are known: the best that can be hoped for",
        "upper bound of Tanno et al. 2019, CVPR",
        "the matrices are not known",
        needs="confusion",
    ),
    LearnerEntry(
        "em-crf",
        "crowdwise.learn.em_crf:EmCrf",
        "labels along a sequence depend on each other: EM with a linear-chain CRF",
        "Rodrigues, Pereira & Ribeiro 2014, Machine Learning 95",
        "tasks that are no sequences",
        alternates=True,
        needs="sequences",
    ),
)
_BY_SLUG = {entry.slug: entry for entry in _LEARNERS}


def learners() -> tuple[LearnerEntry, ...]:
    """All methods that learn a classifier from features and labels."""
    return _LEARNERS


def learner(slug: str) -> LearnerEntry:
    """The learner of this name.

    >>> learner("trace").class_name
    'TraceRegularized'
    """
    return found(slug, _BY_SLUG, "learner")
