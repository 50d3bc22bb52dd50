"""Pages of a campaign: their templates, and the files that they load."""

from __future__ import annotations

import time
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

import jinja2
from fastapi import APIRouter, HTTPException, Response
from fastapi.responses import HTMLResponse

from crowdwise.campaign.project import format_number

if TYPE_CHECKING:
    from crowdwise.campaign.running_campaign import Campaign
    from crowdwise.campaign.service import Service

__all__ = ["render", "render_message", "render_saved_page", "router"]

router = APIRouter(include_in_schema=False)
STATIC = {
    "campaign.css": "text/css",
    "icon.svg": "image/svg+xml",
    "manage.js": "text/javascript",
    "page.css": "text/css",
    "work.js": "text/javascript",
}


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("crowdwise.campaign"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["percent"] = _format_percent
    environment.filters["exact"] = format_number
    environment.filters["number"] = lambda value: "–" if value is None else f"{value:,.0f}"
    environment.filters["moment"] = lambda seconds: time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(seconds))
    environment.filters["short"] = lambda text: text if len(text) <= 160 else f"{text[:159]}…"
    return environment


def _format_percent(share: float | None) -> str:
    """A share in whole percent; 100% only where that is so.

    >>> _format_percent(0.123), _format_percent(0.997), _format_percent(None)
    ('12%', '>99%', '–')
    """
    if share is None:
        return "–"
    return ">99%" if 0.99 < share < 1 else f"{share:.0%}"


def render(name: str, service: Service, code: int = 200, /, **values: Any) -> HTMLResponse:
    """A page."""
    return HTMLResponse(_environment().get_template(name).render(project=service.project, **values), code)


def render_message(service: Service, heading: str, *lines: str, status: int = 200, **more: Any) -> HTMLResponse:
    """A page that only says something."""
    values = {"code": "", "link": "", "link_text": "", "form_token": "", "key": "", **more}
    return render("message.html", service, status, heading=heading, lines=lines, **values)


@cache
def _read_static(name: str) -> bytes:
    if name == "page.css":  # the report's look
        return (resources.files("crowdwise.report") / "templates" / name).read_bytes()
    return (resources.files("crowdwise.campaign") / "static" / name).read_bytes()


def render_saved_page(campaign: Campaign) -> str:
    """The manager's overview as one file, with its style and without anything to press."""
    from crowdwise.campaign.manager_pages import collect_overview
    from crowdwise.campaign.service import Service

    service = Service(campaign)
    service.consensus.snapshot(fresh=True)
    styles = "\n".join(_read_static(name).decode() for name in ("page.css", "campaign.css"))
    response = render("saved.html", service, styles=styles, **collect_overview(service, "saved", ""))
    return bytes(response.body).decode()


@router.get("/static/{name}")
async def read_static(name: str) -> Response:
    """A style sheet, script or icon of the pages."""
    if name not in STATIC:
        raise HTTPException(404, "There is no such file.")
    return Response(_read_static(name), media_type=STATIC[name], headers={"cache-control": "max-age=300"})
