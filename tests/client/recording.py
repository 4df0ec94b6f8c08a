"""A tracer provider that keeps its spans, made of OpenTelemetry's API alone."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags

NUMBERS = itertools.count(1)


class RecordedSpan(trace.Span):
    """One span, as it was started and what was told to it."""

    def __init__(
        self,
        name: str,
        parent: SpanContext | None,
        kind: SpanKind,
        attributes: Mapping[str, Any],
        links: Sequence[Link],
    ) -> None:
        self.name, self.parent, self.kind, self.links = name, parent, kind, list(links)
        self.attributes = dict(attributes)
        self.status: StatusCode | None = None
        self.errors: list[BaseException] = []
        self.has_ended = False
        trace_id = parent.trace_id if parent is not None else next(NUMBERS) << 64
        self._context = SpanContext(trace_id, next(NUMBERS), False, TraceFlags(TraceFlags.SAMPLED))

    def get_span_context(self) -> SpanContext:
        return self._context

    def end(self, end_time: int | None = None) -> None:
        self.has_ended = True

    def set_attribute(self, key: str, value: Any) -> None:
        self.attributes[key] = value

    def set_attributes(self, attributes: Mapping[str, Any]) -> None:
        self.attributes.update(attributes)

    def set_status(self, status: Status | StatusCode, description: str | None = None) -> None:
        self.status = status.status_code if isinstance(status, Status) else status

    def record_exception(self, exception: BaseException, *rest: Any, **more: Any) -> None:
        self.errors.append(exception)

    def add_event(self, *rest: Any, **more: Any) -> None:
        """Nothing here is an event."""

    def update_name(self, name: str) -> None:
        self.name = name

    def is_recording(self) -> bool:
        return not self.has_ended


class RecordingTracer(trace.Tracer):
    """Starts spans and keeps them."""

    def __init__(self, spans: list[RecordedSpan]) -> None:
        self._spans = spans

    def start_span(
        self, name: str, context: Context | None = None, kind: SpanKind = SpanKind.INTERNAL, attributes: Any = None,
        links: Any = (), *rest: Any, **more: Any,
    ) -> RecordedSpan:  # fmt: skip
        above = trace.get_current_span(context).get_span_context()
        span = RecordedSpan(name, above if above.is_valid else None, kind, attributes or {}, links or ())
        self._spans.append(span)
        return span

    @contextmanager
    def _current(self, name: str, *rest: Any, **more: Any) -> Iterator[RecordedSpan]:
        own = {key: more.pop(key) for key in ("record_exception", "set_status_on_exception") if key in more}
        span = self.start_span(name, *rest, **more)
        with trace.use_span(span, end_on_exit=True, **own):
            yield span

    #: the API has it as a context manager and decorator at once; here it is used as the first only
    start_as_current_span: Any = _current


class RecordingProvider(trace.TracerProvider):
    """What a program would set; `spans` are all that were started, in order."""

    def __init__(self) -> None:
        self.spans: list[RecordedSpan] = []

    def get_tracer(self, *rest: Any, **more: Any) -> RecordingTracer:
        return RecordingTracer(self.spans)

    def named(self, name: str) -> list[RecordedSpan]:
        return [span for span in self.spans if span.name == name]
