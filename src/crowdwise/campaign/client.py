"""A typed client of a campaign's API: for models that answer, and for programs that manage."""

from __future__ import annotations

import json
import secrets
import time
from typing import TYPE_CHECKING, Any, TypeVar

from crowdwise.campaign.installed_packages import explain_missing_package
from crowdwise.fitting.parameter_checks import check_count, check_number
from crowdwise.labels.errors import CrowdwiseError, InputError, quote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

with explain_missing_package():
    import httpx
    from pydantic import BaseModel, TypeAdapter, ValidationError

    from crowdwise.campaign import api_models as models

__all__ = ["Client", "ClientError"]

M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")
AGAIN = (429, 502, 503, 504)  # nothing was stored, or it is safe to send it again


class ClientError(CrowdwiseError):
    """The server refused a request; `status` is its code, 0 where it cannot be reached."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(f"{detail} ({status})" if status else detail)
        self.status = status


class Client:
    """A client of a campaign.

    Parameters
    ----------
    address
        Of the server: "http://127.0.0.1:8000".
    token
        A worker's token (the last part of a personal link, or the link itself) or the manager's.
    tries
        How often a request is sent while the server is away; answers have a key and count once.
    transport
        How requests are sent, for tests.

    Examples
    --------
    A model as a worker::

        with cw.campaign.Client("https://label.example.org", token) as client:
            client.answer_all(lambda question: classify(question.content["text"]))
    """

    def __init__(
        self,
        address: str,
        token: str,
        *,
        tries: int = 5,
        timeout: float = 30.0,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        if not isinstance(address, str):
            raise InputError(f"{quote(address)} is no address of a server, such as http://127.0.0.1:8000.")
        token = token.strip().rstrip("/").rpartition("/")[2] if isinstance(token, str) else ""
        if not token or not (token.isascii() and token.isprintable()):
            raise InputError("The token is empty, or has letters that no request can send. Give a link or a token.")
        check_count("tries", tries)
        check_number("timeout", timeout, low=0, above=True)
        headers = {"authorization": f"Bearer {token}"}
        try:
            self._http = httpx.Client(base_url=address, headers=headers, timeout=timeout, transport=transport)
        except httpx.InvalidURL as error:
            raise InputError(f"{quote(address)} is no address of a server: {error}") from error
        self._address, self._tries = address, tries

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def _send(self, method: str, path: str, body: BaseModel | list[Any] | None = None, **more: Any) -> httpx.Response:
        content = body.model_dump(exclude_none=True) if isinstance(body, BaseModel) else body
        for attempt in range(self._tries):
            try:
                reply = self._http.request(method, path, json=content, **more)
            except (httpx.TransportError, httpx.InvalidURL, UnicodeError) as error:  # the last of a name too long
                if attempt == self._tries - 1:
                    raise ClientError(0, f"{self._address} does not answer: {error}") from error
            else:
                if reply.is_success:
                    return reply
                if reply.status_code not in AGAIN or attempt == self._tries - 1:
                    raise ClientError(reply.status_code, _read_detail(reply))
            time.sleep(min(0.2 * 2**attempt, 5.0))
        raise AssertionError("not reached")

    def _get(self, model: type[M], path: str, body: BaseModel | None = None) -> M:
        return self._read(TypeAdapter(model), self._send("GET" if body is None else "POST", path, body))

    def _read(self, adapter: TypeAdapter[T], reply: httpx.Response) -> T:
        try:
            return adapter.validate_json(reply.content)
        except ValidationError as error:
            raise ClientError(reply.status_code, f"{self._address} is no campaign: its reply cannot be read") from error

    # ---- for workers --------------------------------------------------------------------------------------

    def project(self) -> models.ProjectReply:
        """What is asked."""
        return self._get(models.ProjectReply, "/api/project")

    def next_questions(self, n: int = 1) -> models.NextReply:
        """Questions to answer: those held already, and new ones."""
        return self._get(models.NextReply, "/api/next", _make(models.NextRequest, n=n))

    def answer(
        self,
        question: models.Question,
        answer: Any,
        *,
        seconds: float | None = None,
        n_next: int = 1,
        key: str | None = None,
    ) -> models.AnswerReply:
        """Answer a question; returns once it is stored, with the next one."""
        body = _make(
            models.AnswerRequest, task=question.task, ticket=question.ticket, answer=_as_json(answer),
            key=key or secrets.token_urlsafe(12), seconds=seconds, next=n_next,
        )  # fmt: skip
        return self._get(models.AnswerReply, "/api/answers", body)

    def skip(self, question: models.Question, reason: str = "") -> models.AnswerReply:
        """Give a question back."""
        body = _make(
            models.SkipRequest, task=question.task, ticket=question.ticket, key=secrets.token_urlsafe(12), reason=reason
        )
        return self._get(models.AnswerReply, "/api/skips", body)

    def undo(self) -> models.AnswerReply:
        """Take the last answer back; its question is in the reply."""
        return self._get(models.AnswerReply, "/api/undo", models.UndoRequest(key=secrets.token_urlsafe(12)))

    def leave(self) -> None:
        """Give back what is held."""
        self._send("POST", "/api/leave")

    def answer_all(self, decide: Callable[[models.Question], Any], most: int | None = None) -> int:
        """Answer until there is no question left (or `most` are answered); returns how many were answered.

        Parameters
        ----------
        decide
            Gives the answer to a question; None skips it.
        """
        done = 0
        found: models.NextReply = self.next_questions()
        while found.questions and (most is None or done < most):
            began = time.monotonic()
            answer = decide(found.questions[0])
            try:
                if answer is None:
                    found = self.skip(found.questions[0], "no answer")
                    continue
                found = self.answer(found.questions[0], answer, seconds=time.monotonic() - began)
                done += 1
            except ClientError as error:
                if error.status != 409:
                    raise
                found = self.next_questions()  # it was stopped, or answered by others, meanwhile
        return done

    # ---- for managers -------------------------------------------------------------------------------------

    def status(self) -> models.Status:
        """Where the campaign stands."""
        return self._get(models.Status, "/api/status")

    def workers(self) -> list[models.WorkerRow]:
        """Every worker's portrait."""
        return self._read(TypeAdapter(list[models.WorkerRow]), self._send("GET", "/api/workers"))

    def consensus(self) -> Iterator[models.ConsensusRow]:
        """What the answers to each task come to."""
        begin, most = 0, 5_000
        while True:
            reply = self._send("GET", "/api/consensus", params={"begin": begin, "most": most})
            rows = self._read(TypeAdapter(list[models.ConsensusRow]), reply)
            yield from rows
            if len(rows) < most:
                return
            begin += most

    def add_worker(self, worker: str) -> models.LinkReply:
        """A worker's personal link."""
        return self._get(models.LinkReply, "/api/workers", _make(models.NewWorker, worker=worker))

    def add_tasks(self, tasks: Iterable[dict[str, Any]]) -> int:
        """Add tasks, each with its name under "task" and what it shows; returns how many are new."""
        body = []
        for task in tasks:
            if not isinstance(task, dict) or not all(isinstance(key, str) for key in task):
                raise InputError(f"{quote(task)} is no task. Give dicts with its name under task, and what it shows.")
            known = {"gold": _as_json(task["gold"])} if "gold" in task else {}
            body.append(_make(models.NewTask, **{**task, **known}).model_dump(exclude_none=True))
        return self._read(TypeAdapter(models.TasksReply), self._send("POST", "/api/tasks", body)).added

    def set_worker_state(self, worker: str, state: str, reason: str = "") -> None:
        """Pause ("paused") or exclude ("excluded") a worker, or let them work again ("active")."""
        self._send(
            "POST",
            "/api/workers/state",
            _make(models.StateRequest, worker=worker, state=state, reason=reason),
        )

    def export(self, table: str = "labels", form: str = "csv") -> bytes:
        """A table of the campaign, as the manager's page exports it."""
        return self._send("GET", f"/api/export/{table}.{form}").content

    def export_for(self, tool: str, content: str = "answers") -> bytes:
        """The answers or the consensus as a file of a labelling tool.

        Parameters
        ----------
        tool
            "label-studio" (JSON), "doccano" (zip; consensus: JSON lines), "prodigy" (JSON lines) or "hugging-face"
            (Parquet).
        content
            "answers", with the consensus as predictions where the tool's file has a place for it, or "consensus".
        """
        return self._send("GET", f"/api/export/{tool}/{content}").content


def _make(model: type[M], /, **values: Any) -> M:
    """The body of a request; raises `InputError` for what the server would not take."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise InputError(f"{where} is {quote(first['input'])}. {first['msg']}.") from error


def _as_json(answer: Any) -> Any:
    """An answer as JSON has it: numbers and arrays of numpy as Python's, sets as lists."""
    try:
        plain = answer.tolist() if hasattr(answer, "tolist") else sorted(answer) if isinstance(answer, set) else answer
        json.dumps(plain, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"{quote(answer)} is no answer: give a text, a finite number or a list of texts.") from error
    return plain


def _read_detail(reply: httpx.Response) -> str:
    try:
        return str(reply.json()["detail"])
    except (ValueError, KeyError, TypeError):
        return reply.reason_phrase
