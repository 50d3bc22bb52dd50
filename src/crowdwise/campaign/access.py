"""Who makes a request: a worker (personal link) or a manager (session or token); and whether another site made it."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

from fastapi import Depends, HTTPException, Request

from crowdwise.campaign.security import hash_token

if TYPE_CHECKING:
    from starlette.datastructures import FormData

    from crowdwise.campaign.running_campaign import KnownWorker
    from crowdwise.campaign.service import Service

__all__ = ["MANAGER_COOKIE", "WORKER_COOKIE", "Manager", "check_form", "get_service", "get_worker", "read_bearer",
           "read_form", "refuse_cross_site", "refuse_haste", "session_of"]  # fmt: skip

WORKER_COOKIE, MANAGER_COOKIE = "crowdwise_worker", "crowdwise_manager"
SAFE = ("GET", "HEAD", "OPTIONS")


def get_service(request: Request) -> Service:
    """What the application shares."""
    service: Service = request.app.state.service
    return service


def read_bearer(request: Request) -> str:
    """The token of the header Authorization; "" if there is none."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def refuse_cross_site(request: Request) -> None:
    """Refuse a request that another site made a browser send."""
    site = request.headers.get("sec-fetch-site")
    if site is not None and site not in ("same-origin", "none"):
        raise HTTPException(403, "This request came from another site.")
    origin = request.headers.get("origin")
    if origin is not None and _read_host(origin) != request.headers.get("host"):
        raise HTTPException(403, "This request came from another site.")


def _read_host(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc
    except ValueError:  # no address at all
        return None


async def read_form(request: Request, most: int) -> FormData:
    """A posted form without files; refuses one whose text cannot be read."""
    try:
        return await request.form(max_files=0, max_fields=most)
    except UnicodeError as error:  # an encoding that Python knows by name only
        raise HTTPException(400, "The form is in no encoding that can be read. Send it as UTF-8.") from error


def get_worker(request: Request) -> KnownWorker:
    """The worker of the request; refuses those whose link does not hold, and those who are paused or excluded."""
    token = read_bearer(request)
    if not token:
        token = request.cookies.get(WORKER_COOKIE, "")
        if token and request.method not in SAFE:
            refuse_cross_site(request)
    service = get_service(request)
    worker = service.campaign.read_link(token) if token else None
    if worker is None:
        raise HTTPException(401, "This needs a worker's link. Ask the manager of the study for one.")
    if worker.state != "active":
        raise HTTPException(
            403, f"Your work in this study is {worker.state}. The manager of the study can tell you more."
        )
    return worker


def refuse_haste(request: Request, worker: int) -> None:
    """Count a request of this worker; refuses it if there were too many."""
    if not get_service(request).answer_limit.allows(str(worker)):
        raise HTTPException(429, "This is too fast. Wait a moment.", {"Retry-After": "5"})


def session_of(request: Request) -> str:
    """The manager's session that the cookie names, if it has not ended; "" if there is none."""
    token = request.cookies.get(MANAGER_COOKIE, "")
    return token if token and get_service(request).campaign.store.has_session(hash_token(token)) else ""


def _get_manager(request: Request) -> str:
    """Who manages: "token" or "password"; refuses others, and what another site sent with the cookie."""
    service = get_service(request)
    if token := read_bearer(request):
        stored = service.campaign.store.read_setting("token")
        if stored and hmac.compare_digest(hash_token(token), stored):
            return "token"
        raise HTTPException(401, "This token is not the manager's.")
    session = session_of(request)
    if not session:
        raise HTTPException(401, "This needs the manager: log in, or send the manager's token.")
    if request.method not in SAFE:
        refuse_cross_site(request)
        if not service.campaign.signer.check_form_token(request.headers.get("x-form-token", ""), session):
            raise HTTPException(403, "The header X-Form-Token does not belong to this session.")
    return "password"


Manager = Annotated[str, Depends(_get_manager)]


def check_form(request: Request, token: object, session: str) -> None:
    """Refuse a form that another site posted or that is of another session."""
    refuse_cross_site(request)
    signer = get_service(request).campaign.signer
    if not session or not isinstance(token, str) or not signer.check_form_token(token, session):
        raise HTTPException(403, "This form is not of your session any more. Go back, reload the page and try again.")
