"""Marks in images, a file for each worker: COCO and CVAT."""

from __future__ import annotations

import gzip
import json
import shutil
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from crowdwise import read_export
from crowdwise.cli import main
from crowdwise.kinds import read_boxes, read_masks
from crowdwise.labels import InputError, InputWarning

if TYPE_CHECKING:
    from crowdwise.formats import Export

EXAMPLES = Path(__file__).parents[2] / "examples" / "exports"


def list_questions(export: Export) -> list[tuple[str, str, int]]:
    return [(each.name, each.kind, each.n_answers) for each in export.questions]


# ---- COCO -------------------------------------------------------------------------------------------------


def test_coco(tmp_path: Path) -> None:
    folder = EXAMPLES / "coco"
    export = read_export(folder)
    assert list_questions(export) == [("bbox", "boxes", 15), ("cat", "masks", 15), ("dog", "masks", 15)]
    boxes = read_export(folder, question="bbox")
    sizes = (boxes.skipped, boxes.drafts, boxes.gold)
    assert ([each.num_rows for each in sizes], boxes.n_anchored, boxes.left_out) == ([0, 0, 0], 0, {})
    drawn = read_boxes(boxes)
    assert (drawn.n_answers, drawn.n_marks, drawn.workers.to_pylist()) == (15, 14, ["ann", "bob", "cy"])
    masks = read_masks(read_export(folder, question="cat"))
    assert (masks.n_answers, masks.height.tolist(), masks.width.tolist()) == (15, [30] * 5, [40] * 5)
    empty = [not masks.mask(row).any() for row in range(15)]
    assert sum(empty) == 9  # three images without a cat
    for worker in ("ann", "bob", "cy"):  # the same as archives, as tools give them
        with zipfile.ZipFile(tmp_path / f"{worker}.zip", "w") as archive:
            archive.write(folder / f"{worker}.json", "annotations/instances_default.json")
    assert read_boxes(read_export(tmp_path, question="bbox")).to_table() == drawn.to_table()


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # of pycocotools
def test_masks_are_those_of_pycocotools() -> None:
    coco = pytest.importorskip("pycocotools.coco")
    read = read_masks(read_export(EXAMPLES / "coco", question="dog"))
    loaded = coco.COCO(str(EXAMPLES / "coco" / "ann.json"))
    for row in range(read.n_answers):
        if read.workers[int(read.worker[row])].as_py() == "ann":
            image = next(
                each for each in loaded.imgs.values() if each["file_name"] == read.tasks[int(read.task[row])].as_py()
            )
            marks = [loaded.annToMask(each) for each in loaded.imgToAnns[image["id"]] if each["category_id"] == 2]
            assert read.mask(row).sum() == sum(int(mask.sum()) for mask in marks)


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # of pycocotools
@pytest.mark.parametrize("question", ["bbox", "dog"])
def test_coco_written_back(question: str, tmp_path: Path) -> None:
    out, results = tmp_path / "consensus.json", tmp_path / "results"
    words = ["aggregate", str(EXAMPLES / "coco"), "--question", question, "--write-back", str(out)]
    assert main([*words, "--out", str(results)]) == 0
    document = json.loads(out.read_text())
    assert [image["file_name"] for image in document["images"]] == [f"pet{number}.jpg" for number in range(1, 6)]
    assert {each["name"]: each["id"] for each in document["categories"]} == {"cat": 1, "dog": 2}
    marks = document["annotations"]
    assert len(marks) == (5 if question == "bbox" else 3)
    assert all(0 < mark["score"] <= 1 and len(mark["bbox"]) == 4 for mark in marks)
    # What is written is read again as one more worker.
    shutil.copy(EXAMPLES / "coco" / "ann.json", tmp_path / "results")
    shutil.copy(out, tmp_path / "results")
    for extra in results.glob("*.csv"):
        extra.unlink()
    again = read_export([results / "ann.json", results / "consensus.json"], question=question)
    if question == "dog":
        assert {int(mark.sum()) for mark in map(read_masks(again).mask, range(10))} >= {mark["area"] for mark in marks}
    else:
        assert read_boxes(again).n_marks == 10
    coco = pytest.importorskip("pycocotools.coco")
    loaded = coco.COCO(str(out))
    assert len(loaded.anns) == len(marks)
    if question == "dog":
        assert all(int(loaded.annToMask(each).sum()) == each["area"] for each in loaded.anns.values())


