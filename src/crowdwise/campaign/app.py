"""The application: its routes, what it says when something fails, and its end points for operations."""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse
from sqlalchemy.exc import SQLAlchemyError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

import crowdwise
from crowdwise.campaign import annotator_pages, manager_api, manager_pages, page_templates, worker_api
from crowdwise.campaign.metrics_text import describe_metrics
from crowdwise.campaign.page_templates import render_message
from crowdwise.campaign.request_limits import RequestLimits
from crowdwise.campaign.service import Service
from crowdwise.campaign.webhooks import Webhooks
from crowdwise.campaign.writer import StoreUnavailableError
from crowdwise.labels.errors import InputError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from crowdwise.campaign.running_campaign import Campaign

__all__ = ["make_app"]

log = logging.getLogger("crowdwise.campaign")


def make_app(campaign: Campaign) -> RequestLimits:
    """The ASGI application of a campaign, which it starts and stops."""
    service = Service(campaign)

    @contextlib.asynccontextmanager
    async def live(_app: FastAPI) -> AsyncIterator[None]:
        campaign.start()
        webhooks = Webhooks(campaign)
        webhooks.start()
        service.keeper.start()
        yield
        service.keeper.stop()
        await webhooks.stop()
        campaign.stop()

    app = FastAPI(
        title=f"Crowdwise campaign: {campaign.project.title}",
        version=crowdwise.__version__,
        lifespan=live,
        docs_url=None,  # its page would load scripts from elsewhere
        redoc_url=None,
        openapi_url="/api/openapi.json",
    )
    app.state.service = service
    for part in (worker_api, manager_api, annotator_pages, manager_pages, page_templates):
        app.include_router(part.router)
    limits = RequestLimits(app)
    _add_operations(app, service, limits)
    _add_error_pages(app, service)
    return limits


def _add_operations(app: FastAPI, service: Service, limits: RequestLimits) -> None:
    @app.get("/health", include_in_schema=False)
    def health() -> JSONResponse:
        """Whether the database answers."""
        try:
            service.campaign.store.read_setting("secret")
        except Exception as error:
            log.warning("not healthy", extra={"error": type(error).__name__})
            return JSONResponse({"status": "the database does not answer"}, 503)
        failing = service.campaign.writer.failing
        return JSONResponse(
            {"status": "the database does not take answers" if failing else "ok"}, 503 if failing else 200
        )

    @app.get("/metrics", include_in_schema=False)
    def metrics() -> PlainTextResponse:
        """Counts for Prometheus; no names."""
        return PlainTextResponse(
            describe_metrics(service.campaign, limits.counts), media_type="text/plain; version=0.0.4"
        )


def _add_error_pages(app: FastAPI, service: Service) -> None:
    def reply(request: Request, status: int, detail: str, headers: Any = None) -> Response:
        if request.url.path.startswith(("/api/", "/static/", "/media/")) or "text/html" not in request.headers.get(
            "accept", ""
        ):
            return JSONResponse({"detail": detail}, status, headers=headers)
        heading = "There is no such page" if status == 404 else "That did not work"
        return render_message(
            service, heading, "" if status == 404 else detail, status=status, link="/", link_text="Go back"
        )

    @app.exception_handler(HTTPException)
    async def refuse(request: Request, error: HTTPException) -> Response:
        return reply(request, error.status_code, str(error.detail), error.headers)

    @app.exception_handler(RequestValidationError)
    async def refuse_invalid(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        return reply(request, 422, f"{'.'.join(map(str, first['loc']))}: {first['msg']}.")

    @app.exception_handler(InputError)
    async def refuse_input(request: Request, error: InputError) -> Response:
        return reply(request, 422, str(error))

    @app.exception_handler(ClientDisconnect)
    async def end_unheard(_request: Request, _error: ClientDisconnect) -> Response:
        """Who sent half a request and went hears no reply; it is no fault of the server."""
        return Response(status_code=400)

    @app.exception_handler(SQLAlchemyError)  # while something is read
    @app.exception_handler(StoreUnavailableError)
    async def say_unavailable(request: Request, error: Exception) -> Response:
        if isinstance(error, SQLAlchemyError):
            log.warning("the database cannot be read", extra={"error": type(error).__name__})
        what = "The answer was not stored: the" if isinstance(error, StoreUnavailableError) else "The"
        detail = f"{what} database does not answer. Please try again in a moment."
        return reply(request, 503, detail, {"Retry-After": "2"})
