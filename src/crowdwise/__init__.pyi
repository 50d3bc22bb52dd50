from . import acquire as acquire
from . import aggregate as aggregate
from . import audit as audit
from . import campaign as campaign
from . import datasets as datasets
from . import engines as engines
from . import evaluate as evaluate
from . import fitting as fitting
from . import formats as formats
from . import judges as judges
from . import labels as labels
from . import learn as learn
from . import metrics as metrics
from . import report as report
from . import simulate as simulate
from .aggregate import *
from .audit import *
from .engines import use_engine as use_engine
from .evaluate import *
from .fitting import Aggregator as Aggregator
from .fitting import NotConverged as NotConverged
from .formats import Export as Export
from .formats import read_export as read_export
from .kernels.threads import use_threads as use_threads
from .labels import *
from .learn import *
from .registry import learner as learner
from .registry import learners as learners
from .registry import method as method
from .registry import methods as methods
from .report import *
from .saved import load as load

__version__: str
