"""A connection whose request headers end: the parser alone would hold any number of them in memory."""

from __future__ import annotations

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

__all__ = ["MOST_HEADER_BYTES", "BoundedHttpConnection"]

MOST_HEADER_BYTES = 1 << 16


class BoundedHttpConnection(HttpToolsProtocol):
    """Closed where headers are longer than `MOST_HEADER_BYTES`."""

    _header_bytes: int | None = None  # since a request began whose headers have not ended

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
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Its headers have ended."""
        self._header_bytes = None
        super().on_headers_complete()
