"""The hot loops over edges: a NumPy reference and numba kernels."""

from crowdwise.kernels.chains import ChainStatistics, chain_pass
from crowdwise.kernels.dirichlet import expected_logs
from crowdwise.kernels.em_passes import (
    NO_GOLD,
    Statistics,
    confusion_pass,
    log_rows,
    scatter,
    share_pass,
    spread,
    vote_pass,
)
from crowdwise.kernels.layout import Blocks, blocks_of
from crowdwise.kernels.markov_field import field_pass
from crowdwise.kernels.messages import NodeSets, task_messages, worker_messages
from crowdwise.kernels.pairs import PairCounts, pair_agreements, pair_counts, pair_pass
from crowdwise.kernels.sums import answer_sums, edge_outer, worker_sums
from crowdwise.kernels.threads import n_threads, use_threads
from crowdwise.kernels.triples import triple_counts, triple_error, triple_sweep
from crowdwise.kernels.votes import mean_opinions, vote_shares

__all__ = [
    "NO_GOLD",
    "Blocks",
    "ChainStatistics",
    "NodeSets",
    "PairCounts",
    "Statistics",
    "answer_sums",
    "blocks_of",
    "chain_pass",
    "confusion_pass",
    "edge_outer",
    "expected_logs",
    "field_pass",
    "log_rows",
    "mean_opinions",
    "n_threads",
    "pair_agreements",
    "pair_counts",
    "pair_pass",
    "scatter",
    "share_pass",
    "spread",
    "task_messages",
    "triple_counts",
    "triple_error",
    "triple_sweep",
    "use_threads",
    "vote_pass",
    "vote_shares",
    "worker_messages",
    "worker_sums",
]
