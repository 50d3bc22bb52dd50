from .answers import Points as Points
from .answers import read_points as read_points
from .metrics import score_points as score_points
from .object_points import ObjectPoints as ObjectPoints
from .object_points import PointClusters as PointClusters
from .simulation import simulate_points as simulate_points
