"""Log lines that nobody can forge. One record begins one line, whatever strangers have put into what it tells.

Names of topics, groups and users, headers and texts of errors come from others. A line break in one of them would
begin a line that looks like a record of ours, and escape sequences would be obeyed by the terminal on which the log is
read. So all that cannot be printed is written as an escape, and the lines of a traceback are indented: what is not
indented is a record. Who makes one place of the code log again and again fills no disk and flushes nothing out.
"""

from __future__ import annotations

import logging
import logging.config
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
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

#: For Django's LOGGING: every logger's records arrive at this one handler. Django's own would write them once more.
CONFIGURATION: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "handlers": {"lines": {"class": "broker.log_lines.LineHandler"}},
    "loggers": {
        "django": {"handlers": [], "propagate": True},
        "django.server": {"handlers": [], "propagate": True},
    },
    "root": {"handlers": ["lines"], "level": "INFO"},
}


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
        told = [_shortened(escaped(self.formatMessage(record)))]
        if record.exc_info and record.exc_info[0] and not record.name.startswith(WITHOUT_TRACEBACK):
            told += _continued(self.formatException(record.exc_info))
        if record.stack_info:
            told += _continued(self.formatStack(record.stack_info))
        return "\n".join(told)


def _continued(text: str) -> list[str]:
    lines = text.split("\n")
    if len(lines) > TRACEBACK_LINES:
        half = TRACEBACK_LINES // 2
        lines = [*lines[:half], f"... {len(lines) - 2 * half} more lines ...", *lines[-half:]]
    return [CONTINUED + _shortened(escaped(line)) for line in lines]


def _shortened(line: str) -> str:
    beyond = len(line) - LINE_CHARACTERS
    return line if beyond <= 0 else f"{line[:LINE_CHARACTERS]} ... {beyond} more characters"


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

    def __init__(self, stream: IO[str] | None = None, *, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(stream)
        self.setFormatter(LineFormatter())
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


def begin(configuration: Mapping[str, Any] = CONFIGURATION, *, level: int | None = None) -> None:
    """Log so from now on, in this process: what is logged, and exceptions that nothing has caught."""
    logging.config.dictConfig(dict(configuration))
    if level is not None:
        logging.getLogger().setLevel(level)
    logging.lastResort = LineHandler()
    sys.excepthook = _uncaught
    threading.excepthook = _uncaught_in_thread
    sys.unraisablehook = _unraisable


def _uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)
        return
    logging.getLogger(__name__).critical("ended by what nothing caught", exc_info=(kind, error, trace))


def _uncaught_in_thread(said: threading.ExceptHookArgs) -> None:
    if said.exc_value is not None and not issubclass(said.exc_type, SystemExit):
        name = said.thread.name if said.thread is not None else "?"
        error = (said.exc_type, said.exc_value, said.exc_traceback)
        logging.getLogger(__name__).error("the thread %s ended by what nothing caught", name, exc_info=error)


def _unraisable(said: sys.UnraisableHookArgs) -> None:
    if said.exc_value is not None:
        error = (said.exc_type, said.exc_value, said.exc_traceback)
        text = said.err_msg or "ignored in"
        logging.getLogger(__name__).error("%s %r", text, said.object, exc_info=error)
