from .answers import LabelSets as LabelSets
from .answers import read_label_sets as read_label_sets
from .label_mixture import LabelMixture as LabelMixture
from .label_mixture import OneVsRest as OneVsRest
from .metrics import compare_sets as compare_sets
from .metrics import score_sets as score_sets
from .simulation import simulate_label_sets as simulate_label_sets
from .votes import SetVotes as SetVotes
