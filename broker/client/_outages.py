"""Telling an operator what keeps a client from its work: once when it begins, with the remedy, once when it is over.

A client that works in the background has nobody to raise an error to. It meets the same one for every queue, several
times a second; all that matters is that a broker is away, a topic is not there, or that it is not allowed to read.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from ..rocketmq.codes import Answer
from .errors import BrokerRefused, BrokerUnreachable, ClientError, RouteNotFound, Timeout

logger = logging.getLogger(__name__)

#: Code 16 is RocketMQ's word for what access control refuses.
_ACCESS = (
    "Give the client access_key and secret_key of a user who may (in Django the setting ESCAPEMENT_CLIENT), or have "
    "an administrator allow it."
)


class Outages:
    """The things that keep one client from its work now; `who` begins each line."""

    def __init__(self, who: str, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._who = who
        self._clock_s = clock_s
        #: what is wrong -> since when, and what is said when it is over
        self._since: dict[str, tuple[float, str]] = {}

    def __bool__(self) -> bool:
        return bool(self._since)

    @property
    def troubles(self) -> tuple[str, ...]:
        """The addresses, topics and refusals that were said and are not over."""
        return tuple(self._since)

    def begin(self, what: str, text: str, over: str) -> None:
        """Say `text`, if this is new."""
        if what not in self._since:
            self._since[what] = (self._clock_s(), over)
            logger.warning("%s: %s", self._who, text)

    def end(self, what: str) -> None:
        """Say that this is over, if it had begun."""
        if (known := self._since.pop(what, None)) is not None:
            since_s, over = known
            logger.warning("%s: %s after %.0f s", self._who, over, self._clock_s() - since_s)

    def away(self, address: str, error: ClientError) -> None:
        """Note that a broker, or all name servers, cannot be reached."""
        self.begin(address, f"{address} is unreachable, retrying until it is back: {error}", f"{address} is back")

    def failed(self, topic: str, error: ClientError, doing: str) -> None:
        """Note an error that is not told by `away`: the topic is not there, or what is asked of it is refused."""
        if isinstance(error, (BrokerUnreachable, Timeout)):
            logger.debug("%s: %s: %s", self._who, doing, error)
        elif isinstance(error, RouteNotFound):
            self.begin(_topic(topic), f"waits for topic {topic}: {error}", f"topic {topic} is there")
        else:
            is_access = isinstance(error, BrokerRefused) and error.code == Answer.NO_PERMISSION
            said = f"{doing} fails: {error}"
            text = f"{said.rstrip('.')}. {_ACCESS}" if is_access else said
            self.begin(_refused(topic), text, f"{doing} works again")

    def found(self, topic: str) -> None:
        """Note that the topic is there."""
        self.end(_topic(topic))

    def works(self, topic: str) -> None:
        """Note that what is asked of the topic works, so it is there, too."""
        self.end(_topic(topic))
        self.end(_refused(topic))


def _topic(topic: str) -> str:
    return f"topic {topic}"


def _refused(topic: str) -> str:
    return f"refused {topic}"
