"""Secrets that an operation makes: shown once to who runs it, and kept nowhere.

Who confirms opens a place for them, the kind puts them there while it acts; no row of an operation, no item and no
entry of the audit has them. An operation that makes one and is run where nobody waits for it (by the jobs worker) is
refused before anything is done.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from console.operations.errors import InvalidParameter, NotPossible

_place: ContextVar[dict[str, str] | None] = ContextVar("shown_once", default=None)
#: 256 random bits
_BYTES = 32
#: how long an old secret counts beside the new one where nothing is said, and at most
OVERLAP_HOURS, MOST_OVERLAP_HOURS = 24.0, 8_760.0


@contextmanager
def shown_once() -> Iterator[dict[str, str]]:
    """Yield the secrets that are made within, by the name of what each opens."""
    found: dict[str, str] = {}
    token = _place.set(found)
    try:
        yield found
    finally:
        _place.reset(token)


def require_reader() -> None:
    """Raise NotPossible where nobody would see a secret."""
    if _place.get() is None:
        raise NotPossible("It creates a secret that is shown once: it cannot run in the background.")


def show_once(name: str, secret: str) -> None:
    """Show a secret to who runs this; raises NotPossible where nobody would see it."""
    require_reader()
    place = _place.get()
    assert place is not None
    place[name] = secret


def new_secret() -> str:
    """Return a new secret of 256 random bits."""
    return secrets.token_urlsafe(_BYTES)


def typed_overlap(given: Mapping[str, Any]) -> float:
    """Return what a form says of `overlap_hours`; raises InvalidParameter."""
    try:
        return float(given.get("overlap_hours") or OVERLAP_HOURS)
    except ValueError:
        raise _no_overlap() from None


def checked_overlap(parameters: Mapping[str, Any]) -> float:
    """Return how many hours an old secret counts beside the new one, parts of an hour too; raises InvalidParameter."""
    hours = parameters.get("overlap_hours", OVERLAP_HOURS)
    if isinstance(hours, bool) or not isinstance(hours, int | float) or not 0 <= hours <= MOST_OVERLAP_HOURS:
        raise _no_overlap()
    return float(hours)


def _no_overlap() -> InvalidParameter:
    return InvalidParameter("overlap_hours", f"overlap_hours is from 0 to {MOST_OVERLAP_HOURS:.0f}.")
