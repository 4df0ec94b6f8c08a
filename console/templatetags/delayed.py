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
def service_words(state: str) -> str:
    """What a transfer service is doing."""
    return {"moving": _("moving"), "watching": _("only watching"), "waiting": _("waiting for Redis")}.get(state, state)
