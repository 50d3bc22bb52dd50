"""The API and the pages over HTTP: what works, and what is refused."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import re
import socket
import warnings
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from PIL import Image
from tests.campaign.campaigns import PASSWORD, TOKEN, make_campaign, serve

from crowdwise.campaign import Client, ClientError

if TYPE_CHECKING:
    from collections.abc import Iterator

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>"
MANAGER = {"authorization": f"Bearer {TOKEN}"}


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Any:
    text = HOSTILE.replace('"', '""')
    tasks = "task,text\n" + "".join(f'"t{number}","{text} {number}"\n' for number in range(40))
    folder = tmp_path_factory.mktemp("api")
    more = '[answers]\nper_task = 3\nper_minute = 6000\n[workers]\nlinks = "open"\ncompletion_code = "DONE-7"\n'
    return make_campaign(folder, tasks=tasks, more=more)


@pytest.fixture(scope="module")
def address(campaign: Any) -> Iterator[str]:
    with serve(campaign) as where:
        yield where


@pytest.fixture
def manager(address: str) -> Iterator[Client]:
    with Client(address, TOKEN, tries=1) as client:
        yield client


@pytest.fixture
def enter(address: str, manager: Client) -> Iterator[Any]:
    with contextlib.ExitStack() as stack:
        yield lambda name: stack.enter_context(Client(address, manager.add_worker(name).link, tries=1))


@contextlib.contextmanager
def log_in(address: str) -> Iterator[httpx.Client]:
    """A manager's browser."""
    with httpx.Client(base_url=address, headers={"accept": "text/html"}, follow_redirects=True) as browser:
        assert browser.post("/manage/login", data={"password": PASSWORD}).status_code == 200
        yield browser


def find_field(page: str, name: str) -> str:
    found = re.search(rf'name="{name}" value="([^"]*)"', page)
    assert found is not None
    return found[1]


def test_a_worker_answers_over_the_api(enter: Any, manager: Client) -> None:
    worker = enter("ann")
    assert worker.project().classes == ["cat", "dog"]
    question = worker.next_questions().questions[0]
    reply = worker.answer(question, "cat", seconds=2, key="k")
    assert (reply.status, reply.answered) == ("accepted", 1)
    assert worker.answer(question, "cat", key="k").status == "repeated"
    back = worker.undo()
    assert back.questions[0].task == question.task
    assert worker.answer(back.questions[0], "dog").answered == 1
    skipped = worker.next_questions().questions[0]
    assert worker.skip(skipped, "broken").questions[0].task != skipped.task
    worker.leave()
    row = next(row for row in manager.workers() if row.worker == "ann")
    assert (row.n_answers, row.state) == (1, "active")
    labels = [json.loads(line) for line in manager.export("labels", "jsonl").splitlines()]
    assert [(each["task"], each["label"]) for each in labels if each["worker"] == "ann"] == [(question.task, "dog")]
    assert manager.export("answers").count(b"skip") == 1
    assert {each.task: each.answer for each in manager.consensus()}[question.task] == "dog"


def test_a_model_answers_many(enter: Any) -> None:
    model = enter("a model")
    assert len(model.next_questions(5).questions) == 5
    assert model.answer_all(lambda question: "cat" if question.task == "t1" else "dog", most=12) == 12


@pytest.mark.parametrize(
    ("change", "status", "words"),
    [
        ({"answer": "fish"}, 422, "no class"),
        ({"answer": ["cat"]}, 422, "no class"),
        ({"ticket": "forged"}, 403, "not given to you"),
        ({"task": "another"}, 403, "not given to you"),
        ({"task": "nowhere"}, 403, "not given to you"),
        ({"key": ""}, 422, "key"),
        ({"key": "x" * 65}, 422, "key"),
        ({"seconds": -1}, 422, "seconds"),
        ({"more": 1}, 422, "more"),
    ],
)
def test_a_wrong_answer_is_refused(address: str, manager: Client, change: Any, status: int, words: str) -> None:
    headers = {"authorization": f"Bearer {manager.add_worker('wrong').token}"}
    question = httpx.post(f"{address}/api/next", json={}, headers=headers).json()["questions"][0]
    if question["task"] == change.get("task"):  # chance gave this worker the other task
        change = {"task": "t0"}
    body = {"task": question["task"], "ticket": question["ticket"], "answer": "cat", "key": "k", **change}
    if body["task"] == "another":  # chance decides which task is given
        body["task"] = "t38" if question["task"] == "t39" else "t39"
    reply = httpx.post(f"{address}/api/answers", json=body, headers=headers)
    assert (reply.status_code, words in reply.json()["detail"]) == (status, True)


def test_a_ticket_is_of_one_worker(enter: Any) -> None:
    ann, bob = enter("ann of the ticket"), enter("bob of the ticket")
    with pytest.raises(ClientError, match="not given to you"):
        bob.answer(ann.next_questions().questions[0], "cat")


