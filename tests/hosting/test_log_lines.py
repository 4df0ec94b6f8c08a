"""What the processes log: nobody can forge a line of it, give orders to who reads it, or flush it away."""

from __future__ import annotations

import ast
import io
import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.log_lines import (
    BURST,
    LINE_CHARACTERS,
    SUMMARY_S,
    TRACEBACK_LINES,
    LineHandler,
    escaped,
)
from broker.rocketmq.codes import Request
from tests.hosting.houses import Run
from tests.server.access.clients import People, policy
from tests.waiting import until

ROOT = Path(__file__).parents[2]
FORGED = "2026-11-23 22:00:00,000 CRITICAL broker.FORGED: store deleted by admin"
HOSTILE = f"x\n{FORGED} \x1b[31m\0\r\x85\x9b2J\u2028\u2029\u202e\u2066\ud800\x7f"
SILENT = ("logging.NullHandler", "py4j.java_gateway.NullHandler")
#: Starts what is named and writes, at the end, who handles records then, and a hostile one of each kind of logger.
WATCH = """
import atexit, json, logging, os, sys, threading
from pathlib import Path

def tell():
    loggers = [logging.getLogger(), *logging.Logger.manager.loggerDict.values()]
    handlers = [each for one in loggers for each in getattr(one, 'handlers', [])]
    named = [f'{type(each).__module__}.{type(each).__name__}' for each in (*handlers, logging.lastResort)]
    hooks = [each.__module__ for each in (sys.excepthook, threading.excepthook, sys.unraisablehook)]
    Path(os.environ['WATCHED']).write_text(json.dumps({'handlers': named, 'hooks': hooks}))
    hostile = json.loads(os.environ['HOSTILE'])
    names = ('', 'broker.any', 'celery', 'celery.task', 'celery.worker', 'uvicorn.error', 'django', 'django.server',
             'django.request', 'asyncio', 'multiprocessing', 'axes', 'py4j')
    for name in names:
        logging.getLogger(name).error('%s', hostile)
    try:
        raise ValueError(hostile)
    except ValueError:
        logging.getLogger('broker.any').exception('failed with %s', hostile)
        sys.excepthook(*sys.exc_info())

atexit.register(tell)
"""


def handler_to(stream: io.StringIO, seconds: list[float] | None = None) -> LineHandler:
    return LineHandler(stream, clock=lambda: seconds[0] if seconds else 0.0)


def record(text: str, line: int = 1, error: BaseException | None = None) -> logging.LogRecord:
    info = (type(error), error, error.__traceback__) if error is not None else None
    return logging.LogRecord("broker.any", logging.WARNING, "any.py", line, "%s", (text,), info)


def test_what_cannot_be_printed_is_escaped_and_nothing_else() -> None:
    assert escaped("orders 订单 é 🎈 \\n") == "orders 订单 é 🎈 \\n"
    assert escaped("a\nb\r\t\0\x1b[2J\x7f") == "a\\nb\\r\\t\\x00\\x1b[2J\\u007f"
    assert escaped("\x85\x9b\u2028\u2029\u202e\u2066\u200f\ud800") == (
        "\\u0085\\u009b\\u2028\\u2029\\u202e\\u2066\\u200f\\ud800"
    )
    assert escaped("\U000e0001") == "\\U000e0001"
    assert escaped(HOSTILE).isprintable()


def test_a_record_is_one_line_and_a_traceback_is_indented() -> None:
    stream = io.StringIO()
    try:
        raise ValueError(HOSTILE)
    except ValueError as error:
        handler_to(stream).handle(record(HOSTILE, error=error))
    first, *others = stream.getvalue().rstrip("\n").split("\n")
    assert escaped(HOSTILE) in first
    assert others[0] == "    Traceback (most recent call last):"
    assert all(line.startswith("    ") and line.isprintable() for line in others)
    assert f"    {FORGED} \\x1b[31m\\x00\\r\\u0085\\u009b2J\\u2028\\u2029\\u202e\\u2066\\ud800\\u007f" in others


def test_a_refusal_of_djangos_is_one_line_without_our_own_code() -> None:
    stream = io.StringIO()
    said = record("Invalid HTTP_HOST header", error=ValueError("x"))
    said.name = "django.security.DisallowedHost"
    handler_to(stream).handle(said)
    assert stream.getvalue().count("\n") == 1


