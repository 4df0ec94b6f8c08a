"""Asking the archive's process (``python -m spark.archive``): to write what is closed, to list, to check, to search."""

from __future__ import annotations

import importlib.util
import json
import logging
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from celery import shared_task
from django.conf import settings
from django.utils.translation import gettext as _

from broker.mirror.clock_file import broker_now_ms
from console.site.child_processes import AGAIN_S, computing, run_module
from console.site.logs import broker_address, broker_settings, stores

logger = logging.getLogger(__name__)

Answer = dict[str, Any]
Tell = Callable[[Answer], None]
_MODULE = "spark.archive"


class ArchiveUnavailable(Exception):
    """The archive cannot be used here, or did not do what it was asked; the message says why."""


def is_kept() -> bool:
    """Tell whether there is an archive: something is to be archived, or was."""
    return settings.ARCHIVE_DAYS > 0 or settings.ARCHIVE_DIR.is_dir()


def missing() -> str | None:
    """Return what is missing on this machine, None if the archive can be used."""
    if importlib.util.find_spec("duckdb") is None or importlib.util.find_spec("pyspark") is None:
        return _("The archive needs DuckDB and PySpark. `make dashboards` installs both; no Java is needed.")
    return None


def keep(tell: Tell = lambda _line: None) -> Answer:
    """Write the closed segments of all logs on this machine that are not archived yet, and remove what is too old.

    ``tell`` is called with each file. Raises ArchiveUnavailable.
    """
    if settings.ARCHIVE_DAYS <= 0:
        raise ArchiveUnavailable(
            _("Nothing is to be archived: set ESCAPEMENT_ARCHIVE_DAYS to the number of days that it is kept.")
        )
    here = {name: store for name, store in stores().items() if (store / "commitlog").is_dir()}
    return _asked(
        {
            "do": "keep",
            "bodies": settings.ARCHIVE_BODIES,
            "keep_days": settings.ARCHIVE_DAYS,
            "now_ms": broker_now_ms(),  # what is stored is compared with it
            "logs": [_log(name, store) for name, store in here.items()],
        },
        tell,
    )


def _log(broker: str, store: Path) -> Answer:
    levels = broker_settings(broker).get("levels", "")
    return {
        "broker": broker,
        "store": str(store),
        "levels": levels,
        "broker_address": broker_address(broker, str(store)),
    }


def listed() -> list[Answer]:
    """Return what there is of each broker. Raises ArchiveUnavailable."""
    brokers: list[Answer] = _asked({"do": "list"})["brokers"]
    return brokers


def checked() -> Answer:
    """Compare all files with their checksums. Raises ArchiveUnavailable."""
    return _asked({"do": "check"})


def found(sought: Mapping[str, Any]) -> Answer:
    """Return the records that are sought: see ``spark/archive/search.py``. Raises ArchiveUnavailable."""
    return _asked({"do": "find", **sought})


def _asked(order: Mapping[str, Any], tell: Tell = lambda _line: None) -> Answer:
    """Have the archive's process do what is ordered; the last thing that it says is the answer."""
    why = missing()
    if why is not None:
        raise ArchiveUnavailable(why)
    last: Answer = {}

    def heard(line: str) -> None:
        nonlocal last
        last = json.loads(line)
        tell(last)

    try:
        run_module(_MODULE, json.dumps({"root": str(settings.ARCHIVE_DIR), **order}), heard)
    except subprocess.CalledProcessError as error:
        said = last.get("error") or _("Its process exited without a message.")
        raise ArchiveUnavailable(said) from error
    return last


@shared_task(name="console.keep_archive", queue="dashboards", bind=True, max_retries=None)
def keep_archive(self: Any) -> None:
    """Archive what is closed, by the timetable; later, while this worker computes something else."""
    if missing() is not None:
        return
    with computing() as is_alone:
        if not is_alone:
            raise self.retry(countdown=AGAIN_S)
        outcome = keep()
    for log in outcome["logs"]:
        if log["error"] or log["left"]:
            logger.warning("archive of %s: %s", log["broker"], log["error"] or _no_room(log["left"]))


def _no_room(left: int) -> str:
    return f"{left} segments wait for room on the disk of {settings.ARCHIVE_DIR}"
