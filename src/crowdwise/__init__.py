"""Crowdwise: learning from crowds.

Many people, or models, label the same things and disagree. Crowdwise turns those labels into the consensus and
how sure it is, into a portrait of every worker and, where the things have features, into a classifier.

>>> import crowdwise as cw
>>> labels = cw.datasets.load("anaesthetists").labels
>>> model = cw.DawidSkene().fit(labels)
>>> model.prior_.round(2).tolist()
[0.4, 0.42, 0.11, 0.07]
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crowdwise import datasets, evaluate, metrics, simulate
    from crowdwise.aggregate.bcc import BayesianClassifierCombination
    from crowdwise.aggregate.belief_propagation import BeliefPropagation
    from crowdwise.aggregate.bsc import BayesianSequenceCombination
    from crowdwise.aggregate.bwa import BayesianWeightedAverage
    from crowdwise.aggregate.cbcc import CommunityBcc
    from crowdwise.aggregate.cnmf import CoupledNmf
    from crowdwise.aggregate.confusion_vector import ConfusionVector
    from crowdwise.aggregate.coupled_cpd import CoupledCpd
    from crowdwise.aggregate.crh import Crh
    from crowdwise.aggregate.dalvi import Dalvi
    from crowdwise.aggregate.dawid_skene import DawidSkene
    from crowdwise.aggregate.ebcc import EnhancedBcc
    from crowdwise.aggregate.ghosh_svd import GhoshSvd
    from crowdwise.aggregate.glad import Glad
    from crowdwise.aggregate.graph_dawid_skene import GraphDawidSkene
    from crowdwise.aggregate.group_dawid_skene import GroupDawidSkene
    from crowdwise.aggregate.group_majority_vote import GroupMajorityVote
    from crowdwise.aggregate.hmm_crowd import HmmCrowd
    from crowdwise.aggregate.kos import Kos
    from crowdwise.aggregate.lfc_binary import LfcBinary
    from crowdwise.aggregate.m_msr import MMsr
    from crowdwise.aggregate.mace import Mace
    from crowdwise.aggregate.majority_vote import MajorityVote
    from crowdwise.aggregate.max_margin import MaxMarginMajorityVote
    from crowdwise.aggregate.mean_field import MeanField
    from crowdwise.aggregate.minimax_entropy import MinimaxEntropy
    from crowdwise.aggregate.multi_spa import MultiSpa
    from crowdwise.aggregate.one_coin import OneCoin
    from crowdwise.aggregate.pgd import RankOneCompletion
    from crowdwise.aggregate.sml import SpectralMetaLearner
    from crowdwise.aggregate.spammer_em import SpammerEm
    from crowdwise.aggregate.spectral import SpectralDawidSkene
    from crowdwise.aggregate.sym_nmf import SymmetricNmf
    from crowdwise.aggregate.weighted_majority_vote import WeightedMajorityVote
    from crowdwise.aggregate.zencrowd import ZenCrowd
    from crowdwise.audit.audit import Audit as Audit
    from crowdwise.audit.audit import audit_crowd as audit_crowd
    from crowdwise.audit.findings import Finding as Finding
    from crowdwise.audit.prune import prune as prune
    from crowdwise.engines import use_engine
    from crowdwise.evaluate.auto import Auto
    from crowdwise.evaluate.compare import Comparison, compare
    from crowdwise.evaluate.held_out import held_out_log_probability
    from crowdwise.fitting.em import NotConverged
    from crowdwise.kernels.threads import use_threads
    from crowdwise.labels.errors import CrowdwiseError, InputError, InputWarning
    from crowdwise.labels.model import CrowdLabels
    from crowdwise.labels.read import read_labels
    from crowdwise.labels.sequences import read_sequences
    from crowdwise.labels.times import read_timed_labels
    from crowdwise.labels.truth import read_truth, truth_codes
    from crowdwise.learn.bayes_dgc import BayesDgc
    from crowdwise.learn.coinnet import CoinNet
    from crowdwise.learn.conal import Conal
    from crowdwise.learn.coupled_ce import CoupledCrossEntropy
    from crowdwise.learn.crowd_layer import CrowdLayer
    from crowdwise.learn.deep_bp import DeepBeliefPropagation
    from crowdwise.learn.deep_mf import DeepMeanField
    from crowdwise.learn.doctor_net import DoctorNet
    from crowdwise.learn.em import GeneralizedEm
    from crowdwise.learn.em_crf import EmCrf
    from crowdwise.learn.geo_crowd_net import GeoCrowdNet
    from crowdwise.learn.identifiability import NotIdentifiable
    from crowdwise.learn.instance_trace import InstanceTrace
    from crowdwise.learn.learn2agree import LearnToAgree
    from crowdwise.learn.learn_from_all import LearnFromAll
    from crowdwise.learn.max_mig import MaxMig
    from crowdwise.learn.mbem import ModelBootstrappedEm
    from crowdwise.learn.oracle import OracleConfusion
    from crowdwise.learn.single_cm import SingleConfusion
    from crowdwise.learn.soft_bootstrap import SoftBootstrap
    from crowdwise.learn.tai_dtm import InstanceTransition
    from crowdwise.learn.trace import TraceRegularized
    from crowdwise.learn.two_stage import TwoStage
    from crowdwise.learn.union_net import UnionNet
    from crowdwise.learner_registry import learner, learners
    from crowdwise.registry import method, methods
    from crowdwise.saved import load

__version__ = "0.1.0"

# Public names are imported when first used, so that `import crowdwise` is light.
_HOMES = {
    "Audit": "audit.audit",
    "Auto": "evaluate.auto",
    "BayesDgc": "learn.bayes_dgc",
    "BayesianClassifierCombination": "aggregate.bcc",
    "BayesianSequenceCombination": "aggregate.bsc",
    "BayesianWeightedAverage": "aggregate.bwa",
    "BeliefPropagation": "aggregate.belief_propagation",
    "CoinNet": "learn.coinnet",
    "CommunityBcc": "aggregate.cbcc",
    "Comparison": "evaluate.compare",
    "Conal": "learn.conal",
    "ConfusionVector": "aggregate.confusion_vector",
    "CoupledCpd": "aggregate.coupled_cpd",
    "CoupledCrossEntropy": "learn.coupled_ce",
    "CoupledNmf": "aggregate.cnmf",
    "Crh": "aggregate.crh",
    "CrowdLabels": "labels.model",
    "CrowdLayer": "learn.crowd_layer",
    "CrowdwiseError": "labels.errors",
    "Dalvi": "aggregate.dalvi",
    "DawidSkene": "aggregate.dawid_skene",
    "DeepBeliefPropagation": "learn.deep_bp",
    "DeepMeanField": "learn.deep_mf",
    "DoctorNet": "learn.doctor_net",
    "EmCrf": "learn.em_crf",
    "EnhancedBcc": "aggregate.ebcc",
    "Finding": "audit.findings",
    "GeneralizedEm": "learn.em",
    "GeoCrowdNet": "learn.geo_crowd_net",
    "GhoshSvd": "aggregate.ghosh_svd",
    "Glad": "aggregate.glad",
    "GraphDawidSkene": "aggregate.graph_dawid_skene",
    "GroupDawidSkene": "aggregate.group_dawid_skene",
    "GroupMajorityVote": "aggregate.group_majority_vote",
    "HmmCrowd": "aggregate.hmm_crowd",
    "InputError": "labels.errors",
    "InputWarning": "labels.errors",
    "InstanceTrace": "learn.instance_trace",
    "InstanceTransition": "learn.tai_dtm",
    "Kos": "aggregate.kos",
    "LearnFromAll": "learn.learn_from_all",
    "LearnToAgree": "learn.learn2agree",
    "LfcBinary": "aggregate.lfc_binary",
    "MMsr": "aggregate.m_msr",
    "Mace": "aggregate.mace",
    "MajorityVote": "aggregate.majority_vote",
    "MaxMarginMajorityVote": "aggregate.max_margin",
    "MaxMig": "learn.max_mig",
    "MeanField": "aggregate.mean_field",
    "MinimaxEntropy": "aggregate.minimax_entropy",
    "ModelBootstrappedEm": "learn.mbem",
    "MultiSpa": "aggregate.multi_spa",
    "NotConverged": "fitting.em",
    "NotIdentifiable": "learn.identifiability",
    "OneCoin": "aggregate.one_coin",
    "OracleConfusion": "learn.oracle",
    "RankOneCompletion": "aggregate.pgd",
    "SingleConfusion": "learn.single_cm",
    "SoftBootstrap": "learn.soft_bootstrap",
    "SpammerEm": "aggregate.spammer_em",
    "SpectralDawidSkene": "aggregate.spectral",
    "SpectralMetaLearner": "aggregate.sml",
    "SymmetricNmf": "aggregate.sym_nmf",
    "TraceRegularized": "learn.trace",
    "TwoStage": "learn.two_stage",
    "UnionNet": "learn.union_net",
    "WeightedMajorityVote": "aggregate.weighted_majority_vote",
    "ZenCrowd": "aggregate.zencrowd",
    "audit_crowd": "audit.audit",
    "compare": "evaluate.compare",
    "held_out_log_probability": "evaluate.held_out",
    "learner": "learner_registry",
    "learners": "learner_registry",
    "load": "saved",
    "method": "registry",
    "methods": "registry",
    "prune": "audit.prune",
    "read_labels": "labels.read",
    "read_sequences": "labels.sequences",
    "read_timed_labels": "labels.times",
    "read_truth": "labels.truth",
    "truth_codes": "labels.truth",
    "use_engine": "engines",
    "use_threads": "kernels.threads",
}
_ROOMS = ("datasets", "evaluate", "metrics", "simulate")

__all__ = [
    "Audit",
    "Auto",
    "BayesDgc",
    "BayesianClassifierCombination",
    "BayesianSequenceCombination",
    "BayesianWeightedAverage",
    "BeliefPropagation",
    "CoinNet",
    "CommunityBcc",
    "Comparison",
    "Conal",
    "ConfusionVector",
    "CoupledCpd",
    "CoupledCrossEntropy",
    "CoupledNmf",
    "Crh",
    "CrowdLabels",
    "CrowdLayer",
    "CrowdwiseError",
    "Dalvi",
    "DawidSkene",
    "DeepBeliefPropagation",
    "DeepMeanField",
    "DoctorNet",
    "EmCrf",
    "EnhancedBcc",
    "Finding",
    "GeneralizedEm",
    "GeoCrowdNet",
    "GhoshSvd",
    "Glad",
    "GraphDawidSkene",
    "GroupDawidSkene",
    "GroupMajorityVote",
    "HmmCrowd",
    "InputError",
    "InputWarning",
    "InstanceTrace",
    "InstanceTransition",
    "Kos",
    "LearnFromAll",
    "LearnToAgree",
    "LfcBinary",
    "MMsr",
    "Mace",
    "MajorityVote",
    "MaxMarginMajorityVote",
    "MaxMig",
    "MeanField",
    "MinimaxEntropy",
    "ModelBootstrappedEm",
    "MultiSpa",
    "NotConverged",
    "NotIdentifiable",
    "OneCoin",
    "OracleConfusion",
    "RankOneCompletion",
    "SingleConfusion",
    "SoftBootstrap",
    "SpammerEm",
    "SpectralDawidSkene",
    "SpectralMetaLearner",
    "SymmetricNmf",
    "TraceRegularized",
    "TwoStage",
    "UnionNet",
    "WeightedMajorityVote",
    "ZenCrowd",
    "audit_crowd",
    "compare",
    "datasets",
    "evaluate",
    "held_out_log_probability",
    "learner",
    "learners",
    "load",
    "method",
    "methods",
    "metrics",
    "prune",
    "read_labels",
    "read_sequences",
    "read_timed_labels",
    "read_truth",
    "simulate",
    "truth_codes",
    "use_engine",
    "use_threads",
]


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return importlib.import_module(f"crowdwise.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'crowdwise' has no attribute {name!r}")
    return getattr(importlib.import_module(f"crowdwise.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
