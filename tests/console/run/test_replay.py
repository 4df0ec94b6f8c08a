"""The replay against a real broker: warm start, going on, a broker that restarts, and the command's end."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from broker.client import Admin
from broker.testing import BrokerThread, small_store
from console.management.commands.demo import minute_of
from console.run.flights import BOARDING, TOPICS
from console.run.replay import Options, Progress, load, save
from tests.console.run.playing import Run, write_days
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A var/demo of its own."""
    return write_days(tmp_path / "demo")


def parked(admin: Admin) -> int:
    return sum(each.max_offset for each in admin.topic_stats("SCHEDULE_TOPIC_XXXX").queues)


def test_a_first_start_fills_the_lanes_and_a_second_one_goes_on(tmp_path: Path, directory: Path) -> None:
    with BrokerThread(small_store(tmp_path, "1s 30s 1m 10m 30m 1h 2h")) as broker, Admin(broker.namesrv) as admin:
        with Run(Options(broker.namesrv, directory)) as replay:
            replay.says("begins at day 1 of the year, 06:00")
            until(lambda: set(TOPICS) <= {topic.name for topic in admin.topics()})
            until(lambda: parked(admin) > 120)
        lanes = [each.max_offset for each in admin.topic_stats("SCHEDULE_TOPIC_XXXX").queues if each.max_offset]
        assert len(lanes) >= 5
        kept = load(directory / "progress.json")
        assert kept is not None
        before = parked(admin)
        with Run(Options(broker.namesrv, directory)) as replay:
            replay.says("goes on at")
        again = load(directory / "progress.json")
        assert again is not None
        assert again.minute >= kept.minute
        assert parked(admin) - before < 100


def test_reminders_wait_under_their_flights_keys_move_and_are_taken_back(tmp_path: Path, directory: Path) -> None:
    with BrokerThread(small_store(tmp_path, "1s 30s 1m 10m 30m 1h 2h")) as broker, Admin(broker.namesrv) as admin:
        with Run(Options(broker.namesrv, directory, speed=1440.0)):
            until(lambda: admin.timer_status().cancelled_total > 0)
            until(lambda: admin.timer_status().rescheduled_total > 0)
            page = admin.timers(0, 2**62, topic=BOARDING)
            now_ms = page.now_ms
        keys = [timer.schedule_key for timer in page.items]
        assert len(keys) == len(set(keys))
        assert all(key is not None and key.startswith("UA") for key in keys)
        assert all(timer.due_ms < now_ms + 6 * 60_000 for timer in page.items)  # at most 5 days of 60 s each
        assert admin.timer_status().early_total == 0


def test_lanes_of_a_broker_that_lost_its_store_are_filled_again(tmp_path: Path, directory: Path) -> None:
    save(directory / "progress.json", Progress(5000.0, 1234))
    with BrokerThread(small_store(tmp_path, "1s 30s 1m 10m 30m 1h 2h")) as broker, Admin(broker.namesrv) as admin:
        with Run(Options(broker.namesrv, directory)) as replay:
            replay.says("goes on at day 4 of the year, 11:20")
            until(lambda: parked(admin) > 120)


def test_messages_wait_here_while_the_broker_is_away(tmp_path: Path, directory: Path) -> None:
    with BrokerThread(small_store(tmp_path)) as broker, Admin(broker.namesrv) as admin:
        with Run(Options(broker.namesrv, directory, speed=1440.0)) as replay:
            replay.says("begins")
            until(lambda: parked(admin) > 50)
            broker.stop()
            broker.start()
            before = parked(admin)
            until(lambda: parked(admin) > before + 20)
        assert (load(directory / "progress.json") or pytest.fail("nothing kept")).sent > 70


@pytest.mark.parametrize("arguments", [["--speed", "0"], ["--speed", "1e9"], ["--from", "yesterday"]])
def test_arguments_that_make_no_sense_are_refused(arguments: list[str]) -> None:
    with pytest.raises(CommandError):
        call_command("demo", "flights", *arguments)


def test_moments_of_the_year_are_minutes() -> None:
    assert minute_of("2013-01-01T06:00") == 360
    assert minute_of("2013-12-31T00:01") == 364 * 1440 + 1
    for wrong in ("2014-01-01", "2013-01-01T06:00+01:00", "x"):
        with pytest.raises(ValueError):
            minute_of(wrong)


def test_the_command_ends_soon_when_it_is_told_to(tmp_path: Path, directory: Path) -> None:
    with BrokerThread(small_store(tmp_path)) as broker:
        environment = {"ESCAPEMENT_VAR": str(tmp_path), "ESCAPEMENT_NAMESRV": broker.namesrv, "PATH": ""}
        process = subprocess.Popen(
            [sys.executable, str(ROOT / "manage.py"), "demo", "flights"],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        assert "begins" in process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        assert process.wait(5) == 0
        process.stdout.close()


def test_tickets_are_sold_in_transactions_of_every_kind(tmp_path: Path, directory: Path) -> None:
    with BrokerThread(small_store(tmp_path, "1s 30s 1m 10m 30m 1h 2h")) as broker, Admin(broker.namesrv) as admin:
        with Run(Options(broker.namesrv, directory, speed=1440.0)):
            until(lambda: admin.transaction_status().commit_total > 0)
            until(lambda: admin.transaction_status().rollback_total > 0)
        assert {group.name: group.retry_max_times for group in admin.groups()}["baggage"] == 1
