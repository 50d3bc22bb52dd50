"""The API of workers, people or models: the next question, an answer, a skip, an undo.

These are the requests that a campaign has most of. They read the body themselves and check it with pydantic, which
costs a tenth of what FastAPI's own way does; the models are in the OpenAPI description all the same.
"""

from __future__ import annotations

import json
from typing import Any, TypeVar

from fastapi import APIRouter, HTTPException, Request, Response
from pydantic import BaseModel, ValidationError

from crowdwise.campaign import api_models as models
from crowdwise.campaign.access import get_service, get_worker, refuse_haste
from crowdwise.campaign.leases import ACCEPTED, BARRED, REPEATED, Answer, Outcome
from crowdwise.labels.errors import InputError

__all__ = ["answer_from_form", "refuse_barred", "router"]

router = APIRouter(prefix="/api", tags=["workers"])
M = TypeVar("M", bound=BaseModel)
REFUSED = {
    "full": "This task has all its answers: yours came too late. Take the next one.",
    "answered": "You have answered this task already.",
    "key": "This key was used for another answer.",
    "nothing": "There is no answer that you could take back.",
    "limit": "No more answers are taken: this study, or your part of it, has all that it needs.",
}
ERRORS: dict[int | str, dict[str, Any]] = {
    code: {"model": models.ErrorReply} for code in (400, 401, 403, 404, 409, 413, 422, 429, 503)
}


def takes(model: type[BaseModel]) -> dict[str, Any]:
    """What the OpenAPI description says of a body that the route reads by itself."""
    schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


async def read_body(request: Request, model: type[M]) -> M:
    """The body, checked."""
    try:
        return model.model_validate_json(await request.body())
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise HTTPException(422, f"{where or 'The body'}: {first['msg']}.") from error


def send(content: Any, status: int = 200) -> Response:
    """JSON, made quickly."""
    return Response(
        json.dumps(content, ensure_ascii=False, separators=(",", ":")), status, media_type="application/json"
    )


async def answer_from_form(request: Request, worker: int, given: models.AnswerRequest | models.SkipRequest) -> Answer:
    """An answer that may be stored: of a task that this worker was given, and one that was asked for."""
    service = get_service(request)
    refuse_haste(request, worker)
    task = await service.campaign.find_task(given.task)
    if task is None or not service.campaign.signer.check_ticket(given.ticket, worker, task):
        raise HTTPException(403, "This question was not given to you.")
    if isinstance(given, models.SkipRequest):
        return Answer(worker, task, given.key, None, given.reason, None, given.next)
    try:
        answer = service.project.question.check_answer(given.answer)
    except InputError as error:
        raise HTTPException(422, str(error)) from error
    return Answer(worker, task, given.key, json.dumps(answer, ensure_ascii=False), None, given.seconds, given.next)


def refuse_barred(outcome: Outcome) -> None:
    """Refuse a worker who was paused, excluded or deleted while the request came in."""
    if outcome.status == BARRED:
        raise HTTPException(403, "You do not work in this study at present. The manager can tell you more.")


def reply(request: Request, worker: int, outcome: Outcome, n_next: int = 1) -> Response:
    """What became of a request, with the next questions, if any were asked for; 409 if it was refused."""
    refuse_barred(outcome)
    if outcome.status not in (ACCEPTED, REPEATED):
        raise HTTPException(409, REFUSED[outcome.status])
    content = get_service(request).make_next(worker, outcome.tasks, asked=n_next > 0)
    return send({"status": outcome.status, **content})


@router.get("/project", response_model=models.ProjectReply, responses=ERRORS)
async def read_project(request: Request) -> Response:
    """What is asked, and how."""
    get_worker(request)
    project = get_service(request).project
    question = project.question
    return send({"title": project.title, "kind": question.kind, "question": question.text,
                 "classes": question.classes, "low": question.low, "high": question.high, "step": question.step,
                 "instructions": project.instructions})  # fmt: skip


@router.post("/next", response_model=models.NextReply, responses=ERRORS, openapi_extra=takes(models.NextRequest))
async def next_questions(request: Request) -> Response:
    """Questions for this worker: those they hold, and new ones. They are held for a time, then given to others."""
    worker = get_worker(request)
    service = get_service(request)
    wanted = await read_body(request, models.NextRequest)
    refuse_haste(request, worker.id)
    outcome = await service.campaign.lease(worker.id, wanted.n)
    refuse_barred(outcome)
    return send(service.make_next(worker.id, outcome.tasks))


@router.post("/answers", response_model=models.AnswerReply, responses=ERRORS,
             openapi_extra=takes(models.AnswerRequest))  # fmt: skip
async def submit_answer(request: Request) -> Response:
    """Store an answer. When the reply comes it is on disk; sent again with the same key it counts once."""
    worker = get_worker(request)
    given = await answer_from_form(request, worker.id, await read_body(request, models.AnswerRequest))
    return reply(request, worker.id, await get_service(request).campaign.submit(given), given.n_next)


@router.post("/skips", response_model=models.AnswerReply, responses=ERRORS, openapi_extra=takes(models.SkipRequest))
async def skip_task(request: Request) -> Response:
    """Give a question back, with a reason; this worker is not asked it again."""
    worker = get_worker(request)
    given = await answer_from_form(request, worker.id, await read_body(request, models.SkipRequest))
    return reply(request, worker.id, await get_service(request).campaign.submit(given), given.n_next)


@router.post("/undo", response_model=models.AnswerReply, responses=ERRORS, openapi_extra=takes(models.UndoRequest))
async def undo_answer(request: Request) -> Response:
    """Take the last answer back; its question comes again."""
    worker = get_worker(request)
    given = await read_body(request, models.UndoRequest)
    refuse_haste(request, worker.id)
    return reply(request, worker.id, await get_service(request).campaign.undo(worker.id, given.key))


@router.post("/leave", status_code=204, response_class=Response, responses=ERRORS)
async def leave_study(request: Request) -> Response:
    """Give back what this worker holds."""
    worker = get_worker(request)
    refuse_haste(request, worker.id)
    await get_service(request).campaign.leave(worker.id)
    return Response(status_code=204)
