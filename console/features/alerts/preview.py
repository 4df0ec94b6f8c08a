"""What a rule would say now, before anybody relies on it."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

from django.utils import timezone

from console.features.alerts import sources
from console.features.alerts.models import Silence
from console.features.alerts.sources import Reading

#: readings that are shown, the highest first
SHOWN = 8


@dataclass(frozen=True, slots=True)
class Look:
    """`rows`: the highest of `count` readings of what is watched, `above` of which are above the limit. `is_told`
    False: it cannot be read now, so that nothing is raised, and nothing ends."""

    is_told: bool
    count: int
    above: int
    rows: tuple[Reading, ...]
    #: one of those above is silenced for every rule
    is_silenced: bool

    @property
    def pairs(self) -> tuple[tuple[str, float], ...]:
        """As a preview has them."""
        return tuple((each.subject, each.value) for each in self.rows)


def look(what: str, subject: str, limit: float) -> Look:
    """Read what such a rule watches, once."""
    found = sources.read((what,))
    hits = [each for each in found.readings if each.what == what and fnmatchcase(each.subject, subject)]
    hits.sort(key=lambda each: (-each.value, each.subject))
    above = [each for each in hits if each.value > limit]
    quiet = Silence.objects.filter(rule=None, until__gt=timezone.now()).values_list("subject", flat=True)
    is_silenced = any(fnmatchcase(each.subject, pattern) for pattern in quiet for each in above)
    return Look(what in found.told, len(hits), len(above), tuple(hits[:SHOWN]), is_silenced)
