"""Which rows are not as the broker has them, until it tells something else of them: kept beside the position."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .changes import KINDS, Changes, Flaw
from .fit import name_of
from .writer import KEYS, MODELS

logger = logging.getLogger(__name__)

#: flaws that are kept by name; of more there is only the number
LIMIT = 100


class Flaws:
    """What is known of them, by kind and name. `take` each reading; `listed` is what the column holds."""

    def __init__(self, kept: Sequence[Mapping[str, Any]] = ()) -> None:
        told = (row for row in kept if {"kind", "name", "why"} <= row.keys())
        self._known = {(row["kind"], row["name"]): Flaw(row["kind"], row["name"], row["why"]) for row in told}

    def take(self, changes: Changes, more: Iterable[Flaw] = ()) -> bool:
        """Note the flaws of one reading, and forget those of rows that it has without one; True if that is news.

        A flaw that is new is logged, once for as long as it lasts.
        """
        found = {(flaw.kind, flaw.name): flaw for flaw in (*changes.flaws, *more)}
        left = {} if not self._known else {key: flaw for key, flaw in self._known.items() if not _is_over(key, changes)}
        after = left | found
        for key, flaw in found.items():
            if self._known.get(key) != flaw:
                logger.warning("The mirror's row of %s %s is %s", flaw.kind, flaw.name, flaw.why)
        is_news = after != self._known
        self._known = after
        return is_news

    def listed(self) -> list[dict[str, Any]]:
        """The first of them, and how many there are in all, as JSON."""
        rows = [{"kind": flaw.kind, "name": flaw.name, "why": flaw.why} for _, flaw in sorted(self._known.items())]
        more = len(rows) - LIMIT
        return [*rows[:LIMIT], {"more": more}] if more > 0 else rows


def _is_over(key: tuple[str, str], changes: Changes) -> bool:
    """Whether a reading told of the row again, or that it is gone."""
    kind, name = key
    if kind in changes.complete:
        return True
    gone: dict[str, Iterable[str]] = {"topics": changes.deleted_topics, "groups": changes.deleted_groups}
    if name in gone.get(kind, ()):
        return True
    rows = getattr(changes, kind) if kind in KINDS else ()
    return any(name_of(row, KEYS[MODELS[kind]]) == name for row in rows)
