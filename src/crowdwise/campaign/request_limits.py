"""A layer before the application: size and rate of requests, headers of replies, counts for metrics, one log line each.

It is written for ASGI itself rather than as a Starlette middleware, which would cost every answer a task and a queue.
"""

from __future__ import annotations

import json
import logging
import time
from collections import OrderedDict
from typing import Any

from starlette.exceptions import HTTPException

__all__ = ["BODY", "POLICY", "RateLimit", "RequestLimits"]

log = logging.getLogger("crowdwise.requests")
BODY = 1 << 20
LARGE_BODIES = {"/api/images": 20 << 20, "/api/tasks": 20 << 20}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; font-src 'none'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = [
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
]
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)  # seconds


class RateLimit:
    """So many requests a minute for each key, with a reserve for bursts (a token bucket).

    Parameters
    ----------
    per_minute
        Requests that a key may make in the long run.
    burst
        Requests that it may make at once.
    """

    def __init__(self, per_minute: float, burst: float) -> None:
        self.rate, self.burst = per_minute / 60, burst
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def allows(self, key: str) -> bool:
        """Count a request of this key; False if it came too soon."""
        now = time.monotonic()
        left, last = self._left.get(key, (self.burst, now))
        left = min(self.burst, left + (now - last) * self.rate)
        self._left[key] = (left - 1 if left >= 1 else left, now)
        self._left.move_to_end(key)
        if len(self._left) > 100_000:  # an attacker who changes names must not fill the memory
            self._left.popitem(last=False)
        return left >= 1


class Counts:
    """Requests by route and status, and how long they took: for Prometheus."""

    def __init__(self) -> None:
        self.requests: dict[tuple[str, int], int] = {}
        self.seconds: dict[str, list[float]] = {}

    def add(self, route: str, status: int, seconds: float) -> None:
        """Count one request."""
        self.requests[route, status] = self.requests.get((route, status), 0) + 1
        row = self.seconds.setdefault(route, [0.0] * (len(BUCKETS) + 2))
        row[next((place for place, most in enumerate(BUCKETS) if seconds <= most), len(BUCKETS))] += 1
        row[-1] += seconds


class RequestLimits:
    """The layer.

    Parameters
    ----------
    app
        The application behind it.
    """

    def __init__(self, app: Any) -> None:
        self.app, self.counts = app, Counts()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """One request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return
        began, path, status = time.perf_counter(), scope["path"], 500
        most = LARGE_BODIES.get(path, BODY)
        n_bytes, sent = 0, False

        async def send_with_headers(message: Any) -> None:
            nonlocal status, sent
            if message["type"] == "http.response.start":
                status, sent = message["status"], True
                message["headers"] = [*message.get("headers", ()), *HEADERS]
                if not path.startswith("/static/") and not path.startswith("/media/"):
                    message["headers"].append((b"cache-control", b"no-store"))
            await send(message)

        async def receive_some() -> Any:
            nonlocal n_bytes
            message = await receive()
            n_bytes += len(message.get("body", b""))
            if n_bytes > most:
                raise BodyTooLargeError(most)
            return message

        try:
            _check_length(scope["headers"], most)
            await self.app(scope, receive_some, send_with_headers)
        except BodyTooLargeError as error:
            if not sent:
                await _refuse(send_with_headers, error.status_code, error.detail)
        finally:
            seconds = time.perf_counter() - began
            route = getattr(scope.get("route"), "path", "other")
            self.counts.add(route, status, seconds)
            if log.isEnabledFor(logging.INFO):  # neither the address nor the query: they hold tokens and Prolific's ids
                log.info("request", extra={"method": scope["method"], "route": route, "status": status,
                                           "ms": round(1e3 * seconds, 1)})  # fmt: skip


class BodyTooLargeError(HTTPException):
    """The body of a request is larger than allowed."""

    def __init__(self, most: int) -> None:
        super().__init__(413, f"The body is larger than {most:,} bytes.")


def _check_length(headers: Any, most: int) -> None:
    length = next((value for name, value in headers if name == b"content-length"), b"0")
    if not length.isdigit() or int(length) > most:
        raise BodyTooLargeError(most)


async def _refuse(send: Any, status: int, detail: str) -> None:
    body = json.dumps({"detail": detail}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()),
               (b"connection", b"close")]  # fmt: skip
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
