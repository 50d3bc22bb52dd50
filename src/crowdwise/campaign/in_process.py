"""A campaign served from a thread of this process: for notebooks, examples and simulated workers."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from crowdwise.campaign.security import check_token, hash_token
from crowdwise.campaign.server import hold_database, make_server
from crowdwise.labels.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crowdwise.campaign.running_campaign import Campaign

__all__ = ["serve_in_thread"]


@contextmanager
def serve_in_thread(campaign: Campaign, token: str = "") -> Iterator[str]:
    """Serve a campaign on a free port of this machine while the block runs; gives its address.

    Parameters
    ----------
    campaign
        As `open_campaign` gives it; it is closed at the end.
    token
        The manager's token, of at least 20 letters; by default the one that is stored.
    """
    with hold_database(campaign.project):
        yield from _serve(campaign, token)


def _serve(campaign: Campaign, token: str) -> Iterator[str]:
    if campaign.writer.has_begun:
        raise InputError("This campaign has been served already. Open it again with open_campaign.")
    if token:
        campaign.store.write_setting("token", hash_token(check_token(token, "The manager's token")))
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    server = make_server(campaign, port=port)
    thread = threading.Thread(target=server.run, name="campaign-server", daemon=True)
    thread.start()
    while not server.started and thread.is_alive():
        time.sleep(0.01)
    if not server.started:
        raise InputError(f"No server could be started on port {port}.")
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.config.app.app.state.service.stopping = True  # type: ignore[union-attr]
        server.should_exit = True
        thread.join(30)
