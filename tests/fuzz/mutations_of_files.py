"""Valid files, and what accident or malice makes of them: bytes changed, text spliced, values replaced."""

from __future__ import annotations

import gzip
import io
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import feather

if TYPE_CHECKING:
    from collections.abc import Callable

    Draws = np.random.Generator

FRAGMENTS = [
    *(b"", b"\x00", b"\xff", b"\xef\xbb\xbf", b"\r", b"\r\n", b"\n\n", b'"', b"'", b",", b"\t", b";", b"{", b"]"),
    *(b"null", b"NaN", b"Infinity", b"-0", b"1e999", b"9" * 400, b"true", b'"\\ud800"', b"[[", b"{}", b"=1+1"),
    *(
        "é".encode(),
        "e\u0301".encode(),
        "\u202e".encode(),
        "\u200b".encode(),
        b"task",
        b"worker",
        b"label",
    ),
    *(b"PAR1", b"ARROW1", b"\x1b[2J", b"\\"),
    *(
        b"task,worker,label\n",
        b"a,b,c\n",
        b"a,b\n",
        b"a,b,c,d\n",
        b'{"task": 1}\n',
        b"nan",
        b"NA",
        b" ",
        b"\xa0",
    ),
    *(b"-", b"0.0", b"-0.0"),
]
VALUES: list[Any] = [
    *(None, True, False, 0, 1, -1, 2**31, 2**63, -(2**63) - 1, 10**29, 10**400, 0.0, -0.0, 0.5, 1e308, 5e-324, -1e308),
    *(
        float("nan"),
        float("inf"),
        float("-inf"),
        "",
        " ",
        "a",
        "\x00",
        "../x",
        "é",
        "\ud800",
        "a" * 5000,
    ),
    *("auto", "nan"),
    *([], [1], [[1]], [None], {}, {"a": 1}, {"array": "x"}, {"array": 1}),
]
CLASSES = ("cat", "dog", "eel")
ROWS = [
    {"task": f"t{task}", "worker": f"w{worker}", "label": CLASSES[task * (worker + 2) % 3 if worker else 0]}
    for task in range(7)
    for worker in range(4)
    if (task + worker) % 4
]


def _delimited(separator: str) -> bytes:
    lines = [list(ROWS[0]), *(list(row.values()) for row in ROWS)]
    return "".join(separator.join(line) + "\n" for line in lines).encode()


def _wide() -> bytes:
    answers = {(row["task"], row["worker"]): row["label"] for row in ROWS}
    lines = [["task", "w0", "w1", "w2", "w3"]]
    lines += [[f"t{task}", *(answers.get((f"t{task}", f"w{worker}"), "") for worker in range(4))] for task in range(7)]
    return "".join(",".join(line) + "\n" for line in lines).encode()


def _nested() -> bytes:
    tasks: dict[str, dict[str, str]] = {}
    for row in ROWS:
        tasks.setdefault(row["task"], {})[row["worker"]] = row["label"]
    return json.dumps(tasks).encode()


def _arrow(write: Callable[[pa.Table, io.BytesIO], None]) -> bytes:
    held = io.BytesIO()
    write(pa.Table.from_pylist(ROWS), held)
    return held.getvalue()


def _prodigy() -> bytes:
    lines = [
        {"text": row["task"], "_input_hash": index, "label": row["label"], "answer": "accept"}
        | {"_annotator_id": row["worker"]}
        for index, row in enumerate(ROWS)
    ]
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


LABEL_FILES: dict[str, bytes] = {
    "labels.csv": _delimited(","),
    "labels.tsv": _delimited("\t"),
    "semicolons.csv": _delimited(";"),
    "wide.csv": _wide(),
    "labels.jsonl": "".join(json.dumps(row) + "\n" for row in ROWS).encode(),
    "labels.json": json.dumps(ROWS).encode(),
    "nested.json": _nested(),
    "prodigy.jsonl": _prodigy(),
    "labels.parquet": _arrow(pq.write_table),
    "labels.arrow": _arrow(lambda table, file: feather.write_feather(table, file, compression="uncompressed")),
    "labels.csv.gz": gzip.compress(_delimited(","), mtime=0),
}


