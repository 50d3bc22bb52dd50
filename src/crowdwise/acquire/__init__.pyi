from .forecast import Plan as Plan
from .forecast import plan as plan
from .next_question import Question as Question
from .next_question import choose_task as choose_task
from .next_question import next_questions as next_questions
from .online_learning import OnlineModel as OnlineModel
from .stopping import StopRule as StopRule
