"""What requests and answers about alert rules and silences look like: those of the console's forms."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

from ...rest.choice_schemas import Look
from ..timers.rest_bulk_schemas import BulkReason, Moment

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
