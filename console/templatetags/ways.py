"""Where a finding leads: the one page where it is understood and acted on."""

from __future__ import annotations

from dataclasses import dataclass

from django import template
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _

from console.features.overview.shapes import Finding, FindingCode

register = template.Library()

_LANES = (FindingCode.LANE_LATE, FindingCode.PROGRESS_UNSAVED, FindingCode.RELEASED_EARLY)
_GROUPS = (FindingCode.GROUP_WITHOUT_CONSUMER, FindingCode.GROUP_STANDS_STILL)
_DEAD = (FindingCode.DEAD_LETTERS, FindingCode.DEAD_LETTERS_GROWING)
_QUEUES = (FindingCode.DELAYED_STUCK, FindingCode.DELAYED_DAMAGED)
#: herds are shown with the stretch that begins so long before them
_BEFORE_MS = 5 * 60_000


@dataclass(frozen=True, slots=True)
class Way:
    """A link."""

    address: str
    label: str


@register.simple_tag
def way(finding: Finding) -> Way | None:
    """The page to go to; None where the first page already says all."""
    code, subject = finding.code, finding.subject
    if code in _LANES:
        return Way(reverse("lane", args=[int(subject)]), _("See the lane"))
    if code in _GROUPS:
        return Way(reverse("group", args=[subject]), _("See the group"))
    if code in _DEAD:
        return Way(reverse("dead_letters_of", args=[subject]), _("See its dead letters"))
    if code in _QUEUES:
        return Way(reverse("delayed_queue") + "?" + urlencode({"name": subject}), _("See the queue"))
    if code is FindingCode.TRANSACTIONS_PARKED:
        return Way(reverse("transaction_list") + "?state=parked", _("See them"))
    if code is FindingCode.TRANSACTIONS_AGEING:
        return Way(reverse("transaction_list") + "?state=open", _("See them"))
    if code is FindingCode.HERD_AHEAD and finding.at_ms is not None:
        return Way(reverse("timers") + f"?zoom=1h&at={finding.at_ms - _BEFORE_MS}", _("See the wheel then"))
    if finding.operation:
        return Way(reverse("operation", args=[finding.operation]), _("See the operation"))
    if code is FindingCode.TIMERS_LATE:
        return Way(reverse("timers"), _("See the timers"))
    return None
