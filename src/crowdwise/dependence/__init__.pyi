from .effective_size import EffectiveSize as EffectiveSize
from .groups import Dependence as Dependence
from .groups import find_groups as find_groups
