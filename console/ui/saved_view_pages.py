"""Saved views on pages: all that somebody has, saving what a list shows, and changing or deleting one.

A page that is opened without filters opens with the view that its reader wants to see there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.core.exceptions import PermissionDenied
from django.db.models import Q
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from console.security.see_as import subject_in
from console.security.topic_scope import current_topics
from console.ui import saved_views as store
from console.ui.addresses import form_of
from console.ui.saved_views import NAME_LENGTH, NEEDED, PAGES, Address, SavedView, address_here, address_of, default_of


@require_safe
def saved_views(request: HttpRequest) -> HttpResponse:
    """Show all saved views that the user may open."""
    return _page(request)


@form_of("saved_views")
def keep(request: HttpRequest) -> HttpResponse:
    """Save the list whose address is given, and go back to it."""
    address = address_of(request.POST.get("address", ""))
    if address is None:
        raise Http404(_("This list cannot be saved."))
    if not store.may_open(request.user, address.page):
        raise PermissionDenied(NEEDED[address.page])
    try:
        store.keep(request.user, address, request.POST.get("name", ""), **_wanted(request))
    except store.NotShared as error:
        raise PermissionDenied(store.SHARE) from error
    except store.ViewRefused as error:
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
        store.change(request.user, row, request.POST.get("name", ""), **wanted)
    except store.NotShared as error:
        raise PermissionDenied(store.SHARE) from error
    except store.ViewRefused as error:
        return _page(request, str(error), renamed=row.pk)
    return _see_other("saved_views")


@form_of("saved_views")
def delete(request: HttpRequest, view_id: int) -> HttpResponse:
    """Delete a saved view of the user's own."""
    _mine(request, view_id).delete()
    return _see_other("saved_views")


def _wanted(request: HttpRequest) -> dict[str, bool]:
    return {name: request.POST.get(name) == "1" for name in ("is_shared", "is_default")}


def _mine(request: HttpRequest, view_id: int) -> SavedView:
    """Return one of the user's own views; who may share, and is shown what others share, may also change that."""
    mine = Q(owner=request.user.pk)
    if request.user.has_perm(store.SHARE) and current_topics().is_all:
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
    """Show the user's views, and a refused form as it was sent: a view not saved yet, or new settings of one."""
    context = {
        "here": "saved_views",
        "rows": store.views_for(request.user),
        "may_share": request.user.has_perm(store.SHARE),
        "most": store.MOST,
        "name_length": NAME_LENGTH,
        "error": error,
        "unsaved": unsaved,
        "renamed": renamed,
        "wanted": _wanted(request),
        "given_name": request.POST.get("name", "")[:200],
    }
    return render(request, "saved_views/page.html", context, status=422 if error else 200)


class OpensWith:
    """Middleware behind the gate: whoever comes here may see the console."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Pass the request on, as nothing is done before the page is known."""
        return self.get_response(request)

    def process_view(self, request: HttpRequest, view: Any, args: Any, kwargs: Any) -> HttpResponse | None:
        """Redirect to the view; the page itself has a link back to the list without it."""
        match = request.resolver_match
        if request.method not in ("GET", "HEAD") or request.META.get("QUERY_STRING") or match is None:
            return None
        # own views are nobody else's: who sees as somebody else begins with the page as it is
        is_own = request.user.is_authenticated and subject_in(request) is None
        here = address_here(request) if match.url_name in PAGES and is_own else None
        row = default_of(request.user, here.path) if here else None
        return redirect(Address(row.page, row.path, row.query).text) if row and row.query else None
