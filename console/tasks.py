"""Celery tasks of the console, one line each; they run on the `jobs` worker."""

from __future__ import annotations

import uuid

from celery import shared_task

from console.operations import runner


@shared_task(name="console.run_operation")
def run_operation(number: str) -> None:
    """Run a confirmed operation."""
    runner.run(uuid.UUID(number))
