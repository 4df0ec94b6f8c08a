"""Saved views: the address of a list of this console with its filters, and nothing else, under a name.

Views are saved, renamed, shared and deleted here, and it is said which of them somebody sees.

ViewRefused
├── NameRefused    no name, too long, not to be shown, or taken on this page
├── TooManyViews   its owner has as many as one may have
└── NotShared      sharing needs a permission
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

from django.conf import settings
from django.contrib.auth import get_user_model
from django.db import models, transaction
from django.db.models import Q
from django.http import HttpRequest, QueryDict
from django.urls import Resolver404, resolve, reverse
from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from console.security.topic_scope import current_topics
from console.site.chosen import choosing, split

NAME_LENGTH = 60


class SavedView(models.Model):
    """A list and its filters under a name, which is its owner's own on that page."""

    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, related_name="saved_views", verbose_name=_("owner")
    )
    #: name of the page, its path, and its filters (console.ui.saved_views)
    page = models.CharField(_("page"), max_length=64)
    path = models.CharField(_("path"), max_length=1_500)
    query = models.CharField(_("filters"), max_length=1_500, blank=True)
    name = models.CharField(_("name"), max_length=NAME_LENGTH)
    #: seen by everybody who sees all topics and may open the page
    is_shared = models.BooleanField(_("shared with everybody"), default=False)
    #: what its owner sees when the page is opened without filters
    is_default = models.BooleanField(_("default of its page"), default=False)
    created_at = models.DateTimeField(_("created at"), auto_now_add=True)

    class Meta:
        verbose_name = _("saved view")
        verbose_name_plural = _("saved views")
        ordering = ["page", "name", "pk"]
        default_permissions = ()
        permissions = [("share_views", _("Can share saved views with everybody"))]
        constraints = [
            models.UniqueConstraint(fields=["owner", "page", "name"], name="one_view_of_a_name"),
            models.UniqueConstraint(
                fields=["owner", "path"], condition=models.Q(is_default=True), name="one_default_view"
            ),
        ]

    def __str__(self) -> str:
        return self.name


ADDRESS_LENGTH = 1_500
#: what opens a page as it is without a view, though one opens with it
PLAIN = "view=all"
#: names of the pages that can be saved
PAGES: Mapping[str, str | Promise] = {
    "topics": _("Topics"),
    "queue": _("Queue"),
    "groups": _("Consumer groups"),
    "clients": _("Clients"),
    "dead_letters_of": _("Dead letters"),
    "messages": _("Messages"),
    "lane": _("Delay level"),
    "timers": _("Timers"),
    "timer_list": _("Timers, list"),
    "transaction_list": _("Transactions, list"),
    "delayed_queues": _("Redisson queues"),
    "delayed_queue": _("Redisson queue"),
    "operations": _("Operations"),
    "audit": _("Audit"),
    "dashboard": _("Dashboards"),
}
#: what else than seeing the console a page asks for
NEEDED = {"audit": "console.view_auditentry", "dashboard": "console.view_dashboardrun"}
#: what an address says about the place in a list and the form of it, and not about which rows are meant
_PLACES = frozenset({"as", "offset", "cursor", "after", "view"})
_PLACES_OF = {"audit": frozenset({"before"})}


@dataclass(frozen=True, slots=True)
class Address:
    """A page by its name, its path, and its filters in the order of their names."""

    page: str
    path: str
    query: str

    @property
    def text(self) -> str:
        """The address in a link: without a filter it says so, so that no other view opens in its place."""
        return f"{self.path}?{self.query or PLAIN}"

    @property
    def label(self) -> str:
        """The label of the page."""
        return str(PAGES[self.page])


def address_of(text: str) -> Address | None:
    """Return a relative address as a view keeps it; None for what leads elsewhere, is too long or is no list of ours.

    The path is made anew from what the console's own addresses find in it; only filters that say something are kept.
    """
    if len(text) > ADDRESS_LENGTH or not text.startswith("/") or text.startswith("//") or not text.isprintable():
        return None
    try:
        parts = urlsplit(text)
        choice, path = split(unquote(parts.path, errors="strict"))
        match = resolve(path)
    except (Resolver404, ValueError):
        return None
    page = match.url_name or ""
    if parts.netloc or "\\" in text or match.namespaces or page not in PAGES:
        return None
    query = _filters(page, parts.query)
    with choosing(choice):
        return Address(page, reverse(page, kwargs=match.kwargs), query)


