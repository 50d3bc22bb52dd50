"""Loops over labels: functions on arrays, each in NumPy and, for large data, in loops that numba compiles."""

from crowdwise.kernels.chains import ChainStatistics, chain_pass
from crowdwise.kernels.confusion_rows import NO_GOLD, draw_gammas, log_rows
from crowdwise.kernels.dirichlet import expected_logs
from crowdwise.kernels.grouped_sums import TruthPrior
from crowdwise.kernels.label_sums import (
    outer_sums,
    outer_sums_with_zeros,
    sum_named_class,
    worker_answer_sums,
    worker_sums,
)
from crowdwise.kernels.markov_field import mean_field_pass
from crowdwise.kernels.max_margin_votes import sum_votes_and_logs
from crowdwise.kernels.messages import Messages, NodeSets, table_of_matrices, task_messages, worker_messages
from crowdwise.kernels.pairs import PairCounts, pair_agreements, pair_counts, pair_e_step
from crowdwise.kernels.threads import n_threads, use_threads
from crowdwise.kernels.triples import Triples, triple_counts, triple_error, triple_sweep
from crowdwise.kernels.votes import mean_opinions, vote_shares, vote_winners

__all__ = [
    "NO_GOLD",
    "ChainStatistics",
    "Messages",
    "NodeSets",
    "PairCounts",
    "Triples",
    "TruthPrior",
    "chain_pass",
    "draw_gammas",
    "expected_logs",
    "log_rows",
    "mean_field_pass",
    "mean_opinions",
    "n_threads",
    "outer_sums",
    "outer_sums_with_zeros",
    "pair_agreements",
    "pair_counts",
    "pair_e_step",
    "sum_named_class",
    "sum_votes_and_logs",
    "table_of_matrices",
    "task_messages",
    "triple_counts",
    "triple_error",
    "triple_sweep",
    "use_threads",
    "vote_shares",
    "vote_winners",
    "worker_answer_sums",
    "worker_messages",
    "worker_sums",
]
