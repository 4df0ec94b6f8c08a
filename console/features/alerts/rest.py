"""Alert rules and silences by REST: the console's operations, for tokens that may change the settings of everything.

Requests and answers have the fields of the console's forms.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from django.db.models import Count, Max, Q
from django.utils import timezone
from msgspec import UNSET, Meta, Struct, UnsetType, field
from starlette.responses import Response

from console.features.alerts import rule_fields
from console.features.alerts.models import Alert, AlertRule, Silence
from console.features.alerts.operations import shown_value
from console.features.alerts.pages import VIEW as VIEW_ALERT
from console.features.alerts.trial_operations import try_rule
from console.operations.actor import ADD_ALERT_RULE, CHANGE_ALERT_RULE, DELETE_ALERT_RULE, SILENCE_ALERTS
from console.rest.access import Everywhere
from console.rest.database import token_actor
from console.rest.errors import AlertRuleUnknown, SilenceUnknown
from console.rest.operations import begun, in_thread
from console.rest.query import moment_ms
from console.rest.responses import json_answer
from console.rest.route import Call, route
from console.rest.schemas import BEGUN_OR_WAITS, PREVIEWED, Deletion, Look, Moment, Reason
from console.security.tokens import SETTINGS
from console.site.parsing import whole_number

Watched = Literal[
    "broker-down", "backlog", "still", "dead-letters", "lateness", "lane-late", "half-age", "stuck-queue", "disk-used",
    "slave-behind",
]  # fmt: skip
Subject = Annotated[str, Meta(min_length=1, max_length=255, description="A name; * matches any characters.")]
Limit = Annotated[float, Meta(ge=0, description="Threshold, in the unit of `what`.")]
Seconds = Annotated[
    int, Meta(ge=0, le=604_800, description="Above the threshold for so long; 0: at the next evaluation.")
]
Emails = Annotated[list[str], Meta(max_length=20)]
Webhook = Annotated[str, Meta(max_length=500, description="Its origin is on a list; empty: none.")]
WebhookFormat = Literal["plain", "slack", "teams", "dingtalk", "wecom", "feishu", "pagerduty"]
WebhookSecret = Annotated[
    str, Meta(max_length=200, description="Signing secret or routing key; kept sealed, never answered.")
]
RuleName = Annotated[str, Meta(max_length=80)]
Number = Annotated[int, Meta(ge=1, le=2**63 - 1)]
Expected = Meta(description="The change is refused unless these are the settings now.")


class NewRuleSettings(Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """The settings of a new rule."""

    what: Watched
    limit: Limit
    name: RuleName = ""
    subject: Subject = "*"
    for_s: Seconds = 60
    emails: Emails = field(default_factory=list)
    webhook: Webhook = ""
    webhook_format: WebhookFormat = "plain"
    webhook_secret: WebhookSecret = ""
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
    webhook_format: WebhookFormat | UnsetType = UNSET
    webhook_secret: WebhookSecret | UnsetType = UNSET
    is_on: bool | UnsetType = UNSET


class NewAlertRule(Struct, forbid_unknown_fields=True, kw_only=True):
    """A rule to make, with its settings."""

    settings: NewRuleSettings
    reason: Reason
    preview: Look = False


class AlertRuleChange(Struct, forbid_unknown_fields=True, kw_only=True):
    """The changes to a rule."""

    settings: RuleSettings
    expected: Annotated[RuleSettings, Expected] | UnsetType = UNSET
    reason: Reason
    preview: Look = False


class NewSilence(Struct, forbid_unknown_fields=True, kw_only=True):
    """A silence to make: nobody is told of alerts of these subjects until then; of one rule, or of all."""

    rule: Number | None = None
    subject: Subject = "*"
    until: Moment
    reason: Reason
    preview: Look = False


class AlertRuleShown(Struct, kw_only=True):
    """A rule. `webhook`: its origin only; `raised`: alerts that are above their limit long enough now."""

    rule: int
    settings: RuleSettings
    has_secret: bool
    raised: int
    last_raised_ms: int | None


class AlertRuleRows(Struct, kw_only=True):
    """The alert rules that there are."""

    rules: list[AlertRuleShown]


class ChannelTried(Struct, kw_only=True):
    """What came of a test by one `channel`: mail, or the webhook's format. `answer`: its beginning."""

    channel: str
    is_delivered: bool
    status: int | None
    took_ms: int
    error: str
    answer: str


