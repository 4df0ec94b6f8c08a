"""Figures over time in narrow rows; what snapshots have as columns is there from the beginning."""

import django.db.models.deletion
from django.db import migrations, models

_KINDS = "(VALUES ('lanes', ''), ('timers', ''), ('flow', 'consumed')) k(kind, name)"
_SUBJECTS = f"""
    INSERT INTO console_figuresubject (broker, kind, name)
    SELECT DISTINCT broker, k.kind, k.name FROM console_snapshot CROSS JOIN {_KINDS}
"""  # noqa: S608 - our own text # nosec B608
_FROM = """
      FROM console_snapshot n JOIN console_figuresubject s ON s.broker = n.broker
"""
_PENDING = "max(CASE s.kind WHEN 'lanes' THEN n.lanes_pending WHEN 'timers' THEN n.timers_pending END)"
_LAG = "max(CASE s.kind WHEN 'flow' THEN n.lag END)"
#: figures of each minute last for a day, those of hours as long as snapshots
_MINUTES = f"""
    INSERT INTO console_minutefigures (subject_id, slot, pending, lag)
    SELECT s.id, n.slot_ms / 60000, {_PENDING}, {_LAG} {_FROM}
     WHERE n.slot_ms > (SELECT max(slot_ms) FROM console_snapshot) - 86400000
     GROUP BY s.id, n.slot_ms / 60000
"""  # noqa: S608 - our own text # nosec B608
_HOURS = f"""
    INSERT INTO console_hourfigures (subject_id, slot, pending, lag, most_pending, most_lag)
    SELECT s.id, n.slot_ms / 3600000, {_PENDING}, {_LAG}, {_PENDING}, {_LAG} {_FROM}
     GROUP BY s.id, n.slot_ms / 3600000
"""


def _figures(*more: tuple[str, models.Field]) -> list[tuple[str, models.Field]]:
    subject = models.ForeignKey(
        db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name="+", to="console.figuresubject"
    )
    key = models.CompositePrimaryKey(
        "subject_id", "slot", blank=True, editable=False, primary_key=True, serialize=False
    )
    figures = ("passed", "pending", "lag", "lateness_us", *(name for name, _field in more))
    columns = [(name, models.BigIntegerField(null=True)) for name in figures]
    return [*columns, ("pk", key), ("slot", models.IntegerField()), ("subject", subject)]


_MOST = [(name, models.BigIntegerField(null=True)) for name in ("most_pending", "most_lag", "most_lateness_us")]


class Migration(migrations.Migration):
    """Three tables, and what is known for them already."""

    dependencies = [("console", "0032_words")]

    operations = [
        migrations.CreateModel(
            name="FigureSubject",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("broker", models.CharField(max_length=255)),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("flow", "Flow"),
                            ("lanes", "Lanes"),
                            ("timers", "Timers"),
                            ("topic", "Topic"),
                            ("group", "Group"),
                        ],
                        max_length=8,
                    ),
                ),
                ("name", models.CharField(blank=True, max_length=255)),
            ],
            options={
                "default_permissions": (),
                "constraints": [models.UniqueConstraint(fields=("broker", "kind", "name"), name="one_figure_subject")],
            },
        ),
        migrations.CreateModel(name="HourFigures", fields=_figures(*_MOST), options={"default_permissions": ()}),
        migrations.CreateModel(name="MinuteFigures", fields=_figures(), options={"default_permissions": ()}),
        migrations.RunSQL([_SUBJECTS, _MINUTES, _HOURS], migrations.RunSQL.noop, elidable=True),
    ]
