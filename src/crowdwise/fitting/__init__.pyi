from .base import Aggregator as Aggregator
from .crowd_model import Fit as Fit
from .em import Climb as Climb
from .em import climb as climb
from .estimator_decorator import estimator as estimator
from .scikit_learn_errors import NotConverged as NotConverged
