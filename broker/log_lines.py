"""Log lines that nobody can forge. One record begins one line, whatever strangers have put into what it tells.

Names of topics, groups and users, headers and texts of errors come from others. A line break in one of them would
begin a line that looks like a record of ours, and escape sequences would be obeyed by the terminal on which the log is
read. So all that cannot be printed is written as an escape, and the lines of a traceback are indented: what is not
indented is a record. Who makes one place of the code log again and again fills no disk and flushes nothing out.

As JSON (ESCAPEMENT_LOG_FORMAT=json) a record is one object, traceback and all, in ASCII; what its texts hold is escaped
before it becomes JSON, so that a program that prints one of them gives no orders to a terminal either. What a record
carries beside its message (`extra=`) are fields of the object, and stand behind the message in a line of text.

How much is logged is said by ESCAPEMENT_LOG_LEVELS at the start (`INFO,broker.server=DEBUG`), and while a process runs
by SIGUSR2: it takes the levels from the file of ESCAPEMENT_LOG_LEVELS_FILE, or, where none is named, tells all in
detail until the next signal.
"""

from __future__ import annotations

import argparse
import json
import logging
import logging.config
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType, TracebackType
from typing import IO, Any

FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
#: Characters of one line, and lines of one traceback; of what is longer the rest is counted.
LINE_CHARACTERS = 8192
TRACEBACK_LINES = 400
#: How many records one place of the code may write at once, how many a second from then on, and how often it is said
#: how many were left out.
BURST = 100.0
STEADY_PER_S = 0.5
SUMMARY_S = 60.0
CONTINUED = "    "
#: Their own last line says it all, and the rest is our own code: strangers make them at will.
WITHOUT_TRACEBACK = "django.security"

FORMATS = ("text", "json")
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
#: Fields of one record, beside those that each has; of texts that are longer than a line the rest is counted.
MOST_FIELDS = 30
#: What a record has without anybody's `extra`, and what uvicorn adds for terminals.
_ORDINARY = frozenset(vars(logging.LogRecord("", 0, "", 0, "", None, None))) | {
    "message", "asctime", "taskName", "color_message",
}  # fmt: skip
#: All of ours: one package in a wheel, several in a checkout.
_OWN = __name__.rpartition(".")[0]
OWN = (_OWN, "console", "spark") if _OWN == "broker" else (_OWN,)

logger = logging.getLogger(__name__)


def configuration(environment: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """Return what Django's LOGGING and `begin` set up: every logger's records arrive at one handler, at the levels of
    the environment. What it says wrongly is left out, and logged by `begin`."""
    levels = read_levels(environment.get("ESCAPEMENT_LOG_LEVELS", ""))[0]
    loggers: dict[str, dict[str, Any]] = {
        # Django's own handlers would write once more what arrives
        "django": {"handlers": [], "propagate": True},
        "django.server": {"handlers": [], "propagate": True},
    }
    for name, level in levels.items():
        if name:
            loggers.setdefault(name, {})["level"] = level
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "handlers": {"lines": {"class": f"{__name__}.LineHandler", "form": _form(environment)}},
        "loggers": loggers,
        "root": {"handlers": ["lines"], "level": levels.get("", "INFO")},
    }


def _form(environment: Mapping[str, str]) -> str:
    form = environment.get("ESCAPEMENT_LOG_FORMAT", "")
    return form if form in FORMATS else FORMATS[0]


def read_levels(text: str) -> tuple[dict[str, str], list[str]]:
    """Return the levels by logger, "" for all, and what could not be read: `INFO,broker.server=DEBUG`, or by lines."""
    levels: dict[str, str] = {}
    wrong = []
    for part in text.replace("\n", ",").split(","):
        name, _equals, level = part.strip().rpartition("=")
        if not part.strip() or part.lstrip().startswith("#"):
            continue
        if level.strip().upper() in LEVELS:
            levels[name.strip()] = level.strip().upper()
        else:
            wrong.append(part.strip())
    return levels, wrong


def escaped(text: str) -> str:
    """Return the text as one line that can be printed: other characters become `\\n`, `\\x1b`, `\\u2028` and so on."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else _escape(each) for each in text)


def _escape(character: str) -> str:
    code = ord(character)
    known = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(character)
    if known is not None:
        return known
    if code < 0x20:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


class LineFormatter(logging.Formatter):
    """A formatter that writes each record as one line; a traceback follows it, indented."""

    def __init__(self) -> None:
        super().__init__(FORMAT)

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, or the lines of which the first is not indented."""
        record.message = record.getMessage()
        record.asctime = self.formatTime(record, self.datefmt)
        fields = "".join(f" {name}={_field(value)}" for name, value in _fields(record))
        told = [_shortened(escaped(self.formatMessage(record) + fields))]
        if record.exc_info and record.exc_info[0] and not record.name.startswith(WITHOUT_TRACEBACK):
            told += _continued(self.formatException(record.exc_info))
        if record.stack_info:
            told += _continued(self.formatStack(record.stack_info))
        return "\n".join(told)


