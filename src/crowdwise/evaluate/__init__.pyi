from .auto import Auto as Auto
from .comparing import compare as compare
from .comparison import Comparison as Comparison
from .held_out import held_out_log_probability as held_out_log_probability