IMAGE = {"id": 1, "file_name": "a.jpg", "width": 4, "height": 3}
MARK = {"id": 1, "image_id": 1, "category_id": 1, "bbox": [0, 0, 2, 2]}


def coco_document(*marks: Any, **parts: Any) -> dict[str, Any]:
    return {"images": [IMAGE], "categories": [{"id": 1, "name": "cat"}], "annotations": list(marks)} | parts


def write_two(document: Any, tmp_path: Path) -> list[Path]:
    (tmp_path / "ann.json").write_text(json.dumps(coco_document(MARK)))
    (tmp_path / "bob.json").write_text(document if isinstance(document, str) else json.dumps(document))
    return [tmp_path / "ann.json", tmp_path / "bob.json"]


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (coco_document(MARK, MARK), r"bob\.json, annotation 2 has the id 1 of one before"),
        (coco_document({**MARK, "image_id": 7}), r"annotation 1: 'image_id' is 7, which the file does not have"),
        (coco_document({**MARK, "category_id": None}), r"annotation 1: 'category_id' is None"),
        (coco_document({**MARK, "bbox": [1, 2]}), r"annotation 1: 'bbox' is \[1, 2\]; it must be \[x, y"),
        (coco_document({**MARK, "bbox": "0022"}), r"annotation 1: 'bbox' is '0022'; it must be"),
        (coco_document({**MARK, "bbox": {"0": 1, "1": 1, "2": 1, "3": 1}}), r"annotation 1: 'bbox' is \{'0'"),
        (coco_document({**MARK, "bbox": [True, 0, 2, 2]}), r"annotation 1: 'bbox' is \[True, 0"),
        (coco_document({**MARK, "bbox": [10**400, 0, 2, 2]}), r"annotation 1: 'bbox' is \[1000"),
        (json.dumps(coco_document(MARK)) * 2, r"bob\.json holds more than one document"),
        (coco_document({**MARK, "bbox": None}), r"annotation 1 has neither 'bbox' nor 'segmentation'"),
        (coco_document({**MARK, "segmentation": "x"}), r"annotation 1: 'segmentation' is 'x'"),
        (coco_document("x"), r"annotation 1 is 'x', not an object"),
        (coco_document(images=[{"id": 1, "file_name": "a.jpg"}]), r"image 1: 'height' is None and 'width' None"),
        (coco_document(images=[IMAGE, IMAGE]), r"images 2 has the id 1 of one before"),
        (coco_document(images=[IMAGE, {**IMAGE, "id": 2}]), r"images 2 has the file_name 'a\.jpg' of one before"),
        (coco_document(images=[{"id": 1}]), r"images 1 needs 'id' and 'file_name'"),
        (coco_document(images=[{**IMAGE, "file_name": ["a"]}]), r"images 1 needs 'id' and 'file_name'"),
        (coco_document(categories=None), r"bob\.json has no list 'categories'"),
        (json.dumps(coco_document(MARK))[:-20], r"bob\.json, byte [0-9]+ \(record 1\) is not JSON"),
        ('{"images": ' + "[" * 100_000, r"bob\.json.* nested too deeply"),
    ],
)
def test_files_of_coco_that_are_broken(document: Any, said: str, tmp_path: Path) -> None:
    files = write_two(document, tmp_path)
    with pytest.raises(InputError, match=said):
        read_export(files)
    out = tmp_path / "out.json"
    assert main(["aggregate", *map(str, files), "--write-back", str(out)]) == 2
    assert not out.exists()


def test_whose_marks_they_are(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"ann\.json does not say who drew its marks, and is one file\. Give a file for"
    ):
        read_export(EXAMPLES / "coco" / "ann.json")
    named = [{**MARK, "annotator": "ann"}, {**MARK, "id": 2, "annotator": "bob", "iscrowd": 1}]
    (tmp_path / "all.json").write_text(json.dumps(coco_document(*named, {**named[0], "id": 3, "keypoints": [1, 2, 2]})))
    export = read_export(tmp_path / "all.json")
    assert export.left_out == {"box of a crowd": 1, "set of key points": 1}
    assert export.answers["worker"].to_pylist() == ["ann", "ann", "bob"]
    (tmp_path / "all.json").write_text(json.dumps(coco_document(MARK, named[1])))
    with pytest.raises(InputError, match=r"all\.json, annotation 1: 'annotator' is None, so that nobody knows"):
        read_export(tmp_path / "all.json")
    (tmp_path / "all.json").write_text(json.dumps(coco_document(named[0], {**named[1], "annotator": None})))
    with pytest.raises(InputError, match=r"all\.json, annotation 2: 'annotator' is None, so that nobody knows"):
        read_export(tmp_path / "all.json")


