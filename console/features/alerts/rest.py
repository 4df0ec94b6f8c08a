"""Alert rules and silences by REST: the console's operations, for tokens that may change the settings of everything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

import msgspec
from django.db.models import Count, Max, Q
from django.utils import timezone
from starlette.requests import Request
from starlette.responses import Response

from console.features.alerts import rule_fields
from console.features.alerts.models import Alert, AlertRule, Silence
from console.features.alerts.operations import shown_value
from console.operations.actor import ADD_ALERT_RULE, CHANGE_ALERT_RULE, DELETE_ALERT_RULE, SILENCE_ALERTS
from console.security.tokens import Grant

from ...rest.errors import AlertRuleUnknown, OperationRefused, SilenceUnknown
from ...rest.moments import moment_ms
from ...rest.operations_bridge import begun, in_thread
from ...rest.request_body import decode, read_body
from ...rest.responses import json_answer
from ...rest.state import Room
from ..messages.rest import only_parameters
from ..timers.rest_bulk import MAX_BODY_BYTES, actor_of
from .rest_schemas import (
    AlertRuleChange,
    AlertRuleRows,
    AlertRuleShown,
    NewAlertRule,
    NewSilence,
    RuleSettings,
    SilenceRows,
    SilenceShown,
)

_PERMISSIONS = frozenset((ADD_ALERT_RULE, CHANGE_ALERT_RULE, DELETE_ALERT_RULE, SILENCE_ALERTS))
_new = msgspec.json.Decoder(NewAlertRule)
_change = msgspec.json.Decoder(AlertRuleChange)
_silence = msgspec.json.Decoder(NewSilence)


async def rules(request: Request, grant: Grant, room: Room) -> Response:
    """All."""
    only_parameters(request)
    return json_answer(AlertRuleRows(rules=await in_thread(lambda: [_shown(row) for row in _rows()])))


async def rule(request: Request, grant: Grant, room: Room) -> Response:
    """One."""
    only_parameters(request)
    return json_answer(await in_thread(lambda: _shown(_row(request))))


async def make(request: Request, grant: Grant, room: Room) -> Response:
    """A new one."""
    only_parameters(request)
    wanted = decode(await read_body(request, MAX_BODY_BYTES), _new)
    settings = _joined(msgspec.to_builtins(wanted.settings))
    return await _begun("create", {"settings": settings}, wanted.reason, grant, is_look=wanted.preview)


async def change(request: Request, grant: Grant, room: Room) -> Response:
    """What is named; the rest stays."""
    only_parameters(request)
    wanted = decode(await read_body(request, MAX_BODY_BYTES), _change)
    row = await in_thread(lambda: _row(request))
    given = msgspec.to_builtins(wanted)
    parameters = {part: _joined(given[part]) for part in ("settings", "expected") if part in given}
    now = rule_fields.shown(row)
    if not wanted.preview and all(now[name] == value for name, value in parameters["settings"].items()):
        return json_answer(await in_thread(lambda: _shown(_row(request))))
    return await _begun("change", {"rule": row.pk, **parameters}, wanted.reason, grant, is_look=wanted.preview)


async def delete(request: Request, grant: Grant, room: Room) -> Response:
    """With what it raised."""
    reason, is_look = _reason(request)
    row = await in_thread(lambda: _row(request))
    return await _begun("delete", {"rule": row.pk}, reason, grant, is_look=is_look)


async def silences(request: Request, grant: Grant, room: Room) -> Response:
    """Those that hold."""
    only_parameters(request)
    return json_answer(SilenceRows(silences=await in_thread(_silences)))


async def silence(request: Request, grant: Grant, room: Room) -> Response:
    """A new one."""
    only_parameters(request)
    wanted = decode(await read_body(request, MAX_BODY_BYTES), _silence)
    parameters = {"rule": wanted.rule, "subject": wanted.subject, "until_ms": moment_ms(wanted.until, "until")}
    return await _begun("silence", parameters, wanted.reason, grant, is_look=wanted.preview)


async def end_silence(request: Request, grant: Grant, room: Room) -> Response:
    """Tell again."""
    reason, is_look = _reason(request)
    number = _number(request, "silence")
    is_there = number is not None and await in_thread(
        lambda: Silence.objects.filter(pk=number, until__gt=timezone.now()).exists()
    )
    if not is_there:
        raise SilenceUnknown
    return await _begun("end_silence", {"silence": number}, reason, grant, is_look=is_look)


async def _begun(verb: str, parameters: Mapping[str, Any], reason: str, grant: Grant, *, is_look: bool) -> Response:
    actor = replace(actor_of(grant), permissions=_PERMISSIONS)
    return await begun(f"alerts.{verb}", parameters, reason, actor, is_look=is_look)


def _reason(request: Request) -> tuple[str, bool]:
    only_parameters(request, "reason", "preview")
    reason, look = request.query_params.get("reason", ""), request.query_params.get("preview", "false")
    if look not in ("true", "false"):
        raise OperationRefused("preview is true or false.", "preview")
    return reason, look == "true"


def _rows() -> Any:
    raised = Count("alerts", filter=Q(alerts__state=Alert.State.FIRING))
    return AlertRule.objects.annotate(raised=raised, last_raised=Max("alerts__raised_at"))


def _row(request: Request) -> Any:
    number = _number(request, "rule")
    row = None if number is None else _rows().filter(pk=number).first()
    if row is None:
        raise AlertRuleUnknown
    return row


def _number(request: Request, name: str) -> int | None:
    text: str = request.path_params[name]
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None


def _joined(settings: dict[str, Any]) -> dict[str, Any]:
    """As the console's operations have them: addresses in one text."""
    return {name: "\n".join(value) if name == "emails" else value for name, value in settings.items()}


def _shown(row: Any) -> AlertRuleShown:
    settings = {name: shown_value(name, value) for name, value in rule_fields.shown(row).items()}
    return AlertRuleShown(
        rule=row.pk, settings=msgspec.convert({**settings, "emails": row.addresses}, RuleSettings), raised=row.raised,
        last_raised_ms=None if row.last_raised is None else _ms(row.last_raised),
    )  # fmt: skip


def _silences() -> list[SilenceShown]:
    return [
        SilenceShown(
            silence=row.pk, rule=row.rule_id, subject=row.subject, until_ms=_ms(row.until), reason=row.reason,
            created_by=row.actor,
        )
        for row in Silence.objects.filter(until__gt=timezone.now())
    ]  # fmt: skip


def _ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)
