"""The parts of a saved model belong together: a mixture is refused; one that is replaced meanwhile is read again."""

from __future__ import annotations

import errno
import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import crowdwise as cw
from crowdwise.fitting import part_digests, saving

if TYPE_CHECKING:
    from crowdwise.labels import CrowdLabels


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two models of the same shape, saved."""
    folder = tmp_path_factory.mktemp("two")
    labels = cw.simulate.simulate("spammers", n_tasks=40, random_state=0).labels
    for name, smoothing in (("one", 0.5), ("other", 2.0)):
        cw.DawidSkene(smoothing=smoothing).fit(labels).save(folder / name)
    return folder / "one", folder / "other"


@pytest.fixture
def saved(two: tuple[Path, Path], tmp_path: Path) -> Path:
    return shutil.copytree(two[0], tmp_path / "model")


def put(part: Path, place: Path) -> None:
    """Replace a file as another process would: by a new one."""
    shutil.copy(part, place / "new")
    (place / "new").replace(place / part.name)


@pytest.mark.parametrize("name", ["arrays.npz", "model.json"])
def test_a_mixture_of_two_models_is_refused(name: str, saved: Path, two: tuple[Path, Path]) -> None:
    put(two[1] / name, saved)
    with pytest.raises(cw.InputError, match=r"is not whole: 'arrays\.npz' is not the file that model\.json was saved"):
        cw.load(saved)


def test_parts_that_are_no_files(saved: Path) -> None:
    header = json.loads((saved / "model.json").read_text())
    sparse = {"extra.bin": {"bytes": 2**40, "sha256": "0" * 64}}
    with (saved / "extra.bin").open("wb") as file:
        file.truncate(2**40)
    for parts in ([], {"../model.json": {}}, {"arrays.npz": 3}, {"lacking": {"bytes": 1}}, {".": {}}, sparse):
        (saved / "model.json").write_text(json.dumps(header | {"parts": parts}))
        with pytest.raises(cw.InputError, match=r"is not whole|is damaged"):
            cw.load(saved)
    del header["parts"]  # as versions before saved it
    (saved / "model.json").write_text(json.dumps(header))
    assert cw.load(saved).smoothing == 0.5


def test_a_model_that_is_replaced_while_it_is_read_is_read_again(
    saved: Path, two: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    other, times, read_header = cw.load(two[1]), [0], saving.read_header

    def replaced_after(folder: Path) -> dict[str, Any]:
        header = read_header(folder)
        times[0] += 1
        if times[0] <= 2:
            other.save(saved)
        return header

    monkeypatch.setattr(saving, "read_header", replaced_after)
    found = cw.load(saved)
    assert times == [3]
    assert found.smoothing == 2.0
    np.testing.assert_array_equal(found.posterior_, other.posterior_)
    monkeypatch.setattr(part_digests, "PAUSE", 0.0)
    monkeypatch.setattr(part_digests, "MOST_READS", 2)
    times[0] = -9
    with pytest.raises(cw.InputError, match="was replaced each of 2 times that it was read"):
        cw.load(saved)


def test_a_header_that_cannot_be_opened_is_not_taken_for_a_replaced_one(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    header, open_file = saved / "model.json", os.open

    def refuse(path: Any, *given: Any, **named: Any) -> int:
        if Path(path) == header:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return open_file(path, *given, **named)

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(cw.InputError, match=r"cannot be read as a saved model: Permission denied\. Save or copy"):
        cw.load(saved)


def test_saving_over_a_model_leaves_one_of_them(saved: Path, crowd: CrowdLabels) -> None:
    (saved / "README").write_text("mine")
    model = cw.OneCoin().fit(crowd)
    model.save(saved)
    np.testing.assert_array_equal(cw.load(saved).posterior_, model.posterior_)
    assert (saved / "README").read_text() == "mine"
    assert "README" not in json.loads((saved / "model.json").read_text())["parts"]