def test_no_worker_is_left_out_for_the_name_of_a_file(tmp_path: Path) -> None:
    files = write_two(coco_document(MARK), tmp_path)
    (tmp_path / "cy.JSON").write_text(json.dumps(coco_document(MARK)))
    (tmp_path / "dan.json.gz").write_bytes(gzip.compress(json.dumps(coco_document(MARK)).encode()))
    for given in (tmp_path, sorted(tmp_path.iterdir())):
        assert read_boxes(read_export(given)).workers.to_pylist() == ["ann", "bob", "cy", "dan"]
    (tmp_path / "notes.txt").write_text("x")
    assert read_boxes(read_export(tmp_path)).n_workers == 4
    with pytest.raises(InputError, match=r"notes\.txt is not, and does not hold, a file that ends in \.json"):
        read_export([*files, tmp_path / "notes.txt"])


def test_archives_of_coco_with_a_path_outside(tmp_path: Path) -> None:
    for name in ("ann", "bob"):
        with zipfile.ZipFile(tmp_path / f"{name}.zip", "w") as archive:
            archive.writestr("../x.json", json.dumps(coco_document(MARK)))
    with pytest.raises(InputError, match=r"ann\.zip holds '\.\./x\.json', a file outside"):
        read_export(tmp_path)


def test_run_lengths_of_another_size(tmp_path: Path) -> None:
    files = write_two(coco_document({**MARK, "segmentation": {"size": [2, 2], "counts": [0, 4]}}), tmp_path)
    with pytest.raises(InputError, match=r"its run lengths have 2 × 2 pixels, the image 4 × 3"):
        read_masks(read_export(files, question="cat"))


@pytest.mark.parametrize("box", [[5, 0, 2, 2], [-9, -9, 3, 3], [-50, -50, 500, 500]])
def test_boxes_of_coco_outside_of_the_image(box: list[float], tmp_path: Path) -> None:
    over_the_edge = {**MARK, "id": 2, "bbox": [-0.5, 0, 2, 2]}
    export = read_export(write_two(coco_document({**MARK, "bbox": box}, over_the_edge), tmp_path))
    assert len(export.notes) == 1
    assert export.notes[0].startswith("1 box lies outside of the image, with more than half of the area (bob.json, ann")
    assert read_boxes(export).n_marks == 3
    with pytest.warns(InputWarning, match="outside of the image"):
        export.warn_of_left_out()


# ---- CVAT -------------------------------------------------------------------------------------------------


def test_cvat(tmp_path: Path) -> None:
    export = read_export(EXAMPLES / "cvat")
    assert list_questions(export) == [("tag", "labels", 8), ("box", "boxes", 8), ("sky", "masks", 8)]
    boxes = read_boxes(read_export(EXAMPLES / "cvat", question="box"))
    assert (boxes.n_answers, boxes.n_marks, boxes.workers.to_pylist()) == (8, 7, ["ann", "bob"])
    sky = read_masks(read_export(EXAMPLES / "cvat", question="sky"))
    for task in range(4):  # a polygon, and the same as run lengths along the rows
        first, second = sky.masks_of_task(task)
        assert first.sum() == 30 * (6 + task)
        assert np.array_equal(first, second)
    assert read_export(EXAMPLES / "cvat", question="tag").labels.n_labels == 8
    for worker in ("ann", "bob"):
        with zipfile.ZipFile(tmp_path / f"{worker}.zip", "w") as archive:
            archive.write(EXAMPLES / "cvat" / f"{worker}.xml", "annotations.xml")
    assert list_questions(read_export(tmp_path)) == list_questions(export)


