"""The Celery app. Workers that host something say so: `--engine NAME`, `--namesrv PORT`, and one worker any of
`--mirror`, `--transfer`, `--checkback` and `--timetable`."""

from __future__ import annotations

import logging
import os
from typing import Any

from celery import Celery
from celery.signals import setup_logging, task_postrun, task_prerun
from click import IntRange, Option
from django.db import close_old_connections

from broker import log_lines as loglines
from console.run.private_files import keep_private

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.site.settings")
# Celery's command line is not ours, and this is what workers and beat load first.
keep_private()

app = Celery("escapement")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()

app.user_options["worker"].add(Option(("--engine",), metavar="NAME", help="Host the broker NAME in this worker."))
app.user_options["worker"].add(
    Option(("--namesrv",), metavar="PORT", type=IntRange(1, 65_535), help="Host a name service by itself at PORT.")
)
app.user_options["worker"].add(Option(("--mirror",), is_flag=True, help="Host the mirror in this worker."))
app.user_options["worker"].add(
    Option(("--transfer",), is_flag=True, help="Move what is due in Redisson's delayed queues, in this worker.")
)
app.user_options["worker"].add(
    Option(("--checkback",), is_flag=True, help="Answer brokers' checks of transactions, in this worker.")
)
app.user_options["worker"].add(
    Option(("--timetable",), is_flag=True, help="Queue what is due by the timetable, in this worker; instead of beat.")
)
# Named, not imported: only a worker loads the engine, the web process never does.
app.steps["worker"].add("broker.hosting.worker:EngineStep")
app.steps["worker"].add("broker.hosting.worker:NamesrvStep")
app.steps["worker"].add("broker.hosting.worker:MirrorStep")
app.steps["worker"].add("broker.hosting.worker:TransferStep")
app.steps["worker"].add("console.run.guests:CheckbackStep")
app.steps["worker"].add("console.run.guests:TimetableStep")


#: what tells of each turn of the timetable, eight lines each five seconds; what fails in one is an error there
TURNS = ("celery.beat", "celery.worker.strategy", "celery.app.trace")


@setup_logging.connect
def log_lines(loglevel: int | None = None, **named: Any) -> None:
    """Have workers and beat log as all processes do; Celery adds no handlers of its own where this is connected."""
    loglines.begin(level=loglevel)
    for name in TURNS:
        if logging.getLogger(name).level == logging.NOTSET:
            logging.getLogger(name).setLevel(logging.WARNING)


@task_prerun.connect
@task_postrun.connect
def keep_connections(sender: Any, **named: Any) -> None:
    """Let go of a connection to the database that is old or broken, as before and after a request; keep the others."""
    if not sender.request.is_eager:
        close_old_connections()
