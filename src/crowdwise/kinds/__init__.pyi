from .kind_registry import Kind as Kind
from .kind_registry import find_kind as find_kind
from .kind_registry import kind as kind
from .kind_registry import kinds as kinds
from .model import KindModel as KindModel
from .values.answers import Values as Values
from .values.answers import read_values as read_values
from .values.simulation import simulate_values as simulate_values
