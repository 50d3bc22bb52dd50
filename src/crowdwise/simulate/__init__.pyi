from .crowds import CROWDS as CROWDS
from .crowds import simulate as simulate
from .dawid_skene import simulate_crowd as simulate_crowd
from .features import simulate_features as simulate_features
from .known_workers import simulate_workers as simulate_workers
from .simulation import Simulation as Simulation
