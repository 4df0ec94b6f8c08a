"""Celery tasks of the timetable, one line each, in the queue `jobs`.

What is queued by somebody stands with what it runs: operations.runner, features.dashboards.runs (whose own queue is
`dashboards`).
"""

from __future__ import annotations

from pathlib import Path

from celery import shared_task
from django.conf import settings
from django.utils import timezone

from console import snapshots
from console.features.alerts import deliveries, evaluate
from console.features.audit import administration
from console.features.overview import finding_operations
from console.operations import runner
from console.operations.audit_stream import beside
from console.operations.exported_audit import export_to


@shared_task(name="console.watch_alerts")
def watch_alerts() -> None:
    """Judge the alert rules once and tell whom it concerns; end the marks of findings that are over."""
    for news in evaluate.watch(evaluate.read()):
        deliveries.tell(news, timezone.now())
    if not settings.ALERT_ORIGINS:
        # no webhook may be asked, so they have no round of their own: what was queued for one before ends here
        deliveries.send_due(timezone.now())
    finding_operations.settle()


@shared_task(name="console.tell_webhooks")
def tell_webhooks() -> None:
    """Tell the webhooks of alerts what is to be told now, for the first time or again."""
    deliveries.send_due(timezone.now())


@shared_task(name="console.take_snapshot")
def take_snapshot() -> None:
    """Keep what the pages show now, for looking back."""
    snapshots.take()


@shared_task(name="console.forget_operations")
def forget_operations() -> None:
    """Let operations go that were over long ago."""
    runner.forget()


@shared_task(name="console.export_audit")
def export_audit() -> None:
    """Add the newest entries of the audit to their file."""
    export_to(Path(settings.AUDIT_FILE))


@shared_task(name="console.stream_audit")
def stream_audit() -> None:
    """Send the newest entries of the audit to their collector."""
    beside.begin()


@shared_task(name="console.read_administration")
def read_administration() -> None:
    """Take into the audit what was administered by remoting."""
    administration.read()
