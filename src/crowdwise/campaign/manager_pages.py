"""The manager's pages: log in, the live overview, and what is done to workers, tasks and the campaign.

The overview is made on the server and works without a script; with one, server-sent events replace its live part
whenever an answer came.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, HTTPException, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse, StreamingResponse
from pydantic import ValidationError

from crowdwise.campaign import charts
from crowdwise.campaign.access import (
    MANAGER_COOKIE,
    check_form,
    get_service,
    read_form,
    refuse_cross_site,
    session_of,
)
from crowdwise.campaign.api_models import NewWorker
from crowdwise.campaign.manager_actions import ManagerActions
from crowdwise.campaign.page_templates import render
from crowdwise.campaign.security import MOST_PASSWORD, hash_token, verify_password
from crowdwise.campaign.tool_exports import list_tools
from crowdwise.labels.errors import InputError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from crowdwise.campaign.service import Service

__all__ = ["collect_overview", "make_overview", "router"]

router = APIRouter(prefix="/manage", include_in_schema=False)
SESSION = 12 * 3600  # seconds
LOOK = 0.5  # seconds between two looks for something new
SKILLS = {  # what is known of workers by the kind of question: its name, and what it is
    "classes": ("skill", "skill is the chance that an answer is right"),
    "values": ("error", "error is the standard deviation of a worker's answers about the consensus"),
    "comparison": ("reliability", "reliability below one half means that a worker says the opposite"),
    "multi-label": ("sensitivity", "sensitivity is the share of the right classes that a worker names"),
}
STATES = {"active": "admit", "paused": "pause", "excluded": "exclude"}


def _to_login() -> RedirectResponse:
    return RedirectResponse("/manage/login", 303)


@router.get("/login")
def show_login(request: Request) -> Response:
    """The form to log in."""
    return render("login.html", get_service(request), note="")


@router.post("/login")
async def log_in(request: Request) -> Response:
    """Begin a session, if the password is right; a few tries a minute for each address."""
    service = get_service(request)
    refuse_cross_site(request)
    form = await read_form(request, 10)
    host = request.client.host if request.client else ""
    if not service.login_limit.allows(host) or not service.all_logins_limit.allows(""):
        return render("login.html", service, 429, note="Too many tries. Wait a minute.")
    store = service.campaign.store
    stored = store.read_setting("password") or ""
    if not await asyncio.to_thread(verify_password, str(form.get("password", ""))[:MOST_PASSWORD], stored):
        await asyncio.to_thread(store.log_action, "unknown", "failed login")
        return render("login.html", service, 401, note="This is not the password.")
    token = secrets.token_urlsafe(32)
    await asyncio.to_thread(store.begin_session, hash_token(token), store.clock.now() + SESSION)
    await asyncio.to_thread(store.log_action, "password", "log in")
    response = RedirectResponse("/manage", 303)
    response.set_cookie(
        MANAGER_COOKIE, token, max_age=SESSION, httponly=True, samesite="strict", secure=service.secure, path="/"
    )
    return response


@router.get("")
def show_overview(request: Request) -> Response:
    """The overview."""
    session = session_of(request)
    if not session:
        return _to_login()
    return make_overview(get_service(request), session, str(request.base_url))


def make_overview(service: Service, session: str, base: str) -> HTMLResponse:
    """The page of the overview."""
    return render(
        "manage.html", service, **collect_overview(service, session, base), body=_render_live(service, session, base)
    )


def _render_live(service: Service, session: str, base: str) -> str:
    """The part of the overview that changes."""
    response = render("overview.html", service, **collect_overview(service, session, base))
    return bytes(response.body).decode()


def collect_overview(service: Service, session: str, base: str) -> dict[str, Any]:
    """What the overview shows."""
    snapshot, campaign = service.consensus.snapshot(), service.campaign
    status = service.status()
    contents = campaign.tasks
    disputed = [
        {"task": name, "verdict": each, "votes": sorted(each.votes.items(), key=lambda vote: -vote[1]),
         "text": contents[campaign.task_numbers[name]].content.get("text", "")}
        for name, each in snapshot.list_disputed(12)
    ]  # fmt: skip
    confidences = [each.confidence for each in snapshot.tasks.values() if each.confidence is not None]
    workers = service.worker_rows()
    return {
        "status": status,
        "snapshot": snapshot,
        "workers": workers[:100],
        "n_workers": len(workers),
        "interval": charts.draw_interval,
        "rate_chart": charts.draw_rate(snapshot.history, campaign.store.clock.now()),
        "confidence_chart": charts.draw_confidence(confidences),
        "disputed": disputed,
        "scores": snapshot.scores[:20],
        "actions": campaign.store.list_actions(15),
        "form_token": campaign.signer.make_form_token(session),
        "states": STATES,
        "skill": SKILLS[service.project.question.kind],
        "stop_note": service.keeper.describe(),
        "policy": service.project.policy,
        "findings": service.findings(),
        "forecast": service.forecast(),
        "tools": list_tools(service.project.question.kind),
        "n_gold": sum(task.has_gold for task in list(contents.values())),
        "open_link": f"{service.project.public_url or base.rstrip('/')}/study"
        if service.project.links == "open"
        else "",
    }


@router.get("/events")
async def send_events(request: Request) -> Response:
    """The live part of the overview, whenever something is new (server-sent events)."""
    session = session_of(request)
    if not session:
        raise HTTPException(401, "This needs the manager.")
    service, base = get_service(request), str(request.base_url)

    async def stream() -> AsyncIterator[str]:
        seen, quiet = -2, 0.0
        while not service.stopping and not await request.is_disconnected():
            changed = service.campaign.changed
            if changed != seen:
                if not await asyncio.to_thread(session_of, request):
                    return
                page = await asyncio.to_thread(_render_live, service, session, base)
                seen = service.consensus.snapshot_number()
                quiet = 0.0
                yield f"data: {json.dumps(page)}\n\n"
            elif quiet >= 15:
                if not await asyncio.to_thread(session_of, request):
                    return
                quiet = 0.0
                yield ": still here\n\n"
            quiet += LOOK
            await asyncio.sleep(LOOK)

    return StreamingResponse(stream(), media_type="text/event-stream", headers={"x-accel-buffering": "no"})


@router.post("/act")
async def act(request: Request) -> Response:
    """A form of the overview: something done to a worker, a task or the campaign."""
    session = await asyncio.to_thread(session_of, request)
    if not session:
        return _to_login()
    form = {name: str(value)[:1_000] for name, value in (await read_form(request, 20)).items()}
    check_form(request, form.get("form"), session)
    service = get_service(request)
    actions = ManagerActions(service.campaign, "password")
    said = await asyncio.to_thread(_do, service, actions, form, str(request.base_url))
    if said:
        return render("link.html", service, made=said)
    return RedirectResponse("/manage", 303)


def _do(service: Service, actions: ManagerActions, form: dict[str, str], base: str) -> dict[str, str] | None:
    what, worker, reason = form.get("do"), form.get("worker", ""), form.get("reason", "").replace("\x00", "")
    if what == "add":
        try:
            worker = NewWorker(worker=worker).worker
        except ValidationError as error:
            raise InputError("A worker needs a name of at most 200 letters, all of which can be seen.") from error
        return service.make_link(actions.add_worker(worker), base)
    if what == "link":
        return service.make_link(actions.renew_link(worker), base)
    if what in STATES:
        actions.set_worker_state(worker, what, reason)
    elif what == "pseudonymise":
        actions.pseudonymise(worker)
    elif what == "delete":
        actions.delete_worker(worker)
    elif what in ("pause-campaign", "continue-campaign"):
        actions.set_paused(what == "pause-campaign", reason)
    elif what in ("finish-task", "open-task"):
        actions.set_task_state(form.get("task", ""), "finished" if what == "finish-task" else "open", reason)
    elif what == "audit":
        service.run_audit()
    else:
        raise InputError("There is no such action.")
    return None


@router.post("/logout")
async def log_out(request: Request) -> Response:
    """End the session; its cookie is worth nothing any more."""
    session = await asyncio.to_thread(session_of, request)
    form = await read_form(request, 5)
    check_form(request, form.get("form"), session)
    await asyncio.to_thread(get_service(request).campaign.store.end_session, hash_token(session))
    response = _to_login()
    response.delete_cookie(MANAGER_COOKIE)
    return response