class JsonFormatter(logging.Formatter):
    """A formatter that writes each record as one JSON object, its traceback as a list of lines."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the object as one line of ASCII."""
        at = datetime.fromtimestamp(record.created, UTC)
        told: dict[str, Any] = {
            "at": f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03d}Z",
            "level": record.levelname,
            "logger": _plain(record.name),
            "message": _plain(record.getMessage()),
            "process": record.process,
            "thread": _plain(record.threadName),
        }
        for name, value in _fields(record):
            told.setdefault(name, _plain(value))
        if record.exc_info and record.exc_info[0]:
            told["error"] = _plain(record.exc_info[0].__name__)
            if not record.name.startswith(WITHOUT_TRACEBACK):
                told["trace"] = _lines(self.formatException(record.exc_info))
        if record.stack_info:
            told["stack"] = _lines(self.formatStack(record.stack_info))
        # JSON leaves DEL alone, which is in no text here any more
        return json.dumps(told, ensure_ascii=True)


def _fields(record: logging.LogRecord) -> Iterator[tuple[str, Any]]:
    """Yield what a record has beside its message, in the order in which it was given."""
    found = ((escaped(name)[:100], value) for name, value in vars(record).items() if name not in _ORDINARY)
    # Django hands the request itself on, which belongs to the one who gets it by mail
    told = [(name, value) for name, value in found if value is None or isinstance(value, str | int | float)]
    yield from told[:MOST_FIELDS]


def _plain(value: Any) -> Any:
    """Return a value as JSON has it, a text escaped and cut."""
    if isinstance(value, str):
        return _shortened(escaped(value))
    return value if not isinstance(value, float) or abs(value) < float("inf") else str(value)


def _field(value: Any) -> str:
    """Return a value as it stands behind a message: a text in quotes if one could take a part of it for another
    field."""
    if not isinstance(value, str):
        return json.dumps(value, default=str)
    is_one_word = value and value.isprintable() and not set(value) & set(" =\"'\\")
    return value if is_one_word else repr(value)


def _lines(text: str) -> list[str]:
    return [line.removeprefix(CONTINUED) for line in _continued(text)]


def _continued(text: str) -> list[str]:
    lines = text.split("\n")
    if len(lines) > TRACEBACK_LINES:
        half = TRACEBACK_LINES // 2
        lines = [*lines[:half], f"... {len(lines) - 2 * half} more lines ...", *lines[-half:]]
    return [CONTINUED + _shortened(escaped(line)) for line in lines]


def _shortened(line: str) -> str:
    beyond = len(line) - LINE_CHARACTERS
    return line if beyond <= 0 else f"{line[:LINE_CHARACTERS]} ... {beyond} more characters"


