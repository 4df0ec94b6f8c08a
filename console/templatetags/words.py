"""What the features call things: findings, settings of topics and groups, alert rules, Redisson's queues."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import template
from django.conf import settings
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from console.features.alerts.models import AlertRule
from console.features.alerts.operations import RulePreview
from console.features.alerts.units import in_words, span_text
from console.features.alerts.webhooks.registry import format_of
from console.features.overview.finding_kinds import Finding, Text
from console.features.people.role_words import permissions_in_words
from console.features.people.token_operations import RIGHT_WORDS, MakeToken
from console.features.topics.losses import waiting_words as words_of_waiting
from console.operations.models import Operation
from console.operations.setting_fields import Setting, text_of
from console.site.durations import sign_of
from console.templatetags.escapement import UNKNOWN, figure, length, moment
from console.templatetags.operations import kind_title

register = template.Library()


@register.filter
def sentence(finding: Finding) -> SafeString:
    """What the finding says: its sentence, and the one that needs a span where it has one."""
    kind = finding.code.value
    texts = (kind.sentence, kind.with_span if finding.span_ms else "")
    return format_html_join(" ", "{}", ((_filled(text, finding),) for text in texts if text))


@register.filter
def subject(finding: Finding) -> str:
    """What the finding is about: a name, or what the operation is called that waits."""
    return kind_title(finding.subject) if finding.operation else finding.subject


def _filled(text: Text, finding: Finding) -> SafeString:
    plural = text % {"value": finding.value or 0, "figure": "{figure}", "gap": "{gap}", "when": "{when}"}
    count = figure(finding.value)
    if finding.is_least:
        count = format_html(_("At least {}"), count)
    return format_html(plural, figure=count, gap=length(finding.span_ms), when=moment(finding.at_ms))


@register.simple_tag
def given_rights(row: Operation) -> list[tuple[str, Text]]:
    """The rights that a new token is given, each with what it permits; none for an operation on something else."""
    return [each for each in RIGHT_WORDS.items() if row.parameters.get(each[0])] if row.kind == MakeToken.name else []


@register.filter
def permission_words(names: list[str]) -> str:
    """What these permissions let one see and act on."""
    return permissions_in_words(names)


@register.filter
def setting_title(name: str) -> str:
    """What it is called."""
    words = {
        "read_queues": _("Read queues"),
        "write_queues": _("Write queues"),
        "permission": _("Permission"),
        "message_type": _("Message type"),
        "order": _("Ordered"),
        "consume_enabled": _("Consumption enabled"),
        "broadcast_enabled": _("Broadcast enabled"),
        "orderly": _("Ordered consumption"),
        "retry_max_times": _("Max retries"),
        "retry_policy": _("Retry policy"),
        "retry_delays": _("Customized: delays"),
        "retry_first_delay": _("Exponential: initial delay"),
        "retry_longest_delay": _("Exponential: maximum delay"),
        "retry_multiplier": _("Exponential: multiplier"),
        "user_type": _("Type"),
        "user_status": _("State"),
        "secret": _("Secret"),
        "previous": _("Previous secret"),
        "roles": _("Roles"),
        "is_active": _("Active"),
        "password": _("Password"),
        "second_factor": _("Second factor"),
        "permissions": _("Permissions"),
        "topics": _("Topics"),
        # of operations from before a name stood for itself
        "prefixes": _("Topic prefixes"),
        "sees": _("Sees"),
        "days": _("Days"),
        "access_user": _("Broker user"),
    }
    return words.get(name, name)


@register.simple_tag
def setting_words(name: str, value: object) -> str:
    """Return the value of a topic's or group's setting in words."""
    if value is None:
        return UNKNOWN
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    words = {
        ("permission", 6): _("read and write"),
        ("permission", 4): _("read only"),
        ("permission", 2): _("write only"),
        ("message_type", ""): _("not specified"),
        ("message_type", "NORMAL"): _("normal"),
        ("message_type", "FIFO"): _("ordered (FIFO)"),
        ("message_type", "DELAY"): _("delayed"),
        ("message_type", "TRANSACTION"): _("transactional"),
        ("message_type", "MIXED"): _("mixed"),
        ("retry_policy", "CUSTOMIZED"): _("customized"),
        ("retry_policy", "EXPONENTIAL"): _("exponential"),
        ("retry_delays", ""): _("the broker's delay levels"),
        ("user_status", "enable"): _("enabled"),
        ("user_status", "disable"): _("disabled"),
        ("secret", "new"): _("new"),
        ("previous", "ends"): _("no longer valid"),
        ("password", "new"): _("new"),
        ("sees", "all"): _("all topics"),
        ("is_active", "yes"): _("yes"),
        ("is_active", "no"): _("no"),
        ("second_factor", "yes"): _("yes"),
        ("second_factor", "no"): _("no"),
    }
    return words.get((name, value), str(value))


@register.simple_tag
def setting_shown(setting: Setting, text: str) -> str:
    """Return the value that a form's text stands for in words."""
    for value in setting.choices or ("",):
        if text_of(value) == text:
            return setting_words(setting.name, value)
    return {"yes": _("yes"), "no": _("no")}.get(text, text)


