"""Where F1 is lost on real boxes: the default method, clusters, and what perfect choices would reach.

python benchmarks/boxes.py FOLDER    # with boxes.csv and truth.csv, about ten seconds

Each bound takes one part of the consensus from the truth and leaves the others as the default method found them.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np

from crowdwise.kinds import read_boxes
from crowdwise.kinds.boxes import BoxClusters, ObjectBoxes, score_boxes
from crowdwise.kinds.boxes.geometry import intersection_over_union
from crowdwise.kinds.boxes.metrics import match_marks, precision_recall
from crowdwise.kinds.boxes.truth import align_true_marks


def main(folder: Path) -> None:
    """Print F1 at IoU 0.5, mean over tasks."""
    boxes = read_boxes(folder / "boxes.csv")
    warnings.simplefilter("ignore")
    model = ObjectBoxes().fit(boxes)
    for name, fitted in (("iou-clusters", BoxClusters().fit(boxes)), ("object-em", model)):
        print(f"{name:45} {score_boxes(fitted, folder / 'truth.csv')['f1']:.4f}")
    true = align_true_marks(folder / "truth.csv", boxes.tasks, boxes.classes, type(boxes))
    rows: dict[str, list[float]] = {}
    for task in np.flatnonzero(true.known):
        truth = true.place[true.task == task]
        found = model.place_[model.object_task_ == task]
        sure = model.confidence_[model.object_task_ == task]
        drawn = boxes.place[boxes.task[boxes.answer] == task]
        kept = found[sure >= 0.5]
        near = match_marks(intersection_over_union(kept, truth), 0.25)[0].size
        rows.setdefault("kept boxes placed right (of IoU 0.25 or more)", []).append(
            precision_recall(near, len(kept), len(truth))[2]
        )
        hits = match_marks(intersection_over_union(found, truth), 0.5)[0].size
        rows.setdefault("kept and dropped right", []).append(precision_recall(hits, hits, len(truth))[2])
        reached = int((intersection_over_union(truth, drawn).max(axis=1, initial=0.0) >= 0.5).sum())
        rows.setdefault("every true box that some worker drew", []).append(
            precision_recall(reached, reached, len(truth))[2]
        )
    for name, values in rows.items():
        print(f"{name:45} {np.mean(values):.4f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
