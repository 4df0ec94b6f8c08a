"""Redisson's delayed queues in words."""

from __future__ import annotations

from django import template
from django.utils.translation import gettext as _

register = template.Library()


@register.filter
def packing_words(code: str) -> str:
    """Which versions of Redisson write it."""
    return {"new": _("since 3.21.1"), "old": _("up to 3.21.0")}.get(code, code)


@register.filter
def count_words(code: str) -> str:
    """What a preview counted beside the values that it hits."""
    words = {
        "in_list": _("in the list only: they are due at once"),
        "in_set": _("in the set only: they are listed again"),
        "overdue": _("due already: they are delivered at once"),
        "never_due": _("due at a moment before 1970: they stay"),
        "too_far": _("due later than the broker takes timers for: they are set aside"),
        "unreadable": _("in neither packing among those looked at: they stay"),
    }
    return words.get(code, code)


@register.filter
def service_words(state: str) -> str:
    """What a transfer service is doing."""
    return {"moving": _("moving"), "watching": _("only watching"), "waiting": _("waiting for Redis")}.get(state, state)
