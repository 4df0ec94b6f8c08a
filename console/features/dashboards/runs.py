"""Starting runs of dashboards: the rows are made first, then the process that fills them.

A run is of one broker, or of all that an address chooses, if those are several. The timetable computes both.

The console itself loads neither Spark nor DuckDB. Besides its window and address, a run is given what the broker knows
and its log does not say: the delays of its levels, and for how long it keeps messages.
"""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from os import environ
from pathlib import Path
from typing import Any

from celery import shared_task
from django.conf import settings
from django.db import connection, transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from broker.client import Tls
from broker.mirror.clock_file import broker_now_ms
from console.features.dashboards import DASHBOARDS
from console.features.dashboards.models import DashboardRun
from console.site.broker import namesrv_of
from console.site.child_processes import AGAIN_S, computing, is_ending, run_module
from console.site.chosen import Choice, choice_of, chosen
from console.site.logs import broker_address, broker_settings, stores
from console.site.mirrored import cluster, mirrored

#: The window over the log and all that the archive has of it (spark/archive/).
ARCHIVE = "archive"
WINDOW = re.compile(rf"all|{ARCHIVE}|[1-9][0-9]{{0,3}}[hd]")
#: What a source begins with that is no store, but name servers (spark/scan.py).
CLUSTER = "rocketmq://"
#: The dashboard that no broker can be asked for: it needs the files.
OF_FILES = "storage"
#: The window of the run that follows the log, and what runs it.
LIVE = "live"
FOLLOWER = "spark.follow"
#: A run whose process said nothing for so long is dead.
SILENT_S = 60
#: letters of its column
_MOST_SOURCE = 1024
_WITHOUT_A_WORD = "Its process exited without a message."


class DashboardsUnavailable(Exception):
    """Dashboards cannot be computed here; the message says what is missing and how to get it."""


def missing(*, is_followed: bool = False) -> str | None:
    """Return what is missing on this machine, None if dashboards can be computed; ``is_followed``: record by record."""
    if importlib.util.find_spec("pyspark") is None:
        return _("PySpark is not installed. `make dashboards` installs it; everything else works without it.")
    home = environ.get("JAVA_HOME")
    has_java = Path(home, "bin", "java").exists() if home else shutil.which("java") is not None
    if not has_java and (is_followed or needs_java()):
        return _(
            "Java 17 or newer is not installed. `make dashboards` installs it where apt-get can; or install "
            "openjdk-17-jre-headless, or set JAVA_HOME. Everything else works without it."
        )
    return None


def needs_java() -> bool:
    """Tell whether Spark computes, however small a log is (spark/engines.py)."""
    wanted, master = settings.DASHBOARDS_ENGINE, environ.get("SPARK_MASTER", "local")
    if wanted == "auto":
        return not master.startswith("local") or importlib.util.find_spec("duckdb") is None
    return wanted == "spark"


def first_broker() -> str:
    """Return the broker whose dashboards are shown where there are none in total: the one chosen, else the first."""
    if chosen().entry:
        return mirrored().name
    return chosen().name or str(settings.BROKER_NAME)


def parts_in_total() -> list[dict[str, str]]:
    """Return the brokers that are chosen and where each is read; none where that is one broker."""
    if chosen().broker:
        return []
    here = cluster()
    return [{"broker": name, "source": _found(name)} for name in here.names] if here.has_several else []


def source_of(broker: str) -> str:
    """Return where the records of a broker are read: its store, where that is here, else its cluster's name servers."""
    store = stores().get(broker)
    return str(store) if store is not None else _namesrv_of(broker)


def _found(broker: str) -> str:
    """Return the same, and the name servers as well for a broker elsewhere that is called as one here might be."""
    store = stores().get(broker)
    return str(store) if store is not None and store.is_dir() else _namesrv_of(broker)


def _namesrv_of(broker: str) -> str:
    return f"{CLUSTER}{namesrv_of(choice_of(broker).entry)}"


