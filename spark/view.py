"""The frames from which all dashboards are made, each derived once from the log and shared by the jobs."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame

from .items import parked_items
from .transactions import half_messages


@dataclass(frozen=True, slots=True)
class View:
    """``records``: a log read with ``records.OPTIONS``. ``items``: parked messages and their endings (items.py).
    ``halves``: half messages and what was decided (transactions.py)."""

    records: DataFrame
    items: DataFrame
    halves: DataFrame

    def keep(self) -> View:
        """Keep items and halves in memory (or on disk, where it is too much) from their first use on."""
        self.items.persist()
        self.halves.persist()
        return self

    def drop(self) -> None:
        """Free what was kept."""
        for frame in (self.halves, self.items):
            frame.unpersist()


def view_of(records: DataFrame) -> View:
    """Return the frames of a log that was read with ``records.OPTIONS``."""
    return View(records, parked_items(records), half_messages(records))
