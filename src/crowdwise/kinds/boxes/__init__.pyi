from .answers import Boxes as Boxes
from .answers import read_boxes as read_boxes
from .metrics import score_boxes as score_boxes
from .object_boxes import BoxClusters as BoxClusters
from .object_boxes import ObjectBoxes as ObjectBoxes
from .simulation import simulate_boxes as simulate_boxes
