"""Quotes in CSV: letters in the middle of a field, refused where never closed, noted where they join rows."""

from __future__ import annotations

import csv
import itertools
from io import StringIO
from typing import TYPE_CHECKING

import pytest

from crowdwise.labels import InputError, InputWarning, read_labels
from crowdwise.labels.csv_quotes import find_stray_quotes

if TYPE_CHECKING:
    from pathlib import Path

HEADER = "task,worker,label\n"


@pytest.mark.parametrize("separator", [",", "\t", ";"])
@pytest.mark.parametrize("name", ['13" laptop', '13"', 'a"b"c', ' "a'])
def test_a_quote_in_the_middle_of_a_field_is_a_letter(tmp_path: Path, separator: str, name: str) -> None:
    path = tmp_path / "l.csv"
    path.write_text((HEADER + f"t1,a,x\n{name},b,x\nt3,b,x\n").replace(",", separator))
    assert read_labels(path).tasks.to_pylist() == ["t1", name, "t3"]


OPEN = {
    "alone": ('t1,a,x\n"t2,b,x\nt3,b,x\n', 3),
    "behind a letter": ('13" laptop,a,x\n"t2,b,x\nt3,b,x\n', 3),
    "behind a letter, in the last field": ('13" laptop,a,x\nt2,b,"x\nt3,b,x\n', 3),
    "behind a letter at the end, in the last field": ('13",a,x\nt2,b,"x\nt3,b,x\n', 3),
    "in a row of several lines": ('"t\n1",a,"x\nt3,b,x\n', 3),
    "with doubled ones inside": ('t1,a,x\nt2,b,"x""y"" z\nt3,b,x\n', 3),
}


@pytest.mark.parametrize(("text", "line"), OPEN.values(), ids=OPEN)
def test_a_quote_that_is_never_closed_is_refused_where_it_is_opened(tmp_path: Path, text: str, line: int) -> None:
    path = tmp_path / "l.csv"
    path.write_text(HEADER + text)
    with pytest.raises(InputError, match=rf"line {line}: a double quote is opened and never closed"):
        read_labels(path)


def test_rows_that_quotes_join_are_noted(tmp_path: Path) -> None:
    path = tmp_path / "l.csv"
    path.write_text(HEADER + '"t1,ann,cat\nt2,bob,dog\nt3 5" nail,ann,cat\nt4,bob,dog')
    with pytest.warns(InputWarning, match="opened on line 2 is closed on line 4"):
        read_labels(path)


@pytest.mark.filterwarnings("error")
def test_proper_quotes_are_not_noted(tmp_path: Path) -> None:
    path = tmp_path / "l.csv"
    path.write_text(HEADER + '"t1\nof ""two"", lines",ann,"cat"\n"5"" nail",bob,dog\n')
    assert read_labels(path).tasks.to_pylist() == ['t1\nof "two", lines', '5" nail']


def test_the_scan_agrees_with_python() -> None:
    """Of every short text, whether its last quote is open, however it is cut into blocks."""
    for letters in itertools.product('"a,\n', repeat=6):
        text = "".join(letters)
        last = list(csv.reader(StringIO(text + "\n,end", newline="")))[-1]
        is_open = last != ["", "end"]
        for cut in (1, 4, 6):
            blocks = [text[begin : begin + cut].encode() for begin in range(0, 6, cut)]
            found = find_stray_quotes(blocks, ",")
            assert (found.never_closed is not None) == is_open, text


@pytest.mark.parametrize("cut", [4, 5, 100])
def test_lines_do_not_depend_on_blocks(cut: int) -> None:
    text = b'\xef\xbb\xbf"a",b\r\n"x\r\ny"z,13"\r\n"q""\r\n'
    blocks = [text[begin : begin + cut] for begin in range(0, len(text), cut)]
    assert find_stray_quotes(blocks, ",") == (4, (2, 3))
