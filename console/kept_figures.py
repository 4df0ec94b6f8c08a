"""Figures over time in narrow rows: of each topic, each group, the lanes, the timers and the whole flow of a broker.

They are written with the snapshots, once a minute, and read for charts: a week of one topic is some hundred rows, while
its snapshots are megabytes. There is a row only where a figure is not what it was; the first one of an hour always has
one, so that nothing older has to be looked for. Hours have rows of their own: the last figures and the highest ones.
Which minutes were read at all, the snapshots themselves say (console/past.py).

`passed` only grows (messages stored, released, consumed): what went through between two moments is the difference.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db import connection, models, transaction

MINUTE_MS, HOUR_MS = 60_000, 3_600_000
#: topics, groups and the rest of one broker that have rows; those named first stay
MOST_SUBJECTS = 20_000
#: each subject is looked at for what is too old once in so many rounds
_TURNS = 30


class FigureSubject(models.Model):
    """A thing of a broker that has figures over time."""

    class Kind(models.TextChoices):
        """The kinds of subjects; a name is that of a topic, a group, or a flow (accepted, released, consumed)."""

        FLOW = "flow"
        LANES = "lanes"
        TIMERS = "timers"
        TOPIC = "topic"
        GROUP = "group"

    broker = models.CharField(max_length=255)
    kind = models.CharField(max_length=8, choices=Kind.choices)
    #: empty for lanes and timers, of which a broker has one each
    name = models.CharField(max_length=255, blank=True)

    class Meta:
        default_permissions = ()
        constraints = [models.UniqueConstraint(fields=["broker", "kind", "name"], name="one_figure_subject")]

    def __str__(self) -> str:
        return f"{self.kind} {self.name} at {self.broker}"


class _Figures(models.Model):
    passed = models.BigIntegerField(null=True)
    pending = models.BigIntegerField(null=True)
    lag = models.BigIntegerField(null=True)
    #: p99 of how late releases were; microseconds, as whole milliseconds would hide most of it
    lateness_us = models.BigIntegerField(null=True)

    class Meta:
        abstract = True


class MinuteFigures(_Figures):
    """The figures of a subject at a snapshot, where they are not those of the one before. `slot`: epoch minutes."""

    pk = models.CompositePrimaryKey("subject_id", "slot")
    subject = models.ForeignKey(FigureSubject, models.CASCADE, related_name="+", db_index=False)
    slot = models.IntegerField()

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.subject_id} at {self.slot}"


class HourFigures(_Figures):
    """The last figures of a subject in an hour, and the highest, where the last are not those before. `slot`: epoch
    hours."""

    pk = models.CompositePrimaryKey("subject_id", "slot")
    subject = models.ForeignKey(FigureSubject, models.CASCADE, related_name="+", db_index=False)
    slot = models.IntegerField()
    most_pending = models.BigIntegerField(null=True)
    most_lag = models.BigIntegerField(null=True)
    most_lateness_us = models.BigIntegerField(null=True)

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.subject_id} at {self.slot}"


@dataclass(frozen=True, slots=True)
class Figures:
    """What is known of a subject at a moment; None is not known."""

    kind: str
    name: str
    passed: int | None = None
    pending: int | None = None
    lag: int | None = None
    lateness_us: int | None = None


_TOLD = """
    SELECT * FROM unnest(%(kinds)s::text[], %(names)s::text[], %(passed)s::bigint[], %(pending)s::bigint[],
                         %(lag)s::bigint[], %(lateness)s::bigint[])
        AS t(kind, name, passed, pending, lag, lateness_us)
"""
_SUBJECTS = f"""
    INSERT INTO console_figuresubject (broker, kind, name)
    SELECT %(broker)s, t.kind, t.name FROM ({_TOLD}) t
     WHERE NOT EXISTS (SELECT 1 FROM console_figuresubject s
                        WHERE s.broker = %(broker)s AND s.kind = t.kind AND s.name = t.name)
    ON CONFLICT DO NOTHING
