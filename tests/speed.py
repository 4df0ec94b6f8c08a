"""Which tests take minutes, and which begin first. `make test-slow` runs the slow ones, `make test` the others.

What is slow starts browsers, Spark, workers and whole servers, kills them, cuts their power, or tries many thousands
of courses. Places are folders and files below tests/; a test is at the first place that holds it.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

HERE = Path(__file__).parent

#: longest first: no core waits for the other at the end
SLOW = (
    "browser/test_access.py",
    "outbox/test_agreement.py",
    "spark/test_cluster.py",
    "spark/test_run.py",
    "hosting/test_make_run.py",
    "spark/test_follow.py",
    "browser",
    "spark",
    "hosting",
    "crash",
    "console/run",
    "console/access",
    "celery/test_kills.py",
    "celery/test_workers.py",
    "outbox",
    "reliability/test_lives.py",
    "reliability/test_hours.py",
    "server/test_self_test.py",
    "console/due/test_measuring.py",
    "package/test_wheel.py",
    "package/test_tutorial.py",
    "package/test_deploy.py",
    "package/test_watching.py",
    "backup",
    "package/test_outbox_project.py",
    "package/test_pages.py",
    "package/test_reference.py",
    "fast/test_runs.py",
    "properties",
    "redisson/test_transfer.py",
    "redisson/test_reliable_ends.py",
    "redisson/test_reliable.py",
    "redisson/test_cluster.py",
    "redisson/test_lost_answers.py",
    "redisson/test_bounds.py",
    "redisson/test_hosted.py",
    "redisson/test_kill.py",
    "console/dashboards/test_hostile.py",
    "console/ui/test_hostile_rows.py",
    "console/migrations/test_old_databases.py",
    "upgrade",
    "console/overview/test_cost.py",
    "mirror/test_killed.py",
    "console/checkback/test_worker.py",
    "console/security/test_behind_others.py",
    "security",
    "console/site/test_tls.py",
    "console/ui/test_hostile.py",
    "engine/test_timer_clock.py",
    "fuzz",
    "redisson/test_index.py",
    "redisson/test_model.py",
    "server/test_every_handler.py",
    "server/test_full_tables.py",
    "tasks/test_killed.py",
    "tasks/test_django6.py",
    "known_faults/test_celery.py",
)
#: what the gate runs of `make interop`: each client and each direction once, the longest left to `make interop`
CORE = (
    "interop/test_java_clients.py",
    "interop/test_pop.py",
    "interop/test_proxy.py",
    "interop/test_store_exchange.py",
    "interop/test_apache_stores.py",
    "interop/test_access.py",
    "interop/test_go_consumers.py",
    "interop/test_go_producers.py",
    "interop/test_timers.py",
    "interop/test_transactions.py",
    "interop/test_transactional.py",
    "interop/test_python_client.py",
    "interop/test_registrations.py",
    "interop/test_redisson_model.py",
    "interop/test_redisson_transfer.py",
    "interop/test_console.py",
    "interop/test_jars.py",
    "interop/test_ports.py",
)
#: of these the core runs what ours does: with Apache RocketMQ on both sides they show what it has to do
OF_TWO_BROKERS = (
    "interop/test_access.py",
    "interop/test_java_clients.py",
    "interop/test_pop.py",
    "interop/test_proxy.py",
    "interop/test_timers.py",
    "interop/test_transactions.py",
)
#: variants of what the core runs once, by a part of their names
VARIANTS = (
    "all_web_processes_are_dead[apache",
    "every_statement[apache",
    "every_statement[escapement-rollback",
    "every_statement[escapement-savepoint",
    "outlasts_many_checks_is_shown_once[apache",
    "travels[ours-theirs-ours",
    "[redis-4.7.0",
)
#: what only the long form (`make soak`) runs: variants of what the gate runs once, by file and a part of their names
LONG_FORM = (
    ("backup/test_crashes.py", "-1]"),
    ("browser/test_access.py", "[zh-hans]"),
    ("browser/test_long_names.py", "[zh-hans]"),
    ("celery/test_kills.py", "[solo]"),
    ("celery/test_kills.py", "[threads]"),
    ("celery/test_workers.py", "[solo]"),
    ("crash/test_power_loss.py", "[817294733-async]"),
    ("outbox/test_agreement.py", "[rollback]"),
    ("outbox/test_agreement.py", "[savepoint]"),
    ("package/test_wheel.py", "3.12"),
    ("redisson/test_bounds.py", "[redis]"),
    ("spark/test_cluster.py", "the_same_run_on_a_cluster"),
    ("spark/test_cluster_dashboards.py", "the_command_asks_the_broker"),
    ("spark/test_cluster_dashboards.py", "every_dashboard_is_the_same_both_ways"),
    ("spark/test_cluster_stream.py", "although_the_reader_was_killed"),
    ("spark/test_kept.py", "[spark-two logs]"),
    ("spark/test_ledger_closes.py", "[timers-5-20]"),
    ("spark/test_ledger_closes.py", "[transactions-6-40]"),
    ("spark/test_queries.py", "[113-"),
    ("spark/test_queries.py", "[114-"),
    ("spark/test_queries.py", "[115-"),
    ("spark/test_queries.py", "[crash]"),
    ("spark/test_queries.py", "[crc]"),
    ("spark/test_queries.py", "[delay_levels]"),
    ("spark/test_queries.py", "[ipv6]"),
    ("spark/test_queries.py", "[long_topic]"),
    ("spark/test_queries.py", "[plain]"),
    ("spark/test_queries.py", "[retry_dlq]"),
    ("spark/test_queries.py", "[timers"),
    ("spark/test_queries.py", "[transactions_race]"),
    ("spark/test_queries.py", "random_logs[2"),
    ("spark/test_total.py", "row_for_row[spark]"),
    ("spark/test_total.py", "computes_all_brokers_unless_one_is_named"),
    ("spark/test_total.py", "one_that_is_away_is_said_and_the_others_are_computed[spark]"),
    ("tasks/test_django6.py", "[3.13"),
)
#: of the others the same: long files, and folders that have longer ones than the rest
LONG = (
    "interop/test_java_clients.py",
    "interop/test_pop.py",
    "interop/test_mqadmin.py",
    "interop/test_timer_exchange.py",
    "interop/test_transactions_decided.py",
    "interop/test_store_exchange.py",
    "interop/test_access.py",
    "interop/test_proxy.py",
    "interop/test_name_service.py",
    "interop/test_go_house.py",
    "interop/test_transactions_page.py",
    "interop/test_go_consumers.py",
    "console",
    "redisson",
    "server",
)


def is_slow(path: Path) -> bool:
    """Whether `make test-slow` runs the tests of this file."""
    return _place(path, SLOW) < len(SLOW)


def is_long_form(path: Path, name: str) -> bool:
    """Whether only `make soak` runs this test."""
    return any(part in name for part in _long_forms(path))


@cache
def _long_forms(path: Path) -> tuple[str, ...]:
    """Return the parts of names of long forms in a file."""
    return tuple(part for file, part in LONG_FORM if path == HERE / file)


def is_core(path: Path, name: str) -> bool:
    """Whether the gate runs this test of tests/interop."""
    if _place(path, CORE) == len(CORE) or any(part in name for part in VARIANTS):
        return False
    return "[apache" not in name or _place(path, OF_TWO_BROKERS) == len(OF_TWO_BROKERS)


def turn(path: Path) -> tuple[int, int]:
    """What to sort files by, so that long ones begin first."""
    return _place(path, SLOW), _place(path, LONG)


@cache
def _place(path: Path, places: tuple[str, ...]) -> int:
    """The number of the first place that holds a file, or how many there are."""
    return next((number for number, name in enumerate(places) if path.is_relative_to(HERE / name)), len(places))
