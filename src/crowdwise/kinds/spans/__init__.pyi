from .answers import Spans as Spans
from .answers import read_spans as read_spans
from .metrics import score_spans as score_spans
from .sequence_methods import SpanBsc as SpanBsc
from .sequence_methods import SpanHmmCrowd as SpanHmmCrowd
from .sequence_methods import SpanVotes as SpanVotes
from .simulation import simulate_spans as simulate_spans
