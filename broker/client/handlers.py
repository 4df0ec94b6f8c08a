"""What apps that run handlers need of the client beside `Consumer`: how a handler is called, and what it may take."""

from __future__ import annotations

from ._faces import HandlerOptions
from ._handler_calls import Handler, for_messages
from ._running_info import HandlerStats
from ._verdicts import Plan

__all__ = ["Handler", "HandlerOptions", "HandlerStats", "Plan", "for_messages"]
