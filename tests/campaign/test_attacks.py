"""What a hostile worker, visitor or file once got away with, on a campaign of SQLite."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import sqlite3
import warnings
from typing import TYPE_CHECKING, Any

import httpx
import numpy as np
import pytest
from PIL import Image
from tests.campaign.campaigns import HEAD, PASSWORD, TOKEN, make_campaign, prepare, serve, write_project
from tests.campaign.test_databases import Crowd, make_crowds

from crowdwise import read_labels
from crowdwise.campaign import http_connection
from crowdwise.campaign.api_models import NewWorker
from crowdwise.campaign.api_models import Question as Asked
from crowdwise.campaign.check_project import check_project
from crowdwise.campaign.client import Client, ClientError
from crowdwise.campaign.exports import write_table
from crowdwise.campaign.leases import BARRED
from crowdwise.campaign.manager_actions import ManagerActions
from crowdwise.campaign.project import Question, read_project
from crowdwise.campaign.running_campaign import open_campaign
from crowdwise.campaign.security import Signer, hash_password
from crowdwise.campaign.server import hold_database, prepare_manager
from crowdwise.campaign.task_files import Task
from crowdwise.campaign.writer import StoreUnavailableError
from crowdwise.labels.errors import InputError, InputWarning

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from crowdwise.campaign.running_campaign import Campaign


@pytest.fixture(autouse=True)
def _no_other_database(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CROWDWISE_DATABASE", "CROWDWISE_PASSWORD", "CROWDWISE_TOKEN"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Any]:
    with make_crowds(tmp_path) as made:
        yield made


# ---- answers ----------------------------------------------------------------------------------------------


def test_a_skip_does_not_take_an_answer_away(make: Any) -> None:
    crowd = make(3, more="[answers]\nper_task = 2\n")
    worker = crowd.enter("ann")
    (task,) = crowd.lease(worker)
    crowd.submit(worker, task, "cat")
    assert crowd.submit(worker, task, None, key="skip").status == "answered"
    assert len(crowd.labels()) == 1


@pytest.mark.parametrize("limit", ["[answers]\nper_worker = 2\n", "[budget]\nanswers = 2\n"])
def test_tickets_that_were_gathered_buy_no_more_answers(make: Any, limit: str) -> None:
    crowd = make(6, more=limit)
    worker = crowd.enter("ann")
    outcomes = [crowd.submit(worker, task, "cat", n_next=0).status for task in crowd.campaign.tasks]
    assert outcomes == ["accepted"] * 2 + ["limit"] * 4
    assert len(crowd.labels()) == 2


def test_the_completion_code_is_for_those_who_are_done(tmp_path: Path) -> None:
    campaign = make_campaign(tmp_path, more='[workers]\ncompletion_code = "CODE"\n')
    actions = ManagerActions(campaign, "test")
    with serve(campaign) as address, Client(address, TOKEN) as manager:
        ann = Client(address, manager.add_worker("ann").link)
        first = ann.answer(ann.next_questions().questions[0], "cat", n_next=0)
        assert (first.done, first.completion_code) == (False, None)
        actions.set_paused(True)
        assert ann.next_questions().completion_code is None
        actions.set_paused(False)
        ann.answer_all(lambda _: "cat")
        assert ann.next_questions().completion_code == "CODE"
        ann.close()


def test_gold_alone_is_asked(tmp_path: Path) -> None:
    (tmp_path / "gold.csv").write_text("task,label\nt0,cat\nt1,dog\n")
    crowd = Crowd(make_campaign(tmp_path, 2, more='[gold]\nfile = "gold.csv"\n'))
    assert sorted(crowd.lease(crowd.enter("ann"), 5)) == [1, 2]
    crowd.campaign.stop()


def test_nobody_comes_in_as_a_worker_who_was_sent_a_link_later(tmp_path: Path) -> None:
    campaign = make_campaign(tmp_path, more='[workers]\nlinks = "open"\n')
    with serve(campaign) as address:
        assert httpx.get(f"{address}/study?PROLIFIC_PID=ann").status_code == 303
        ManagerActions(campaign, "test").add_worker("ann")
        assert httpx.get(f"{address}/study?PROLIFIC_PID=ann").status_code == 403


def test_another_answer_with_the_same_key_is_refused(make: Any) -> None:
    crowd = make(3)
    worker = crowd.enter("ann")
    (task,) = crowd.lease(worker)
    assert [crowd.submit(worker, task, each, key="k").status for each in ("cat", "cat", "dog")] == [
        "accepted",
        "repeated",
        "key",
    ]


def test_a_skip_with_a_used_key_keeps_the_question(make: Any) -> None:
    crowd = make(3)
    worker = crowd.enter("ann")
    (task,) = crowd.lease(worker)
    (held,) = crowd.submit(worker, task, "cat", key="k").tasks
    assert crowd.submit(worker, held, None, key="k").status == "key"
    assert crowd.lease(worker) == (held,)
    assert crowd.campaign.n_leased == 1


def test_who_is_excluded_while_a_request_comes_in_is_refused(make: Any) -> None:
    crowd = make(3)
    workers = [crowd.enter(name) for name in ("ann", "bob")]
    tasks = [crowd.lease(worker)[0] for worker in workers]
    actions = ManagerActions(crowd.campaign, "test")
    actions.set_worker_state("ann", "excluded")
    actions.delete_worker("bob")
    for worker, task in zip(workers, tasks, strict=True):
        assert crowd.submit(worker, task, "cat").status == BARRED
    assert asyncio.run(crowd.campaign.lease(workers[0])).status == BARRED
    assert asyncio.run(crowd.campaign.undo(workers[0], "k")).status == BARRED
    assert crowd.labels() == []


def test_an_undo_does_not_open_what_the_manager_stopped(make: Any) -> None:
    crowd = make(3, more="[answers]\nper_task = 2\n")
    worker = crowd.enter("ann")
    (task,) = crowd.lease(worker)
    crowd.submit(worker, task, "cat", n_next=0)
    name = crowd.campaign.tasks[task].name
    ManagerActions(crowd.campaign, "test").set_task_state(name, "finished", "cap")
    assert crowd.undo(worker, "u").tasks == (task,)
    assert crowd.campaign.store.find_task(name).state == "finished"


def test_a_worker_who_is_admitted_twice_at_once(make: Any) -> None:
    crowd = make(3)
    worker = crowd.enter("ann")
    crowd.submit(worker, crowd.lease(worker)[0], "cat")
    actions = ManagerActions(crowd.campaign, "test")
    actions.set_worker_state("ann", "excluded")
    known = crowd.campaign.workers[worker]
    actions.set_worker_state("ann", "active")
    actions._find_worker = lambda _name: known  # type: ignore[method-assign] (as a second request saw them)
    actions.set_worker_state("ann", "active")
    assert len(crowd.labels()) == 1


def test_tasks_that_another_part_added_are_asked(make: Any) -> None:
    crowd = make(1)
    crowd.campaign.store.add_tasks([Task("late", {"text": "x"})])
    crowd.sweep()
    assert crowd.campaign.task_numbers["late"] in crowd.campaign.queue.taken


@pytest.mark.parametrize(("given", "step"), [("1_0", 1), (3.7, 1), (0.25, 0.1)])
def test_numbers_off_the_scale_are_refused(given: Any, step: float) -> None:
    question = Question("values", "?", low=0, high=10, step=step)
    with pytest.raises(InputError, match="is no number from 0 to 10"):
        question.check_answer(given)
    assert question.check_answer("0.7" if step < 1 else "7") == (0.7 if step < 1 else 7)


# ---- links, sessions, requests ----------------------------------------------------------------------------


def test_a_link_is_written_in_one_way_and_forged_ones_are_not_kept() -> None:
    signer = Signer("00" * 32)
    link = signer.make_link("ann", 3)
    assert signer.read_link(link) == ("ann", 3)
    assert signer.read_link(f"=!{link}") is None
    kept = signer._known_links.cache_info().currsize
    assert signer.read_link("A" * 60_000) is None
    assert signer._known_links.cache_info().currsize == kept


def test_the_link_of_a_deleted_worker_stays_worthless(make: Any) -> None:
    campaign: Campaign = make().campaign
    actions = ManagerActions(campaign, "test")
    worker = actions.add_worker("ann")
    old = campaign.signer.make_link("ann", worker.link)
    actions.delete_worker("ann")
    assert actions.add_worker("ann").name == "ann"
    assert campaign.read_link(old) is None


@pytest.mark.parametrize("name", ["ann\n", " ann "])
def test_blanks_around_a_name_are_no_part_of_it(name: str) -> None:
    assert NewWorker(worker=name).worker == "ann"


@pytest.mark.parametrize("name", ["\u200b", "\u00a0", "a\u202eb", "a\u2028b"])
def test_names_that_cannot_be_seen_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="worker"):
        NewWorker(worker=name)


def test_requests_that_once_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_connection, "HEADER_SECONDS", 0.3)
    campaign = make_campaign(tmp_path, 5, more='[answers]\nper_minute = 20\n[workers]\nlinks = "open"\n')
    part = '--b\r\nContent-Disposition: form-data; name="password"\r\n\r\nx\r\n--b--\r\n'
    coding = {"content-type": "multipart/form-data; boundary=b; charset=undefined"}
    with serve(campaign) as address, httpx.Client(base_url=address) as http:
        host, port = address.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), 5) as slow:
            slow.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n")  # and no more
            assert slow.recv(10) == b""
        assert http.post("/manage/login", headers={"origin": "http://["}).status_code == 403
        assert http.post("/manage/login", content=part, headers=coding).status_code == 400
        assert http.get("/study?PROLIFIC_PID=abc%0A").status_code == 400
        manager = {"authorization": f"Bearer {TOKEN}"}
        token = http.post("/api/workers", json={"worker": "ann"}, headers=manager).json()["token"]
        assert http.get("/study?PROLIFIC_PID=ann").status_code == 403  # she has a link of her own
        assert http.get("/study?PROLIFIC_PID=zoe").status_code == 303
        http.cookies.clear()
        assert http.get("/study?PROLIFIC_PID=zoe").status_code == 303
        http.cookies.clear()
        worker = {"authorization": f"Bearer {token}"}
        codes = [http.post("/api/leave", headers=worker).status_code for _ in range(21)]
        assert codes == [204] * 20 + [429]
        for request in ("/api/undo", "/api/next"):
            assert http.post(request, json={"key": "k"} if "undo" in request else {}, headers=worker).status_code == 429
        assert http.get("/work", headers={"cookie": f"crowdwise_worker={token}"}).status_code == 429


def test_events_end_with_the_session(tmp_path: Path) -> None:
    campaign = make_campaign(tmp_path)
    with serve(campaign) as address, httpx.Client(base_url=address, timeout=5) as http:
        http.post("/manage/login", data={"password": PASSWORD})
        with http.stream("GET", "/manage/events") as events:
            lines = events.iter_lines()
            assert next(lines).startswith("data:")
            campaign.store.end_every_session()
            campaign.changed += 1
            assert not any(line.startswith("data:") for line in lines)


def test_another_password_ends_sessions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    campaign = make_campaign(tmp_path)
    campaign.store.begin_session("digest", campaign.store.clock.now() + 100)
    monkeypatch.setenv("CROWDWISE_PASSWORD", PASSWORD)
    prepare_manager(campaign)
    assert campaign.store.has_session("digest")
    monkeypatch.setenv("CROWDWISE_PASSWORD", "another password")
    prepare_manager(campaign)
    assert not campaign.store.has_session("digest")
    campaign.store.close()
    with pytest.raises(InputError, match="no UTF-8"):
        hash_password("\udcff" * 9)


def test_nothing_waits_for_a_writer_that_has_stopped(make: Any) -> None:
    crowd = make()
    crowd.campaign.writer.stop()
    with pytest.raises(StoreUnavailableError):
        crowd.run(lambda work: None)


def test_csv_holds_no_formula(tmp_path: Path) -> None:
    import pyarrow as pa

    workers = ["-1+1", " =1+1", "a\u200bb"]
    content = write_table(pa.table({"task": ["t", "t", "t"], "worker": workers, "label": ["x", "y", "x"]}), "csv")
    (tmp_path / "labels.csv").write_bytes(content)
    assert b'"\'-1+1"' in content
    assert b'"\' =1+1"' in content
    assert b"\\u200b" in content
    with warnings.catch_warnings():  # it is said that names were restored
        warnings.simplefilter("ignore", InputWarning)
        assert read_labels(tmp_path / "labels.csv").n_workers == 3


# ---- project files and databases --------------------------------------------------------------------------

VALUES = 'title = "x"\n[question]\ntext = "How old?"\nkind = "values"\n'


@pytest.mark.parametrize(
    ("head", "more", "words"),
    [
        (VALUES + "high = inf\n", "", "high of [question] is inf"),
        (VALUES + "step = inf\n", "", "step of [question] is inf"),
        (VALUES + "step = 1000\n", "", "more than from 0 to 100"),
        (VALUES + f"high = {'9' * 5000}\n", "", "is no TOML file"),
        (HEAD, f"x = {'[' * 5000}", "nested too deeply"),
        (HEAD, "[budget]\nprice = 1e308\n", "price of [budget]"),
        (HEAD + "low = 3\n", "", "low of [question] is for questions of kind values"),
        (HEAD + 'ties = "yes"\n', "", "true or false"),
        (HEAD.replace('"cat"', '"a\\nb"'), "", "unseen letters"),
        (HEAD.replace('"cat"', '"cat "'), "", "without blanks around them"),
        (HEAD, '[[instructions.examples]]\ntext = "x"\nanswer = "zebra"\n', "'zebra', which is no class"),
        (HEAD, '[server]\nwebhooks = ["http://h:99999/"]\n', "no web address"),
        (HEAD, '[server]\nwebhooks = ["http://["]\n', "no web address"),
        (HEAD, '[server]\ndatabase = "mysql://u:SECRET@h/d"\n', "postgresql://"),
        (HEAD, '[server]\ndatabase = "postgresql://u:SECRET@h:port/d"\n', "cannot be read"),
        (HEAD, '[server]\ndatabase = "sqlite://"\n', "name of a file"),
        (HEAD, '[server]\ndatabase = "sqlite:///:memory:"\n', "name of a file"),
        (HEAD, '[server]\ndatabase = "a\\u0000b"\n', "name of a file"),
        (HEAD, '[server]\ndatabase = "tasks.csv"\n', "is no SQLite database"),
        (HEAD + "ties = true\n", "", "ties of [question] is for questions of kind comparison"),
        (HEAD.replace("Cats", "\\u001b[31m"), "", "on one line, without unseen letters"),
        (HEAD, 'images = "a\\u0000b"\n', "name of a file or folder"),
        (HEAD, '[server]\npublic_url = "https://example.org/label"\n', "without a path"),
        (HEAD, '[server]\npublic_url = "https://example.org?a=b"\n', "without a path"),
        (HEAD, '[answers]\nper_task = 2\n[stop]\nrule = "confidence"\nat_least = 3\n', "ever be stopped"),
    ],
)
def test_mistakes_that_passed_or_crashed(tmp_path: Path, head: str, more: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        open_campaign(read_project(write_project(tmp_path, head=head, more=more)))
    assert words in str(caught.value)
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"task": "a\nb", "text": "x"}, "cannot be seen"),
        ({"task": ["a"], "text": "x"}, "must be a text or a number"),
        ({"task": "a", "text": {"x": 1}}, "must be a text or a number"),
        ({"task": "a", "text": "x\0y"}, "no page can show"),
        ({"task": "a", "text": 1e400}, None),
    ],
)
def test_tasks_that_no_page_can_show(tmp_path: Path, row: dict[str, Any], words: str | None) -> None:
    path = write_project(tmp_path)
    path.write_text(path.read_text().replace("tasks.csv", "tasks.jsonl"))
    (tmp_path / "tasks.jsonl").write_text(json.dumps(row).replace("Infinity", "1e400") + "\n")
    if words is None:
        open_campaign(read_project(path)).store.close()
        return
    with pytest.raises(InputError, match=words):
        open_campaign(read_project(path))


@pytest.mark.parametrize(
    ("head", "gold", "words"),
    [
        (HEAD, "task,label\nt1,cat\nt1,dog\n", "another known answer above"),
        (HEAD + 'kind = "multi-label"\n', 'task,labels\nt1,"[broken"\n', "no list of classes in JSON"),
    ],
)
def test_gold_that_cannot_be_right(tmp_path: Path, head: str, gold: str, words: str) -> None:
    (tmp_path / "gold.csv").write_text(gold)
    with pytest.raises(InputError, match=words):
        open_campaign(read_project(write_project(tmp_path, head=head, more='[gold]\nfile = "gold.csv"\n')))


def _spoil(path: Path, line: str) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute(line)
    connection.close()


@pytest.mark.parametrize(
    ("begun", "spoil", "words"),
    [
        (False, lambda path: _spoil(path, "CREATE TABLE users (id INT)"), "another program"),
        (False, lambda path: _spoil(path, "CREATE TABLE tasks (id INT)"), "another program"),
        (False, lambda path: path.write_text("hello " * 50), "no SQLite database"),
        (False, lambda path: path.mkdir(), "is no file"),
        (False, os.mkfifo, "is no file"),
        (True, lambda path: path.write_bytes(path.read_bytes()[:9_000]), "cannot be used|damaged"),
        (True, lambda path: _spoil(path, "DROP TABLE answers"), "lacks the table answers"),
        (True, lambda path: _spoil(path, "UPDATE alembic_version SET version_num = 'v9'"), "of a newer crowdwise"),
    ],
)
def test_files_that_are_no_database_stay_as_they_are(tmp_path: Path, begun: bool, spoil: Any, words: str) -> None:
    project, path = read_project(write_project(tmp_path)), tmp_path / "campaign.db"
    if begun:
        open_campaign(project).store.close()
    spoil(path)
    before = path.read_bytes() if path.is_file() else b""
    for look in (open_campaign, lambda project: list(check_project(project))):
        with pytest.raises(InputError, match=words):
            look(project)
    assert (path.read_bytes() if path.is_file() else b"") == before


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("UPDATE settings SET value = 'xyz' WHERE name = 'secret'", "key in the campaign's database is damaged"),
        ("UPDATE tasks SET content = '{'", "'t0' in the database is damaged"),
        ("UPDATE tasks SET gold = '{'", "a known answer cannot be read"),
        ("UPDATE tasks SET content = '[]'", "a task shows no fields"),
        ("UPDATE tasks SET name = x'00ff' WHERE id = 1", "a row of its table tasks cannot be read"),
        ("UPDATE tasks SET id = -1 WHERE id = 1", "a task has no number"),
        ("UPDATE settings SET value = 'soon' WHERE name = 'lease_seconds'", "how long questions were out"),
        ("INSERT INTO actions VALUES (1, 'today', 'token', 'export', '', '')", "an action has no time"),
        ("UPDATE slots SET state = 1, expires = 'soon'", "out until no time"),
        ("INSERT INTO alembic_version VALUES ('v9')", "damaged"),
        ("INSERT INTO answers VALUES (1, 1, 1, 0, 'answer', 'cat', NULL, 'k', 1.0, NULL)", "answer cannot be read"),
        ("INSERT INTO answers VALUES (1, 1, 1, 0, 'answer', '\"cat\"', NULL, 'k', 'x', NULL)", "has no time"),
        ("INSERT INTO answers VALUES (1, 1, 1, 0, 'answer', '\"cat\"', NULL, 'k', 1.0, 'x')", "number of seconds"),
    ],
)
def test_damaged_rows_are_named(tmp_path: Path, line: str, words: str) -> None:
    project = read_project(write_project(tmp_path))
    open_campaign(project).store.close()
    _spoil(tmp_path / "campaign.db", line)
    with pytest.raises(InputError, match=words):
        open_campaign(project)


@pytest.mark.parametrize("name", ["what?mode=ro", "a%20b", "a#b", "a:b"])
def test_folders_of_any_name_hold_their_database(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    open_campaign(read_project(write_project(tmp_path / name))).store.close()
    assert (tmp_path / name / "campaign.db").is_file()


def test_a_project_begins_with_a_byte_order_mark(tmp_path: Path) -> None:
    path = write_project(tmp_path)
    path.write_text(path.read_text(), encoding="utf-8-sig")
    assert read_project(path).title == "Cats and dogs"


def test_two_projects_of_a_folder_are_not_mixed(tmp_path: Path) -> None:
    path = write_project(tmp_path)
    open_campaign(read_project(path)).store.close()
    (tmp_path / "other.toml").write_text(path.read_text())
    for look in (open_campaign, lambda project: list(check_project(project))):
        with pytest.raises(InputError, match=r'project.toml.*database = "other.db"'):
            look(read_project(tmp_path / "other.toml"))
    assert not list(tmp_path.glob("campaign.db-*"))  # which SQLite leaves where a reader is the last one
    path.unlink()  # it was renamed
    open_campaign(read_project(tmp_path / "other.toml")).store.close()


def test_a_page_says_that_the_database_is_away(tmp_path: Path) -> None:
    (tmp_path / "study").mkdir()
    with serve(make_campaign(tmp_path / "study")) as address:
        (tmp_path / "study").rename(tmp_path / "elsewhere")
        reply = httpx.get(f"{address}/api/status", headers={"authorization": f"Bearer {TOKEN}"})
        (tmp_path / "elsewhere").rename(tmp_path / "study")
    assert (reply.status_code, "database does not answer" in reply.text) == (503, True)


def test_images_that_are_lost_are_not_asked_about(tmp_path: Path) -> None:
    Image.new("RGB", (4, 4)).save(tmp_path / "a.png")
    project = read_project(write_project(tmp_path, tasks="task,image\nt0,a.png\n"))
    open_campaign(project).store.close()
    shutil.rmtree(tmp_path / "media")
    with pytest.raises(InputError, match="lacks the image of 't0'"):
        open_campaign(project)


def test_the_check_compares_the_project_with_the_database(make: Any, tmp_path: Path) -> None:
    crowd = make(2)
    worker = crowd.enter("ann")
    crowd.submit(worker, crowd.lease(worker)[0], "cat")
    crowd.run(lambda work: None)
    write_project(tmp_path, 2)
    assert list(check_project(read_project(tmp_path / "project.toml")))[-1] == "All is well."
    write_project(tmp_path, 2, head=HEAD.replace('"cat"', '"lion"'))
    with pytest.raises(InputError, match="the question has changed"):
        list(check_project(read_project(tmp_path / "project.toml")))


def test_known_answers_that_fit_no_more_are_refused(tmp_path: Path) -> None:
    (tmp_path / "gold.csv").write_text("task,label\nt0,cat\n")
    open_campaign(read_project(write_project(tmp_path, 2, more='[gold]\nfile = "gold.csv"\n'))).store.close()
    changed = write_project(tmp_path, head=HEAD.replace('"cat"', '"lion"'), tasks="task,text\nt1,Text of task 1\n")
    with pytest.raises(InputError, match="'t0' was added, whose known answer does not fit"):
        open_campaign(read_project(changed))


@pytest.mark.parametrize("token", ["short", " a-token-with-blanks-around ", "a-token-with-a-line-break\n", "ä" * 20])
def test_tokens_that_no_request_can_send_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, token: str
) -> None:
    monkeypatch.setenv("CROWDWISE_TOKEN", token)
    campaign = make_campaign(tmp_path)
    with pytest.raises(InputError, match="CROWDWISE_TOKEN has"):
        prepare_manager(campaign)
    campaign.store.close()


def test_a_token_that_was_taken_away_opens_nothing(tmp_path: Path) -> None:
    campaign = make_campaign(tmp_path)
    prepare_manager(campaign)
    assert not campaign.store.read_setting("token")
    campaign.store.close()


@pytest.mark.parametrize("password", ["correct\nhorse", "x" * 1_001])
def test_passwords_that_no_form_can_send_are_refused(password: str) -> None:
    with pytest.raises(InputError, match="The password has"):
        hash_password(password)


def test_two_spellings_of_one_database_are_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = read_project(write_project(tmp_path))
    open_campaign(project).store.close()
    (tmp_path / "link.db").symlink_to(tmp_path / "campaign.db")
    with hold_database(project):
        monkeypatch.setenv("CROWDWISE_DATABASE", f"sqlite:///{tmp_path}/link.db")
        with pytest.raises(InputError, match="Another server runs"), hold_database(project):
            pass


@pytest.mark.parametrize("image", ["../x.png", "pipe.png", "loop.png", "a\0b"])
def test_the_check_opens_no_image_that_serving_would_not(tmp_path: Path, image: str) -> None:
    path = write_project(tmp_path, tasks="task,image\nt1,i.png\n")
    path.write_text(path.read_text().replace("tasks.csv", "tasks.jsonl"))
    (tmp_path / "tasks.jsonl").write_text(json.dumps({"task": "t1", "image": image}) + "\n")
    os.mkfifo(tmp_path / "pipe.png")
    (tmp_path / "loop.png").symlink_to(tmp_path / "loop.png")
    for look in (open_campaign, lambda project: list(check_project(project))):
        with pytest.raises(InputError):
            look(read_project(path))


@pytest.mark.parametrize(("before", "after", "asked"), [(3, 1, 0), (1, 2, 1)])
def test_another_number_of_answers_holds_for_tasks_that_are_there(
    make: Any, tmp_path: Path, before: int, after: int, asked: int
) -> None:
    crowd = make(1, more=f"[answers]\nper_task = {before}\n")
    crowd.submit(worker := crowd.enter("ann"), crowd.lease(worker)[0], "cat")
    crowd.sweep()
    path = tmp_path / "project.toml"
    path.write_text(path.read_text().replace(f"per_task = {before}", f"per_task = {after}"))
    again = Crowd(prepare(read_project(path)))
    assert len(again.lease(again.enter("bob"))) == asked
    again.campaign.stop()


@pytest.mark.parametrize("head", [VALUES, HEAD.replace('"cat"', '"lion"'), HEAD + 'kind = "multi-label"\n'])
def test_a_question_that_was_changed_is_refused(make: Any, tmp_path: Path, head: str) -> None:
    crowd = make(2)
    crowd.submit(worker := crowd.enter("ann"), crowd.lease(worker)[0], "cat")
    with pytest.raises(InputError, match="the question has changed since answers were given"):
        open_campaign(read_project(write_project(tmp_path, head=head)))


def test_what_was_changed_in_the_files_is_taken_over_or_refused(make: Any, tmp_path: Path) -> None:
    crowd = make(2)
    (tmp_path / "gold.csv").write_text("task,label\nt0,cat\n")
    path = write_project(tmp_path, tasks="task,text\nt0,mended\nt1,x\n", more='[gold]\nfile = "gold.csv"\n')
    again = open_campaign(read_project(path))
    assert [(task.content["text"], task.has_gold) for task in again.tasks.values()] == [("mended", True), ("x", False)]
    again.store.close()
    crowd.submit(worker := crowd.enter("ann"), 1, "cat", n_next=0)
    assert worker
    write_project(tmp_path, tasks="task,text\nt0,something else\nt1,x\n")
    with pytest.raises(InputError, match="what task 't0' shows has changed"):
        open_campaign(read_project(path))


def test_a_client_says_what_is_wrong() -> None:
    page = httpx.MockTransport(lambda _request: httpx.Response(200, html="<html>"))
    with Client("http://x", "t", transport=page) as client, pytest.raises(ClientError, match="x is no campaign"):
        client.next_questions()
    for address in ("127.0.0.1:1", "http://127.0.0.1:1"):
        with Client(address, "t", tries=1) as client, pytest.raises(ClientError, match="does not answer"):
            client.status()
    for token in ("", "tökén", "a\nb", None):
        with pytest.raises(InputError, match="The token is empty"):
            Client("http://x", token)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="tries is 0"):
        Client("http://x", "t", tries=0)
    with pytest.raises(InputError, match="timeout is -1"):
        Client("http://x", "t", timeout=-1)
    for address in (None, "http://x\n", "http://\ud800"):
        with pytest.raises(InputError, match="is no address"):
            Client(address, "t")  # type: ignore[arg-type]
    with Client(f"http://{'x' * 300}", "t", tries=1) as client, pytest.raises(ClientError, match="does not answer"):
        client.status()


@pytest.mark.parametrize(
    ("send", "words"),
    [
        (lambda client, _: client.next_questions(0), "n is 0"),
        (lambda client, _: client.add_worker(""), "worker is ''"),
        (lambda client, _: client.add_tasks(["a"]), "'a' is no task"),
        (lambda client, _: client.add_tasks([{"task": 5}]), "task is 5"),
        (lambda client, _: client.add_tasks([{"task": "a", "model": "b"}]), "model is 'b'"),
        (lambda client, _: client.add_tasks([{1: "a"}]), "is no task"),
        (lambda client, _: client.add_tasks([{"task": "a", "gold": object()}]), "is no answer"),
        (lambda client, _: client.add_tasks([{"task": "a", "gold": float("nan")}]), "is no answer"),
        (lambda client, asked: client.answer(asked, "\ud800"), "is no answer"),
        (lambda client, asked: client.answer(asked, {"a", 1}), "is no answer"),
        (lambda client, _: client.set_worker_state("ann", "exclude"), "state is 'exclude'"),
        (lambda client, asked: client.answer(asked, object()), "is no answer"),
        (lambda client, asked: client.answer(asked, float("nan")), "is no answer"),
        (lambda client, asked: client.answer(asked, "cat", key="k" * 65), "key is"),
    ],
)
def test_a_client_refuses_what_no_server_takes(send: Any, words: str) -> None:
    asked = Asked(task="t", ticket="x", content={})
    with Client("http://x", "t") as client, pytest.raises(InputError, match=words):
        send(client, asked)


def test_a_client_sends_numbers_of_numpy() -> None:
    sent: list[bytes] = []

    def take(request: httpx.Request) -> httpx.Response:
        sent.append(request.content)
        return httpx.Response(200, json={"status": "accepted", "questions": [], "answered": 1})

    with Client("http://x", "t", transport=httpx.MockTransport(take)) as client:
        client.answer(Asked(task="t", ticket="x", content={}), np.int64(3))
    assert json.loads(sent[0])["answer"] == 3
