"""The page on which people answer: one question, plain forms, no script needed.

A personal link (`/w/TOKEN`) or the open link of the study (`/study`, with Prolific's parameters if it comes from there)
sets a cookie and leads to `/work`. Every form posts and is redirected there, so that reloading sends nothing twice;
should a browser send a form twice all the same, its key is the same and it counts once.
"""

from __future__ import annotations

import re
import secrets
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, HTTPException, Request, Response
from fastapi.responses import FileResponse, RedirectResponse
from pydantic import ValidationError

from crowdwise.campaign import api_models as models
from crowdwise.campaign.access import WORKER_COOKIE, check_form, get_service, read_form, refuse_haste, session_of
from crowdwise.campaign.images import IMAGE_NAME
from crowdwise.campaign.leases import ACCEPTED, REPEATED
from crowdwise.campaign.page_templates import render, render_message
from crowdwise.campaign.project import format_number
from crowdwise.campaign.worker_api import answer_from_form, refuse_barred

if TYPE_CHECKING:
    from crowdwise.campaign.running_campaign import KnownWorker
    from crowdwise.campaign.service import Service

__all__ = ["router"]

router = APIRouter(include_in_schema=False)
PROLIFIC = ("PROLIFIC_PID", "STUDY_ID", "SESSION_ID")
PROLIFIC_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
MONTH = 30 * 24 * 3600
REASONS = (
    "I am not sure",
    "The task is broken or cannot be read",
    "None of the answers fits",
    "I would rather not see this",
)
NOTES = {
    "full": "Your last answer came too late: the question was answered by others meanwhile. Here is the next one.",
    "answered": "You had answered that question already.",
    "key": "That answer had been sent already.",
    "limit": "Your last answer came too late: no more answers are taken.",
    "nothing": "There was no answer that could be taken back.",
    "undone": "Your last answer was taken back. Please answer again.",
    "skipped": "Skipped.",
    "invalid": "That was no valid answer. Please choose one.",
}


def _go(where: str = "/work", note: str = "") -> RedirectResponse:
    return RedirectResponse(f"{where}?note={note}" if note else where, 303)


def _enter(service: Service, worker: KnownWorker) -> RedirectResponse:
    token = service.campaign.signer.make_link(worker.name, worker.link)
    response = _go()
    response.set_cookie(WORKER_COOKIE, token, max_age=MONTH, httponly=True, samesite="lax", secure=service.secure)
    return response


def _find_worker(request: Request) -> KnownWorker | None:
    token = request.cookies.get(WORKER_COOKIE, "")
    return get_service(request).campaign.read_link(token) if token else None


def _refuse_stranger(service: Service) -> Response:
    return render_message(
        service, "This link does not work", "It may be incomplete, or a newer one has replaced it.",
        "Ask the people who invited you for a new link.", status=401,
    )  # fmt: skip


@router.get("/")
async def begin(request: Request) -> Response:
    """The address of the server itself."""
    service = get_service(request)
    if _find_worker(request) is not None or service.project.links == "open":
        return _go("/work" if _find_worker(request) is not None else "/study")
    return render_message(service, service.project.title, "To take part you need the link that was sent to you.")


@router.get("/w/{token}")
async def open_personal_link(request: Request, token: str) -> Response:
    """A personal link."""
    service = get_service(request)
    worker = service.campaign.read_link(token)
    return _refuse_stranger(service) if worker is None else _enter(service, worker)


@router.get("/study")
async def open_study(request: Request) -> Response:
    """The open link, for everybody or for Prolific's participants."""
    service = get_service(request)
    if service.project.links != "open":
        return render_message(
            service, "This study is by invitation", "You need the link that was sent to you.", status=403
        )
    known = _find_worker(request)
    given = {name: request.query_params.get(name, "") for name in PROLIFIC}
    person = given["PROLIFIC_PID"]
    if person and not PROLIFIC_ID.fullmatch(person):
        return render_message(service, "This link is not complete", "Please open it from Prolific again.", status=400)
    if known is not None and (not person or known.name == person):
        return _enter(service, known)
    address = request.client.host if request.client else ""
    if not service.entry_limit.allows(address) or not service.all_entries_limit.allows(""):
        return render_message(service, "Too many visitors at once", "Please try again in a minute.", status=429)
    name = person or f"visitor-{secrets.token_hex(6)}"
    details = {key: value for key, value in given.items() if key != "PROLIFIC_PID" and PROLIFIC_ID.fullmatch(value)}
    if person and service.campaign.is_invited(person):  # anyone may write a name into the address
        return render_message(
            service, "This link is not complete", "You were sent a link of your own: please use it.", status=403
        )
    return _enter(service, await service.campaign.enter(name, details))


