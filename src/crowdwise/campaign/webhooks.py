"""Messages to other programs when a task is finished.

They are put into the database by the transaction that finishes the task, so that none is lost by a kill; they are sent
afterwards, again after a failure and ever more slowly, for a day. A receiver may get one twice: its number is the
header X-Crowdwise-Delivery, and X-Crowdwise-Signature signs the body.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Any

import httpx
import sqlalchemy as sa

from crowdwise.campaign import tables as db
from crowdwise.campaign.writer import StoreUnavailableError

if TYPE_CHECKING:
    from crowdwise.campaign.running_campaign import Campaign

__all__ = ["Webhooks"]

log = logging.getLogger("crowdwise.campaign")
PAUSE = 1.0
MOST_SECONDS = 15.0  # for one message, however slowly its receiver speaks
GIVE_UP = 16  # attempts, of which the last comes after a day
AT_ONCE = 20


class Webhooks:
    """Sends what is due."""

    def __init__(self, campaign: Campaign) -> None:
        self.campaign = campaign
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to send, if the project names receivers."""
        if self.campaign.project.webhooks:
            self._task = asyncio.create_task(self._loop())

    async def stop(self) -> None:
        """End; what is due is sent after the next start."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _loop(self) -> None:
        async with httpx.AsyncClient(timeout=10, follow_redirects=False, trust_env=False) as client:
            while True:
                try:
                    due = await asyncio.to_thread(self._read_due)
                    await asyncio.gather(*(self._send(client, row) for row in due))
                except (sa.exc.SQLAlchemyError, StoreUnavailableError) as error:
                    log.warning("messages cannot be read", extra={"error": type(error).__name__})
                await asyncio.sleep(PAUSE)

    def _read_due(self) -> list[Any]:
        line = sa.select(db.deliveries).where(
            db.deliveries.c.done.is_(None),
            db.deliveries.c.due <= self.campaign.store.clock.now(),
            db.deliveries.c.attempts < GIVE_UP,
            db.deliveries.c.address.in_(self.campaign.project.webhooks),  # one that was taken out is told no more
        )
        with self.campaign.store.read() as connection:
            return list(connection.execute(line.order_by(db.deliveries.c.id).limit(AT_ONCE)))

    async def _send(self, client: httpx.AsyncClient, row: Any) -> None:
        headers = {
            "content-type": "application/json",
            "x-crowdwise-delivery": str(row.id),
            "x-crowdwise-signature": self.campaign.signer.sign_delivery(row.body),
        }
        try:
            # What a receiver says is not read: its length is up to the receiver.
            async with (
                asyncio.timeout(MOST_SECONDS),
                client.stream("POST", row.address, content=row.body, headers=headers) as reply,
            ):
                done = reply.is_success
        except (httpx.HTTPError, httpx.InvalidURL, ValueError, OSError):  # one bad address must not stop the others
            done = False
        now = self.campaign.store.clock.now()
        values: dict[str, Any] = (
            {"done": now} if done else {"attempts": row.attempts + 1, "due": now + 2.0**row.attempts}
        )
        await self.campaign.writer.run(
            lambda work: (
                work.connection.execute(
                    db.deliveries.update().where(db.deliveries.c.id == row.id).values(values)
                ).rowcount
            )
        )
