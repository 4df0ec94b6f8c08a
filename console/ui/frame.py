"""The frame of every page: the places of the rail, the brokers to choose among, the environment's name."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.templatetags.static import static
from django.urls import ResolverMatch, get_script_prefix, resolve, reverse
from django.utils.functional import Promise, SimpleLazyObject
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_safe

from broker.mirror.models import ConsumerGroup, ScheduleLevel, Topic
from console.security.gate import Access, access_of, is_total
from console.security.see_as import subject_in
from console.security.topic_scope import VisibleTopics, current_topics
from console.site.chosen import ALL, Choice, choice_of, choosing, chosen
from console.site.clock import real_now_ms, simulated
from console.site.mirrored import cluster
from console.ui.preferences import chosen_by


@dataclass(frozen=True, slots=True)
class Place:
    """A page of the console; `name` is that of its address, `key` the letter that opens it."""

    name: str
    key: str
    label: str | Promise

    @property
    def here(self) -> str:
        """The value of `here` in the context of a page that belongs to this place."""
        return self.name

    @property
    def address(self) -> str:
        """The address of the page."""
        return reverse(self.name)


@dataclass(frozen=True, slots=True)
class Section:
    """Places under one heading; the first section has none."""

    title: str | Promise
    places: tuple[Place, ...]


SECTIONS = (
    Section("", (Place("overview", "o", _("Overview")),)),
    Section(
        _("Time"),
        (
            Place("due", "f", _("Due")),
            Place("schedule", "s", _("Delay levels")),
            Place("timers", "w", _("Timers")),
            Place("transactions", "x", _("Transactions")),
            Place("delayed_queues", "q", _("Redisson queues")),
            Place("compare", "=", _("Compare")),
        ),
    ),
    Section(
        _("Traffic"),
        (
            Place("topics", "p", _("Topics")),
            Place("groups", "g", _("Groups")),
            Place("clients", "c", _("Clients")),
            Place("dead_letters", "l", _("Dead letters")),
            Place("messages", "m", _("Messages")),
        ),
    ),
    Section(
        _("Administration"),
        (
            Place("broker", "z", _("Broker")),
            Place("dashboards", "d", _("Dashboards")),
            Place("alerts", "n", _("Alerts")),
            Place("operations", "e", _("Operations")),
            Place("audit", "u", _("Audit")),
            Place("reference", "r", _("REST")),
            Place("access", "b", _("Broker users")),
            Place("people", "h", _("Users")),
            Place("tokens", "y", _("Tokens")),
            Place("admin:index", "a", _("Django admin")),
        ),
    ),
)


#: it has a gate of its own: staff only
_ADMIN = "admin:index"


def places_for(user: Any) -> list[Place]:
    """Return the places of the rail that somebody can open, without headings; none for strangers."""
    visible = current_topics()
    return [place for section in SECTIONS for place in section.places if _opens(place.name, user, visible)]


def sections_with(places: Collection[str]) -> Iterator[Section]:
    """Yield the sections of the rail with the places of these names; a section without any is none."""
    for section in SECTIONS:
        if found := tuple(place for place in section.places if place.name in places):
            yield Section(section.title, found)


def _opens(name: str, user: Any, visible: VisibleTopics) -> bool:
    """Tell whether the gate lets somebody through to a place: what cannot be opened is not offered."""
    if name == _ADMIN:
        return bool(user.is_staff)
    return _access(name).lets_in(user, visible)


@cache
def _access(name: str) -> Access:
    # without the broker that is chosen, which stands before an address
    return access_of(resolve("/" + reverse(name).removeprefix(get_script_prefix())).func)


#: parts of an address that mean the same at every broker; the others (a position, an id) are of one
_STAY = frozenset({"level", "name", "queue_id"})
#: pages about something that other brokers may lack, and the rows that say who has it
_ABOUT: Mapping[str, tuple[type[Topic] | type[ConsumerGroup] | type[ScheduleLevel], str]] = {
    "topic": (Topic, "name"), "tail": (Topic, "name"), "queue": (Topic, "name"), "lane": (ScheduleLevel, "level"),
    "group": (ConsumerGroup, "name"), "dead_letters_of": (ConsumerGroup, "name"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Choosable:
    """Brokers that the picker offers: one, all of a cluster (`broker` empty), or another cluster."""

    entry: str
    broker: str
    address: str
    is_chosen: bool
    #: its rows are not the present
    is_stale: bool = False


@dataclass(frozen=True, slots=True)
class Picker:
    """The brokers of this cluster, and the other clusters; nothing is shown where there is nothing to choose."""

    choice: Choice
    brokers: tuple[Choosable, ...]
    clusters: tuple[Choosable, ...]
    #: the page shows all brokers in total where none is chosen, not the first of them
    in_total: bool

    @property
    def current(self) -> str:
        """The broker whose figures the page shows; "" for all of them."""
        if self.choice.broker or self.in_total:
            return self.choice.broker
        return self.brokers[1].broker if len(self.brokers) > 1 else ""

    @property
    def has_several(self) -> bool:
        """Tell whether this cluster has more than one broker."""
        return len(self.brokers) > 2

    @property
    def is_needed(self) -> bool:
        """Tell whether there is more than one broker, or one was chosen."""
        return self.has_several or len(self.clusters) > 1 or self.choice != ALL


def _brokers_with(match: ResolverMatch | None) -> set[str] | None:
    """Return the brokers that have what a page is about, by name; None: it is about nothing that one could lack."""
    about = _ABOUT.get(match.url_name or "") if match is not None else None
    if match is None or about is None:
        return None
    model, field = about
    rows = model.objects.filter(**{field: match.kwargs[field]})
    return set(rows.values_list("broker", flat=True).order_by())


def picker(request: HttpRequest) -> Picker:
    """Return what the picker offers on this page: the same page about other brokers, as far as they have it."""
    choice, match = chosen(), request.resolver_match
    path, query = request.path_info, request.META.get("QUERY_STRING", "")
    if match is not None and not _STAY.issuperset(match.kwargs):
        path, query = f"/{path.split('/')[1]}/", ""

    there = _brokers_with(match)

    def address(other: Choice) -> str:
        if other.broker and there is not None and other.name not in there:
            return f"{other.prefix}/{path.split('/')[1]}/"
        return f"{other.prefix}{path}{f'?{query}' if query else ''}"

    with choosing(Choice(choice.entry)):
        known = {each.name: each.evidence(polled_by=()).stale for each in cluster().brokers}
    brokers = [Choosable(choice.entry, "", address(Choice(choice.entry)), not choice.broker)]
    for name, is_stale in known.items():
        one = choice_of(name)
        brokers.append(Choosable(one.entry, one.broker, address(one), one == choice, is_stale))
    entries = ("", *settings.ESCAPEMENT_CLUSTERS)
    others = (Choosable(entry, "", address(Choice(entry)), entry == choice.entry) for entry in entries)
    return Picker(choice, tuple(brokers), tuple(others), match is not None and is_total(match.func))


def _simulated() -> dict[str, object]:
    """Return what the banner says, and what a page's own clock goes on from; nothing if the broker's clock is real."""
    line = simulated()
    if line is None:
        return {}
    answered_ms = real_now_ms()
    return {
        "simulated": line,
        "answered_ms": answered_ms,
        "simulated_now": datetime.fromtimestamp(line.at(answered_ms) / 1000, UTC),
    }


def page(request: HttpRequest) -> dict[str, object]:
    """Return the context of all templates."""
    return {
        "environment": settings.ESCAPEMENT_ENV,
        **chosen_by(request),
        "picker": SimpleLazyObject(lambda: picker(request)),
        "seeing_as": subject_in(request),
        **_simulated(),
    }


@require_safe
def favicon(request: HttpRequest) -> HttpResponse:
    """Redirect browsers from where they look for the icon to where it is."""
    return redirect(static("icon.svg"))