@router.get("/work")
async def show_question(request: Request) -> Response:
    """The question that the worker has before them."""
    service, worker = get_service(request), _find_worker(request)
    if worker is None:
        return _refuse_stranger(service)
    if worker.state != "active":
        return render_message(
            service, f"Your work is {worker.state}", "The people who invited you can tell you more.", status=403
        )
    refuse_haste(request, worker.id)
    outcome = await service.campaign.lease(worker.id)
    refuse_barred(outcome)
    token = service.campaign.signer.make_form_token(request.cookies[WORKER_COOKIE])
    progress = service.campaign.progress(worker.id)
    if not outcome.tasks:
        return _say_done(service, token if progress["answered"] else "")
    asked = service.make_question(worker.id, outcome.tasks[0])
    return render(
        "work.html",
        service,
        question=service.project.question,
        asked=asked,
        content=_Content(asked["content"]),
        scale=_make_scale(service),
        answered=progress["answered"],
        limit=progress["limit"],
        form_token=token,
        keys=[secrets.token_urlsafe(12) for _ in range(3)],
        now=f"{service.campaign.store.clock.now():.2f}",
        note=NOTES.get(request.query_params.get("note", ""), ""),
        reasons=REASONS,
    )


class _Content(dict[str, str]):
    """What a task shows; what it does not show is empty."""

    def __missing__(self, _name: str) -> str:
        return ""


def _make_scale(service: Service) -> list[str]:
    """The values of a scale that has few; none of a long one, which is a number to be typed."""
    question = service.project.question
    n_steps = (question.high - question.low) / question.step
    if question.kind != "values" or n_steps > 10 or abs(n_steps - round(n_steps)) > 1e-9:
        return []
    return [format_number(question.low + each * question.step) for each in range(round(n_steps) + 1)]


def _say_done(service: Service, form_token: str) -> Response:
    project = service.project
    if service.campaign.paused:
        return render_message(service, "The study is paused", "Please come back later.")
    return render_message(
        service,
        "Thank you, that was all",
        "There is no question left for you. All your answers are stored.",
        code=project.completion_code,
        link=project.completion_url,
        link_text="Finish the study",
        form_token=form_token,
        key=secrets.token_urlsafe(12),
    )


async def _read_form(request: Request) -> tuple[KnownWorker, dict[str, Any]]:
    """The worker and their form; refuses one that another site posted."""
    worker = _find_worker(request)
    if worker is None:
        raise HTTPException(401, "Your link does not work any more.")
    form = await read_form(request, 300)
    check_form(request, form.get("form"), request.cookies.get(WORKER_COOKIE, ""))
    if worker.state != "active":
        raise HTTPException(403, f"Your work is {worker.state}.")
    return worker, {
        "answers": form.getlist("answer"),
        **{name: value for name, value in form.items() if isinstance(value, str)},
    }


def _seconds(service: Service, shown: object) -> float | None:
    try:
        return min(max(service.campaign.store.clock.now() - float(str(shown)), 0.0), 1e6)
    except ValueError:
        return None


@router.post("/work/answer")
async def post_answer(request: Request) -> Response:
    """An answer."""
    service = get_service(request)
    worker, form = await _read_form(request)
    kind = service.project.question.kind
    answer = form["answers"] if kind == "multi-label" else form["answers"][0] if form["answers"] else None
    try:
        given = models.AnswerRequest(
            task=form.get("task", ""), ticket=form.get("ticket", ""), key=form.get("key", ""), answer=answer,
            seconds=_seconds(service, form.get("shown")),
        )  # fmt: skip
        outcome = await service.campaign.submit(await answer_from_form(request, worker.id, given))
    except ValidationError:
        return _go(note="invalid")
    except HTTPException as error:
        if error.status_code == 422:
            return _go(note="invalid")
        raise
    return _go(note="" if outcome.status in (ACCEPTED, REPEATED) else outcome.status)


@router.post("/work/skip")
async def post_skip(request: Request) -> Response:
    """A skip."""
    service = get_service(request)
    worker, form = await _read_form(request)
    try:
        given = models.SkipRequest(
            task=form.get("task", ""),
            ticket=form.get("ticket", ""),
            key=form.get("key", ""),
            reason=form.get("reason", ""),
        )
    except ValidationError:
        return _go(note="invalid")
    outcome = await service.campaign.submit(await answer_from_form(request, worker.id, given))
    return _go(note="skipped" if outcome.status in (ACCEPTED, REPEATED) else outcome.status)


@router.post("/work/undo")
async def post_undo(request: Request) -> Response:
    """An undo."""
    worker, form = await _read_form(request)
    refuse_haste(request, worker.id)
    key = str(form.get("key", ""))[:64] or secrets.token_urlsafe(12)
    outcome = await get_service(request).campaign.undo(worker.id, re.sub(r"[^\x21-\x7e]", "_", key))
    return _go(note="undone" if outcome.status == ACCEPTED else "" if outcome.status == REPEATED else outcome.status)


@router.post("/work/leave")
async def post_leave(request: Request) -> Response:
    """The worker stops; what they hold is free for others."""
    service = get_service(request)
    worker, _ = await _read_form(request)
    refuse_haste(request, worker.id)
    await service.campaign.leave(worker.id)
    return render_message(
        service, "See you later", "Your answers are stored. You can go on at any time.", link="/work", link_text="Go on"
    )


@router.get("/media/{name}")
async def read_image(request: Request, name: str) -> Response:
    """An image of a task, for workers and the manager."""
    service = get_service(request)
    if not IMAGE_NAME.match(name) or not (service.campaign.images / name).is_file():
        raise HTTPException(404, "There is no such image.")
    if _find_worker(request) is None and not session_of(request):
        raise HTTPException(401, "This image is for workers of the study.")
    return FileResponse(service.campaign.images / name, headers={"cache-control": "private, max-age=86400"})
