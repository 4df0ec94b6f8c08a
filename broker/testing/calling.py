"""Calling handlers in a test: plain functions in its thread, coroutine functions in a loop.

In a Django project either is called so that what it asks of the ORM has the connection of the test.
"""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import Awaitable
from typing import cast

from .consuming import Consumed, Consuming, Delivery


def run_here(consuming: Consuming) -> list[Consumed]:
    """Run the handlers in this thread; coroutine functions in an event loop of their own."""
    for delivery in consuming:
        consuming.finish(delivery, _said(delivery))
    return consuming.consumed


def _said(delivery: Delivery) -> object:
    """Return what the handler said: what it raised or returned."""
    try:
        if not inspect.iscoroutinefunction(delivery.handling.handler):
            return delivery.handling.call(delivery.messages)
        if "django" in sys.modules:
            from asgiref.sync import async_to_sync

            return async_to_sync(_awaited)(delivery)
        return asyncio.run(_awaited(delivery))
    except Exception as error:  # handlers may raise anything; it comes out, or has the message come again
        return error


async def _awaited(delivery: Delivery) -> object:
    return await cast(Awaitable[object], delivery.handling.call(delivery.messages))


async def run_in_loop(consuming: Consuming) -> list[Consumed]:
    """Run the handlers in this event loop; plain functions of a Django project in the thread that its ORM wants."""
    for delivery in consuming:
        consuming.finish(delivery, await _said_in_loop(delivery))
    return consuming.consumed


async def _said_in_loop(delivery: Delivery) -> object:
    try:
        if inspect.iscoroutinefunction(delivery.handling.handler):
            return await _awaited(delivery)
        if "django" in sys.modules:
            from asgiref.sync import sync_to_async

            return await sync_to_async(delivery.handling.call)(delivery.messages)
        return delivery.handling.call(delivery.messages)
    except Exception as error:  # as above
        return error