"""  # noqa: S608 - our own text # nosec B608
_FOUR = "passed, pending, lag, lateness_us"
_MOVED = """last.slot IS NULL OR (last.passed, last.pending, last.lag, last.lateness_us)
           IS DISTINCT FROM (told.passed, told.pending, told.lag, told.lateness_us)"""
_WRITTEN = f"""
    WITH told AS (
        SELECT s.id, t.* FROM ({_TOLD}) t
          JOIN console_figuresubject s ON s.broker = %(broker)s AND s.kind = t.kind AND s.name = t.name
    ), written AS (
        INSERT INTO console_minutefigures (subject_id, slot, {_FOUR})
        SELECT told.id, %(minute)s, told.passed, told.pending, told.lag, told.lateness_us
          FROM told LEFT JOIN LATERAL (
               SELECT slot, {_FOUR} FROM console_minutefigures m
                WHERE m.subject_id = told.id AND m.slot BETWEEN %(hour)s * 60 AND %(minute)s
                ORDER BY slot DESC LIMIT 1) last ON true
         WHERE {_MOVED}
        ON CONFLICT DO NOTHING
    )
    INSERT INTO console_hourfigures AS h (subject_id, slot, {_FOUR}, most_pending, most_lag, most_lateness_us)
    SELECT told.id, %(hour)s, told.passed, told.pending, told.lag, told.lateness_us,
           told.pending, told.lag, told.lateness_us
      FROM told LEFT JOIN LATERAL (
           SELECT slot, {_FOUR} FROM console_hourfigures m
            WHERE m.subject_id = told.id AND m.slot BETWEEN %(hour)s / 24 * 24 AND %(hour)s
            ORDER BY slot DESC LIMIT 1) last ON true
     WHERE {_MOVED}
    ON CONFLICT (subject_id, slot) DO UPDATE SET
        passed = EXCLUDED.passed, pending = EXCLUDED.pending, lag = EXCLUDED.lag, lateness_us = EXCLUDED.lateness_us,
        most_pending = greatest(h.most_pending, EXCLUDED.pending), most_lag = greatest(h.most_lag, EXCLUDED.lag),
        most_lateness_us = greatest(h.most_lateness_us, EXCLUDED.lateness_us)
"""  # noqa: S608 - our own text # nosec B608


def keep_figures(broker: str, slot_ms: int, figures: Iterable[Figures]) -> None:
    """Write what is not as it was before; of one that is there for this minute already the first stays."""
    rows = list({(each.kind, each.name): each for each in figures}.values())[:MOST_SUBJECTS]
    given: dict[str, Any] = {
        "broker": broker, "minute": slot_ms // MINUTE_MS, "hour": slot_ms // HOUR_MS,
        "kinds": [str(each.kind) for each in rows], "names": [each.name for each in rows],
        "passed": [each.passed for each in rows], "pending": [each.pending for each in rows],
        "lag": [each.lag for each in rows], "lateness": [each.lateness_us for each in rows],
    }  # fmt: skip
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_SUBJECTS, given)
        cursor.execute(_WRITTEN, given)


_TURN = "SELECT id FROM console_figuresubject WHERE id %% %(turns)s = %(turn)s"
_OLD = f"DELETE FROM {{table}} WHERE subject_id = ANY(ARRAY({_TURN})) AND slot < %(until)s"  # noqa: S608 # nosec B608
_EMPTY = f"""
    DELETE FROM console_figuresubject s WHERE s.id = ANY(ARRAY({_TURN}))
       AND NOT EXISTS (SELECT 1 FROM console_hourfigures h WHERE h.subject_id = s.id)
       AND NOT EXISTS (SELECT 1 FROM console_minutefigures m WHERE m.subject_id = s.id)
"""  # noqa: S608 - our own text # nosec B608


def forget_figures(at_ms: int) -> None:
    """Delete what is past its time, of one subject in so many each round: minutes and hours last as long as snapshots
    do."""
    turn = {"turns": _TURNS, "turn": at_ms // MINUTE_MS % _TURNS}
    minutes = (at_ms - round(settings.SNAPSHOT_KEEP_H * HOUR_MS)) // MINUTE_MS
    hours = (at_ms - round(settings.SNAPSHOT_KEEP_DAYS * 24 * HOUR_MS)) // HOUR_MS
    # a minute that is still shown may have its row where its hour began, an hour where its day did
    each = {"console_minutefigures": minutes // 60 * 60, "console_hourfigures": hours // 24 * 24}
    with connection.cursor() as cursor:
        for table, until in each.items():
            cursor.execute(_OLD.format(table=table), {**turn, "until": until})
        cursor.execute(_EMPTY, turn)
