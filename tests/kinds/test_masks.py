"""Masks: reading, bad input, what the methods are worth on simulated crowds, gold, files and the command."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pytest
from typer.testing import CliRunner

import crowdwise as cw
from crowdwise.cli.app import app
from crowdwise.kinds import kind, read_masks, simulate_masks
from crowdwise.kinds.held_out import choose_by_held_out
from crowdwise.kinds.masks import MajorityMask, Masks, SignedDistance, Staple, StapleSpatial, WeightedMajorityMask
from crowdwise.kinds.masks.image_files import encode_png
from crowdwise.kinds.masks.metrics import dice_coefficient, expected_dice, intersection_over_union
from crowdwise.kinds.masks.model import name_files
from crowdwise.labels.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

METHODS = [each.load() for each in kind("masks").methods()]
EVERY = pytest.mark.parametrize("method", METHODS, ids=lambda each: each.slug)
SQUARE = np.pad(np.ones((3, 4), bool), 2)


def write_png(path: Path, mask: Any, mode: str = "L") -> None:
    image = pytest.importorskip("PIL.Image")
    path.parent.mkdir(exist_ok=True, parents=True)
    image.fromarray(np.asarray(mask).astype(np.uint8) * 255).convert(mode).save(path)


def table(masks: Any, **more: Any) -> dict[str, Any]:
    masks = list(masks)
    return {"task": ["a"] * len(masks), "worker": list(range(len(masks))), **more, "mask": masks}


# ---- reading ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["1", "L", "RGB", "RGBA", "P", "I;16"])
def test_images_are_read_by_what_is_not_0(tmp_path: Path, mode: str) -> None:
    if mode == "I;16":
        tmp_path.joinpath("m.png").write_bytes(encode_png(SQUARE.astype(np.uint16) * 3))
    else:
        write_png(tmp_path / "m.png", SQUARE, mode)
    (tmp_path / "t.csv").write_text("task,worker,mask\na,ann,m.png\n")
    read = read_masks(tmp_path / "t.csv")
    np.testing.assert_array_equal(read.mask(0), SQUARE)
    assert repr(read) == "Masks: 1 mask by 1 worker on 1 task"


def test_a_folder_of_workers_and_the_folder_of_paths(tmp_path: Path) -> None:
    for worker in ("ann", "bob"):
        write_png(tmp_path / "masks" / worker / "7.png", SQUARE)
    read = read_masks(tmp_path / "masks")
    assert read.workers.to_pylist() == ["ann", "bob"]
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "t.csv").write_text("task,worker,mask\n7,ann,masks/ann/7.png\n")
    assert read_masks(tmp_path / "tables" / "t.csv", folder=tmp_path).mask(0).sum() == 12
    with pytest.raises(InputError, match="there is no such file"):
        read_masks(tmp_path / "tables" / "t.csv")
    with pytest.raises(InputError, match=r"holds no images WORKER/TASK\.png"):
        read_masks(tmp_path / "tables")


@pytest.mark.parametrize(
    "cell",
    [
        "2 2 6 2 6 5 2 5",
        "2,2; 6,2; 6,5; 2,5",
        "[2, 2, 6, 2, 6, 5, 2, 5]",
        "[[2, 2], [6, 2], [6, 5], [2, 5]]",
        "[[2, 2, 6, 2, 6, 5, 2, 5]]",
        "[[2, 2, 4, 2, 4, 5, 2, 5], [4, 2, 6, 2, 6, 5, 4, 5]]",
        '{"size": [7, 8], "counts": [16, 3, 4, 3, 4, 3, 4, 3, 16]}',
    ],
)
def test_every_way_to_write_a_region(cell: str) -> None:
    read = read_masks(table([cell], width=[8], height=[7]))
    np.testing.assert_array_equal(read.mask(0), SQUARE)


def test_lists_and_structs_of_arrow() -> None:
    sizes = {"task": [1, 2], "worker": ["a", "a"], "width": [8, 8], "height": [7, 7]}
    outline = pa.array([[[2.0, 2, 6, 2, 6, 5, 2, 5]], []])
    read = read_masks(pa.table(sizes | {"segmentation": outline}))
    assert read.mask(0).sum() == 12
    assert not read.mask(1).any()  # an empty list: the worker found nothing
    coco = [{"size": [7, 8], "counts": [16, 3, 37]}, {"size": [7, 8], "counts": [56]}]
    read = read_masks(pa.table({"task": [1, 2], "worker": ["a", "a"], "rle": coco}))
    assert [int(read.mask(row).sum()) for row in (0, 1)] == [3, 0]


def test_a_polygon_that_crosses_itself_is_filled_by_the_even_odd_rule() -> None:
    bow = read_masks(table(["0 0 8 8 8 0 0 8"], width=[8], height=[8])).mask(0)
    assert not bow[0, 4]
    assert not bow[7, 4]
    assert bow[4, 0]
    assert bow[4, 7]
    twice = read_masks(table(["0 0 8 0 8 8 0 8 0 0 2 2 6 2 6 6 2 6 2 2"], width=[8], height=[8])).mask(0)
    assert twice.sum() == 64 - 16  # what is enclosed twice is outside


def test_what_lies_outside_of_the_frame_is_cut_off() -> None:
    assert read_masks(table(["-5 -5 3 -5 3 20 -5 20"], width=[8], height=[7])).mask(0).sum() == 21


@pytest.mark.parametrize(
    ("cells", "sizes", "message"),
    [
        (["10 10 20 10 20 20"], (8, 7), "wholly outside of the frame of width 8 and height 7"),
        (["0 0 1 1"], (8, 7), "it has 2 points; an outline needs at least three"),
        (["0 0 1 1 2"], (8, 7), "it has 5 numbers, an odd number"),
        (["[[0, 0], [1, 1], [2]]"], (8, 7), "points that are not x and y"),
        (["[0, 0, null, 1, 2, 2]"], (8, 7), "coordinates that are no numbers"),
        (["[0, 0, 1e300, 1, 2, 2]"], (8, 7), "coordinates that are no numbers"),
        (["[0, 0, 1"], (8, 7), "it is no JSON"),
        (["0 0 1 1 2 0"], (8.5, 7), "both must be whole numbers"),
        (["0 0 1 1 2 0"], (-8, 7), "both must be whole numbers"),
        (["0 0 1 1 2 0"], (10**6, 10**6), "pixels, more than 67,108,864"),
        (["0 0 1 1 2 0"], None, "give columns width and height"),
        (['{"size": [2, 2], "counts": [3]}'], None, "the counts do not add up to the 2 × 2 pixels"),
        (['{"size": [2, 2], "counts": [-1, 5]}'], None, "the counts hold -1"),
        (['{"size": [2, 2], "counts": "~"}'], None, "which packed run lengths do not have"),
        (['{"size": [2, 2], "counts": "P"}'], None, "counts end within a number"),
        (['{"size": [2, 2]}'], None, "it lacks size or counts"),
        (['{"size": [99999, 99999], "counts": [1]}'], None, "more than 67,108,864"),
        (["0 0 4 0 4 4", ""], (8, 7), "holds no text"),
    ],
)
def test_bad_outlines(cells: list[str], sizes: tuple[float, float] | None, message: str) -> None:
    more = {} if sizes is None else {"width": [sizes[0]] * len(cells), "height": [sizes[1]] * len(cells)}
    with pytest.raises(InputError, match=message):
        read_masks(table(cells, **more))


def test_an_error_names_the_row(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("task,worker,polygon,width,height\na,1,0 0 4 0 4 4,8,7\na,2,0 0 4,8,7\n")
    with pytest.raises(InputError, match=r"The mask '0 0 4' \(.*t\.csv, line 3\) cannot be used: it has 3 numbers"):
        read_masks(tmp_path / "t.csv")


def test_masks_of_one_task_have_one_size() -> None:
    with pytest.raises(InputError, match=r"task 'a' have different sizes: 8 × 7 pixels \(.*row 0\) and 9 × 7"):
        read_masks(table(["0 0 4 0 4 4", "0 0 4 0 4 4"], width=[8, 9], height=[7, 7]))
    with pytest.raises(InputError, match="different sizes"):
        Masks.from_codes([0, 0], [0, 1], [SQUARE, SQUARE.T], tasks=1, workers=2)


@pytest.mark.parametrize("given", [np.ones(3), np.ones((2, 2), complex), [[1, 2], [3]], np.full((2, 2), np.nan)])
def test_arrays_that_are_no_masks(given: Any) -> None:
    with pytest.raises(InputError, match="mask 0 cannot be used"):
        Masks.from_codes([0], [0], [given], tasks=1, workers=1)


def test_second_answers_and_columns(tmp_path: Path) -> None:
    twice = {
        "task": [1, 1],
        "worker": [1, 1],
        "mask": ["0 0 4 0 4 4", "0 0 2 0 2 2"],
        "width": [8, 8],
        "height": [7, 7],
    }
    with pytest.raises(InputError, match="repeat an earlier one of the same worker"):
        read_masks(twice)
    last = read_masks(twice, on_duplicate="last")
    assert last.n_answers == 1
    assert last.mask(0).sum() < 5
    with pytest.raises(InputError, match="has no column for mask"):
        read_masks({"task": [1], "worker": [2]})
    with pytest.raises(InputError, match="in place of masks"):
        read_masks({"task": [1], "worker": [2], "mask": [3]})


# ---- hostile files ------------------------------------------------------------------------------------------


def test_hostile_files(tmp_path: Path) -> None:
    pytest.importorskip("PIL")
    (tmp_path / "text.png").write_text("no image")
    os.mkfifo(tmp_path / "pipe.png")
    (tmp_path / "folder.png").mkdir()
    write_png(tmp_path / "good.png", SQUARE)
    (tmp_path / "cut.png").write_bytes((tmp_path / "good.png").read_bytes()[:-30])
    bomb = bytearray(encode_png(np.zeros((1, 1), np.uint16)))
    bomb[16:24] = (60000).to_bytes(4, "big") * 2  # the header says 60,000 × 60,000
    import zlib

    bomb[29:33] = zlib.crc32(bytes(bomb[12:29])).to_bytes(4, "big")
    (tmp_path / "bomb.png").write_bytes(bomb)
    for name, message in {
        "text.png": "cannot be read as an image",
        "cut.png": "cannot be read as an image",
        "bomb.png": "pixels|exceeds limit",
        "pipe.png": "is a pipe, not a plain file",
        "folder.png": "is a folder, not a plain file",
        "none.png": "there is no such file",
        "../good.png": "its path leads out of the folder",
        "a/../../good.png": "its path leads out of the folder",
        "/etc/passwd": "its path leads out of the folder",
    }.items():
        (tmp_path / "t.csv").write_text(f"task,worker,mask\na,ann,{name}\n")
        with pytest.raises(InputError, match=message):
            read_masks(tmp_path / "t.csv")


def test_files_have_names_of_their_own_whatever_tasks_are_called() -> None:
    names = name_files(pa.array(["a", "A", "../x", "", "b.c", "é" * 300, "plain-1", "CON"]))
    assert len({name.casefold() for name in names}) == len(names)
    assert names[6] == "consensus_masks/plain-1.png"
    assert all(name.count("/") == 1 and ".." not in name and len(name) < 100 for name in names)


# ---- what the methods are worth -----------------------------------------------------------------------------

CROWD: dict[str, Any] = {"height": 64, "width": 64, "jitter": (0.7, 2.7), "bias": 1.3, "smoothness": 4.0}


def mean_dice(method: Any, made: Any, **parameters: Any) -> float:
    return float(kind("masks").score(method(**parameters).fit(made.answers), made.truth)["dice"])


def test_the_default_is_ahead_of_votes_and_of_staple() -> None:
    crowds = [simulate_masks(10, 10, random_state=seed, spammers=0.1 * seed, **CROWD) for seed in range(4)]
    found = {each.slug: np.array([mean_dice(each, made) for made in crowds]) for each in METHODS}
    default = found.pop("signed-distance")
    for others in found.values():
        assert default.mean() > others.mean() + 0.005
    assert found["staple-spatial"].mean() > found["staple"].mean()
    assert found["weighted-majority"].mean() > found["majority"].mean()


def test_held_out_masks_choose_the_default_without_a_truth() -> None:
    answers = simulate_masks(8, 8, random_state=1, **CROWD).answers
    league = choose_by_held_out({each.slug: each() for each in METHODS}, answers)
    assert league[0].name == kind("masks").default


def test_workers_are_found() -> None:
    made = simulate_masks(30, 12, random_state=3, spammers=0.2, **CROWD)
    model = SignedDistance().fit(made.answers)
    honest = ~made.spammer
    assert made.spammer.any()
    assert model.dice_[made.spammer].max() < model.dice_[honest].min()
    assert np.corrcoef(model.bias_[honest], made.bias[honest])[0, 1] > 0.95
    assert np.corrcoef(np.sqrt(model.variance_[honest]), made.jitter[honest])[0, 1] > 0.7
    assert np.sqrt(model.variance_[made.spammer]).min() > np.sqrt(model.variance_[honest]).max()


def test_intervals_of_the_default_hold_what_they_should() -> None:
    held = []
    for seed in range(6):
        made = simulate_masks(60, 10, height=40, width=40, random_state=seed)
        answers, sums = made.answers, np.zeros((4, 10))
        for row in range(answers.n_answers):
            said, true = answers.mask(row), made.region[answers.task[row]]
            counts = (said & true).sum(), true.sum(), (~said & ~true).sum(), (~true).sum()
            sums[:, answers.worker[row]] += counts
        table = SignedDistance().fit(answers.keep(answers.task < 15)).workers()
        known = {"sensitivity": sums[0] / sums[1], "specificity": sums[2] / sums[3], "bias": made.bias}
        there = (table["n_answers"].to_numpy() > 0) & ~made.spammer
        for name, true in known.items():
            low, high = table[f"{name}_low"].to_numpy(), table[f"{name}_high"].to_numpy()
            held.append(((low <= true) & (true <= high))[there].mean())
    shares = np.array(held).reshape(6, 3).mean(axis=0)
    assert (shares > 0.8).all()
    assert shares.mean() < 0.98


def test_soft_masks_are_calibrated_and_confidence_is_the_dice_to_expect() -> None:
    softs, truths, scores = [], [], []
    for seed in range(10):  # a crowd draws too large or too small as a whole: one alone says little
        made = simulate_masks(10, 10, random_state=seed, **CROWD)
        model = SignedDistance().fit(made.answers)
        softs += [each for _, each in model.soft_masks()]
        truths += made.region
        scores.append((model.confidence_.mean(), kind("masks").score(model, made.truth)["dice"]))
    soft, true = np.array(softs), np.array(truths)
    for low, high in ((0.1, 0.4), (0.4, 0.6), (0.6, 0.9)):
        chosen = (soft > low) & (soft < high)
        assert true[chosen].mean() == pytest.approx(soft[chosen].mean(), abs=0.1)
    said, found = np.mean(scores, axis=0)
    assert said == pytest.approx(found, abs=0.02)


def test_sharing_rates_over_images_is_better_than_staple_on_each() -> None:
    made = simulate_masks(10, 8, random_state=2, spammers=0.3, **CROWD)
    alone = []
    for task, true in enumerate(made.region):
        model = Staple(smoothing=0.0).fit(made.answers.keep(made.answers.task == task))
        alone.append(dice_coefficient(model._soft(task) > 0.5, true))
    assert mean_dice(Staple, made) > np.mean(alone)


# ---- gold, strangers, odd crowds ----------------------------------------------------------------------------


@pytest.mark.parametrize("method", [SignedDistance, Staple, StapleSpatial, WeightedMajorityMask], ids=lambda m: m.slug)
def test_gold_tells_what_answers_cannot(method: Any) -> None:
    """Three of four workers draw the same disc elsewhere: only known masks show that the fourth is right."""
    rows, columns = np.mgrid[:24, :24]
    right = [np.hypot(rows - 7 - k, columns - 7) < 5 for k in range(8)]
    wrong = [np.hypot(rows - 7 - k, columns - 17) < 5 for k in range(8)]
    said = [each for k in range(8) for each in (right[k], wrong[k], wrong[k], wrong[k])]
    answers = Masks.from_codes(np.repeat(np.arange(8), 4), list(range(4)) * 8, said, tasks=8, workers=4)
    gold = {task: right[task] for task in range(6)}
    told = dict(method().fit(answers, gold).soft_masks())
    assert ((told[0] > 0.5) == right[0]).all()
    assert dice_coefficient(told[7] > 0.5, right[7]) > 0.9
    assert dice_coefficient(dict(method().fit(answers).soft_masks())[7] > 0.5, right[7]) < 0.1


def test_gold_that_does_not_fit() -> None:
    answers = Masks.from_codes([0, 0], [0, 1], [SQUARE, SQUARE], tasks=["a"], workers=2)
    with pytest.raises(InputError, match="has no use for gold"):
        MajorityMask().fit(answers, {"a": SQUARE})
    with pytest.raises(InputError, match="The truth of task 'a' has 7 × 8 pixels, its answers 8 × 7"):
        Staple().fit(answers, {"a": SQUARE.T})
    with pytest.raises(InputError, match="no name matches"):
        Staple().fit(answers, {"b": SQUARE})
    twice = {"task": ["a", "a"], "polygon": ["0 0 3 0 3 3", "0 0 5 0 5 5"], "width": [8, 8], "height": [7, 7]}
    with pytest.raises(InputError, match="contradicts itself about task 'a'"):
        Staple().fit(answers, twice)


@EVERY
def test_new_tasks_by_known_workers_and_strangers(method: Any) -> None:
    made = simulate_masks(8, 6, random_state=4)
    model = method().fit(made.answers)
    region = np.hypot(*np.mgrid[-24:24, -24:24]) < 15
    new = Masks.from_codes([0, 0], [0, 1], [region, region], tasks=["new"], workers=["stranger", 3])
    found = model.predict(new)
    assert found["task"].to_pylist() == ["new"]
    assert dice_coefficient(next(model.soft_masks(new))[1] > 0.5, region) > 0.8
    assert np.isfinite(model.log_density(new)).all()
    other = Masks.from_codes([0], [0], [SQUARE], tasks=[0], workers=[0])
    with pytest.raises(InputError, match="had 48 × 48 in the fit"):
        model.log_density(other)


@EVERY
@pytest.mark.parametrize(
    "masks",
    [
        [np.zeros((5, 6))] * 3,
        [np.ones((5, 6))] * 3,
        [SQUARE],
        [SQUARE, ~SQUARE],
        [np.ones((1, 1))],
        [SQUARE, SQUARE * 0],
    ],
    ids=["empty", "full", "one worker", "opposites", "one pixel", "one empty"],
)
def test_odd_crowds_have_finite_answers(method: Any, masks: list[Any]) -> None:
    answers = Masks.from_codes([0] * len(masks), range(len(masks)), masks, tasks=2, workers=len(masks) + 1)
    model = method().fit(answers)
    for each in (model.consensus(), model.workers()):
        for column in each.columns:
            if pa.types.is_floating(column.type):
                assert np.isfinite(column.to_numpy()).all()
    assert np.isfinite(model.log_density(answers)).all()
    soft = model._soft(0)
    if len(masks) == 1:
        assert "No task has two masks" in model.caveat()
        np.testing.assert_array_equal(soft > 0.5, masks[0])
    if len(masks) == 3:
        np.testing.assert_array_equal(soft > 0.5, masks[0] == 1)


def test_metrics() -> None:
    empty = np.zeros((7, 8), bool)
    assert dice_coefficient(empty, empty) == intersection_over_union(empty, empty) == 1
    assert dice_coefficient(SQUARE, empty) == 0
    assert expected_dice(SQUARE.astype(float)) == 1
    assert expected_dice(np.full((1, 2), 0.5)) == pytest.approx(0.25)  # both pixels are outside
    with pytest.raises(InputError, match="coupling"):
        StapleSpatial(coupling=-1.0).fit(Masks.from_codes([0], [0], [SQUARE], tasks=1, workers=1))


# ---- files and the command ----------------------------------------------------------------------------------


def test_the_command_writes_soft_masks(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    made = simulate_masks(3, 4, height=20, width=30, random_state=0)
    for row in range(made.answers.n_answers):
        worker, task = made.answers.worker[row], made.answers.task[row]
        write_png(tmp_path / "masks" / f"w{worker}" / f"t{task}.png", made.answers.mask(row))
    ran = CliRunner().invoke(
        app, ["aggregate", str(tmp_path / "masks"), "--kind", "masks", "--out", str(tmp_path / "o")]
    )
    assert ran.exit_code == 0, ran.output
    written = pacsv.read_csv(tmp_path / "o" / "consensus.csv")
    model = cw.load(tmp_path / "o" / "model")
    for name, (_, soft) in zip(written["file"].to_pylist(), model.soft_masks(), strict=True):
        with image.open(tmp_path / "o" / name) as picture:
            assert picture.size == (30, 20)
            np.testing.assert_array_equal(np.asarray(picture), np.rint(soft * 65535))
    (tmp_path / "o" / "consensus_masks" / "mine.txt").write_text("kept")
    again = CliRunner().invoke(
        app, ["aggregate", str(tmp_path / "masks"), "--kind", "masks", "--out", str(tmp_path / "o")]
    )
    assert again.exit_code == 0, again.output
    assert (tmp_path / "o" / "consensus_masks" / "t0.png").is_file()


def test_the_command_reads_a_table_of_paths(tmp_path: Path) -> None:
    for worker in ("ann", "bob", "cy"):
        write_png(tmp_path / "images" / f"{worker}.png", SQUARE)
    (tmp_path / "t.csv").write_text(
        "image,annotator,mask\n" + "".join(f"1,{w},images/{w}.png\n" for w in ("ann", "bob"))
    )
    ran = CliRunner().invoke(app, ["aggregate", str(tmp_path / "t.csv"), "--kind", "masks", "--json"])
    assert ran.exit_code == 0, ran.output
    assert '"method": "signed-distance"' in ran.stdout
    named = (tmp_path / "t.csv").read_text().replace("image,annotator", "task,worker")
    (tmp_path / "t.csv").write_text(named)  # known by its columns, and opened before its kind is known
    ran = CliRunner().invoke(app, ["aggregate", str(tmp_path / "t.csv")])
    assert ran.exit_code == 0, ran.output
    assert "No task has two masks" not in ran.stdout
    truth = tmp_path / "truth.csv"
    truth.write_text("task,polygon,width,height\n1,2 2 6 2 6 5 2 5,8,7\n")
    ran = CliRunner().invoke(
        app, ["aggregate", str(tmp_path / "t.csv"), "--kind", "masks", "--truth", str(truth), "--json"]
    )
    assert '"dice": 1.0' in ran.stdout


def test_a_saved_model_with_other_levels_is_refused(tmp_path: Path) -> None:
    model = MajorityMask().fit(Masks.from_codes([0], [0], [SQUARE], tasks=1, workers=1))
    model.levels_ = model.levels_[:-1]
    model.save(tmp_path / "model")
    with pytest.raises(InputError, match="56 pixels need 14"):
        cw.load(tmp_path / "model")