def mutate_bytes(data: bytes, draws: Draws) -> bytes:
    """One to four changes: cut, flip, insert, repeat, swap, or splice with another file."""
    for _ in range(int(draws.integers(1, 5))):
        start, end = sorted(int(place) for place in draws.integers(0, len(data) + 1, 2))
        fragment = FRAGMENTS[int(draws.integers(len(FRAGMENTS)))]
        other = list(LABEL_FILES.values())[int(draws.integers(len(LABEL_FILES)))]
        flipped = bytes([int(draws.integers(256))])
        data = [
            data[:end],
            data[:start] + data[end:],
            data[:start] + fragment + data[start:],
            data[:start] + fragment + data[start + len(fragment) :],
            data[:start] + flipped + data[start + 1 :],
            data[:end] + data[start:],
            data[:start] + other[start:end] + data[start:],
            data + other,
        ][int(draws.integers(8))]
    return data


def mutate_table(data: bytes, draws: Draws) -> bytes:
    """Replace a cell, repeat or drop a line, exchange columns: files that are whole, with contents that are not."""
    lines = [line.split(b",") for line in data.split(b"\n")]
    for _ in range(int(draws.integers(1, 5))):
        row = int(draws.integers(len(lines)))
        line = lines[row]
        cell = int(draws.integers(len(line)))
        kind = int(draws.integers(5))
        if kind == 0:
            line[cell] = FRAGMENTS[int(draws.integers(len(FRAGMENTS)))]
        elif kind == 1:
            lines.insert(int(draws.integers(len(lines))), list(line))
        elif kind == 2 and len(lines) > 1:
            lines.pop(row)
        elif kind == 3:
            line.insert(cell, line[int(draws.integers(len(line)))])
        elif len(line) > 1:
            line.pop(cell)
        if not lines[0]:
            lines[0] = [b""]
    return b"\n".join(b",".join(line) for line in lines)


def mutate_json(data: bytes, draws: Draws) -> bytes:
    """Replace, remove or add one value anywhere in a JSON text."""
    tree = json.loads(data)
    places: list[tuple[Any, Any]] = []

    def walk(node: Any) -> None:
        for key in list(node) if isinstance(node, dict) else range(len(node)):
            places.append((node, key))
            if isinstance(node[key], dict | list):
                walk(node[key])

    walk(tree)
    node, key = places[int(draws.integers(len(places)))]
    kind = int(draws.integers(4))
    if kind == 0:
        del node[key]
    elif kind == 1 and isinstance(node, dict):
        name = FRAGMENTS[int(draws.integers(len(FRAGMENTS)))].decode("utf-8", "replace")
        node[name if draws.random() < 0.3 else "more"] = VALUES[int(draws.integers(len(VALUES)))]
    else:
        node[key] = VALUES[int(draws.integers(len(VALUES)))]
    return json.dumps(tree).encode("utf-8", "surrogatepass")


def mutate_array(values: np.ndarray[Any, Any], draws: Draws) -> np.ndarray[Any, Any]:  # noqa: PLR0911
    """Another shape, type or order, or some impossible values, in an array that a file holds."""
    kind = int(draws.integers(12))
    if kind == 0:
        return values[..., None]
    if kind == 1:
        return values.reshape(-1)
    if kind == 2:
        return np.concatenate([values.reshape(-1)] * 2)
    if kind == 3:
        return values[:0] if values.ndim else np.empty(0)
    if kind == 4:
        return values.astype([np.float32, np.int64, np.complex128, np.bool_, "U8", np.uint8][int(draws.integers(6))])
    if kind == 5:
        return np.asfortranarray(values) if values.ndim > 1 else values[::-1]
    changed = np.array(values, np.float64, copy=True)
    if kind == 6:
        return np.zeros_like(changed)
    if kind == 7 and changed.ndim > 1:
        return changed.swapaxes(0, -1)
    hostile = [np.nan, np.inf, -np.inf, -1.0, 5.0, 1e308, 5e-324, 0.0, 2.0**40][int(draws.integers(9))]
    if changed.size:
        changed.reshape(-1)[draws.integers(changed.size, size=1 + int(draws.integers(3)))] = hostile
    return changed
