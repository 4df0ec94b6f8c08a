"""Saved views beside a list: those of its page, and the form that saves what is shown."""

from __future__ import annotations

from typing import Any

from django import template
from django.template import Context

from console.ui.saved_views.addresses import ADDRESS_LENGTH, PAGES, PLAIN, Address, address_here
from console.ui.saved_views.models import NAME_LENGTH, SavedView
from console.ui.saved_views.store import SHARE, views_for

register = template.Library()

#: the others are on the page of all
_SHOWN = 8


@register.inclusion_tag("saved_views/beside.html", takes_context=True)
def views_beside(context: Context) -> dict[str, Any]:
    """What the page's head shows; nothing on pages that cannot be saved."""
    request: Any = context.get("request")
    here = address_here(request) if request is not None else None
    if here is None or not request.user.is_authenticated:
        return {}
    rows = views_for(request.user, here.page)
    return {
        "here": here,
        "plain": f"{here.path}?{PLAIN}",
        "is_plain": not here.query,
        "rows": [(row, view_address(row), _is(row, here), row.owner_id == request.user.pk) for row in rows[:_SHOWN]],
        "more": max(0, len(rows) - _SHOWN),
        "may_share": request.user.has_perm(SHARE),
        "name_length": NAME_LENGTH,
        "address_length": ADDRESS_LENGTH,
    }


@register.filter
def view_address(row: SavedView) -> str:
    """Where a view leads."""
    return Address(row.page, row.path, row.query).text


@register.filter
def view_page(row: SavedView) -> str:
    """How its page is called; a page that is no more has its bare name."""
    return str(PAGES.get(row.page, row.page))


def _is(row: SavedView, here: Address) -> bool:
    return (row.path, row.query) == (here.path, here.query)
