"""Findings by REST: those of the first page, for tokens that may change the settings of everything, and their marks.

They are snoozed, ignored and counted again by the console's operations, with the same checks and audit.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct
from starlette.responses import Response

from console.features.overview.finding_kinds import Finding
from console.features.overview.finding_marks import FindingMark, place_of
from console.features.overview.pages import read_overview
from console.operations.actor import SILENCE_ALERTS
from console.rest.access import Everywhere
from console.rest.database import token_actor
from console.rest.operations import begun, in_thread
from console.rest.query import moment_ms
from console.rest.responses import json_answer
from console.rest.route import Call, route
from console.rest.schemas import BEGUN_OR_WAITS, PREVIEWED, Look, Moment, OfBroker, Reason
from console.rest.several import of_broker
from console.security.tokens import SETTINGS
from console.security.topic_scope import EVERYTHING
from console.site.mirrored import cluster

Kind = Annotated[str, Meta(max_length=32, description="A kind of finding, such as group-without-consumer.")]
Subject = Annotated[str, Meta(max_length=255, description="As the list of findings has it.")]
FindingPlace = Annotated[str, Meta(max_length=255, description="As the list has it: a broker; empty: all of them.")]


class MarkShown(Struct, kw_only=True):
    """Who put a finding off, until when (null: until it changes), and why."""

    until_ms: int | None
    reason: str
    created_by: str


class FindingShown(Struct, kw_only=True):
    """A finding. `put_off`: it is snoozed or ignored and does not count. `figure`, `span_ms`: null: it has none."""

    kind: str
    severity: Literal["ruby", "brass"]
    subject: str
    place: str
    figure: int | None
    span_ms: int | None
    detail: str
    put_off: MarkShown | None


class FindingRows(Struct, kw_only=True):
    """The findings, the gravest first; behind them those that are put off."""

    findings: list[FindingShown]


class Snooze(Struct, forbid_unknown_fields=True, kw_only=True):
    """A finding to put off until a moment; without one it is ignored until it changes."""

    kind: Kind
    subject: Subject = ""
    place: FindingPlace = ""
    until: Moment | None = None
    reason: Reason
    preview: Look = False


class Lift(Struct, forbid_unknown_fields=True, kw_only=True):
    """A finding to count again."""

    kind: Kind
    subject: Subject = ""
    place: FindingPlace = ""
    reason: Reason
    preview: Look = False


_PERMISSIONS = frozenset((SILENCE_ALERTS,))
#: findings are about names of every beginning
_ON = Everywhere()


@route("GET", "/findings", "List findings", action=SETTINGS, on=_ON, answers=((200, "Findings.", FindingRows),))
async def findings(call: Call, query: OfBroker) -> Response:
    """List what the first page finds worth a look, of one broker or of all."""
    return json_answer(await in_thread(lambda: _rows(query.broker)))


@route(
    "POST",
    "/findings/snooze",
    "Snooze or ignore a finding",
    action=SETTINGS,
    permission=SILENCE_ALERTS,
    on=_ON,
    answers=(BEGUN_OR_WAITS, PREVIEWED),
)
async def snooze(call: Call, body: Snooze) -> Response:
    """Put a finding off: it is listed and does not count, until then or until it gets worse."""
    parameters: dict[str, Any] = {"kind": body.kind, "subject": body.subject, "place": body.place}
    parameters["until_ms"] = None if body.until is None else moment_ms(body.until, "until")
    actor = token_actor(call.grant, _PERMISSIONS)
    return await begun("findings.snooze", parameters, body.reason, actor, is_look=body.preview)


@route(
    "POST",
    "/findings/lift",
    "Count a finding again",
    action=SETTINGS,
    permission=SILENCE_ALERTS,
    on=_ON,
    answers=(BEGUN_OR_WAITS, PREVIEWED),
)
async def lift(call: Call, body: Lift) -> Response:
    """Count a finding again that was snoozed or ignored."""
    parameters = {"kind": body.kind, "subject": body.subject, "place": body.place}
    actor = token_actor(call.grant, _PERMISSIONS)
    return await begun("findings.lift", parameters, body.reason, actor, is_look=body.preview)


def _rows(broker: str) -> FindingRows:
    with of_broker(broker):
        data, of = read_overview.within(EVERYTHING), cluster()
        rows = [_shown(each, place_of(each, of), None) for each in data.findings]
        rows += [_shown(each.finding, each.mark.place, each.mark) for each in data.put_off]
    return FindingRows(findings=rows)


def _shown(found: Finding, place: str, mark: FindingMark | None) -> FindingShown:
    put_off = None
    if mark is not None:
        put_off = MarkShown(until_ms=mark.until_ms, reason=mark.reason, created_by=mark.actor)
    return FindingShown(
        kind=found.code.value.name,
        severity=found.severity,
        subject=found.key,
        place=place,
        figure=found.value,
        span_ms=found.span_ms,
        detail=found.detail,
        put_off=put_off,
    )
