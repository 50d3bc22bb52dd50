"""Formats are found by walking their room."""

from __future__ import annotations

import pkgutil

import crowdwise.formats
from crowdwise.formats import formats


def test_every_file_is_a_format() -> None:
    files = {module.name for module in pkgutil.iter_modules(crowdwise.formats.__path__)} - {"export_format"}
    assert len(formats()) == len(files)
    assert [each.name for each in formats()] == sorted(each.name for each in formats())
    assert "Prodigy" in {each.name for each in formats()}
