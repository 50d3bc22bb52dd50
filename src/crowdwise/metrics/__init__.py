"""Pure functions that judge: with the truth, without it, agreement of workers, calibration.

Arrays in, numbers or arrays out. The truth comes first and holds class positions, -1 for unknown; confusion
matrices are `[worker, truth, label]`.
"""

from crowdwise.metrics.agreement import (
    PairwiseKappas,
    cohen_kappa,
    fleiss_kappa,
    observed_agreement,
    pairwise_kappas,
)
from crowdwise.metrics.calibration import Reliability, expected_calibration_error, reliability_table
from crowdwise.metrics.krippendorff import krippendorff_alpha
from crowdwise.metrics.spans import SpanScores, span_scores
from crowdwise.metrics.with_truth import (
    accuracy,
    balanced_accuracy,
    brier,
    confusion_error,
    log_loss,
    macro_f1,
    skill_correlation,
)
from crowdwise.metrics.without_truth import (
    agreement_ratio,
    discrepancy_ratio,
    held_out_log_likelihood,
    model_kappas,
)

__all__ = [
    "PairwiseKappas",
    "Reliability",
    "SpanScores",
    "accuracy",
    "agreement_ratio",
    "balanced_accuracy",
    "brier",
    "cohen_kappa",
    "confusion_error",
    "discrepancy_ratio",
    "expected_calibration_error",
    "fleiss_kappa",
    "held_out_log_likelihood",
    "krippendorff_alpha",
    "log_loss",
    "macro_f1",
    "model_kappas",
    "observed_agreement",
    "pairwise_kappas",
    "reliability_table",
    "skill_correlation",
    "span_scores",
]
