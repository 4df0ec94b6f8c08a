"""Settings of topics and groups in words."""

from __future__ import annotations

from typing import Any

from django import template
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from console.templatetags.escapement import UNKNOWN

register = template.Library()


@register.filter
def setting_title(name: str) -> str:
    """What it is called."""
    words = {
        "read_queues": _("Queues to read"),
        "write_queues": _("Queues to write"),
        "permission": _("Permission"),
        "message_type": _("Message type"),
        "order": _("Ordered"),
        "consume_enabled": _("May consume"),
        "broadcast_enabled": _("May broadcast"),
        "orderly": _("In order"),
        "retry_max_times": _("Tries again at most"),
        "retry_policy": _("Retry policy"),
        "retry_delays": _("Customized: the delays"),
        "retry_first_delay": _("Exponential: the first delay"),
        "retry_longest_delay": _("Exponential: the longest delay"),
        "retry_multiplier": _("Exponential: the multiplier"),
    }
    return words.get(name, name)


@register.simple_tag
def setting_words(name: str, value: object) -> str:
    """What it is."""
    if value is None:
        return UNKNOWN
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    words = {
        ("permission", 6): _("read and write"),
        ("permission", 4): _("read only"),
        ("permission", 2): _("write only"),
        ("message_type", ""): _("not said"),
        ("retry_delays", ""): _("the broker's levels"),
    }
    return words.get((name, value), str(value))


@register.simple_tag
def waiting_words(waiting: dict[str, int | None]) -> str:
    """What waits for a topic, kind by kind; what is not told is not named."""
    return ", ".join(_waiting(waiting)) or _("nothing")


@register.simple_tag
def pending_words(result: dict[str, Any]) -> str:
    """What became of what waited for a topic that was deleted."""
    told = ", ".join(_waiting(result)) or _("nothing that was counted")
    return (_("cancelled: %(waiting)s") if result["pending"] == "cancel" else _("kept: %(waiting)s")) % {
        "waiting": told
    }  # fmt: skip


def _waiting(counts: dict[str, Any]) -> list[str]:
    said = []
    if counts.get("timers"):
        said.append(_count(ngettext("%(count)s timer", "%(count)s timers", counts["timers"]), counts["timers"]))
    if counts.get("delayed"):
        words = ngettext("%(count)s on a delay level", "%(count)s on delay levels", counts["delayed"])
        said.append(_count(words, counts["delayed"]))
    halves = (counts.get("halves") or 0) + (counts.get("parked_halves") or 0)
    if halves:
        said.append(_count(ngettext("%(count)s undecided half", "%(count)s undecided halves", halves), halves))
    return said


def _count(words: str, count: int) -> str:
    return words % {"count": f"{count:,}"}
