"""`crowdwise serve`: a live campaign on which people and models answer."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = ["serve"]

EPILOG = "Example:\n\n  crowdwise serve project.toml --check\n\n  crowdwise serve project.toml --port 8000"


def serve(
    project: Annotated[str, typer.Argument(metavar="PROJECT", help="The project file (docs/campaign.md has one).")],
    *,
    check: Annotated[
        bool, typer.Option("--check", help="Check the project, its tasks and its database; serve nothing.")
    ] = False,
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Where to listen; 0.0.0.0 for every network.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="NUMBER", min=1, max=65535, help="Port to listen on.")] = 8000,
    log_requests: Annotated[bool, typer.Option("--log-requests", help="Log every request.")] = False,
) -> None:
    """Serve a campaign: a page for workers, a page for the manager, and an API."""
    from crowdwise.campaign.installed_packages import check_installed
    from crowdwise.campaign.project import read_project

    check_installed()
    described = read_project(project)
    if check:
        from crowdwise.campaign.check_project import check_project

        for line in check_project(described):
            typer.echo(line)
        return
    from crowdwise.campaign.server import serve_campaign

    serve_campaign(described, host=host, port=port, log_requests=log_requests)