class RuleTried(Struct, kw_only=True):
    """The channels of a rule, each with what came of the test."""

    channels: list[ChannelTried]


class SilenceShown(Struct, kw_only=True):
    """A silence that holds now."""

    silence: int
    rule: int | None
    subject: str
    until_ms: int
    reason: str
    created_by: str


class SilenceRows(Struct, kw_only=True):
    """The silences that hold now."""

    silences: list[SilenceShown]


_PERMISSIONS = frozenset((ADD_ALERT_RULE, CHANGE_ALERT_RULE, DELETE_ALERT_RULE, SILENCE_ALERTS))
_RULES, _SILENCES = "/alert-rules", "/alert-silences"
_RULE, _SILENCE = _RULES + "/{rule}", _SILENCES + "/{silence}"
#: rules watch names of every beginning
_ON = Everywhere()


@route(
    "GET",
    _RULES,
    "List alert rules",
    action=SETTINGS,
    permission=CHANGE_ALERT_RULE,
    on=_ON,
    answers=((200, "Rules.", AlertRuleRows),),
)
async def rules(call: Call) -> Response:
    """List all rules, each with how many alerts it raises now."""
    return json_answer(AlertRuleRows(rules=await in_thread(lambda: [_shown(row) for row in _rows()])))


@route(
    "POST",
    _RULES,
    "Create an alert rule",
    action=SETTINGS,
    permission=ADD_ALERT_RULE,
    on=_ON,
    answers=(BEGUN_OR_WAITS, PREVIEWED),
)
async def make_rule(call: Call, body: NewAlertRule) -> Response:
    """Make a rule that is not there yet."""
    settings = _joined(msgspec.to_builtins(body.settings))
    return await _begun(call, "create", {"settings": settings}, body.reason, is_look=body.preview)


@route(
    "GET",
    _RULE,
    "Get an alert rule",
    action=SETTINGS,
    permission=CHANGE_ALERT_RULE,
    on=_ON,
    answers=((200, "The rule.", AlertRuleShown),),
    errors=(AlertRuleUnknown,),
)
async def rule(call: Call) -> Response:
    """Answer one rule with how many alerts it raises now."""
    return json_answer(await in_thread(lambda: _shown(_row(call))))


@route(
    "PATCH",
    _RULE,
    "Change, enable or disable an alert rule",
    action=SETTINGS,
    permission=CHANGE_ALERT_RULE,
    on=_ON,
    answers=(BEGUN_OR_WAITS, (200, "Already set; with preview: OperationPreview.", AlertRuleShown)),
    errors=(AlertRuleUnknown,),
)
async def change_rule(call: Call, body: AlertRuleChange) -> Response:
    """Change the settings that are named; the rest stays."""
    row = await in_thread(lambda: _row(call))
    given = msgspec.to_builtins(body)
    parameters = {part: _joined(given[part]) for part in ("settings", "expected") if part in given}
    now = rule_fields.shown(row)
    if (
        not body.preview
        and "webhook_secret" not in parameters["settings"]
        and all(now[name] == value for name, value in parameters["settings"].items())
    ):
        return json_answer(await in_thread(lambda: _shown(_row(call))))
    return await _begun(call, "change", {"rule": row.pk, **parameters}, body.reason, is_look=body.preview)


@route(
    "DELETE",
    _RULE,
    "Delete an alert rule with what it raised",
    action=SETTINGS,
    permission=DELETE_ALERT_RULE,
    on=_ON,
    answers=(BEGUN_OR_WAITS, PREVIEWED),
    errors=(AlertRuleUnknown,),
)
async def delete_rule(call: Call, query: Deletion) -> Response:
    """Delete a rule with the alerts that it raised."""
    is_look, row = query.is_look(), await in_thread(lambda: _row(call))
    return await _begun(call, "delete", {"rule": row.pk}, query.reason, is_look=is_look)


