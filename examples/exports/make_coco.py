"""Boxes and masks in COCO's form, checked with pycocotools 2.0.11: the folder coco beside this file, a file a worker.

    pip install pycocotools && python make_coco.py

Three workers and five images with a cat, a dog or both; bob overlooks one, cy draws loosely. The last image is empty.
"""

import json
import random
from pathlib import Path

import numpy as np
from pycocotools import mask as coco_masks
from pycocotools.coco import COCO

WIDTH, HEIGHT = 40, 30
OBJECTS = [[("cat", 5, 5, 10, 8)], [("dog", 20, 10, 12, 12)], [("cat", 3, 4, 9, 9), ("dog", 22, 8, 10, 15)],
           [("dog", 8, 8, 14, 10)], []]  # fmt: skip
LOOSE = {"ann": 0.4, "bob": 0.8, "cy": 2.0}
CATEGORIES = {"cat": 1, "dog": 2}


def make_document(worker: str) -> dict:
    rng, annotations = random.Random(worker), []
    for image, objects in enumerate(OBJECTS, 1):
        for label, *corners in objects:
            if (worker, image, label) == ("bob", 3, "dog"):
                continue
            x, y, width, height = (round(each + rng.uniform(-1, 1) * LOOSE[worker], 1) for each in corners)
            polygon = [x, y, x + width, y, x + width, y + height, x, y + height]
            region = [polygon]
            if worker == "ann":  # run lengths, packed as pycocotools packs them
                region = coco_masks.merge(coco_masks.frPyObjects([polygon], HEIGHT, WIDTH))
                region["counts"] = region["counts"].decode()
            annotations.append({
                "id": len(annotations) + 1, "image_id": image, "category_id": CATEGORIES[label],
                "bbox": [x, y, width, height], "area": width * height, "segmentation": region, "iscrowd": 0,
            })  # fmt: skip
    return {
        "images": [
            {"id": image, "file_name": f"pet{image}.jpg", "width": WIDTH, "height": HEIGHT}
            for image in range(1, len(OBJECTS) + 1)
        ],
        "categories": [{"id": number, "name": name} for name, number in CATEGORIES.items()],
        "annotations": annotations,
    }


if __name__ == "__main__":
    folder = Path(__file__).parent / "coco"
    folder.mkdir(exist_ok=True)
    for worker in LOOSE:
        file = folder / f"{worker}.json"
        file.write_text(json.dumps(make_document(worker), indent=1) + "\n", encoding="utf-8")
        loaded = COCO(str(file))
        assert all(np.any(loaded.annToMask(each)) for each in loaded.anns.values())
