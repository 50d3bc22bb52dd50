"""Spans in documents, a file for each worker and document: INCEpTION and brat."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from crowdwise import read_export
from crowdwise.cli import main
from crowdwise.labels import InputError

if TYPE_CHECKING:
    from crowdwise.formats import Export

EXAMPLES = Path(__file__).parents[2] / "examples" / "exports"


def count(export: Export) -> tuple[str, str, int, int, int, int, int]:
    asked = export.chosen_question()
    left = (export.skipped.num_rows, export.drafts.num_rows, export.gold.num_rows, export.n_anchored)
    return (asked.name, asked.kind, asked.n_answers, *left)


def spans_of(export: Export, task: str, worker: str) -> list[tuple[int, int, str]]:
    rows = export.answers.to_pylist()
    mine = [row for row in rows if (row["task"], row["worker"]) == (task, worker) and row["start"] is not None]
    return [(row["start"], row["end"], row["label"]) for row in mine]


def archive_of(tmp_path: Path, **files: Any) -> Path:
    with zipfile.ZipFile(tmp_path / "x.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content if isinstance(content, str | bytes) else json.dumps(content))
    return tmp_path / "x.zip"


# ---- INCEpTION --------------------------------------------------------------------------------------------


def test_inception(tmp_path: Path) -> None:
    export = read_export(EXAMPLES / "inception.zip")
    assert count(export) == ("NamedEntity.value", "spans", 12, 0, 0, 3, 0)
    assert spans_of(export, "a.txt", "ann") == [(0, 3, "PER"), (8, 11, "PER")]
    assert spans_of(export, "a.txt", "bob") == [(0, 3, "PER")]
    assert spans_of(export, "b.txt", "cy") == [(2, 6, "LOC")]  # in characters, although a face stands before it
    assert spans_of(export, "d.txt", "ann") == []
    assert set(export.gold["task"].to_pylist()) == {"a.txt", "b.txt"}
    with zipfile.ZipFile(EXAMPLES / "inception.zip") as archive:
        archive.extractall(tmp_path)
    assert read_export(tmp_path).answers == export.answers


def test_spans_are_those_of_cassis() -> None:
    cassis = pytest.importorskip("cassis")
    export = read_export(EXAMPLES / "inception.zip")
    with zipfile.ZipFile(EXAMPLES / "inception.zip") as archive:
        for name in archive.namelist():
            folder, _, rest = name.partition("/")
            if folder == "annotation" and "INITIAL_CAS" not in rest:
                cas = cassis.load_cas_from_json(archive.read(name).decode())
                layer = "de.tudarmstadt.ukp.dkpro.core.api.ner.type.NamedEntity"
                found = [(each.begin, each.end, each.value) for each in cas.select(layer)]
                task, _, file = rest.partition("/")
                assert spans_of(export, task, file.removesuffix(".json")) == found


def cas(*structures: Any, text: str = "Ann met Bob") -> dict[str, Any]:
    sofa = {"%ID": 1, "%TYPE": "uima.cas.Sofa", "sofaString": text}
    return {"%TYPES": {}, "%FEATURE_STRUCTURES": [sofa, *structures], "%VIEWS": {}}


SPAN = {"%ID": 2, "%TYPE": "webanno.custom.Name", "@sofa": 1, "begin": 0, "end": 3, "kind": "PER"}


def test_layers_and_features(tmp_path: Path) -> None:
    plain = {"%ID": 3, "%TYPE": "webanno.custom.Mark", "@sofa": 1, "begin": 4, "end": 7}
    relation = {**SPAN, "%ID": 4, "@Governor": 2, "@Dependent": 3}
    both = {**SPAN, "%ID": 5, "sure": True}
    inner = archive_of(tmp_path, **{"bob.json": cas(plain, relation, both)}).read_bytes()
    path = archive_of(tmp_path, **{"annotation/d/ann.json": cas(SPAN), "annotation/d/bob.zip": inner})
    export = read_export(path)
    assert [(each.name, each.n_answers) for each in export.questions] == [
        ("Name.kind", 2),
        ("Mark", 2),
        ("Name.sure", 2),
    ]
    assert export.left_out == {"Name (joins other annotations)": 1}
    assert spans_of(read_export(path, question="Mark"), "d", "bob") == [(4, 7, "Mark")]


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (cas(SPAN, SPAN), r"bob\.json, feature structure 3 has the id 2 of one before"),
        (cas({**SPAN, "%TYPE": None}), r"feature structure 2 needs '%ID' and '%TYPE'"),
        (cas({**SPAN, "begin": "0"}), r"feature structure 2: 'begin' is '0' and 'end' 3, no span"),
        (cas({**SPAN, "begin": 3}), r"feature structure 2: a span from 3 to 3 holds no character"),
        (cas({**SPAN, "end": 99}, text="😀"), r"feature structure 2: 'end' is 99, beyond the end"),
        (cas({**SPAN, "@sofa": [1]}), r"feature structure 2: '@sofa' is \[1\], which the file does not have"),
        (cas({**SPAN, "begin": 1}, text="😀😀"), r"feature structure 2: the span from 1 to 3 cuts a character in two"),
        (json.dumps(cas(SPAN)) * 2, r"bob\.json holds more than one document"),
        ({"%VIEWS": {}}, r"bob\.json has no list '%FEATURE_STRUCTURES'"),
        (json.dumps(cas(SPAN))[:-20], r"bob\.json, byte [0-9]+ \(record 1\) is not JSON"),
        ("[" * 100_000, r"bob\.json.* nested too deeply"),
        ("null", r"bob\.json has no list"),
    ],
)
def test_documents_that_are_broken(document: Any, said: str, tmp_path: Path) -> None:
    path = archive_of(tmp_path, **{"annotation/d/ann.json": cas(SPAN), "annotation/d/bob.json": document})
    with pytest.raises(InputError, match=said):
        read_export(path)
    assert main(["aggregate", str(path)]) == 2


def test_names_of_users_keep_their_dots(tmp_path: Path) -> None:
    files = {f"annotation/d/{user}.json": cas(SPAN) for user in ("ann.b", "ann.c", "bob@x.org")}
    assert read_export(archive_of(tmp_path, **files)).answers["worker"].to_pylist() == ["ann.b", "ann.c", "bob@x.org"]


def test_archives_of_projects_that_are_not_read(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"annotation/d/ann\.xmi is no UIMA CAS JSON\. In INCEpTION, export the project"
    ):
        read_export(archive_of(tmp_path, **{"annotation/d/ann.xmi": "<xmi/>"}))
    with pytest.raises(InputError, match=r"x\.zip holds '\.\./annotation/d/ann\.json', a file outside"):
        read_export(archive_of(tmp_path, **{"../annotation/d/ann.json": cas(SPAN)}))
    (tmp_path / "ann.json").write_text(json.dumps(cas(SPAN)))
    with pytest.raises(InputError, match=r"ann\.json does not say which document it is, or who worked on it"):
        read_export(tmp_path / "ann.json")
    twice = {"annotation/d/ann.json": cas(SPAN), "annotation/d/ann.zip": "x"}
    with pytest.raises(InputError, match=r"x\.zip holds two files of 'ann' on 'd'"):
        read_export(archive_of(tmp_path, **twice))


# ---- brat -------------------------------------------------------------------------------------------------


def test_brat(tmp_path: Path) -> None:
    export = read_export(EXAMPLES / "brat.zip")
    assert count(export) == ("entities", "spans", 6, 0, 0, 0, 0)
    assert export.left_out == {"span in several pieces": 1, "relation": 1, "note": 1}
    assert spans_of(export, "a", "ann") == [(0, 3, "Person"), (8, 11, "Person")]
    assert spans_of(export, "sub/c", "bob") == []
    with zipfile.ZipFile(EXAMPLES / "brat.zip") as archive:
        archive.extractall(tmp_path)
    assert read_export(tmp_path).answers == export.answers


def test_folders_and_lines_of_brat(tmp_path: Path) -> None:
    one, two = "T1\tPerson 0 3\tAnn\n", "\ufeffT1\tPerson 0 3\tAnn\rT2\tPerson 8 11\tBob\r"
    for above in ("", "annotators/", "x/annotators/"):  # archives often begin with the folder that was packed
        path = archive_of(tmp_path, **{f"{above}ann/d.ann": two, f"{above}bob/d.ANN": one})
        export = read_export(path)
        assert spans_of(export, "d", "ann") == [(0, 3, "Person"), (8, 11, "Person")]
        assert spans_of(export, "d", "bob") == [(0, 3, "Person")]
    with pytest.raises(InputError, match=r"x\.zip holds two files of 'bob' on 'd'"):
        read_export(archive_of(tmp_path, **{"ann/d.ann": one, "bob/d.ann": one, "bob/d.ANN": one}))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("T1\tPerson 0\tAnn\n", r"bob/d\.ann, line 1 is 'T1.*no line of brat"),
        ("T1\tPerson 0 3\tAnn\nhello\n", r"bob/d\.ann, line 2 is 'hello', no line of brat"),
        ("T1\tPerson 3 3\t\n", r"bob/d\.ann, line 1: a span from '3' to '3' holds no character"),
        (f"T1\tPerson 3 {'9' * 5000}\t\n", r"bob/d\.ann, line 1: a span from"),
        ("T1\tPerson 0 3\tAnn\n" * 2, r"bob/d\.ann, line 2 has the id 'T1' of line 1 again"),
        (b"T1\tPerson 0 3\t\xff\n", r"d\.ann is not UTF-8"),
    ],
)
def test_files_of_brat_that_are_broken(text: str | bytes, said: str, tmp_path: Path) -> None:
    path = archive_of(tmp_path, **{"ann/d.ann": "T1\tPerson 0 3\tAnn\n", "bob/d.ann": text})
    with pytest.raises(InputError, match=said):
        read_export(path)
    assert main(["aggregate", str(path)]) == 2


def test_a_file_of_brat_that_names_nobody(tmp_path: Path) -> None:
    (tmp_path / "d.ann").write_text("T1\tPerson 0 3\tAnn\n")
    with pytest.raises(InputError, match=r"d\.ann does not say who marked it\. Put the documents of each annotator"):
        read_export(tmp_path / "d.ann")
    with pytest.raises(InputError, match=r"holds '\.\./ann/d\.ann', a file outside"):
        read_export(archive_of(tmp_path, **{"../ann/d.ann": "T1\tPerson 0 3\tAnn\n"}))
