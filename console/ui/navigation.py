"""Every page of the rail: its address, its letter, and how it is called."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _


@dataclass(frozen=True, slots=True)
class Place:
    """One page; `name` is that of its address, `key` the letter that opens it."""

    name: str
    key: str
    label: str | Promise
    is_for_staff: bool = False

    @property
    def here(self) -> str:
        """The value of `here` in the context of a page that belongs to this place."""
        return self.name

    @property
    def address(self) -> str:
        """The address of the page."""
        return self.name if self.name.startswith("/") else reverse(self.name)


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
            Place("schedule", "s", _("Schedule lanes")),
            Place("timers", "w", _("Timers")),
            Place("transactions", "x", _("Transactions")),
            Place("delayed_queues", "q", _("Redisson queues")),
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
        _("House"),
        (
            Place("dashboards", "d", _("Dashboards")),
            Place("alerts", "n", _("Alerts")),
            Place("operations", "e", _("Operations")),
            Place("audit", "u", _("Audit")),
            Place("/api/docs", "r", _("REST")),
            Place("admin:index", "a", _("Access"), is_for_staff=True),
        ),
    ),
)


#: pages without a place in the rail; the palette goes there
BESIDE = (Place("compare", "", _("Compare two moments")),)


def sections_for(user: Any) -> Iterator[Section]:
    """Yield the sections of the rail that a user sees."""
    for section in SECTIONS:
        places = tuple(place for place in section.places if user.is_staff or not place.is_for_staff)
        yield Section(section.title, places)


def places_for(user: Any) -> list[Place]:
    """Return all places of the rail, without headings."""
    return [place for section in sections_for(user) for place in section.places]