@route(
    "POST",
    _RULE + "/test",
    "Test the channels of an alert rule",
    action=SETTINGS,
    permission=CHANGE_ALERT_RULE,
    on=_ON,
    answers=((200, "What came of it.", RuleTried),),
    errors=(AlertRuleUnknown,),
)
async def test_rule(call: Call) -> Response:
    """Send one message that says that it is a test by each channel, now, also of a rule that is off."""
    row = await in_thread(lambda: _row(call))
    tried = await in_thread(lambda: try_rule(row, token_actor(call.grant, _PERMISSIONS)))
    channels = [
        ChannelTried(
            channel=each.name,
            is_delivered=each.is_delivered,
            status=each.status,
            took_ms=each.took_ms,
            error=each.error,
            answer=each.answer,
        )
        for each in tried
    ]
    return json_answer(RuleTried(channels=channels))


@route(
    "GET",
    _SILENCES,
    "List active silences",
    action=SETTINGS,
    permission=VIEW_ALERT,
    on=_ON,
    answers=((200, "Silences.", SilenceRows),),
)
async def silences(call: Call) -> Response:
    """List the silences that hold now."""
    return json_answer(SilenceRows(silences=await in_thread(_silences)))


@route(
    "POST",
    _SILENCES,
    "Silence alerts",
    action=SETTINGS,
    permission=SILENCE_ALERTS,
    on=_ON,
    answers=(BEGUN_OR_WAITS, PREVIEWED),
)
async def silence(call: Call, body: NewSilence) -> Response:
    """Tell nobody of some alerts until a moment."""
    parameters = {"rule": body.rule, "subject": body.subject, "until_ms": moment_ms(body.until, "until")}
    return await _begun(call, "silence", parameters, body.reason, is_look=body.preview)


@route(
    "DELETE",
    _SILENCE,
    "End a silence",
    action=SETTINGS,
    permission=SILENCE_ALERTS,
    on=_ON,
    answers=(BEGUN_OR_WAITS, PREVIEWED),
    errors=(SilenceUnknown,),
)
async def end_silence(call: Call, query: Deletion) -> Response:
    """End a silence: its alerts are told of again."""
    is_look, number = query.is_look(), whole_number(call.named["silence"])
    if number is None:
        raise SilenceUnknown
    holds = Silence.objects.filter(pk=number, until__gt=timezone.now())
    if not await in_thread(holds.exists):
        raise SilenceUnknown
    return await _begun(call, "end_silence", {"silence": number}, query.reason, is_look=is_look)


async def _begun(call: Call, verb: str, parameters: Mapping[str, Any], reason: str, *, is_look: bool) -> Response:
    return await begun(f"alerts.{verb}", parameters, reason, token_actor(call.grant, _PERMISSIONS), is_look=is_look)


def _rows() -> Any:
    raised = Count("alerts", filter=Q(alerts__state=Alert.State.FIRING))
    return AlertRule.objects.annotate(raised=raised, last_raised=Max("alerts__raised_at"))


def _row(call: Call) -> Any:
    """Return the rule that the address names; raises AlertRuleUnknown."""
    number = whole_number(call.named["rule"])
    row = None if number is None else _rows().filter(pk=number).first()
    if row is None:
        raise AlertRuleUnknown
    return row


def _joined(settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings as the console's operations have them: mail addresses in one text."""
    return {name: "\n".join(value) if name == "emails" else value for name, value in settings.items()}


def _shown(row: Any) -> AlertRuleShown:
    settings = {name: shown_value(name, value) for name, value in rule_fields.shown(row).items()}
    del settings["webhook_secret"]
    return AlertRuleShown(
        rule=row.pk,
        has_secret=bool(row.webhook_secret),
        settings=msgspec.convert({**settings, "emails": row.addresses}, RuleSettings),
        raised=row.raised,
        last_raised_ms=None if row.last_raised is None else _ms(row.last_raised),
    )


def _silences() -> list[SilenceShown]:
    return [
        SilenceShown(
            silence=row.pk,
            rule=row.rule_id,
            subject=row.subject,
            until_ms=_ms(row.until),
            reason=row.reason,
            created_by=row.actor,
        )
        for row in Silence.objects.filter(until__gt=timezone.now())
    ]


def _ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)