def test_forged_and_replaced_links_are_refused(address: str, manager: Client) -> None:
    link = manager.add_worker("cid")
    body, _, signature = link.token.partition(".")
    other = base64.urlsafe_b64encode(b"0:eve").rstrip(b"=").decode()
    forged = [f"{other}.{signature}", f"{body}.{signature[:-2]}", body, ".", "x" * 5000, f"{body}.{signature}x", TOKEN]
    for token in forged:
        reply = httpx.post(f"{address}/api/next", json={}, headers={"authorization": f"Bearer {token}"})
        assert reply.status_code == 401, token
    assert httpx.get(f"{address}/w/{other}.{signature}").status_code == 401
    headers = {"authorization": f"Bearer {link.token}"}
    assert httpx.post(f"{address}/api/next", json={}, headers=headers).status_code == 200
    assert httpx.post(f"{address}/api/workers/link", json={"worker": "cid"}, headers=MANAGER).status_code == 200
    assert httpx.post(f"{address}/api/next", json={}, headers=headers).status_code == 401  # replaced by a newer one
    for path in ("/api/status", "/api/workers", "/api/export/labels.csv", "/api/actions"):
        assert httpx.get(f"{address}{path}", headers=headers).status_code == 401
        assert httpx.get(f"{address}{path}").status_code == 401


def test_excluded_workers_get_nothing(address: str, enter: Any, manager: Client) -> None:
    worker = enter("dan")
    question = worker.next_questions().questions[0]
    manager.set_worker_state("dan", "excluded", "guesses")
    for request in (worker.next_questions, lambda: worker.answer(question, "cat")):
        with pytest.raises(ClientError, match="excluded"):
            request()
    manager.set_worker_state("dan", "active")
    assert worker.next_questions().questions


def test_a_session_ends_with_log_out(address: str) -> None:
    with log_in(address) as browser:
        page = browser.get("/manage").text
        cookie = browser.cookies["crowdwise_manager"]
        browser.post("/manage/logout", data={"form": find_field(page, "form")})
    replayed = httpx.get(f"{address}/api/status", cookies={"crowdwise_manager": cookie})
    assert replayed.status_code == 401


def test_other_sites_cannot_post(address: str, campaign: Any) -> None:
    with log_in(address) as browser:
        token = find_field(browser.get("/manage").text, "form")
        pause = {"do": "pause-campaign", "form": token}
        for headers in ({"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"}, {"origin": "null"}):
            assert browser.post("/manage/act", data=pause, headers=headers).status_code == 403
        assert browser.post("/manage/act", data={"do": "pause-campaign"}).status_code == 403
        assert browser.post("/manage/act", data={**pause, "form": token[:-3] + "abc"}).status_code == 403
        assert browser.post("/api/pause", json={"paused": True}).status_code == 403  # a cookie without the form's token
        assert not campaign.paused
        assert browser.post("/api/pause", json={"paused": False}, headers={"x-form-token": token}).status_code == 204
    login = httpx.post(
        f"{address}/manage/login", data={"password": PASSWORD}, headers={"origin": "https://evil.example"}
    )
    assert login.status_code == 403


def test_wrong_passwords_are_few(address: str, campaign: Any) -> None:
    found = [httpx.post(f"{address}/manage/login", data={"password": f"guess {n}"}).status_code for n in range(8)]
    assert found[-1] == 429
    assert 401 in found
    assert any(row.action == "failed login" for row in campaign.store.list_actions())


def test_task_text_stays_text(address: str, manager: Client) -> None:
    with httpx.Client(base_url=address, follow_redirects=True) as browser:
        page = browser.get(manager.add_worker(HOSTILE).link.removeprefix(address))
        assert page.status_code == 200
        assert "<script>alert" not in page.text
        assert "&lt;script&gt;alert(1)" in page.text
        policy = page.headers["content-security-policy"]
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
        assert page.headers["x-content-type-options"] == "nosniff"


def test_large_bodies_are_refused(address: str, manager: Client) -> None:
    def stream() -> Iterator[bytes]:
        for _ in range(100):
            yield b"x" * (1 << 20)

    host, _, port = address.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=10) as line:
        line.sendall(b"POST /api/next HTTP/1.1\r\nhost: x\r\ncontent-length: 104857600\r\n\r\n{}")
        assert line.recv(4_096).startswith(b"HTTP/1.1 413")
    headers = {"authorization": f"Bearer {manager.add_worker('large').token}"}
    with httpx.Client() as client, contextlib.suppress(httpx.TransportError):  # hung up while the rest was on its way
        assert client.post(f"{address}/api/next", content=stream(), headers=headers).status_code == 413
    assert httpx.get(f"{address}/health").status_code == 200


@pytest.mark.parametrize(
    "path", ["/static/../project.py", "/static/..%2fproject.py", "/media/..%2fcampaign.db", "/media/campaign.db",
             "/static/%2e%2e/%2e%2e/x", "/w/..%2f..%2fetc", "/api/export/..%2fx.csv", "/media/%00"],
)  # fmt: skip
def test_paths_lead_nowhere_else(address: str, path: str) -> None:
    assert httpx.get(f"{address}{path}", headers=MANAGER).status_code in (400, 401, 404, 422)


