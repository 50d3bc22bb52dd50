"""Pictures are well-formed, hold what was given, and let no name out of its text."""

from __future__ import annotations

import itertools
import math
import re
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from crowdwise.reproduction.line_chart import LABEL, WIDTH, Line, draw_line_chart
from crowdwise.reproduction.matrix_chart import draw_matrices

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = '<script>alert("x")</script> & more'


def parse_table(picture: str) -> ET.Element:
    return ET.fromstring(picture)  # noqa: S314


def texts(root: ET.Element) -> list[ET.Element]:
    return list(root.iter(f"{SVG}text"))


def said(element: ET.Element) -> str:
    return element.text or ""


def lines(n: int = 3, name: str = "method") -> list[Line]:
    return [
        Line(f"{name} {at}", tuple((x, 10.0 * at + x, 1.0 if x else math.nan) for x in (0.0, 1.0, 2.0)))
        for at in range(n)
    ]


def test_a_mark_for_every_point_and_a_bar_where_there_is_a_spread() -> None:
    root = parse_table(draw_line_chart(lines(), "Title", "x", "y", "Words."))
    marks = list(root.iter(f"{SVG}g"))
    assert len(marks) == 9
    assert len([each for each in root.iter(f"{SVG}path") if "bar" in str(each.get("class"))]) == 6
    titles = [said(title) for mark in marks for title in mark.iter(f"{SVG}title")]
    assert titles[0] == "method 0, 0: 0"
    assert titles[4] == "method 1, 1: 11 ± 1"


def test_names_are_escaped_and_kept_whole_in_the_tooltip() -> None:
    picture = draw_line_chart(lines(name=HOSTILE), HOSTILE, HOSTILE, HOSTILE, HOSTILE)
    assert "<script>" not in picture
    titles = [said(each) for each in parse_table(picture).iter(f"{SVG}title")]
    assert HOSTILE in titles
    assert f"{HOSTILE} 2" in titles


@pytest.mark.parametrize("n", [1, 2, 8, 13, 30])
def test_labels_do_not_overlap_and_stay_inside(n: int) -> None:
    same = [Line(f"line {at}", ((0.0, 50 + 0.1 * at, math.nan), (1.0, 50.0, math.nan))) for at in range(n)]
    root = parse_table(draw_line_chart(same, "Title", "x", "y"))
    height = float(str(root.get("viewBox")).split()[3])
    labels = [each for each in texts(root) if re.fullmatch(r"f\d+", str(each.get("class")))]
    ys = sorted(float(str(each.get("y"))) for each in labels)
    assert len(ys) == n
    assert all(b - a >= LABEL - 0.2 for a, b in itertools.pairwise(ys))
    assert ys[0] > 0
    assert ys[-1] < height
    assert all(float(str(each.get("x"))) + 6 * len(said(each)) < WIDTH for each in labels)


def test_values_that_would_overlap_stand_side_by_side() -> None:
    def places(values: tuple[float, ...]) -> list[float]:
        root = parse_table(draw_line_chart([Line("a", tuple((x, 1.0, math.nan) for x in values))], "T", "x", "y"))
        wanted = {f"{x:g}" for x in values}
        ticks = [each for each in texts(root) if each.get("text-anchor") == "middle" and said(each) in wanted]
        return [float(str(each.get("x"))) for each in ticks]

    near = np.diff(places((1, 2, 4, 8, 16, 32, 64, 128)))
    np.testing.assert_allclose(near, near[0], atol=0.11)
    apart = np.diff(places((0.0, 0.5, 2.0)))
    assert apart[1] == pytest.approx(3 * apart[0], abs=0.3)


def test_texts_keep_their_order() -> None:
    line = Line("a", tuple((x, 1.0, math.nan) for x in ("late", "early", "never")))
    root = parse_table(draw_line_chart([line], "T", "x", "y"))
    assert [said(each) for each in texts(root) if said(each) in ("late", "early", "never")] == [
        "late",
        "early",
        "never",
    ]


def test_a_grey_region() -> None:
    root = parse_table(draw_line_chart(lines(), "T", "x", "y", grey=[0.0, 1.0]))
    first, second = (each for each in root.iter(f"{SVG}rect") if each.get("class") == "region")
    end = float(str(first.get("x"))) + float(str(first.get("width")))
    assert end == pytest.approx(float(str(second.get("x"))), abs=0.2)


def test_one_value_everywhere() -> None:
    parse_table(draw_line_chart([Line("a", ((1.0, 5.0, math.nan),))], "T", "x", "y"))


def test_colours_for_both_schemes() -> None:
    picture = draw_line_chart(lines(12), "T", "x", "y")
    light, _, dark = picture.partition("prefers-color-scheme: dark")
    for at in range(12):
        assert f".c{at} " in light
        assert f".c{at} " in dark
    assert ".line.c10 { stroke-dasharray" in light  # the eleventh has the colour of the first


@pytest.mark.parametrize(("n_workers", "n_classes"), [(1, 2), (5, 10), (3, 30)])
def test_matrices(n_workers: int, n_classes: int) -> None:
    true = np.eye(n_classes)[None].repeat(n_workers, axis=0)
    found = np.full_like(true, 1 / n_classes)
    root = parse_table(draw_matrices(true, found, [f"{HOSTILE}{k}" for k in range(n_classes)], "Title", "Words."))
    frames = [each for each in root.iter(f"{SVG}rect") if each.get("class") == "frame"]
    assert len(frames) == 2 * n_workers + 1
    chances = [said(title) for each in root.iter(f"{SVG}rect") for title in each.iter(f"{SVG}title")]
    assert f"{HOSTILE}0 taken for {HOSTILE}1: {1 / n_classes:.0%}" in chances
    width, height = map(float, str(root.get("viewBox")).split()[2:])
    for each in frames:
        assert float(str(each.get("x"))) + float(str(each.get("width"))) <= width
        assert float(str(each.get("y"))) + float(str(each.get("height"))) <= height