def address_here(request: HttpRequest) -> Address | None:
    """Return the address of the page that is open, None if it can have no saved views."""
    match = request.resolver_match
    return address_of(request.get_full_path()) if match is not None and match.url_name in PAGES else None


def _filters(page: str, query: str) -> str:
    places = _PLACES | _PLACES_OF.get(page, frozenset())
    kept = QueryDict(mutable=True)
    for name, values in sorted(QueryDict(query).lists()):
        if name not in places and any(values):
            kept.setlist(name, [value for value in values if value])
    return kept.urlencode()


SHARE = "console.share_views"
#: of one person
MOST = 100


class ViewRefused(Exception):
    """The view is not saved or changed."""


class NameRefused(ViewRefused):
    """The name cannot be used."""


class TooManyViews(ViewRefused):
    """There are as many as one person may have."""


class NotShared(ViewRefused):
    """Only who holds the permission shares views."""


def views_for(user: Any, page: str = "") -> list[SavedView]:
    """Return the user's own and then what is shared, of one page or of all.

    Names and filters of others may name topics: who sees some topics only is not shown them.
    """
    wanted = Q(owner=user.pk) | Q(is_shared=True) if current_topics().is_all else Q(owner=user.pk)
    rows = SavedView.objects.filter(wanted).select_related("owner")
    found = [row for row in (rows.filter(page=page) if page else rows) if may_open(user, row.page)]
    return sorted(found, key=lambda row: row.owner_id != user.pk)


def may_open(user: Any, page: str) -> bool:
    """Tell whether the user has the permission that the page asks for."""
    return page not in NEEDED or user.has_perm(NEEDED[page])


def default_of(user: Any, path: str) -> SavedView | None:
    """Return the view to show the user when this path is opened without filters, None if there is none."""
    return SavedView.objects.filter(owner=user.pk, path=path, is_default=True).first()


def keep(user: Any, address: Address, name: str, *, is_shared: bool = False, is_default: bool = False) -> SavedView:
    """Save it; raises ViewRefused."""
    row = SavedView(owner=user, page=address.page, path=address.path, query=address.query)
    return _stored(user, row, name, is_shared, is_default)


def change(user: Any, row: SavedView, name: str, *, is_shared: bool, is_default: bool) -> SavedView:
    """Rename it, share it or not, let it open with its page or not; raises ViewRefused."""
    return _stored(user, row, name, is_shared, is_default)


def _stored(user: Any, row: SavedView, name: str, is_shared: bool, is_default: bool) -> SavedView:
    if is_shared and not row.is_shared and not user.has_perm(SHARE):
        raise NotShared(gettext("This needs the permission %(permission)s.") % {"permission": SHARE})
    row.name, row.is_shared, row.is_default = _sound(name), is_shared, is_default
    with transaction.atomic():
        # one after the other for each person: what is counted here is still true when the row is written
        get_user_model().objects.select_for_update().get(pk=row.owner_id)
        others = SavedView.objects.filter(owner=row.owner_id).exclude(pk=row.pk)
        if row._state.adding and others.count() >= MOST:
            raise TooManyViews(
                gettext("You have reached the limit of %(most)s views: delete one first.") % {"most": MOST}
            )
        if others.filter(page=row.page, name=row.name).exists():
            raise NameRefused(gettext("You already have a view with this name on this page."))
        if is_default:
            others.filter(path=row.path, is_default=True).update(is_default=False)
        row.save()
    return row


def _sound(name: str) -> str:
    found = " ".join(name.split())
    if not found:
        raise NameRefused(gettext("Enter a name."))
    if len(found) > NAME_LENGTH:
        raise NameRefused(gettext("A name has at most %(most)s characters.") % {"most": NAME_LENGTH})
    if not found.isprintable():
        raise NameRefused(gettext("This name has characters that cannot be shown."))
    return found
