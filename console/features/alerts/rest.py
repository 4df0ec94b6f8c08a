"""Alert rules and silences by REST: the console's operations, for tokens that may change the settings of everything.

Requests and answers have the fields of the console's forms.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from django.db.models import Count, Max, Q
from django.utils import timezone
from msgspec import UNSET, Meta, Struct, UnsetType, field
from starlette.requests import Request
from starlette.responses import Response

from console.features.alerts import rule_fields
from console.features.alerts.models import Alert, AlertRule, Silence
from console.features.alerts.operations import shown_value
from console.features.messages.rest import only_parameters
from console.features.timers.rest_bulk import MAX_BODY_BYTES, actor_of
from console.features.timers.rest_bulk_schemas import BulkReason, Moment, OperationShown
from console.operations.actor import ADD_ALERT_RULE, CHANGE_ALERT_RULE, DELETE_ALERT_RULE, SILENCE_ALERTS
from console.rest.choice_schemas import Look, OperationPreview
from console.rest.errors import AlertRuleUnknown, OperationRefused, SilenceUnknown
from console.rest.moments import moment_ms
from console.rest.needs import EVERYWHERE, Need
from console.rest.operations_bridge import begun, in_thread
from console.rest.request_body import decode, read_body
from console.rest.responses import json_answer
from console.rest.route import Operation
from console.rest.state import Room
from console.security.tokens import SETTINGS, Grant

Watched = Literal[
    "broker-down", "backlog", "still", "dead-letters", "lateness", "lane-late", "half-age", "stuck-queue"
]  # fmt: skip
Subject = Annotated[str, Meta(min_length=1, max_length=255, description="A name; * stands for any characters.")]
Limit = Annotated[float, Meta(ge=0, description="Above it, in the unit of `what`.")]
Seconds = Annotated[int, Meta(ge=0, le=604_800, description="Above it for so long; 0: at the next look.")]
Emails = Annotated[list[str], Meta(max_length=20)]
Webhook = Annotated[str, Meta(max_length=500, description="Its origin is on a list; empty: none.")]
RuleName = Annotated[str, Meta(max_length=80)]
Number = Annotated[int, Meta(ge=1, le=2**63 - 1)]
Expected = Meta(description="The change is refused unless these are the settings now.")


class NewRuleSettings(Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """Settings of a new rule."""

    what: Watched
    limit: Limit
    name: RuleName = ""
    subject: Subject = "*"
    for_s: Seconds = 60
    emails: Emails = field(default_factory=list)
    webhook: Webhook = ""
    is_on: bool = True


class RuleSettings(Struct, forbid_unknown_fields=True, kw_only=True):
    """Settings of a rule; those that are left out stay as they are."""

    name: RuleName | UnsetType = UNSET
    what: Watched | UnsetType = UNSET
    subject: Subject | UnsetType = UNSET
    limit: Limit | UnsetType = UNSET
    for_s: Seconds | UnsetType = UNSET
    emails: Emails | UnsetType = UNSET
    webhook: Webhook | UnsetType = UNSET
    is_on: bool | UnsetType = UNSET


class NewAlertRule(Struct, forbid_unknown_fields=True, kw_only=True):
    """A rule to make."""

    settings: NewRuleSettings
    reason: BulkReason
    preview: Look = False


class AlertRuleChange(Struct, forbid_unknown_fields=True, kw_only=True):
    """What is to be changed of a rule."""

    settings: RuleSettings
    expected: Annotated[RuleSettings, Expected] | UnsetType = UNSET
    reason: BulkReason
    preview: Look = False


class NewSilence(Struct, forbid_unknown_fields=True, kw_only=True):
    """Nobody is told of alerts of these subjects until then; of one rule, or of all."""

    rule: Number | None = None
    subject: Subject = "*"
    until: Moment
    reason: BulkReason
    preview: Look = False


class AlertRuleShown(Struct, kw_only=True):
    """A rule. `webhook`: its origin only; `raised`: alerts that are above their limit long enough now."""

    rule: int
    settings: RuleSettings
    raised: int
    last_raised_ms: int | None


class AlertRuleRows(Struct, kw_only=True):
    """All rules."""

    rules: list[AlertRuleShown]


class SilenceShown(Struct, kw_only=True):
    """A silence that holds."""

    silence: int
    rule: int | None
    subject: str
    until_ms: int
    reason: str
    created_by: str


class SilenceRows(Struct, kw_only=True):
    """All silences that hold."""

    silences: list[SilenceShown]


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


_RULES, _SILENCES = "/alert-rules", "/alert-silences"
_RULE, _SILENCE = _RULES + "/{rule}", _SILENCES + "/{silence}"
_REASON = (("reason", "Kept in the audit."), ("preview", "true: say what would come of it, and do nothing."))
_BEGUN = (202, "It is done, or waits for a second person; Location says where to look.", OperationShown)
_PREVIEW = (200, "Asked for a preview: what it would say now.", OperationPreview)
#: rules watch names of every beginning
_NEEDS = (Need((SETTINGS,), EVERYWHERE),)

OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "GET", _RULES, "List alert rules", SETTINGS, rules, None, ((200, "Rules.", AlertRuleRows),),
        needs=_NEEDS,
    ),
    Operation(
        "POST", _RULES, "Make an alert rule", SETTINGS, make, NewAlertRule, (_BEGUN, _PREVIEW), needs=_NEEDS
    ),
    Operation(
        "GET", _RULE, "Look at an alert rule", SETTINGS, rule, None, ((200, "The rule.", AlertRuleShown),),
        needs=_NEEDS,
    ),
    Operation(
        "PATCH", _RULE, "Change an alert rule, or switch it on or off", SETTINGS, change, AlertRuleChange,
        (_BEGUN, (200, "It is so already; asked for a preview: OperationPreview.", AlertRuleShown)), needs=_NEEDS,
    ),
    Operation(
        "DELETE", _RULE, "Delete an alert rule with what it raised", SETTINGS, delete, None,
        (_BEGUN, _PREVIEW), _REASON, needs=_NEEDS,
    ),
    Operation(
        "GET", _SILENCES, "List silences that hold", SETTINGS, silences, None,
        ((200, "Silences.", SilenceRows),), needs=_NEEDS,
    ),
    Operation(
        "POST", _SILENCES, "Silence alerts", SETTINGS, silence, NewSilence, (_BEGUN, _PREVIEW), needs=_NEEDS
    ),
    Operation(
        "DELETE", _SILENCE, "End a silence", SETTINGS, end_silence, None, (_BEGUN, _PREVIEW), _REASON,
        needs=_NEEDS,
    ),
)  # fmt: skip
