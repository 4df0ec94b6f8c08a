"""Saved views: all that somebody has, saving what a list shows, and changing or deleting one."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import PermissionDenied
from django.db.models import Q
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from console.ui.form_addresses import form_of
from console.ui.saved_views import store as saved_views_store
from console.ui.saved_views.addresses import NEEDED, address_of
from console.ui.saved_views.models import NAME_LENGTH, SavedView


@require_safe
def saved_views(request: HttpRequest) -> HttpResponse:
    """All of them."""
    return _page(request)


@form_of("saved_views")
def keep(request: HttpRequest) -> HttpResponse:
    """Save the list whose address is given, and go back to it."""
    address = address_of(request.POST.get("address", ""))
    if address is None:
        raise Http404(_("This is no list that can be saved."))
    if not saved_views_store.may_open(request.user, address.page):
        raise PermissionDenied(NEEDED[address.page])
    try:
        saved_views_store.keep(request.user, address, request.POST.get("name", ""), **_wanted(request))
    except saved_views_store.NotShared as error:
        raise PermissionDenied(saved_views_store.SHARE) from error
    except saved_views_store.ViewRefused as error:
        return _page(request, str(error), {"address": address, **_wanted(request)})
    return _see_other(address.text)


@form_of("saved_views")
def change(request: HttpRequest, view_id: int) -> HttpResponse:
    """Rename it, share it, let it open with its page."""
    row = _mine(request, view_id)
    try:
        wanted = _wanted(request)
        if row.owner_id != request.user.pk:
            # what a page opens with is its reader's own choice
            wanted["is_default"] = row.is_default
        saved_views_store.change(request.user, row, request.POST.get("name", ""), **wanted)
    except saved_views_store.NotShared as error:
        raise PermissionDenied(saved_views_store.SHARE) from error
    except saved_views_store.ViewRefused as error:
        return _page(request, str(error), renamed=row.pk)
    return _see_other("saved_views")


@form_of("saved_views")
def delete(request: HttpRequest, view_id: int) -> HttpResponse:
    """Forget it."""
    _mine(request, view_id).delete()
    return _see_other("saved_views")


def _wanted(request: HttpRequest) -> dict[str, bool]:
    return {name: request.POST.get(name) == "1" for name in ("is_shared", "is_default")}


def _mine(request: HttpRequest, view_id: int) -> SavedView:
    """Of one's own; who may share may also change what others share."""
    mine = Q(owner=request.user.pk)
    if request.user.has_perm(saved_views_store.SHARE):
        mine |= Q(is_shared=True)
    row = SavedView.objects.filter(mine, pk=view_id).first() if view_id < 2**63 else None
    if row is None:
        raise Http404(_("There is no such view."))
    return row


def _see_other(to: str) -> HttpResponse:
    answer = redirect(to)
    answer.status_code = 303
    return answer


def _page(
    request: HttpRequest, error: str = "", unsaved: dict[str, Any] | None = None, renamed: int | None = None
) -> HttpResponse:
    """All of them, and what was refused as it was sent: one that is not saved yet, or other settings of one."""
    context = {
        "here": "saved_views",
        "rows": saved_views_store.views_for(request.user),
        "may_share": request.user.has_perm(saved_views_store.SHARE),
        "most": saved_views_store.MOST,
        "name_length": NAME_LENGTH,
        "error": error,
        "unsaved": unsaved,
        "renamed": renamed,
        "wanted": _wanted(request),
        "given_name": request.POST.get("name", "")[:200],
    }
    return render(request, "saved_views/page.html", context, status=422 if error else 200)