def readable(names: Sequence[str], *sources: str) -> tuple[str, ...]:
    """Return the dashboards that can be made of these sources: what is about files needs those of one of them."""
    has_files = any(not source.startswith(CLUSTER) for source in sources)
    return tuple(name for name in names if name != OF_FILES or has_files)


def queue_chosen(names: Sequence[str], window: str, *, actor: str = "") -> uuid.UUID:
    """Create the rows of a batch about the brokers that are chosen, in total if they are several.

    Raises ValueError as `queue`.
    """
    parts = parts_in_total()
    if parts:
        return queue_total(names, window, parts, actor=actor)
    broker = first_broker()
    source = source_of(broker)
    return queue(readable(names, source), window, actor=actor, store=source, broker=broker)


def queue_total(names: Sequence[str], window: str, parts: list[dict[str, str]], *, actor: str = "") -> uuid.UUID:
    """Create the rows of a batch over several brokers. Raises ValueError as `queue`."""
    wanted = readable(names, *(part["source"] for part in parts))
    source = ";".join("{broker}={source}".format(**part) for part in parts)[:_MOST_SOURCE]
    run = DashboardRun(broker=Choice(chosen().entry).text, window=window, actor=actor, source=source, parts=parts)
    return _queue(wanted, run)


def queue(names: Sequence[str], window: str, *, actor: str = "", store: str = "", broker: str = "") -> uuid.UUID:
    """Create the rows of a batch. Raises ValueError for a dashboard or window that does not exist.

    While a batch of the same dashboards and window is under way, that one is returned: two would do the same work.
    """
    owner, source = broker or settings.BROKER_NAME, store or str(settings.BROKER_STORE)
    return _queue(names, DashboardRun(broker=owner, window=window, actor=actor, source=source))


def _queue(names: Sequence[str], like: DashboardRun) -> uuid.UUID:
    unknown = set(names) - set(DASHBOARDS)
    if unknown:
        raise ValueError(f"{', '.join(sorted(unknown))}: the dashboards are {', '.join(DASHBOARDS)}.")
    if not WINDOW.fullmatch(like.window):
        raise ValueError(f"{like.window!r} is no window: 'all', 'archive', or hours or days such as 24h, 7d.")
    same = {name: getattr(like, name) for name in ("broker", "window", "source")}
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended('escapement-dashboards', 0))")
        fail_abandoned()
        active = DashboardRun.objects.filter(**same, state__in=("queued", "running"), is_abort_wanted=False)
        for batch in active.values_list("batch", flat=True).distinct():
            if set(active.filter(batch=batch).values_list("dashboard", flat=True)) >= set(names):
                return batch
        batch = uuid.uuid4()
        DashboardRun.objects.bulk_create(
            DashboardRun(batch=batch, dashboard=name, actor=like.actor, parts=like.parts, **same)
            for name in DASHBOARDS
            if name in names
        )
    return batch


def fail_abandoned() -> int:
    """Mark runs whose process is gone as failed; return how many there were."""
    silent = timezone.now() - timedelta(seconds=SILENT_S)
    running = DashboardRun.objects.filter(state="running")
    gone = {"state": "failed", "finished_at": timezone.now(), "error": _WITHOUT_A_WORD}
    count = running.filter(beat_at__lt=silent).update(**gone)
    # who computes a batch holds its lock, and goes with what it started
    for batch in running.exclude(window=LIVE).values_list("batch", flat=True).order_by().distinct():
        with _alone(_lock_of(batch)) as is_alone:
            count += running.filter(batch=batch).update(**gone) if is_alone else 0
    return count


@shared_task(name="console.run_dashboards", queue="dashboards", bind=True, max_retries=None)
def run_dashboards(self: Any, batch: str) -> None:
    """Compute a batch of dashboards that was queued; later, while this worker computes another."""
    with computing() as is_alone:
        if not is_alone:
            raise self.retry(countdown=AGAIN_S)
        run_batch(uuid.UUID(batch))