@register.simple_tag
def waiting_words(waiting: dict[str, int | None]) -> str:
    """What waits for a topic, kind by kind; what is not told is not named."""
    return words_of_waiting(waiting) or _("nothing")


@register.filter
def told_word(code: str) -> str:
    """What RocketMQ's name for how a group gets its messages means; what is none of them stands as it is."""
    words = {
        "CLUSTERING": _("clustering: each message to one member"),
        "BROADCASTING": _("broadcasting: each message to all members"),
        "CONSUME_PASSIVELY": _("push consumers"),
        "CONSUME_ACTIVELY": _("pull consumers"),
        "CONSUME_POP": _("pop consumers"),
    }
    return words.get(code, code)


@register.filter
def unit_word(unit: str) -> str:
    """The unit of a broker's setting in the reader's language."""
    return _("bytes") if unit == "bytes" else sign_of(unit)


@register.filter
def rule_setting_title(name: str) -> str:
    """What it is called."""
    words = {
        "name": _("Name"),
        "what": _("Metric"),
        "subject": _("Subject (name, * for any)"),
        "limit": _("Threshold"),
        "for_s": _("For at least"),
        "emails": _("E-mail recipients"),
        "webhook": _("Webhook"),
        "webhook_format": _("Webhook of"),
        "webhook_secret": _("Webhook secret"),
        "is_on": _("Enabled"),
        "until_ms": _("Until"),
    }
    return words.get(name, name)


@register.simple_tag
def rule_setting_words(name: str, value: object, what: str = "") -> str:
    """Return the value of an alert rule's setting in words; a limit is one of what is watched (`what`)."""
    if value is None or value == "":
        return UNKNOWN
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    if name == "what":
        return what_words(str(value))
    if name == "until_ms" and isinstance(value, int):
        return moment(value)
    if name == "webhook_format":
        return str(format_of(str(value)).title)
    if name == "for_s" and isinstance(value, int):
        return span_text(value * 1_000)
    if name == "limit" and isinstance(value, int | float):
        return in_words(what, value)
    return ", ".join(value.split()) if name == "emails" and isinstance(value, str) else str(value)


@register.filter
def what_words(what: str) -> str:
    """What a rule watches, in words."""
    return str(dict(AlertRule.What.choices).get(what, what))


@register.filter
def watched_words(value: float | None, what: str) -> SafeString | str:
    """A value of what is watched, with its unit; a dash when unknown."""
    return UNKNOWN if value is None else in_words(what, value)


@register.filter
def seconds_words(seconds: int) -> str:
    """A length of time that is kept in seconds."""
    return span_text(seconds * 1_000)


@register.filter
def webhook_words(name: str) -> str:
    """What a webhook's format is called."""
    return str(format_of(name).title)


@register.simple_tag
def rule_would(preview: RulePreview) -> str:
    """What the rule would do at its next look."""
    rule: Mapping[str, Any] = preview.rule
    if not rule.get("is_on"):
        return _("The rule is disabled: no alert fires.")
    if preview.watched_above is None:
        return _("The metric cannot be read now: alerts neither fire nor resolve.")
    if not preview.watched_above:
        return _("No alert would fire now.")
    if rule["for_s"] == 0:
        return _("These alerts would fire at the next evaluation, within %(seconds)s s.") % {
            "seconds": f"{settings.ALERTS_INTERVAL_S:g}"
        }
    span = span_text(rule["for_s"] * 1_000)
    return _("These alerts would fire after %(span)s above the threshold.") % {"span": span}


@register.filter
def packing_words(code: str) -> str:
    """Which versions of Redisson write it."""
    return {"new": _("since 3.21.1"), "old": _("up to 3.21.0")}.get(code, code)


@register.filter
def count_words(code: str) -> str:
    """What a preview counted beside the values that it hits."""
    words = {
        "in_list": _("in the list only: due immediately"),
        "in_set": _("in the set only: they are listed again"),
        "overdue": _("already due: delivered immediately"),
        "never_due": _("due before 1970: left as they are"),
        "too_far": _("due beyond the broker's timer range: quarantined"),
        "unreadable": _("no known envelope among those searched: left as they are"),
    }
    return words.get(code, code)


@register.filter
def service_words(state: str) -> str:
    """What a transfer service is doing."""
    return {"moving": _("moving"), "watching": _("read-only"), "waiting": _("waiting for Redis")}.get(state, state)
