"""Parts that many pages are made of."""

from __future__ import annotations

from django import template
from django.urls import reverse
from django.utils.http import urlencode

register = template.Library()


@register.simple_tag
def address(name: str, *args: object, **query: object) -> str:
    """The address of a page with its query; parameters that are None or empty are left out."""
    asked = urlencode({key: value for key, value in query.items() if value not in (None, "")})
    return reverse(name, args=args) + (f"?{asked}" if asked else "")