def test_a_line_and_a_traceback_have_an_end() -> None:
    stream = io.StringIO()
    handler_to(stream).handle(record("x" * 100_000, error=ValueError("\n" * 10_000 + "last")))
    first, *others = stream.getvalue().rstrip("\n").split("\n")
    assert LINE_CHARACTERS < len(first) < LINE_CHARACTERS + 100
    assert first.endswith(" more characters")
    assert len(others) == TRACEBACK_LINES + 1
    assert others[-1] == "    last"


def test_what_is_repeated_without_end_is_counted() -> None:
    stream, seconds = io.StringIO(), [1000.0]
    handler = handler_to(stream, seconds)
    for number in range(int(BURST) + 41):
        handler.handle(record(f"host {number} is none"))
    handler.handle(record("something else", line=2))
    lines = stream.getvalue().splitlines()
    assert len(lines) == BURST + 1
    assert lines[-1].endswith("something else")
    seconds[0] += SUMMARY_S
    handler.handle(record("later", line=2))
    assert stream.getvalue().splitlines()[-2].endswith("broker.any: 41 more like those of any.py:1 were left out")
    for _ in range(int(BURST)):
        handler.handle(record("again"))
    handler.close()
    assert "70 more like those of any.py:1 were left out" in stream.getvalue().splitlines()[-1]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[list[str]]:
    """What a broker with access control says when it is there: its addresses. Its log is in `log`."""
    command = [sys.executable, "-m", "broker.server", "--root", str(tmp_path), "--access-key", "root"]
    with (
        (tmp_path / "log").open("wb") as log,
        subprocess.Popen(
            [*command, "--port", "0", "--namesrv-port", "0"], cwd=ROOT, stdout=subprocess.PIPE, stderr=log,
            env=os.environ | {"ESCAPEMENT_SECRET_KEY": "root-secret"},
        ) as process,
    ):  # fmt: skip
        assert process.stdout is not None
        yield process.stdout.readline().decode().split()
        process.terminate()


async def test_a_refused_user_cannot_write_a_line_of_the_brokers(broker: list[str], tmp_path: Path) -> None:
    people = People(broker[1], broker[-1])
    alice = await people.normal("alice", policy("Topic:a-*", "Pub"))
    topic = HOSTILE.replace("\ud800", "")
    answer = await alice.ask(Request.GET_MAX_OFFSET, {"topic": topic, "queueId": "0"})
    await people.close()
    assert answer.code == 16
    log = (tmp_path / "log").read_bytes().decode()
    refused = [line for line in log.split("\n") if "refused request" in line]
    assert len(refused) == 1
    assert escaped(topic) in refused[0]
    assert [line for line in log.split("\n") if not line.isprintable() or line.startswith(FORGED)] == []


@pytest.mark.parametrize(
    "command",
    [
        ["manage.py", "fsck", "/nowhere"],
        ["manage.py", "run"],
        ["-m", "console.site.web"],
        ["-m", "console.run.embedded"],
        ["-m", "broker.server", "--root", "/dev/null/nowhere"],
        ["-m", "celery", "-A", "console.site", "worker", "-P", "prefork", "--engine", "x", "-l", "INFO"],
        ["-m", "celery", "-A", "console.site", "worker", "-P", "prefork", "--mirror", "-l", "INFO"],
        ["-m", "celery", "-A", "console.site", "beat", "--pidfile=", "--schedule", "/nowhere/schedule", "-l", "INFO"],
        ["-m", "spark.run"],
        ["-m", "spark.follow"],
    ],
    ids=lambda command: " ".join(command[:6]).replace("/", "_"),
)
def test_every_process_logs_lines_that_nobody_can_forge(command: list[str], tmp_path: Path) -> None:
    """Each is given something to refuse, which ends it after its logging was set up."""
    (tmp_path / "sitecustomize.py").write_text(WATCH)
    environment = {
        "PYTHONPATH": f"{tmp_path}:{ROOT}", "WATCHED": str(tmp_path / "watched"), "HOSTILE": json.dumps(HOSTILE),
        "ESCAPEMENT_WEB_HOST": "0.0.0.0", "ESCAPEMENT_DEBUG": "1",
    }  # fmt: skip
    ended = subprocess.run(
        [sys.executable, *command], cwd=ROOT, env=os.environ | environment, stdin=subprocess.DEVNULL,
        capture_output=True, check=False, timeout=60,
    )  # fmt: skip
    assert ended.returncode != 0
    watched = json.loads((tmp_path / "watched").read_text())
    assert set(watched["handlers"]) <= {"broker.log_lines.LineHandler", *SILENT}
    assert set(watched["hooks"]) == {"broker.log_lines"}
    lines = (ended.stdout + ended.stderr).decode().split("\n")
    hostile = [line for line in lines if "FORGED" in line]
    assert len([line for line in hostile if escaped(HOSTILE) in line and not line.startswith(" ")]) >= 12
    assert all(line.isprintable() for line in hostile)
    assert [line for line in hostile if line.startswith(FORGED)] == []


