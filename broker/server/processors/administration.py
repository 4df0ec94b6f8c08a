"""The processors of what administrators and their tools ask a broker for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from ..connection import Handler
from ..state import BrokerState
from .broker import ConfigurationProcessor, TidyingProcessor
from .client_queries import RelayProcessor
from .progress import ProgressProcessor
from .resets import ResetProcessor


class Processor(Protocol):
    """Serves some request codes."""

    def handlers(self) -> Mapping[int, Handler]:
        """Request code -> handler."""


def administration(state: BrokerState) -> tuple[Processor, ...]:
    """One of each."""
    return (
        ConfigurationProcessor(state), ProgressProcessor(state), RelayProcessor(state), ResetProcessor(state),
        TidyingProcessor(state),
    )  # fmt: skip
