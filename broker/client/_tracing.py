"""Tracing with OpenTelemetry, if the program does it: spans for sends and handled messages, carried by the messages.

A program that traces has loaded `opentelemetry.trace` and set a tracer provider there. That look-up is all that it
costs other programs: nothing of OpenTelemetry is imported for them. The spans are made in _spans.py, which is
loaded when they are needed.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING

from ._outgoing import Outgoing

if TYPE_CHECKING:
    from ._spans import Spans

API = "opentelemetry.trace"
#: Where the API keeps the provider: asking for it in the proper way takes microseconds while none is set.
_KEPT_AS = "_TRACER_PROVIDER"
_NOT_SEEN = object()


class Tracing:
    """Remembers the spans of the provider that was seen last."""

    def __init__(self) -> None:
        self._seen: object = _NOT_SEEN
        self._spans: Spans | None = None

    def spans(self) -> Spans | None:
        """Return what makes spans now; None if the program does not trace."""
        api = sys.modules.get(API)
        if api is None:
            return None
        if getattr(api, _KEPT_AS, api) is not self._seen:
            self._look(api)
        return self._spans

    def _look(self, api: ModuleType) -> None:
        find = getattr(api, "get_tracer_provider", None)
        if find is None:  # another thread is just loading it
            return
        self._spans = self._made(api, find())
        self._seen = getattr(api, _KEPT_AS, _NOT_SEEN)

    def _made(self, api: ModuleType, provider: object) -> Spans | None:
        if isinstance(provider, (api.ProxyTracerProvider, api.NoOpTracerProvider)):
            return None
        from ._spans import Spans

        return Spans(provider)


tracing = Tracing()


def with_trace(topic: str, message: Outgoing) -> Outgoing:
    """Return the message with the context of the span that is open here, for another program that sends it later.

    It is unchanged where the program does not trace with OpenTelemetry.
    """
    spans = tracing.spans()
    return message if spans is None else spans.created(topic, message)
