"""Logs as JSON, fields of records, and levels that are changed at the start and while a process runs."""

from __future__ import annotations

import io
import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from broker import log_lines
from broker.log_lines import LINE_CHARACTERS, MOST_FIELDS, LineHandler, configuration, escaped, read_levels
from tests.hosting.houses import Run
from tests.hosting.test_log_lines import HOSTILE, ROOT, WATCH
from tests.waiting import until


def told(form: str, record: logging.LogRecord) -> str:
    stream = io.StringIO()
    LineHandler(stream, form=form).handle(record)
    return stream.getvalue()


def record(text: str = "said", error: BaseException | None = None, **fields: Any) -> logging.LogRecord:
    info = (type(error), error, error.__traceback__) if error is not None else None
    made = logging.LogRecord("broker.any", logging.WARNING, "any.py", 1, "%s", (text,), info)
    made.created = 1_764_171_066.0079
    vars(made).update(fields)
    return made


def test_a_record_is_one_object_in_utc_with_its_fields() -> None:
    (line,) = told("json", record("订单", took_ms=12, topic="orders", is_late=True, request=object())).splitlines()
    assert json.loads(line) == {
        "at": "2025-11-26T15:31:06.007Z", "level": "WARNING", "logger": "broker.any", "message": "订单",
        "process": os.getpid(), "thread": "MainThread", "took_ms": 12, "topic": "orders", "is_late": True,
    }  # fmt: skip


@pytest.mark.parametrize("form", ["text", "json"])
def test_no_field_makes_a_second_line_or_orders_a_terminal(form: str) -> None:
    line = told(form, record(HOSTILE, topic=HOSTILE, **{HOSTILE[:20]: 1}))
    assert line.count("\n") == 1
    assert line.rstrip("\n").isprintable()
    if form == "json":
        assert line.isascii()
        said = json.loads(line)
        assert said["message"] == said["topic"] == escaped(HOSTILE)
        assert all(text.isprintable() for text in said.values() if isinstance(text, str))


def test_a_traceback_is_a_part_of_the_object() -> None:
    try:
        raise ValueError(HOSTILE)
    except ValueError as error:
        said = json.loads(told("json", record(error=error)))
    assert said["error"] == "ValueError"
    assert said["trace"][0] == "Traceback (most recent call last):"
    assert all(line.isprintable() for line in said["trace"])


def test_a_field_is_no_other_field_and_has_an_end() -> None:
    line = told("text", record(path='/a b="c"', topic="plain"))
    assert line.endswith("broker.any: said path='/a b=\"c\"' topic=plain\n")
    said = json.loads(told("json", record(message_="x", level="no", topic="x" * 100_000)))
    assert said["level"] == "WARNING"
    assert len(said["topic"]) < LINE_CHARACTERS + 100
    many = json.loads(told("json", record(**{f"name{number}": number for number in range(100)})))
    assert len([name for name in many if name.startswith("name")]) == MOST_FIELDS


def test_levels_are_read_and_what_is_none_is_said() -> None:
    text = "info, broker.server=debug\n# a remark\nbroker.x=LOUD,nothing"
    assert read_levels(text) == ({"": "INFO", "broker.server": "DEBUG"}, ["broker.x=LOUD", "nothing"])
    made = configuration({"ESCAPEMENT_LOG_FORMAT": "json", "ESCAPEMENT_LOG_LEVELS": "ERROR,django=DEBUG"})
    assert made["handlers"]["lines"]["form"] == "json"
    assert made["root"]["level"] == "ERROR"
    assert made["loggers"]["django"] == {"handlers": [], "propagate": True, "level": "DEBUG"}
    assert configuration({"ESCAPEMENT_LOG_FORMAT": "xml"})["handlers"]["lines"]["form"] == "text"


