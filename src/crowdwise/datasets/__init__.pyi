from .loading import Dataset as Dataset
from .loading import available as available
from .loading import load as load
from .loading import names as names
