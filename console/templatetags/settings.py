"""Settings of topics and groups in words."""

from __future__ import annotations

from django import template
from django.utils.translation import gettext as _

from console.features.topics.operations import waiting_words as words_of_waiting
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
    return words_of_waiting(waiting) or _("nothing")
