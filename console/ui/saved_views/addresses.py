"""What a view may be: the address of a list of this console with its filters, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from django.http import HttpRequest, QueryDict
from django.urls import Resolver404, resolve, reverse
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

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
    "lane": _("Lane"),
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
        """As a link has it: without a filter it says so, so that no other view opens in its place."""
        return f"{self.path}?{self.query or PLAIN}"

    @property
    def label(self) -> str:
        """How the page is called."""
        return str(PAGES[self.page])


def address_of(text: str) -> Address | None:
    """A relative address as a view keeps it; None for what leads elsewhere, is too long or is no list of ours.

    The path is made anew from what the console's own addresses find in it; only filters that say something are kept.
    """
    if len(text) > ADDRESS_LENGTH or not text.startswith("/") or text.startswith("//") or not text.isprintable():
        return None
    try:
        parts = urlsplit(text)
        match = resolve(unquote(parts.path, errors="strict"))
    except (Resolver404, ValueError):
        return None
    page = match.url_name or ""
    if parts.netloc or "\\" in text or match.namespaces or page not in PAGES:
        return None
    query = _filters(page, parts.query)
    return Address(page, reverse(page, kwargs=match.kwargs), query)


def address_here(request: HttpRequest) -> Address | None:
    """The same of the page that is open."""
    match = request.resolver_match
    return address_of(request.get_full_path()) if match is not None and match.url_name in PAGES else None


def _filters(page: str, query: str) -> str:
    places = _PLACES | _PLACES_OF.get(page, frozenset())
    kept = QueryDict(mutable=True)
    for name, values in sorted(QueryDict(query).lists()):
        if name not in places and any(values):
            kept.setlist(name, [value for value in values if value])
    return kept.urlencode()
