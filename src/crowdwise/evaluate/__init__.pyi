from .answer_comparison import AnswerComparison as AnswerComparison
from .answer_comparison import compare_answers as compare_answers
from .auto import Auto as Auto
from .compare_methods import compare as compare
from .comparison_result import Comparison as Comparison
from .held_out import held_out_log_probability as held_out_log_probability