class Allowance:
    """How many lines may be written: `burst` at once, and so many a second from then on; it counts the others."""

    def __init__(self, burst: float, steady_per_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._burst, self._steady_per_s, self._clock = burst, steady_per_s, clock
        self._left, self._since_s = burst, clock()
        self._left_out = 0

    def left_out(self) -> int:
        """Return how many were left out since this was last asked."""
        count, self._left_out = self._left_out, 0
        return count

    def take(self) -> bool:
        """Tell whether one more may be written."""
        now_s = self._clock()
        self._left = min(self._burst, self._left + (now_s - self._since_s) * self._steady_per_s)
        self._since_s = now_s
        if self._left < 1:
            self._left_out += 1
            return False
        self._left -= 1
        return True


@dataclass(slots=True)
class _Place:
    """The allowance of one place of the code: what it may still write, and what was left out since it was last said."""

    name: str
    where: str
    left: float
    since_s: float
    left_out: int = 0
    said_s: float = 0.0


class LineHandler(logging.StreamHandler[Any]):
    """Writes records as lines, and of those that one place of the code repeats without end a part."""

    def __init__(
        self, stream: IO[str] | None = None, *, form: str = FORMATS[0], clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(stream)
        self.setFormatter(JsonFormatter() if form == "json" else LineFormatter())
        self._clock = clock
        self._places: dict[tuple[str, str, int], _Place] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Write it, unless its place has written too much; say what other places have left out."""
        now_s = self._clock()
        self._say_left_out(now_s - SUMMARY_S, now_s)
        if self._may_write(record, now_s):
            super().emit(record)

    def close(self) -> None:
        """Say what was left out."""
        self._say_left_out(float("inf"), 0.0)
        super().close()

    def _may_write(self, record: logging.LogRecord, now_s: float) -> bool:
        key = (record.name, record.pathname, record.lineno)
        place = self._places.get(key)
        if place is None:
            where = f"{record.filename}:{record.lineno}"
            place = self._places[key] = _Place(record.name, where, BURST, now_s, said_s=now_s)
        place.left = min(BURST, place.left + (now_s - place.since_s) * STEADY_PER_S)
        place.since_s = now_s
        if place.left >= 1:
            place.left -= 1
            return True
        place.left_out += 1
        return False

    def _say_left_out(self, before_s: float, now_s: float) -> None:
        for place in list(self._places.values()):
            if place.left_out and place.said_s <= before_s:
                text = f"{place.left_out} more like those of {place.where} were left out"
                super().emit(logging.LogRecord(place.name, logging.WARNING, __file__, 0, text, None, None))
                place.left_out, place.said_s = 0, now_s


def begin(*, level: int | None = None) -> None:
    """Log so from now on, in this process: what is logged, and exceptions that nothing has caught. `level` is for what
    the environment says nothing of."""
    logging.config.dictConfig(configuration())
    levels, wrong = read_levels(os.environ.get("ESCAPEMENT_LOG_LEVELS", ""))
    if level is not None and "" not in levels:
        logging.getLogger().setLevel(level)
    logging.lastResort = LineHandler(form=_form(os.environ))
    sys.excepthook = _uncaught
    threading.excepthook = _uncaught_in_thread
    sys.unraisablehook = _unraisable
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGUSR2, _change_levels)
    for part in wrong:
        logger.warning("ESCAPEMENT_LOG_LEVELS: %r is no level: write INFO or broker.server=DEBUG", part)
    form = os.environ.get("ESCAPEMENT_LOG_FORMAT", "")
    if form and form not in FORMATS:
        logger.warning("ESCAPEMENT_LOG_FORMAT: %r is none of %s", form, ", ".join(FORMATS))


def add_options(parser: argparse.ArgumentParser) -> None:
    """Let a command say what the environment says otherwise."""
    parser.add_argument("--log-format", choices=FORMATS, help="lines of text, or a JSON object a line")
    parser.add_argument("--log-levels", metavar="LEVELS", help="INFO,broker.server=DEBUG: for all, and for one logger")


def take_options(options: Mapping[str, Any]) -> None:
    """Put what a command was told into the environment, for this process and those that it starts."""
    for name, variable in (("log_format", "ESCAPEMENT_LOG_FORMAT"), ("log_levels", "ESCAPEMENT_LOG_LEVELS")):
        if options.get(name):
            os.environ[variable] = options[name]


# Other levels while the process runs.

#: what the loggers had before the first change
_before: dict[str, int] = {}
#: told of each change by a signal, in the words of the log; called by the signal's handler
_told_of_levels: list[Callable[[str], object]] = []


def tell_of_levels(told: Callable[[str], object]) -> None:
    """Have each change of levels by SIGUSR2 told to this one; it runs where the signal is handled, so that it must
    leave to others what takes a lock or a while."""
    if told not in _told_of_levels:
        _told_of_levels.append(told)


def _change_levels(number: int, frame: FrameType | None) -> None:
    file = os.environ.get("ESCAPEMENT_LOG_LEVELS_FILE", "")
    if file:
        said = _take_levels_of(file)
    elif _before:
        _put_back()
        said = "the log levels are as at the start"
    else:
        change_levels(dict.fromkeys(OWN, "DEBUG"))
        said = "everything is logged in detail until the next SIGUSR2"
    if said:
        logger.warning("%s", said)
        for told in _told_of_levels:
            told(said)


def _take_levels_of(file: str) -> str:
    """Return what they are now; "" where the file cannot be read."""
    try:
        levels, wrong = read_levels(Path(file).read_text(encoding="utf-8", errors="replace"))
    except OSError as error:
        logger.error("the log levels stay as they are, %s cannot be read: %s", file, error)
        return ""
    _put_back()
    change_levels(levels)
    for part in wrong:
        logger.warning("%s: %r is no level: write INFO or broker.server=DEBUG", file, part)
    shown = ", ".join(f"{name or 'all'}={level}" for name, level in levels.items())
    return f"levels of {file}: {shown or 'as at the start'}"


def change_levels(levels: Mapping[str, str]) -> None:
    """Give these loggers these levels, "" is all that have none of their own; a signal gives back what they had."""
    for name, level in levels.items():
        _before.setdefault(name, logging.getLogger(name).level)
        logging.getLogger(name).setLevel(level)


def _put_back() -> None:
    for name, level in _before.items():
        logging.getLogger(name).setLevel(level)
    _before.clear()


# What nothing has caught.


def _uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)
        return
    logging.getLogger(__name__).critical("ended by an uncaught exception", exc_info=(kind, error, trace))


def _uncaught_in_thread(said: threading.ExceptHookArgs) -> None:
    if said.exc_value is not None and not issubclass(said.exc_type, SystemExit):
        name = said.thread.name if said.thread is not None else "?"
        error = (said.exc_type, said.exc_value, said.exc_traceback)
        logging.getLogger(__name__).error("the thread %s ended by an uncaught exception", name, exc_info=error)


def _unraisable(said: sys.UnraisableHookArgs) -> None:
    if said.exc_value is not None:
        error = (said.exc_type, said.exc_value, said.exc_traceback)
        text = said.err_msg or "ignored in"
        logging.getLogger(__name__).error("%s %r", text, said.object, exc_info=error)
