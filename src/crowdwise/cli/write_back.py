"""`--write-back`: the consensus in the form that the labelling tool takes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crowdwise.cli.terminal_names import escape_unprintable
from crowdwise.labels.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

    from crowdwise.cli.label_files import LabelFiles
    from crowdwise.formats import Export

__all__ = ["find_written_format", "write_consensus_back"]


def find_written_format(files: LabelFiles) -> Export:
    """The export whose format is written; refused where there is none."""
    from crowdwise.formats import formats

    export = files.export
    if export is None:
        raise InputError(
            "--write-back writes for the tool whose export was read, and this is a plain table. Use --out."
        )
    if export.format.write is None:
        able = ", ".join(each.name for each in formats() if each.write is not None)
        raise InputError(f"--write-back cannot write for {export.format.name} yet; it can for {able}. Use --out.")
    return export


def write_consensus_back(files: LabelFiles, model: Any, consensus: pa.Table, out: str) -> None:
    """Write the consensus for the tool whose export was read, whole or not at all."""
    from crowdwise.formats.consensus_answers import ConsensusAnswers, SoftLabels
    from crowdwise.labels.atomic_output import replace_file

    export = find_written_format(files)
    assert export.format.write is not None  # noqa: S101 (see `find_written_format`)
    asked = export.chosen_question()
    if asked.kind == "masks":
        from crowdwise.kinds.masks.consensus_regions import add_regions

        consensus = add_regions(model, consensus)
    if asked.kind == "comparisons":
        consensus = _choose_sides(export, model)
    soft = SoftLabels(tuple(model.classes_.tolist()), model.posterior_) if asked.kind == "labels" else None
    tasks = export.answers["task"].unique().to_pylist()
    with replace_file(Path(out)) as draft:
        export.format.write(export.files, ConsensusAnswers(asked, consensus, soft, tuple(tasks)), draft)
    said = f"crowdwise: The consensus for {export.format.name} is in {escape_unprintable(out)}."
    print(said, file=sys.stderr)


def _choose_sides(export: Export, model: Any) -> pa.Table:
    """The better side of the pair that each task shows, and how probable that is."""
    import pyarrow as pa

    pairs = model.preferences().select(["chosen", "rejected", "flip_rate"]).to_pydict()
    flipped = {(str(won), str(lost)): flip for won, lost, flip in zip(*pairs.values(), strict=True)}
    rows: dict[Any, tuple[str, float]] = {}
    for task, left, right in zip(
        *(export.answers[name].to_pylist() for name in ("task", "left", "right")), strict=True
    ):
        side = "left" if (str(left), str(right)) in flipped else "right"
        pair = (str(left), str(right)) if side == "left" else (str(right), str(left))
        if pair in flipped:  # not so where both sides show the same
            rows[task] = side, 1 - flipped[pair]
    sides, sure = zip(*rows.values(), strict=True) if rows else ((), ())
    return pa.table({"task": list(rows), "label": list(sides), "confidence": list(sure)})
