"""Findings that are put off: snoozed until a moment, or ignored until they change. They are listed, and do not count.

A mark ends by itself

    ended    when its moment is past
    worse    when the figure of its finding is at least twice what it was when it was marked (that of a disk: a
             twentieth more); of a finding without one, when the broker gives other reasons
    gone     if it ignores a finding that is not there any more: it is another one when it comes again

or is lifted by somebody. A page goes by the moment and the figure; `settle` writes down what is over, so that what was
worse for a while stays in sight. What a broker says of itself is marked at that broker, what all of them add up to (a
group) where it was marked: in total, which holds for each, or at one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import product

from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from console.features.overview.finding_kinds import Finding, FindingCode
from console.site.chosen import Choice, choice_of, chosen
from console.site.mirrored import Cluster


class FindingMark(models.Model):
    """A finding that somebody put off. `until` NULL: ignored until it changes."""

    class Why(models.TextChoices):
        """The reasons why a mark does not hold any more."""

        ENDED = "ended", _("its time is over")
        WORSE = "worse", _("the finding got worse")
        GONE = "gone", _("the finding was gone")
        LIFTED = "lifted", _("lifted")

    #: name of a kind of finding, what the finding is about, and at which broker or in which cluster in total ("": the
    #: first one)
    kind = models.CharField(max_length=32)
    subject = models.CharField(max_length=255)
    place = models.CharField(max_length=255)
    until = models.DateTimeField(null=True)
    #: the finding's figure when it was marked, and the broker's reasons where it has none
    figure = models.BigIntegerField(null=True)
    detail = models.TextField(blank=True)
    reason = models.CharField(max_length=500)
    actor = models.CharField(max_length=150)
    created_at = models.DateTimeField(auto_now_add=True)
    #: NULL: it holds, as far as anybody wrote down
    lifted_at = models.DateTimeField(null=True)
    lifted_why = models.CharField(max_length=8, choices=Why.choices, blank=True)

    class Meta:
        default_permissions = ()
        constraints = [
            models.UniqueConstraint(
                fields=["kind", "subject", "place"], condition=Q(lifted_at=None), name="one_mark_of_a_finding"
            )
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.subject} {self.place}".strip()

    @property
    def until_ms(self) -> int | None:
        """The moment at which it ends; None: it ends when the finding changes."""
        return None if self.until is None else round(self.until.timestamp() * 1_000)

    def over_by(self, finding: Finding | None, at: datetime) -> FindingMark.Why | None:
        """Return why it does not hold for its finding as it is now (None: it is not there); None if it holds."""
        if self.until is not None and self.until <= at:
            return self.Why.ENDED
        if finding is None:
            return self.Why.GONE if self.until is None else None
        if finding.code.value.name != self.kind:
            # its mild form counts something else
            return None
        return self.Why.WORSE if self._is_worse(finding) else None

    def _is_worse(self, finding: Finding) -> bool:
        kind = finding.code.value
        if kind.worsens_by == "detail":
            return finding.detail != self.detail
        now = finding.measure
        return now is not None and self.figure is not None and now > self.figure and now >= self.figure * kind.worse_at


@dataclass(frozen=True, slots=True)
class PutOff:
    """A finding that does not count now, with its mark."""

    finding: Finding
    mark: FindingMark


def open_marks() -> models.QuerySet[FindingMark]:
    """Return the marks that hold, as far as anybody wrote down."""
    return FindingMark.objects.filter(lifted_at=None)


def place_of(finding: Finding, of: Cluster) -> str:
    """Return where a finding of this page is marked."""
    about = finding.code.value.about
    if about == "broker":
        return finding.broker or (of.names[0] if of.names else "")
    return chosen().text if about == "group" else Choice(chosen().entry).text


def marked_as(finding: Finding) -> tuple[str, ...]:
    """Return the names of the kinds whose marks hold for a finding: its own, and the one whose mild form it is."""
    kind = finding.code.value
    return (kind.name, kind.mild_form_of) if kind.mild_form_of else (kind.name,)


def held_at(place: str) -> tuple[str, str]:
    """Return the places whose marks hold for a finding at a place: its own, and its cluster in total."""
    return place, Choice(choice_of(place).entry).text


def parted(
    findings: Iterable[Finding], of: Cluster, marks: Sequence[FindingMark], most: int
) -> tuple[tuple[Finding, ...], tuple[PutOff, ...]]:
    """Return the findings that count, of a kind so many at most, and those that are put off; both in their order."""
    at = timezone.now()
    by_key = {(mark.kind, mark.subject, mark.place): mark for mark in marks}
    count, off, counted = list[Finding](), list[PutOff](), Counter[FindingCode]()
    for each in findings:
        keys = product(marked_as(each), (each.key,), held_at(place_of(each, of)))
        found = (by_key.get(key) for key in keys)
        mark = next((mark for mark in found if mark is not None and mark.over_by(each, at) is None), None)
        if mark is None:
            counted[each.code] += 1
            if counted[each.code] <= most:
                count.append(each)
        else:
            off.append(PutOff(each, mark))
    return tuple(count), tuple(off)


def lift(mark: FindingMark, why: FindingMark.Why) -> None:
    """Write down that a mark is over."""
    FindingMark.objects.filter(pk=mark.pk, lifted_at=None).update(lifted_at=timezone.now(), lifted_why=why)
