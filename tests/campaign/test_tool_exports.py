"""What a campaign exports for labelling tools is read again, with the same answers."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import httpx
import pytest
from tests.campaign.campaigns import HEAD, PASSWORD, TOKEN, make_campaign, prepare, serve, write_project

from crowdwise.campaign import Client, ClientError
from crowdwise.campaign import tables as db
from crowdwise.campaign.project import read_project
from crowdwise.campaign.service import Service
from crowdwise.campaign.tool_exports import Tool, export_for_tool
from crowdwise.formats import read_export
from crowdwise.formats.format_registry import formats
from crowdwise.labels.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from crowdwise.campaign.running_campaign import Campaign

SUFFIXES = {each.slug: each.suffixes for each in formats() if each.collects}
MULTI = HEAD.replace("classes =", 'kind = "multi-label"\nclasses =')
VALUES = HEAD.replace('classes = ["cat", "dog"]', 'kind = "values"\nhigh = 5\nstep = 0.5')
PAIRS = HEAD.replace('classes = ["cat", "dog"]', 'kind = "comparison"\nties = true')
EXAMPLES = Path(__file__).parents[2] / "examples" / "exports"


def answer_all(campaign: Campaign, decide: Callable[[int, int], Any], name: str = "w {}") -> set[tuple[str, str, str]]:
    """Store an answer of three workers to every task; what they said, as JSON."""
    said = set()
    with campaign.store.write() as connection:
        for number in range(3):
            worker = {"id": number + 1, "name": name.format(number), "created": 0.0}
            connection.execute(db.workers.insert().values(worker))
            for place, task in enumerate(campaign.tasks.values()):
                answer = json.dumps(decide(place, number))
                slot = db.slots.update().where(db.slots.c.task_id == task.id, db.slots.c.slot == number)
                connection.execute(slot.values(worker_id=worker["id"], state=db.ANSWERED))
                given = {"task_id": task.id, "worker_id": worker["id"], "client_key": f"k{place}"}
                given |= {"revision": 1, "kind": "answer", "answer": answer, "created": 1.8e9 + place, "seconds": 2.5}
                connection.execute(db.answers.insert().values(given))
                said.add((task.name, worker["name"], answer))
    campaign.load()
    campaign.changed += 1
    return said


def read_back(content: bytes, folder: Path, tool: str) -> Any:
    path = folder / f"export.{SUFFIXES[tool][0]}"
    path.write_bytes(content)
    return read_export(path)


def list_said(export: Any, column: str) -> set[tuple[str, str, str]]:
    table = export.answers
    rows = zip(*(table[name].to_pylist() for name in ("task", "worker", column)), strict=True)
    return {(str(task), worker, json.dumps(said)) for task, worker, said in rows}


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Client, set[Any]]]:
    folder = tmp_path_factory.mktemp("classes")
    (folder / "gold.csv").write_text("task,label\nt1,dog\n")
    campaign = make_campaign(folder, 6, more='[gold]\nfile = "gold.csv"\n')
    said = answer_all(campaign, lambda place, number: "cat" if place == 0 and number else "dog")
    with serve(campaign) as address, Client(address, TOKEN, tries=1) as manager:
        yield manager, said


def test_the_api_names_every_tool_that_can_be_written() -> None:
    assert set(get_args(Tool)) == set(SUFFIXES)
    assert all(each.write is not None and each.write_answers is not None for each in formats() if each.collects)


@pytest.mark.parametrize("tool", SUFFIXES)
def test_answers_are_read_again(classes: tuple[Client, set[Any]], tool: str, tmp_path: Path) -> None:
    manager, said = classes
    export = read_back(manager.export_for(tool), tmp_path, tool)
    assert export.format.slug == tool
    assert list_said(export, "label") == said
    assert len(said) == export.answers.num_rows == 18
    assert dict(zip(*export.items.to_pydict().values(), strict=True))["t3"] == "Text of task 3"


def test_label_studio_has_times_gold_and_predictions(classes: tuple[Client, set[Any]], tmp_path: Path) -> None:
    export = read_back(classes[0].export_for("label-studio"), tmp_path, "label-studio")
    assert export.answers["time"].to_pylist()[0].timestamp() == 1.8e9
    assert export.answers["duration"].to_pylist() == [2.5] * 18
    assert export.gold.to_pylist() == [{"task": "t1", "label": "dog"}]
    predicted = dict(zip(export.predictions["task"].to_pylist(), export.predictions["label"].to_pylist(), strict=True))
    assert predicted == {row.task: row.answer for row in classes[0].consensus()}
    assert predicted["t0"] == "cat"


@pytest.mark.parametrize("tool", SUFFIXES)
def test_the_consensus_is_written_by_the_format(classes: tuple[Client, set[Any]], tool: str, tmp_path: Path) -> None:
    path = tmp_path / "consensus"
    path.write_bytes(classes[0].export_for(tool, "consensus"))
    expected = {f"t{number}": "dog" if number else "cat" for number in range(6)}
    if tool == "hugging-face":
        import pyarrow.parquet as pq

        rows = pq.read_table(path).to_pylist()
        assert {row["task"]: ["cat", "dog"][row["consensus"]] for row in rows} == expected
        assert all(max(row["soft_label"]) == pytest.approx(row["confidence"]) for row in rows)
        return
    text = path.read_text()
    rows = json.loads(text) if tool == "label-studio" else [json.loads(line) for line in text.splitlines()]
    found = {
        "label-studio": lambda row: (row["id"], row["predictions"][0]["result"][0]["value"]["choices"]),
        "doccano": lambda row: (row["id"], row["label"]),
        "prodigy": lambda row: (row["_input_hash"], row["accept"]),
    }[tool]
    assert dict(map(found, rows)) == {task: [label] for task, label in expected.items()}


@pytest.mark.parametrize(
    ("head", "decide", "tools", "column"),
    [
        (MULTI, lambda _, number: ["cat", "dog"][: 1 + number % 2], list(SUFFIXES), "labels"),
        (VALUES, lambda place, number: place + number / 2, ["hugging-face", "label-studio"], "value"),
        (PAIRS, lambda _, number: "left" if number else "right", ["label-studio"], "label"),
    ],
    ids=["multi-label", "values", "comparisons"],
)
def test_other_kinds(head: str, decide: Any, tools: list[str], column: str, tmp_path: Path) -> None:
    tasks = "task,left,right\n" + "".join(f"t{n},a{n},b{n}\n" for n in range(4)) if head == PAIRS else ""
    campaign = make_campaign(tmp_path, 4, head=head, tasks=tasks)
    said, service = answer_all(campaign, decide), Service(campaign)
    for tool in tools:
        written, suffix = export_for_tool(service, tool, "answers")
        assert suffix == SUFFIXES[tool][0]
        assert list_said(read_back(written, tmp_path, tool), column) == said
    for tool in set(SUFFIXES) - set(tools):
        with pytest.raises(InputError, match=r"has no place for answers of kind \S+\. Those that have: .*Label Studio"):
            export_for_tool(service, tool, "answers")
    consensus = json.loads(export_for_tool(service, "label-studio", "consensus")[0])
    said_of_all = [each["predictions"][0]["result"][0]["value"] for each in consensus]
    if head == PAIRS:
        assert said_of_all == [{"selected": "left"}] * 4
    elif head == VALUES:
        assert [value["number"] for value in said_of_all] == pytest.approx([0.5, 1.5, 2.5, 3.5], abs=0.5)
    else:
        assert said_of_all == [{"choices": ["cat"]}] * 4
        with pytest.raises(InputError, match=r"multi-label are not written for Hugging Face yet\.$"):
            export_for_tool(service, "hugging-face", "consensus")


def test_ties_are_not_written_for_label_studio(tmp_path: Path) -> None:
    campaign = make_campaign(tmp_path, head=PAIRS, tasks="task,left,right\nt,a,b\n")
    answer_all(campaign, lambda *_: "tie")
    with pytest.raises(InputError, match="Label Studio knows no ties"):
        export_for_tool(Service(campaign), "label-studio", "answers")


@pytest.mark.parametrize(("classes", "same"), [('"Negative", "Neutral", "Positive"', True), ('"yes", "no"', False)])
def test_tasks_of_an_export_keep_their_ids_and_question(classes: str, same: bool, tmp_path: Path) -> None:
    source = EXAMPLES / "label-studio.json"
    (tmp_path / "tasks.json").write_bytes(source.read_bytes())
    project = write_project(tmp_path, head=HEAD.replace('"cat", "dog"', classes))
    project.write_text(project.read_text().replace("tasks.csv", "tasks.json"))
    campaign = prepare(read_project(project))
    answer_all(campaign, lambda *_: campaign.project.question.classes[1])
    written = export_for_tool(Service(campaign), "label-studio", "answers")[0]
    ids = {each["id"] for each in json.loads(source.read_text())}
    assert {each["id"] for each in json.loads(written)} == ids
    export, before = read_back(written, tmp_path, "label-studio"), read_export(source).question
    assert before is not None
    assert ((export.question.name, export.question.details) == (before.name, before.details)) == same
    lines = export_for_tool(Service(campaign), "doccano", "consensus")[0].splitlines()
    assert {json.loads(line)["id"] for line in lines} == ids


def test_unknown_formats_and_strangers_are_refused(classes: tuple[Client, set[Any]]) -> None:
    manager = classes[0]
    for tool, content in (("excel", "answers"), ("label-studio", "everything"), ("cvat", "answers")):
        with pytest.raises(ClientError, match="should be") as refused:
            manager.export_for(tool, content)
        assert refused.value.status == 422
    address = str(manager._http.base_url).rstrip("/")
    assert httpx.get(f"{address}/api/export/prodigy/answers").status_code == 401


def test_the_page_of_the_manager_links_to_every_tool(classes: tuple[Client, set[Any]]) -> None:
    with httpx.Client(base_url=classes[0]._http.base_url, follow_redirects=True) as browser:
        page = browser.post("/manage/login", data={"password": PASSWORD}).text
        links = re.findall('href="(/api/export/[^"/]+/[^"]+)"', page)
        assert set(links) == {f"/api/export/{tool}/{what}" for tool in SUFFIXES for what in ("answers", "consensus")}
        reply = browser.get("/api/export/doccano/answers")
        assert reply.headers["content-type"] == "application/zip"
        assert reply.headers["content-disposition"] == 'attachment; filename="doccano-answers.zip"'


def test_without_answers_and_with_names_that_are_no_files(tmp_path: Path) -> None:
    campaign = make_campaign(tmp_path, 2)
    service = Service(campaign)
    made = json.loads(export_for_tool(service, "label-studio", "answers")[0])
    assert [each["annotations"] for each in made] == [[], []]
    with pytest.raises(InputError, match="There is no answer yet"):
        export_for_tool(service, "label-studio", "consensus")
    answer_all(campaign, lambda *_: "cat", "../etc {}")
    with pytest.raises(InputError, match=r"cannot be done for '\.\./etc 0'"):
        export_for_tool(service, "doccano", "answers")