def cvat_document(marks: str, image: str = 'name="a" width="4" height="3"') -> str:
    return f"<annotations><version>1.1</version><image id='0' {image}>{marks}</image></annotations>"


BOX = '<box label="car" xtl="0" ytl="0" xbr="2" ybr="2"/>'


def write_xml(document: str, tmp_path: Path) -> list[Path]:
    (tmp_path / "ann.xml").write_text(cvat_document(BOX))
    (tmp_path / "bob.xml").write_text(document)
    return [tmp_path / "ann.xml", tmp_path / "bob.xml"]


def test_boxes_of_cvat_outside_of_the_image(tmp_path: Path) -> None:
    far = BOX.replace('"2"', '"9"').replace('"0"', '"5"')
    notes = read_export(write_xml(cvat_document(far + BOX + far), tmp_path)).notes
    assert [note.partition(" (")[0] for note in notes] == [
        "2 boxes lie outside of the image, with more than half of the area"
    ]


def test_other_marks_of_cvat(tmp_path: Path) -> None:
    points = '<points label="eye" points="1.0,2.0;3.0,1.0"/><tag label="x"/><tag label="y"/><ellipse label="z"/>'
    turned = '<box label="car" xtl="0" ytl="0" xbr="2" ybr="2" rotation="30.0"/>'
    export = read_export(write_xml(cvat_document(points + turned), tmp_path))
    assert list_questions(export) == [("tag", "multi-label", 1), ("box", "boxes", 2), ("points", "points", 2)]
    assert export.left_out == {"ellipse": 1, "rotated box": 1}
    mask = '<mask label="m" rle="1, 2, 1" left="2" top="1" width="2" height="2"/>'
    masks = read_masks(read_export(write_xml(cvat_document(mask), tmp_path), question="m"))
    drawn = np.zeros((3, 4), bool)
    drawn[1, 3] = drawn[2, 2] = True
    assert np.array_equal(masks.mask(1), drawn)


LAUGHS = '<!DOCTYPE a [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;">]>' + cvat_document(BOX.replace("car", "&b;"))


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (LAUGHS, r"bob\.xml, line 1 declares a document type or an entity"),
        ('<!DOCTYPE a SYSTEM "file:///etc/passwd">' + cvat_document(BOX), r"line 1 declares a document type"),
        (cvat_document(BOX)[:-10], r"bob\.xml, line 1 is not XML"),
        ("<a>" * 1000, r"bob\.xml, line 1 is nested too deeply"),
        (cvat_document('<box label="car" xtl="0"/>'), r"line 1: <box> has no 'ytl'"),
        (cvat_document(BOX.replace('"2"', '"x"')), r"'xbr' of <box> is 'x', no number"),
        (cvat_document(BOX.replace('label="car"', "")), r"<box> has no 'label'"),
        (cvat_document('<polygon label="s" points="1,2;3"/>'), r"'points' of <polygon> is '1,2;3'"),
        (cvat_document('<mask label="s" rle="1,9" left="0" top="0" width="2" height="2"/>'), r"<mask> does not fit"),
        (cvat_document('<mask label="s" rle="x" left="0" top="0" width="2" height="2"/>'), r"'rle' of <mask> is 'x'"),
        (
            cvat_document('<mask label="s" rle="4" left="inf" top="0" width="2" height="2"/>'),
            r"'left' of <mask> is 'inf', no whole number",
        ),
        (cvat_document(BOX, 'name="a" width="4"'), r"<image> has no 'height'"),
        (cvat_document(BOX, 'name="a" width="1e9" height="1e9"'), r"an image of 1e\+09 × 1e\+09 pixels"),
        ("<annotations>" + 2 * cvat_document(BOX)[13:-14] + "</annotations>", r"has the image 'a' again"),
        ('<annotations><track id="0"/></annotations>', r"is a track of a video"),
        ("<annotations><version>1.1</version></annotations>", r"bob\.xml holds no image"),
        (cvat_document(BOX.replace("<box", '<box rotation="x"')), r"'rotation' of <box> is 'x', no number"),
    ],
)
def test_files_of_cvat_that_are_broken(document: str, said: str, tmp_path: Path) -> None:
    files = write_xml(document, tmp_path)
    with pytest.raises(InputError, match=said):
        read_export(files)
    assert main(["aggregate", *map(str, files)]) == 2