def test_no_source_sets_up_another_logging() -> None:
    others = ("basicConfig", "StreamHandler", "FileHandler", "logging.Formatter", "print_exc", "print_exception")
    sources = [path for part in ("broker", "console", "spark") for path in (ROOT / part).rglob("*.py")]
    found = [
        f"{path.relative_to(ROOT)}: {other}"
        for path in (*sources, ROOT / "manage.py")
        if path.name != "log_lines.py"
        for other in others
        if other in path.read_text()
    ]
    assert found == []


def test_commands_print_nothing_of_others_as_it_is() -> None:
    """What is put together for a terminal goes through `escaped`."""
    commands = [path for part in ("broker", "console") for path in (ROOT / part).rglob("management/commands/*.py")]
    raw = [
        f"{path.name}:{call.lineno}"
        for path in commands
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call) and ast.unparse(call.func) in ("self.stdout.write", "self.stderr.write")
        if not is_safe(call.args[0])
    ]
    assert len(commands) > 10
    assert raw == []


def is_safe(said: ast.expr) -> bool:
    """Words of our own, what went through `escaped`, numbers, or what only we make."""
    text = ast.unparse(said)
    if isinstance(said, ast.Constant) or text.startswith("escaped("):
        return True
    if isinstance(said, ast.JoinedStr):
        parts = [part for part in said.values if isinstance(part, ast.FormattedValue)]
        return all(is_number(part) or ast.unparse(part.value) in OURS for part in parts)
    return text in OURS or "escaped(line) for line in" in text


#: Names of counts that this program made, and secrets that it made and is asked for.
OURS = ("name", "title", "using", "token", "count", "given or path.read_text().strip()")


def is_number(part: ast.FormattedValue) -> bool:
    return part.format_spec is not None and "," in ast.unparse(part.format_spec)


def test_the_supervisor_shows_and_keeps_nothing_that_a_terminal_obeys(tmp_path: Path) -> None:
    house = Run(tmp_path)
    said = r"WARNING \x1b[31mred\x00\xc2\x9b2J\xe2\x80\xae\xff\ttab\n    CRITICAL indented\n"
    talk = f"import sys, signal\nsys.stdout.buffer.write(b'{said}')\nsys.stdout.flush()\nsignal.pause()"
    house.start([["talker", sys.executable, "-c", talk]])
    shown = "WARNING \\x1b[31mred\\x00\\u009b2J\\u202e\\xff"
    try:
        assert house.await_line("WARNING").startswith(f"talker | {shown}")
        log = house.logs / "talker.log"
        until(lambda: log.exists() and "indented" in log.read_text())
        first, second = log.read_text().splitlines()
        assert first.startswith(shown)
        assert first.isprintable()
        assert second == "    CRITICAL indented"
    finally:
        house.end()


@pytest.mark.parametrize(("levels", "is_told"), [("", False), ("celery.beat=INFO", True)])
def test_turns_of_the_timetable_are_told_when_they_are_asked_for(levels: str, is_told: bool) -> None:
    code = (
        "import logging; from console.site.celery import log_lines; log_lines(logging.INFO); "
        "beat = logging.getLogger('celery.beat'); beat.info('Sending due task'); beat.error('no queue')"
    )
    environment = {**os.environ, "ESCAPEMENT_LOG_LEVELS": levels, "DJANGO_SETTINGS_MODULE": "console.site.settings"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    assert "no queue" in done.stderr
    assert ("Sending due task" in done.stderr) == is_told
