"""What happened to a message, in order of time: from its records in the log, and from what its clients told."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.db.models import TextChoices
from django.utils.translation import gettext_lazy as _

if TYPE_CHECKING:
    from console.features.messages.shapes import Hop

_GROUP = re.compile(r"[%|A-Za-z0-9_-]{1,255}")


class StepKind(TextChoices):
    """One thing that happened; the records' kinds have the same names as HopKind."""

    BORN = "born", _("born")
    STORED = "stored", _("stored")
    PARKED = "parked", _("parked on a lane")
    TIMER = "timer", _("parked as a timer")
    RELEASED = "released", _("released")
    RETRY = "retry", _("sent back for another try")
    DEAD_LETTER = "dead-letter", _("dead letter")
    SENT = "sent", _("sent")
    CONSUMED = "consumed", _("consumed")
    ENDED = "ended", _("transaction ended")
    RECALLED = "recalled", _("recalled")


@dataclass(frozen=True, slots=True)
class LifeStep:
    """One step. `is_told`: a client tells it, by its own clock; every text of it is hostile. None: not said."""

    kind: StepKind
    ms: int | None
    #: since the step before; None for the first, and where a moment is missing
    after_ms: int | None
    #: the physical record of it, or that it is about; None: there is none any more, or it cannot be said which
    hop: Hop | None
    is_told: bool = False
    group: str | None = None
    client: str | None = None
    took_ms: int | None = None
    succeeded: bool | None = None
    retries: int | None = None
    state: str | None = None

    @property
    def group_named(self) -> str | None:
        """The group, if a group can be called so."""
        return self.group if self.group and _GROUP.fullmatch(self.group) else None
