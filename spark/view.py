"""The frames from which all dashboards are made, each derived once from the log and shared by the jobs."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame

from .items import parked_items
from .records import classify
from .transactions import half_messages


@dataclass(frozen=True, slots=True)
class View:
    """``records``: what each record is (records.py). ``items``: parked messages and their endings (items.py).
    ``halves``: half messages and what was decided (transactions.py)."""

    records: DataFrame
    items: DataFrame
    halves: DataFrame

    def kept(self) -> View:
        """Return the same, kept in memory (or on disk, where it is too much) from the first use on."""
        return View(self.records.persist(), self.items.persist(), self.halves.persist())

    def drop(self) -> None:
        """Free what was kept."""
        for frame in (self.halves, self.items, self.records):
            frame.unpersist()


def view_of(log: DataFrame, *, keep: bool = False) -> View:
    """Return the frames of a log that was read with ``records.OPTIONS``; ``keep``: each is computed once."""
    records = classify(log)
    if keep:
        records.persist()
    view = View(records, parked_items(records), half_messages(records))
    return view.kept() if keep else view