@pytest.mark.parametrize(
    "command",
    [
        ["manage.py", "fsck", "/nowhere"],
        ["-m", "console.site.web"],
        ["-m", "broker", "broker", "--store", "/dev/null/nowhere"],
        ["-m", "broker", "namesrv", "--store", "/dev/null/nowhere", "--log-format", "json"],
        ["-m", "celery", "-A", "console.site", "worker", "-P", "prefork", "--mirror", "-l", "INFO"],
    ],
    ids=lambda command: " ".join(command[:3]).replace("/", "_"),
)
def test_every_process_logs_objects(command: list[str], tmp_path: Path) -> None:
    """Each is given something to refuse, which ends it after its logging was set up."""
    (tmp_path / "sitecustomize.py").write_text(WATCH)
    environment = {
        "PYTHONPATH": f"{tmp_path}:{ROOT}", "WATCHED": str(tmp_path / "watched"), "HOSTILE": json.dumps(HOSTILE),
        "ESCAPEMENT_WEB_HOST": "0.0.0.0", "ESCAPEMENT_DEBUG": "1", "ESCAPEMENT_LOG_LEVELS": "INFO,nonsense",
    }  # fmt: skip
    if "--log-format" not in command:
        environment["ESCAPEMENT_LOG_FORMAT"] = "json"
    ended = subprocess.run(
        [sys.executable, *command], cwd=ROOT, env=os.environ | environment, stdin=subprocess.DEVNULL,
        capture_output=True, check=False, timeout=60,
    )  # fmt: skip
    assert ended.returncode != 0
    objects = [json.loads(line) for line in (ended.stdout + ended.stderr).decode().splitlines() if line[:1] == "{"]
    hostile = [said for said in objects if said["message"] == escaped(HOSTILE)]
    assert len(hostile) >= 12
    assert [said for said in objects if "nonsense" in said["message"]] != []
    assert b"FORGED" not in b"".join(
        line for line in (ended.stdout + ended.stderr).splitlines(keepends=True) if not line.startswith(b"{")
    )


@contextmanager
def levels_kept() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in ("", "broker", "console", "spark", "broker.any")]
    levels, hooks = [each.level for each in loggers], signal.getsignal(signal.SIGUSR2)
    told = log_lines._told_of_levels[:]
    log_lines._told_of_levels.clear()
    try:
        yield
    finally:
        for each, level in zip(loggers, levels, strict=True):
            each.setLevel(level)
        log_lines._before.clear()
        log_lines._told_of_levels[:] = told
        signal.signal(signal.SIGUSR2, hooks)


def test_a_signal_tells_all_in_detail_and_the_next_one_no_more() -> None:
    with levels_kept():
        signal.signal(signal.SIGUSR2, log_lines._change_levels)
        before = logging.getLogger("broker").level
        signal.raise_signal(signal.SIGUSR2)
        assert logging.getLogger("broker").level == logging.DEBUG
        assert logging.getLogger("").level != logging.DEBUG
        signal.raise_signal(signal.SIGUSR2)
        assert logging.getLogger("broker").level == before


def test_a_signal_takes_the_levels_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "levels"
    monkeypatch.setenv("ESCAPEMENT_LOG_LEVELS_FILE", str(file))
    with levels_kept():
        signal.signal(signal.SIGUSR2, log_lines._change_levels)
        signal.raise_signal(signal.SIGUSR2)
        assert "cannot be read" in caplog.text
        file.write_text("broker.any=DEBUG\nbroker=LOUD\n")
        signal.raise_signal(signal.SIGUSR2)
        assert logging.getLogger("broker.any").level == logging.DEBUG
        assert "'broker=LOUD' is no level" in caplog.text
        file.write_text("")
        signal.raise_signal(signal.SIGUSR2)
        assert logging.getLogger("broker.any").level == logging.NOTSET


def test_the_supervisor_hands_the_signal_on_to_its_own(tmp_path: Path) -> None:
    """A server that is not ours (quiet) would end by it, and one of ours that has not begun to listen to it."""
    listens = (
        "import signal, sys\nsys.path.insert(0, '.')\nfrom broker import log_lines\nlog_lines.begin()\n"
        "sys.stdout.write('listening\\n')\nsys.stdout.flush()\nwhile True: signal.pause()"
    )
    house = Run(tmp_path)
    deaf = "import signal\nwhile True: signal.pause()"
    house.start([["ours", sys.executable, "-c", listens], ["deaf", sys.executable, "-c", deaf]])
    try:
        until(lambda: "listening" in log_of(house, "ours"))
        house.signal(signal.SIGUSR2)
        assert "logged in detail" in house.await_line("WARNING")
        house.signal(signal.SIGUSR2)
        until(lambda: "as at the start" in log_of(house, "ours"))
        rows = json.loads(house.roster.read_text())["processes"]
        assert {(row["name"], row["state"], row["restarts"]) for row in rows} == {
            ("ours", "running", 0), ("deaf", "running", 0),
        }  # fmt: skip
    finally:
        house.end()


def log_of(house: Run, name: str) -> str:
    path = house.logs / f"{name}.log"
    return path.read_text() if path.exists() else ""
