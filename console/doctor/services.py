"""Checks of what the house talks with: database, Redis, brokers; and of what is left undone there."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import redis
from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.utils import timezone

from broker.client import Admin, ClientError, NotSupported
from broker.doctor import Check, Finding, cannot_tell, change, ok
from broker.mirror.models import MirrorState
from broker.outbox.after_commit import waiting
from broker.outbox.models import OutboxHalf
from console.operations.audit_stream import Position, position_file
from console.site.broker import namesrv_of

#: the oldest that Django 5.2 works with
POSTGRES = 14
REDIS = (6, 2)
#: so far clocks of different machines may be apart: pages show ages, timers are due
APART_MS = 500.0
MIRROR_OLD_MS = 15_000
QUEUED_JOBS = 200
OWED_MINUTES = 5.0
OUTBOX_S = 120.0
_TIMEOUT_S = 3.0
_WORKER = "start the worker: `sudo systemctl start escapement-worker`, or `escapement-console serve worker`"


def database() -> Finding:
    """Look whether PostgreSQL answers, is new enough, has room for connections and keeps what it says."""
    try:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT current_setting('server_version_num')::int / 10000, current_setting('fsync'),"
                " current_setting('synchronous_commit'), current_setting('max_connections')::int,"
                " (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend')"
            )
            version, fsync, synchronous, most, used = cursor.fetchone()
    except DatabaseError as error:
        return change(f"the database does not respond: {_first_line(error)}", "start PostgreSQL, or set DATABASE_URL")
    if version < POSTGRES:
        return change(f"PostgreSQL {version}", f"PostgreSQL {POSTGRES} or newer")
    if fsync != "on":
        return change("fsync is off: a loss of power damages the database", "ALTER SYSTEM SET fsync = on")
    if synchronous == "off":
        return change(
            "synchronous_commit is off: a crash forgets decisions of the outbox and entries of the audit",
            "ALTER SYSTEM SET synchronous_commit = on",
        )
    if used > 0.9 * most:
        return change(f"{used} of {most} connections are used", f"ALTER SYSTEM SET max_connections = {2 * most}")
    return ok(f"PostgreSQL {version}, {used} of {most} connections")


def migrations() -> Finding:
    """Look whether the tables are those of this version."""
    executor = MigrationExecutor(connection)
    left = executor.migration_plan(executor.loader.graph.leaf_nodes())
    if left:
        first = left[0][0]
        return change(f"{len(left)} migrations are missing, first {first.app_label}.{first.name}", "manage.py prepare")
    return ok("all migrations are applied")


def database_clock(now_s: Callable[[], float] = time.time) -> Finding:
    """Compare the clock of the database's machine with this one's."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")  # it is connected now
        began_s = now_s()
        cursor.execute("SELECT extract(epoch FROM clock_timestamp())")
        theirs_s, ended_s = float(cursor.fetchone()[0]), now_s()
    return _apart("the database", theirs_s, began_s, ended_s)


def redis_server() -> Finding:
    """Look whether Redis answers, is new enough, and forgets nothing."""
    try:
        with redis.Redis.from_url(settings.REDIS_URL, socket_timeout=_TIMEOUT_S) as asked:
            info: Any = asked.info()
            policy: Any = info.get("maxmemory_policy", "noeviction")
            queued: Any = asked.llen("jobs")
    except (redis.RedisError, ValueError) as error:
        return change(f"Redis does not respond: {_first_line(error)}", "start Redis or Valkey, or set REDIS_URL")
    name = "Valkey" if "valkey_version" in info else "Redis"
    text = f"{name} {info.get('valkey_version') or info['redis_version']}"
    if tuple(map(int, str(info["redis_version"]).split(".")[:2])) < REDIS:
        return change(text, f"Redis {'.'.join(map(str, REDIS))} or newer, or Valkey")
    if info.get("maxmemory") and policy != "noeviction":
        return change(
            f"{text} evicts keys ({policy}): jobs and delayed queues may vanish",
            "CONFIG SET maxmemory-policy noeviction",
        )
    if queued > QUEUED_JOBS:
        return change(f"{text}, {queued:,} jobs wait: no worker takes them", _WORKER)
    return ok(f"{text}, {queued} jobs wait")


