"""How much of what is derived from the log must be there and right."""

from __future__ import annotations

from ..log.checkpoint import Checkpoint
from .report import Damage, Report


class Vouched:
    """After a clean stop all of it. While a broker runs, and after it was killed or lost power, only what the last
    checkpoint vouches for: the rest is half written, torn or of records that were lost, and the next start makes it
    anew. Without a checkpoint that is everything.
    """

    def __init__(self, checkpoint: Checkpoint | None, *, was_stopped: bool) -> None:
        self._has_any = was_stopped or checkpoint is not None
        self._checkpoint = None if was_stopped else checkpoint

    @property
    def index_mark(self) -> tuple[str, int] | None:
        """The newest index file and the number behind its last entry; None: all that is there."""
        known = self._checkpoint
        return None if known is None else (known.index_name, known.index_number)

    def damages_of(self, report: Report, position: int = -1) -> list[Damage]:
        """Return where to put what is wrong about the record at a position, or about what comes before all records."""
        known = self._checkpoint
        is_behind = known is not None and position >= known.position
        return report.damages if self._has_any and not is_behind else report.unfinished
