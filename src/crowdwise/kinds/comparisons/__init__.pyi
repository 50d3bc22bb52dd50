from .answers import Comparisons as Comparisons
from .answers import read_comparisons as read_comparisons
from .auto import AutoComparisons as AutoComparisons
from .bradley_terry import BradleyTerry as BradleyTerry
from .crowd_bt import CrowdBt as CrowdBt
from .simulation import simulate_comparisons as simulate_comparisons
from .win_rate import WinRate as WinRate
from .worker_slope import WorkerSlope as WorkerSlope
