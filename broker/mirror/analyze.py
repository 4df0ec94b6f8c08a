"""Has PostgreSQL look at the mirror's rows when a reading has brought many, so that it plans joins by what is there.

Its own daemon looks once a minute, or not at all where it is switched off: until then it plans for few rows, and a page
that sums over a thousand groups pays for that.
"""

from __future__ import annotations

from collections.abc import Mapping

from django.db import connections

from .models import ConsumerGroup, ConsumerOffset, MirrorRow, Queue, RateHistory, Topic

#: tables that grow with the broker; all others have a bounded number of rows
TABLES: tuple[type[MirrorRow], ...] = (Topic, Queue, ConsumerGroup, ConsumerOffset, RateHistory)
#: fewer rows are planned well enough unseen
FEW_ROWS = 200
#: so many times the rows of the last look are another table
GROWTH = 2


class Statistics:
    """`look` after each transaction; it remembers how many rows it saw last, in this life."""

    def __init__(self, database: str = "default") -> None:
        self._database = database
        self._seen: dict[type[MirrorRow], int] = {}

    def forget(self) -> None:
        """Look again with the next rows."""
        self._seen.clear()

    def look(self, rows: Mapping[type[MirrorRow], int]) -> bool:
        """ANALYZE all tables where one of them has multiplied; whether it did. Call outside of a transaction."""
        if not any(count >= max(FEW_ROWS, GROWTH * self._seen.get(table, 0)) for table, count in rows.items()):
            return False
        names = ", ".join(table._meta.db_table for table in TABLES)
        with connections[self._database].cursor() as cursor:
            cursor.execute(f"ANALYZE {names}")
        self._seen = dict(rows)
        return True
