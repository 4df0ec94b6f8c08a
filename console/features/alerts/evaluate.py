"""One round of watching: readings against rules; what begins, is raised, and ends. Telling is somebody else's."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase

from django.db import transaction
from django.db.models import Q

from console.features.alerts.models import Alert, AlertRule, Silence
from console.features.alerts.sources import Reading, Round

#: alerts that are over are kept so long
KEPT = timedelta(days=90)
#: subjects that one rule may raise; a rule for everything must not fill the table
SUBJECTS = 200
_JUDGED = ("value", "highest", "state", "raised_at", "was_silenced")


@dataclass(frozen=True, slots=True)
class News:
    """An alert that was raised or is over, for whom it concerns."""

    alert: Alert
    is_over: bool


def watch(found: Round) -> list[News]:
    """Judge all rules; two that watch at the same time wait for each other."""
    at = datetime.fromtimestamp(found.at_ms / 1000, UTC)
    news: list[News] = []
    with transaction.atomic():
        for rule in AlertRule.objects.select_for_update().filter(is_on=True):
            if rule.what in found.told:
                news += _judge(rule, _above(rule, found.readings), at)
        _end_of_rules_switched_off(at)
        Alert.objects.filter(state=Alert.State.ENDED, ended_at__lt=at - KEPT).delete()
    return [each for each in news if not each.alert.was_silenced]


def _above(rule: AlertRule, readings: Iterable[Reading]) -> dict[str, float]:
    hits = {
        each.subject[:255]: each.value for each in readings
        if each.what == rule.what and each.value > rule.limit and fnmatchcase(each.subject, rule.subject)
    }  # fmt: skip
    worst = sorted(hits, key=lambda subject: -hits[subject])[:SUBJECTS]
    return {subject: hits[subject] for subject in worst}


def _judge(rule: AlertRule, above: dict[str, float], at: datetime) -> list[News]:
    news: list[News] = []
    is_open = {row.subject: row for row in rule.alerts.exclude(state=Alert.State.ENDED)}
    for subject, value in above.items():
        row = is_open.pop(subject, None) or Alert(rule=rule, subject=subject, since=at, value=value, highest=value)
        row.value, row.highest = value, max(value, row.highest)
        if row.state == Alert.State.PENDING and at - row.since >= timedelta(seconds=rule.for_s):
            row.state, row.raised_at, row.was_silenced = Alert.State.FIRING, at, is_silenced(rule, subject, at)
            news.append(News(row, is_over=False))
        # what became of telling is written beside this
        row.save(update_fields=_JUDGED if row.pk else None)
    for row in is_open.values():
        if row.state == Alert.State.PENDING:
            row.delete()
            continue
        row.state, row.ended_at = Alert.State.ENDED, at
        row.save(update_fields=["state", "ended_at"])
        news.append(News(row, is_over=True))
    return news


def _end_of_rules_switched_off(at: datetime) -> None:
    Alert.objects.filter(rule__is_on=False, state=Alert.State.PENDING).delete()
    Alert.objects.filter(rule__is_on=False, state=Alert.State.FIRING).update(state=Alert.State.ENDED, ended_at=at)


def is_silenced(rule: AlertRule, subject: str, at: datetime) -> bool:
    """Somebody asked for quiet."""
    silences = Silence.objects.filter(Q(rule=rule) | Q(rule=None), until__gt=at)
    return any(fnmatchcase(subject, silence.subject) for silence in silences)
