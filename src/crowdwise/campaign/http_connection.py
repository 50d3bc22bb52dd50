"""A connection whose requests end: neither any number of headers nor a request that never comes is held."""

from __future__ import annotations

from typing import TYPE_CHECKING

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

if TYPE_CHECKING:
    import asyncio

__all__ = ["BODY_SECONDS", "HEADER_SECONDS", "MOST_HEADER_BYTES", "BoundedHttpConnection"]

MOST_HEADER_BYTES = 1 << 16
HEADER_SECONDS, BODY_SECONDS = 30.0, 120.0  # that they may take to come; 20 MB of images want a while


class BoundedHttpConnection(HttpToolsProtocol):
    """Closed where headers are longer than `MOST_HEADER_BYTES`, or headers or body take too long to come."""

    _header_bytes: int | None = None  # since a request began whose headers have not ended
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Somebody connects."""
        super().connection_made(transport)
        self._begin_wait(HEADER_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        """They have gone."""
        self._end_wait()
        super().connection_lost(exc)

    def _begin_wait(self, seconds: float) -> None:
        self._end_wait()
        self._timer = self.loop.call_later(seconds, self.transport.close)

    def _end_wait(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def data_received(self, data: bytes) -> None:
        """Take what came over the network."""
        if self._header_bytes is not None:
            self._header_bytes += len(data)
            if self._header_bytes > MOST_HEADER_BYTES:
                self.transport.close()
                return
        super().data_received(data)

    def on_message_begin(self) -> None:
        """A request begins."""
        self._header_bytes = 0
        self._begin_wait(HEADER_SECONDS)
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Its headers have ended."""
        self._header_bytes = None
        self._begin_wait(BODY_SECONDS)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """It is here whole: how long the reply takes is up to the server."""
        self._end_wait()
        super().on_message_complete()