def test_images_are_written_anew(address: str, campaign: Any) -> None:
    buffer = io.BytesIO()
    Image.new("RGB", (4, 3), "red").save(buffer, "JPEG", exif=b"Exif\x00\x00secret place", comment=b"<script>")
    reply = httpx.post(f"{address}/api/images", files={"image": ("../../x.jpg", buffer.getvalue())}, headers=MANAGER)
    name = reply.json()["image"]
    stored = (campaign.images / name).read_bytes()
    assert b"script" not in stored
    assert b"secret" not in stored
    assert Image.open(io.BytesIO(stored)).size == (4, 3)
    for content in (b"<svg onload=alert(1)>", b"GIF89a", b"", buffer.getvalue()[:40]):
        assert (
            httpx.post(f"{address}/api/images", files={"image": ("x.png", content)}, headers=MANAGER).status_code == 422
        )
    assert httpx.get(f"{address}/media/{name}").status_code == 401
    added = httpx.post(f"{address}/api/tasks", json=[{"task": "p", "image": "/etc/passwd"}], headers=MANAGER)
    assert added.status_code == 422


def test_prolific_comes_in_and_gets_the_code(address: str, campaign: Any) -> None:
    with httpx.Client(base_url=address, follow_redirects=True) as browser:
        page = browser.get("/study", params={"PROLIFIC_PID": "5f3c2b1a", "STUDY_ID": "s1", "SESSION_ID": "x9"}).text
        assert "Which animal is it?" in page
        for _ in range(200):
            if "DONE-7" in page:
                break
            fields = {name: find_field(page, name) for name in ("form", "task", "ticket", "key")}
            page = browser.post("/work/answer", data={**fields, "answer": "dog"}).text
        assert "DONE-7" in page
    assert json.loads(campaign.store.find_worker("5f3c2b1a").details) == {"STUDY_ID": "s1", "SESSION_ID": "x9"}
    assert httpx.get(f"{address}/study", params={"PROLIFIC_PID": "<x>"}).status_code == 400


def test_forms_without_a_script(address: str, manager: Client, campaign: Any) -> None:
    with httpx.Client(base_url=address, follow_redirects=True) as browser:
        path = manager.add_worker("fay").link.removeprefix(address)
        manager.add_tasks([{"task": f"extra {n}", "text": "More"} for n in range(6)])
        page = browser.get(path).text
        fields = {name: find_field(page, name) for name in ("form", "task", "ticket", "key")}
        assert "no valid answer" in browser.post("/work/answer", data={**fields, "answer": "fish"}).text
        browser.post("/work/answer", data={**fields, "answer": "dog"})
        browser.post("/work/answer", data={**fields, "answer": "dog"})  # the back button, and once more
        page = browser.post("/work/undo", data={"form": fields["form"], "key": "u"}).text
        assert find_field(page, "task") == fields["task"]
        assert browser.post("/work/undo", data={"form": "forged", "key": "v"}).status_code == 403
        assert "See you later" in browser.post("/work/leave", data={"form": fields["form"]}).text


def test_health_metrics_and_the_log(address: str, manager: Client) -> None:
    assert httpx.get(f"{address}/health").json() == {"status": "ok"}
    text = httpx.get(f"{address}/metrics").text
    assert re.search(r"^crowdwise_answers \d+$", text, re.MULTILINE)
    assert 'crowdwise_requests_total{route="/api/answers",status="200"}' in text
    assert not re.search("ann|fay", text)
    actions = httpx.get(f"{address}/api/actions", headers=MANAGER).json()
    assert {"add worker", "export"} <= {each["action"] for each in actions}


def test_every_operation_survives_strange_input(address: str, campaign: Any) -> None:
    """Schemathesis over the whole description: what it makes up is refused, and nothing breaks."""
    import requests
    import schemathesis
    from hypothesis import HealthCheck, Phase, given, settings

    schema = schemathesis.openapi.from_dict(httpx.get(f"{address}/api/openapi.json").json())
    worker = {"authorization": f"Bearer {campaign.signer.make_link('ann', 0)}"}
    found: dict[int, int] = {}
    n_operations = 0
    for each in schema.get_all_operations():
        operation = each.ok()
        n_operations += 1

        @given(case=operation.as_strategy())
        @settings(max_examples=12, deadline=None, database=None, phases=[Phase.generate], derandomize=True,
                  suppress_health_check=list(HealthCheck))  # fmt: skip
        def send(case: Any) -> None:
            for headers in (MANAGER, worker):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    reply = case.call(base_url=address, headers=headers, session=session)
                found[reply.status_code] = found.get(reply.status_code, 0) + 1
                assert reply.status_code < 500, (case.method, case.path, reply.text)

        with requests.Session() as session:
            send()
    assert n_operations >= 20
    assert 200 in found
    assert 422 in found


@pytest.mark.parametrize("line", [b"x: " + b"y" * 1000 + b"\r\n", b"y" * 1000])
def test_headers_that_do_not_end_are_cut_off(address: str, line: bytes) -> None:
    host, _, port = address.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=5) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nhost: here\r\nx-long: ")
        with pytest.raises(OSError):  # noqa: PT011 (reset or broken pipe)
            connection.sendall(line * 10_000)
    assert httpx.get(f"{address}/health").status_code == 200
