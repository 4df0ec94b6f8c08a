"""What a right of a token includes: the calls that need it, as the routes declare them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from console.rest.access import Everywhere
from console.security.tokens import DELETE, SETTINGS

#: the right of the form that gives an action, where they are called differently
_GIVEN_BY: Mapping[str, str] = {SETTINGS: "configure", DELETE: "configure"}


@dataclass(frozen=True, slots=True)
class Included:
    """A call, with the rights that it needs as well; `needs_all`: on every name only."""

    method: str
    path: str
    summary: str
    name: str
    also: tuple[str, ...]
    needs_all: bool


@cache
def calls_with(right: str) -> tuple[Included, ...]:
    """Return the calls that need this right of a token, or for which it is enough."""
    # the routes are of features, and a page of one asks
    from console.rest.routes import ROUTES

    found = []
    for route in ROUTES:
        enough = [_GIVEN_BY.get(action, action) for action in route.actions]
        asked = [_GIVEN_BY.get(place.action, place.action) for place in route.on if place.action]
        if right not in (*enough, *asked):
            continue
        also = dict.fromkeys(asked if right in enough else [*enough[:1], *asked])
        needs_all = any(isinstance(place, Everywhere) for place in route.on)
        found.append(
            Included(
                route.method, route.path, route.summary, route.name, tuple(each for each in also if each != right),
                needs_all,
            )
        )  # fmt: skip
    return tuple(found)