def brokers(entry: str = "") -> Finding:
    """Look whether the name service answers and a broker behind it, as this house signs."""
    address = namesrv_of(entry)
    try:
        with Admin(address) as admin:
            runtime = admin.runtime(timeout_ms=int(1000 * _TIMEOUT_S))
    except ClientError as error:
        return change(
            f"no broker answers behind {address}: {error}",
            "start it: `sudo systemctl start escapement-broker`, or set ESCAPEMENT_NAMESRV",
        )
    return ok(f"a broker answers behind {address}: {runtime.get('brokerVersionDesc', 'of unknown version')}")


def broker_clock(now_s: Callable[[], float] = time.time) -> Finding:
    """Compare the clocks of brokers with this one's, by the moment that they give to what they tell."""
    states = list(MirrorState.objects.filter(error="", polling=False).exclude(token="").order_by("broker_id")[:16])
    for state in states:
        try:
            with Admin(namesrv_of(""), broker=state.broker_id) as admin:
                if "simulatedClockMs" in admin.runtime():
                    continue
                began_s = now_s()
                theirs_ms = int(admin.changes(state.token)["nowMs"])
        except (ClientError, NotSupported, KeyError) as error:
            return cannot_tell(f"{state.broker_id}: {error}")
        found = _apart(state.broker_id, theirs_ms / 1000, began_s, now_s())
        if found.remedy:
            return found
    return ok(f"of {len(states)} brokers") if states else cannot_tell("no broker of ours is followed")


def mirror(now_s: Callable[[], float] = time.time) -> Finding:
    """Look whether the rows that pages show are of now."""
    states = list(MirrorState.objects.order_by("broker_id"))
    if not states:
        return change("the mirror has read no broker yet", _WORKER)
    for state in states:
        if state.error:
            return change(f"{state.broker_id} cannot be read: {state.error}", "start that broker, or look at its log")
        age_ms = 1000 * now_s() - (state.as_of_ms or 0)
        if age_ms > MIRROR_OLD_MS:
            return change(f"rows of {state.broker_id} are {age_ms / 1000:,.0f} s old", _WORKER)
    return ok(f"rows of {', '.join(state.broker_id for state in states)} are of now")


def outbox() -> Finding:
    """Look whether messages and commits that the database owes to brokers wait for too long."""
    rows = waiting(DEFAULT_DB_ALIAS)
    stuck = [row for row in rows if row.stuck]
    if stuck:
        return change(
            f"{sum(row.stuck for row in stuck)} messages are stuck, of {stuck[0].topic} because: {stuck[0].reason}",
            "mend that, then `manage.py outbox --send-again`",
        )
    now = timezone.now()
    late = [row for row in rows if (now - row.oldest_at).total_seconds() > OUTBOX_S]
    if late:
        return change(
            f"{sum(row.count for row in late)} messages wait since {late[0].oldest_at:%Y-%m-%d %H:%M:%S} UTC",
            "start a worker of the outbox: `manage.py outbox`",
        )
    before = now - timedelta(minutes=OWED_MINUTES)
    owed = OutboxHalf.objects.filter(state=OutboxHalf.State.OWED, written_at__lt=before).count()
    if owed:
        return change(f"{owed} commits are not confirmed by their broker", "answer its checks: `manage.py checkback`")
    return ok(f"{sum(row.count for row in rows)} messages wait")


def audit_stream() -> Finding:
    """Look whether the collector of the audit takes its entries."""
    if not settings.AUDIT_STREAM:
        return ok("no collector is set")
    at = Position.read(position_file())
    if at.trouble:
        return change(f"{at.collector} does not take the audit: {at.trouble}", "mend that, or ESCAPEMENT_AUDIT_STREAM")
    return ok(f"{at.collector or 'the collector'} has entries up to {at.number}")


def _apart(who: str, theirs_s: float, began_s: float, ended_s: float) -> Finding:
    ahead_ms = 1000 * max(theirs_s - ended_s, min(theirs_s - began_s, 0.0))
    if abs(ahead_ms) > APART_MS:
        return change(
            f"the clock of {who} is {ahead_ms:+,.0f} ms from this one", "sudo timedatectl set-ntp true on both"
        )
    return ok(f"the clock of {who} agrees within {APART_MS:.0f} ms")


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0][:200]


def checks() -> dict[str, Check]:
    """Return the checks of servers by name."""
    return {
        "database": database,
        "database.migrations": migrations,
        "clock.database": database_clock,
        "redis": redis_server,
        "broker.reachable": brokers,
        "clock.broker": broker_clock,
        "mirror": mirror,
        "outbox": outbox,
        "audit.stream": audit_stream,
    }
