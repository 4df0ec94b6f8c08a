"""How long requests take until they are answered, by request and answer: RocketMQ's `rocketmq_rpc_latency`.

Sends of one message are counted where their answers are made (sends.py), not here: they go the short way.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..engine.histogram import LATENCY_BOUNDS_MS, Histogram
from ..rocketmq.codes import Answer, Request
from ..rocketmq.frame import Command

#: Those that a broker holds until there is something to tell.
_HELD = frozenset((Request.PULL_MESSAGE, Request.LITE_PULL_MESSAGE, Request.POP_MESSAGE, Request.NOTIFICATION))
_REQUESTS = {int(code): code.name.lower() for code in Request}
_ANSWERS = {int(code): code.name.lower() for code in Answer}
_UNKNOWN = -1


class CallTimes:
    """Histograms since the start. Bounds are all that RocketMQ has, and some more; ms."""

    def __init__(self) -> None:
        self._rows: dict[tuple[int, int, bool], Histogram] = {}

    def answered(self, answer: Command, now_ms: int, *, is_later: bool) -> None:
        """An answer leaves now, or later than with the others of its request's moment."""
        code = answer.asked_code
        self.note(code, answer.code, now_ms - answer.asked_ms, is_later and code in _HELD)

    def note(self, asked: int, answered: int, took_ms: int, has_waited: bool = False) -> None:
        """A request with the code `asked` was answered with the code `answered`."""
        row = self._rows.get((asked, answered, has_waited))
        if row is None:
            # strangers may ask with any code: those that mean nothing share a row
            key = (asked if asked in _REQUESTS else _UNKNOWN, answered, has_waited)
            row = self._rows.setdefault(key, Histogram(LATENCY_BOUNDS_MS))
        row.add(max(took_ms, 0))

    def rows(self) -> Iterator[tuple[dict[str, str], Histogram]]:
        """Labels, by RocketMQ's names, and counts."""
        for (asked, answered, has_waited), counted in self._rows.items():
            yield row_labels(asked, answered, has_waited=has_waited), counted


def row_labels(asked: int, answered: int, *, has_waited: bool = False) -> dict[str, str]:
    """What stands beside `rocketmq_rpc_latency`; requests and answers by their names."""
    return {
        "protocol_type": "remoting",
        "request_code": _REQUESTS.get(asked, "unknown"),
        "response_code": _ANSWERS.get(answered, str(answered)),
        "is_long_polling": "true" if has_waited else "false",
        "result": "success",
    }