@shared_task(name="console.renew_dashboards", queue="dashboards")
def renew_dashboards() -> None:
    """Compute all dashboards anew, by the timetable; the next time, while this worker computes others."""
    with computing() as is_alone:
        if is_alone:
            renew()


def run_batch(batch: uuid.UUID) -> None:
    """Compute a batch in a process of its own and wait for it; nothing, while somebody else computes it.

    Raises DashboardsUnavailable, CalledProcessError.
    """
    with _alone(_lock_of(batch)) as is_alone:
        rows = list(DashboardRun.objects.filter(batch=batch, state="queued")) if is_alone else []
        if rows:
            _run("spark.run", rows)


def _lock_of(batch: uuid.UUID) -> str:
    return f"escapement-batch/{batch}"


def follow(*, store: str = "", broker: str = "") -> None:
    """Follow the log in a process of its own until it is stopped; goes on where the last one was.

    Raises DashboardsUnavailable, CalledProcessError; ValueError while another process follows it.
    """
    source, owner = store or str(settings.BROKER_STORE), broker or settings.BROKER_NAME
    with _alone(f"escapement-follow/{owner}/{source}") as is_alone:
        if not is_alone:
            raise ValueError(f"Another process follows {source} already; end that one first.")
        _follow(source, owner)


@contextmanager
def _alone(what: str) -> Iterator[bool]:
    """Yield whether no other process does this, under a lock that ends with the process, however that ends."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(hashtextextended(%s, 0))", (what,))
        is_alone = bool(cursor.fetchone()[0])
    try:
        yield is_alone
    finally:
        if is_alone:
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_unlock(hashtextextended(%s, 0))", (what,))


def _follow(source: str, owner: str) -> None:
    found = {"broker": owner, "dashboard": "flow", "window": LIVE, "source": source}
    with transaction.atomic():
        run = DashboardRun.objects.select_for_update().filter(**found).order_by("-queued_at").first()
        # the points are those of the checkpoint: without it all begins anew
        if run is None or not _checkpoint(run).is_dir():
            DashboardRun.objects.filter(**found).delete()
            run = DashboardRun(**found)
        run.state, run.is_abort_wanted, run.error, run.finished_at = run.State.QUEUED, False, "", None
        run.save()
    _checkpoint(run).mkdir(parents=True, exist_ok=True)
    _run(FOLLOWER, [run], checkpoint=str(_checkpoint(run)))


def _checkpoint(run: DashboardRun) -> Path:
    return settings.VAR / "dashboards" / str(run.id)


def _run(module: str, rows: Sequence[DashboardRun], **more: object) -> None:
    """Run a module of `spark/` that computes these rows, and wait for it."""
    first, numbers = rows[0], [row.id for row in rows]
    mine = DashboardRun.objects.filter(id__in=numbers, state__in=("queued", "running"))
    why = missing(is_followed=module == FOLLOWER)
    if why is not None:
        mine.update(state="failed", error=why, finished_at=timezone.now())
        raise DashboardsUnavailable(why)
    order = {
        "store": first.source,
        "database_url": database_url(),
        "broker": first.broker,
        "runs": {row.dashboard: str(row.id) for row in rows},
        "as_of_ms": broker_now_ms(),  # what is stored is compared with it
        "window": first.window,
        "engine": settings.DASHBOARDS_ENGINE,
        "spark_from_mb": settings.DASHBOARDS_SPARK_FROM_MB,
        "cores": settings.DASHBOARDS_CORES,
        "memory_mb": settings.DASHBOARDS_MEMORY_MB,
        "scratch": settings.DASHBOARDS_SCRATCH,
        "disk": str(settings.VAR / "spark"),
        "keep": str(settings.VAR / "spark" / "kept") if settings.DASHBOARDS_KEEP else "",
        "archive": str(settings.ARCHIVE_DIR) if first.window == ARCHIVE else "",
        "access": access() if any(source.startswith(CLUSTER) for source in _sources(first)) else {},
        **(_several(first) if first.parts else _one(first.broker, first.source)),
    }
    try:
        run_module(module, json.dumps(order | more))
    except subprocess.CalledProcessError:
        state = {"state": "cancelled"} if is_ending() else {"state": "failed", "error": _WITHOUT_A_WORD}
        mine.update(**state, finished_at=timezone.now())
        raise
    except (KeyboardInterrupt, SystemExit):  # whoever waits was told to end, and what it started ended with it
        mine.update(state="cancelled", finished_at=timezone.now())
        raise


def _sources(run: DashboardRun) -> list[str]:
    return [part["source"] for part in run.parts] or [run.source]


def _several(run: DashboardRun) -> dict[str, Any]:
    parts = [{"broker": part["broker"], "store": part["source"]} for part in run.parts]
    return {"parts": [part | _one(part["broker"], part["store"]) for part in parts]}


def _one(broker: str, source: str) -> dict[str, Any]:
    """Return what is said of each broker alone: whom to ask for the end of its log, and what the broker was told."""
    return {"broker_address": broker_address(broker, source), **broker_settings(broker)}


def renew() -> None:
    """Compute all dashboards of everything, of each broker whose log is here, unless nothing can be computed here.

    Where there are several brokers in total first, if all their logs are here: what another machine has would have to
    be pulled whole, again and again, and is computed when somebody asks.
    """
    if missing() is not None:
        return
    names, here = (
        tuple(DASHBOARDS),
        {name: store for name, store in stores().items() if (store / "commitlog").is_dir()},
    )
    parts = parts_in_total() if len(here) > 1 else []
    queued = [partial(queue, names, "all", store=str(store), broker=broker) for broker, store in here.items()]
    if parts and here.keys() >= {part["broker"] for part in parts}:
        queued.insert(0, partial(queue_total, names, "all", parts))
    failures: list[subprocess.CalledProcessError] = []
    for batch in queued:
        try:
            run_batch(batch())
        except subprocess.CalledProcessError as error:  # its rows say why; the others have their turn
            failures.append(error)
    if failures:
        raise failures[0]


def cancel(batch: uuid.UUID) -> int:
    """Ask a batch to end: one that waits ends at once, one that runs within seconds. Return how many runs end."""
    rows = DashboardRun.objects.filter(batch=batch)
    waiting = rows.filter(state="queued").update(state="cancelled", finished_at=timezone.now())
    return waiting + rows.filter(state="running").update(is_abort_wanted=True)


def access() -> dict[str, str]:
    """Return who asks brokers by name servers, as options of the source ``rocketmq``."""
    client: dict[str, Any] = dict(settings.ESCAPEMENT_CLIENT)
    names = ("access_key", "secret_key", "security_token")
    found = {name: str(client[name]) for name in names if client.get(name)}
    tls = client.get("tls")
    if not tls:
        return found
    ca_file = {"tls_ca_file": str(tls.ca_file)} if isinstance(tls, Tls) and tls.ca_file else {}
    verify = "false" if isinstance(tls, Tls) and not tls.verify else "true"
    return found | ca_file | {"tls": "true", "tls_verify": verify}


def database_url() -> str:
    """Return the address of Django's database for a process without Django, in libpq's key=value form: that of a role
    which has rights on dashboards only, where there is one."""
    parameters = connection.get_connection_params()
    if (own := settings.SPARK_DATABASE) is not None:
        parameters |= {name: own[name.upper()] for name in ("user", "password", "host", "port")}
    names = {"dbname": "dbname", "user": "user", "password": "password", "host": "host", "port": "port"}
    given = {key: str(parameters[name]) for key, name in names.items() if parameters.get(name)}
    return " ".join(
        "{}='{}'".format(key, value.replace("\\", r"\\").replace("'", r"\'")) for key, value in given.items()
    )
