"""Tickets of the demonstration: each sale is a transaction, which becomes known only if its payment succeeded.

When the gate of a flight is given a ticket for it is sold. The payment is settled within seconds: most succeed, some
are refused. Of a few the office loses sight; the broker asks it about those, and it looks them up after some minutes.
Of one in a hundred it never learns what became: that is what an operator decides.
"""

from __future__ import annotations

import asyncio
import json
import logging
import zlib
from collections.abc import Sequence

from broker.client import AsyncTransactionProducer, ClientError, Decision, Half, Message, prepare
from console.run.flights import Flight
from console.site.clock import real_now_ms, shown_ms

logger = logging.getLogger(__name__)

TOPIC, GROUP = "flight-tickets", "ticket-office"
#: of a hundred sales
REFUSED, LOST_SIGHT_OF, NEVER_KNOWN = 15, 8, 1
#: how long a payment takes at least, and how much longer the last one
PAYMENT_S, LONGER_S = 0.5, 4.0
#: when the office has found what it lost sight of
FOUND_MS = 150_000


class Tickets:
    """Sells tickets and answers brokers that ask about them."""

    def __init__(self, namesrv: str) -> None:
        self._producer = AsyncTransactionProducer(GROUP, namesrv, check=_look_up)
        self._payments: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Be there to be asked."""
        await self._producer.start()

    async def close(self) -> None:
        """Stop; payments that are not settled are asked about when the office is open again."""
        for payment in self._payments:
            payment.cancel()
        await asyncio.gather(*self._payments, return_exceptions=True)
        await self._producer.close()

    async def sell(self, flights: Sequence[Flight]) -> None:
        """Sell one ticket for each flight; a sale that the broker does not take did not happen."""
        for flight in flights:
            choice = zlib.crc32(flight.key.encode()) % 100
            try:
                half = await self._producer.send_half(
                    TOPIC, prepare(_body(flight, choice), tag=flight.carrier, keys=[flight.key])
                )
            except ClientError as error:
                logger.warning("selling a ticket: %s", error)
                return
            payment = asyncio.get_running_loop().create_task(self._settle(half, choice))
            self._payments.add(payment)
            payment.add_done_callback(self._payments.discard)

    async def _settle(self, half: Half, choice: int) -> None:
        await asyncio.sleep(PAYMENT_S + LONGER_S * choice / 100)
        try:
            if choice < REFUSED:
                await self._producer.rollback(half)
            elif choice >= REFUSED + LOST_SIGHT_OF:
                await self._producer.commit(half)
        except ClientError as error:
            logger.warning("settling a payment: %s", error)


def _body(flight: Flight, choice: int) -> bytes:
    told = {"flight": f"{flight.carrier}{flight.number}", "to": flight.destination, "seat": f"{choice % 30 + 1}C"}
    return json.dumps(told).encode()


def _look_up(message: Message) -> Decision:
    """Answer the broker: what is known of a payment by now."""
    choice = zlib.crc32(message.keys[0].encode()) % 100 if message.keys else 0
    is_found = shown_ms(real_now_ms()) - message.born_ms >= FOUND_MS
    if REFUSED <= choice < REFUSED + NEVER_KNOWN or (choice < REFUSED + LOST_SIGHT_OF and not is_found):
        return Decision.UNKNOWN
    return Decision.ROLLBACK if choice < REFUSED else Decision.COMMIT
