"""Alert rules in words: their settings, what an operation on one is about, and what a rule would do now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import template
from django.conf import settings
from django.utils.translation import gettext as _

from console.features.alerts.models import AlertRule
from console.features.alerts.operations import RulePreview
from console.templatetags.escapement import UNKNOWN, figure, moment

register = template.Library()


@register.filter
def rule_setting_title(name: str) -> str:
    """What it is called."""
    words = {
        "name": _("Name"),
        "what": _("What is watched"),
        "subject": _("Of which (name, * for any)"),
        "limit": _("Above"),
        "for_s": _("For at least, s"),
        "emails": _("Mail to"),
        "webhook": _("Webhook"),
        "is_on": _("Switched on"),
        "until_ms": _("Until"),
    }
    return words.get(name, name)


@register.simple_tag
def rule_setting_words(name: str, value: object) -> str:
    """What it is."""
    if value is None or value == "":
        return UNKNOWN
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    if name == "what":
        return what_words(str(value))
    if name == "until_ms" and isinstance(value, int):
        return moment(value)
    if isinstance(value, int | float):
        return str(figure(value))
    return ", ".join(value.split()) if name == "emails" and isinstance(value, str) else str(value)


@register.filter
def what_words(what: str) -> str:
    """What is watched, with its unit."""
    return str(dict(AlertRule.What.choices).get(what, what))


@register.simple_tag
def rule_would(preview: RulePreview) -> str:
    """What the rule would do at its next look."""
    rule: Mapping[str, Any] = preview.rule
    if not rule.get("is_on"):
        return _("It is off: it raises nothing.")
    if preview.watched_above is None:
        return _("This cannot be read now: nothing is raised, and nothing ends.")
    if not preview.watched_above:
        return _("It would raise nothing now.")
    if rule["for_s"] == 0:
        return _("It would raise them at its next look, within %(seconds)s s.") % {
            "seconds": f"{settings.ALERTS_INTERVAL_S:g}"
        }
    return _("It would raise them if they stay above it for %(seconds)s s.") % {"seconds": f"{rule['for_s']:,}"}
