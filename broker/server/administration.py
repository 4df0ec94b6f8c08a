"""The administration log: who changed topics, groups, offsets, users, policies and settings of a broker, from where.

Every such request that came past the gate is a line in a file of the store, with its answer, and so is a change of log
levels by a signal (`LOG_LEVELS`, code 0, of nobody); it survives restarts and kills, but for the last moment before a
power loss. The newest `MOST_KEPT` are kept. Sends, pulls and acts on single messages are not in it: nothing is done for
them here.

    {"log": "2f6c…"}                                                     first line: which numbering this is
    {"number": 1, "atMs": …, "user": "ann", "from": "10.0.0.7:50112", "code": 17, "request": "UPDATE_AND_CREATE_TOPIC",
     "fields": {…}, "body": "…", "answer": 0, "remark": ""}

What whoever asks may read of it is everything: 14015 needs Update on the cluster (access/demands.py). Passwords are
left out; long texts are cut.
"""

from __future__ import annotations

import json
import logging
import secrets
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ..engine.disk import File, Files, directory_of, join
from ..engine.errors import BrokerError
from ..rocketmq.codes import Answer, Request
from ..rocketmq.errors import RequestRefused
from ..rocketmq.fields import json_body
from ..rocketmq.frame import Command
from .connection import Connection, Handler
from .refusals import refusal_code

logger = logging.getLogger(__name__)

FILE_NAME = "escapement.administration"
MOST_KEPT = 5_000
"""Requests that are kept; the file is written anew with them when it has twice as many."""

MOST_TOLD = 500
"""Requests in one answer."""

_TEXT_LENGTH = 1_000
_VALUE_LENGTH = 200
_MOST_FIELDS = 30
_PASSWORDS = frozenset({"password", "secretkey", "secret"})

#: What administers a broker, and what administers its name service.
CODES = frozenset(
    {
        Request.UPDATE_AND_CREATE_TOPIC, Request.UPDATE_AND_CREATE_TOPIC_LIST, Request.DELETE_TOPIC_IN_BROKER,
        Request.UPDATE_BROKER_CONFIG, Request.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
        Request.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, Request.DELETE_SUBSCRIPTIONGROUP,
        Request.UPDATE_AND_GET_GROUP_FORBIDDEN, Request.INVOKE_BROKER_TO_RESET_OFFSET, Request.CLONE_GROUP_OFFSET,
        Request.SET_MESSAGE_REQUEST_MODE, Request.CLEAN_EXPIRED_CONSUMEQUEUE, Request.CLEAN_UNUSED_TOPIC,
        Request.DELETE_EXPIRED_COMMITLOG, Request.PAUSE_TIMERS, Request.MEASURE_RELEASES,
        Request.AUTH_CREATE_USER, Request.AUTH_UPDATE_USER,
        Request.AUTH_DELETE_USER, Request.AUTH_CREATE_ACL, Request.AUTH_UPDATE_ACL, Request.AUTH_DELETE_ACL,
        Request.PUT_KV_CONFIG, Request.DELETE_KV_CONFIG, Request.WIPE_WRITE_PERM_OF_BROKER,
        Request.ADD_WRITE_PERM_OF_BROKER, Request.DELETE_TOPIC_IN_NAMESRV, Request.UPDATE_NAMESRV_CONFIG,
    }
)  # fmt: skip


class AdministrationLog:
    """The administrative requests of one broker, numbered from 1; `load` reads what is kept of them."""

    def __init__(self, files: Files, root: str, clock: Callable[[], int], *, most_kept: int = MOST_KEPT) -> None:
        self._files = files
        self._path = join(root, "config", FILE_NAME)
        self._clock = clock
        self._most_kept = most_kept
        self._kept: deque[bytes] = deque(maxlen=most_kept)
        self._in_file = 0
        self._awaited: dict[int, tuple[Command, dict[str, Any]]] = {}
        self.log = ""
        """Which numbering this is; empty before the first request."""
        self.last = 0

    def load(self) -> None:
        """Read the file, if there is one; half a line at its end is cut off. One that cannot be read is put aside."""
        if not self._files.exists(self._path):
            return
        try:
            self._read()
        except (OSError, ValueError, KeyError, TypeError) as error:
            logger.warning("the administration log %s cannot be read, another one begins: %s", self._path, error)
            self._kept.clear()
            self.log, self.last, self._in_file = "", 0, 0
            self._put_aside()

    def _read(self) -> None:
        file = self._files.open(self._path)
        try:
            data = file.read(file.size(), 0)
            whole = data.rfind(b"\n") + 1
            if whole != len(data):
                file.truncate(whole)
        finally:
            file.close()
        first, *lines = data[:whole].split(b"\n")[:-1] or [b"{}"]
        log = str(json.loads(first)["log"])
        last = 0
        for line in lines:
            number = int(json.loads(line)["number"])
            if last and number != last + 1:
                raise ValueError(f"number {number} follows {last}")
            last = number
        self._kept.extend(lines)
        self.log, self.last, self._in_file = log, last, len(lines)

    def _put_aside(self) -> None:
        try:
            self._files.rename(self._path, self._path + ".damaged")
        except OSError as error:
            logger.error("the administration log %s cannot be put aside: %s", self._path, error)

    def noted(self, handlers: Mapping[int, Handler]) -> dict[int, Handler]:
        """Return the handlers; those of administrative requests note what they were asked and what they answered."""
        return {
            code: partial(self._answered, handler) if code in CODES else handler for code, handler in handlers.items()
        }

    def _answered(self, handler: Handler, connection: Connection, request: Command) -> Command | None:
        told = {
            "user": _clean(connection.user, _VALUE_LENGTH),
            "from": connection.address,
            "code": int(request.code),
            "request": Request(request.code).name,
            "fields": _fields(request.ext),
            "body": _body(request),
        }
        self._awaited[id(request)] = request, told
        try:
            answer = handler(connection, request)
        except Exception as error:
            self._awaited.pop(id(request), None)
            code = _code_of(error)
            self._note({**told, "answer": int(code), "remark": _clean(str(error), _VALUE_LENGTH)})
            raise
        if answer is not None:
            self.answered(request, answer)
        return answer

    def answered(self, request: Command, answer: Command) -> None:
        """Note what a request came to; its handler may say so later than it returns."""
        _, told = self._awaited.pop(id(request), (request, None))
        if told is not None:
            self._note({**told, "answer": int(answer.code), "remark": _clean(answer.remark or "", _VALUE_LENGTH)})

    def levels_changed(self, levels: str) -> None:
        """Note that a signal changed what is logged; whose it was the system does not say."""
        told = {"user": "", "from": "SIGUSR2", "code": 0, "request": "LOG_LEVELS", "body": "", "remark": ""}
        self._note({**told, "fields": {"levels": _clean(levels, _VALUE_LENGTH)}, "answer": int(Answer.SUCCESS)})

    def _note(self, told: Mapping[str, Any]) -> None:
        """Write one line more. A disk that takes none does not undo what was done: the log of the program says so."""
        self.log = self.log or secrets.token_hex(8)
        self.last += 1
        line = json.dumps({"number": self.last, "atMs": self._clock(), **told}, ensure_ascii=False).encode()
        self._kept.append(line)
        try:
            if not self._in_file or self._in_file >= 2 * self._most_kept:
                self._write_anew()
            else:
                self._append(line + b"\n")
                self._in_file += 1
        except OSError as error:
            self._in_file = 0  # the next one writes all that is kept
            logger.error("administrative request %s could not be written: %s", line.decode(), error)

    def _append(self, data: bytes) -> None:
        file = self._files.open(self._path)
        try:
            file.write(data, file.size())
        finally:
            file.close()

    def _write_anew(self) -> None:
        directory, new = directory_of(self._path), self._path + ".tmp"
        self._files.make_directory(directory)
        file: File = self._files.open(new, create=True)
        try:
            file.truncate(0)
            file.write(b"\n".join((json.dumps({"log": self.log}).encode(), *self._kept, b"")), 0)
            file.sync()
        finally:
            file.close()
        self._files.rename(new, self._path)
        self._files.sync_directory(directory)
        self._in_file = len(self._kept)

    def handlers(self) -> Mapping[int, Handler]:
        """Request code -> handler."""
        return {Request.GET_ADMINISTRATION: self._tell}

    def _tell(self, connection: Connection, request: Command) -> Command:
        """Answer with the requests behind a number; of another numbering than this one, from the first that is kept."""
        after = _number(request, "after", 0)
        if request.ext.get("log") != self.log:
            after = 0
        limit = min(_number(request, "limit", MOST_TOLD), MOST_TOLD)
        first = self.last - len(self._kept) + 1
        begin = max(after + 1 - first, 0)
        lines = [self._kept[at] for at in range(begin, min(begin + limit, len(self._kept)))]
        head = {"log": self.log, "first": first, "last": self.last}
        return request.answer(body=json_body(head)[:-1] + b',"requests":[' + b",".join(lines) + b"]}")


def _code_of(error: Exception) -> int:
    if isinstance(error, RequestRefused):
        return error.code
    return refusal_code(error) if isinstance(error, BrokerError) else Answer.SYSTEM_ERROR


def _number(request: Command, name: str, default: int) -> int:
    text = request.ext.get(name, "") or str(default)
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise RequestRefused(Answer.INVALID_PARAMETER, f"{name} is a number, not {text[:40]!r}.")
    return int(text)


def _fields(ext: Mapping[str, str]) -> dict[str, str]:
    shown = [name for name in sorted(ext) if name.lower() not in _PASSWORDS][:_MOST_FIELDS]
    return {_clean(name, _VALUE_LENGTH): _clean(ext[name], _VALUE_LENGTH) for name in shown}


def _body(request: Command) -> str:
    """Return the body as text; of a user without the password, and nothing of one that cannot be read."""
    if request.code not in (Request.AUTH_CREATE_USER, Request.AUTH_UPDATE_USER):
        return _clean(bytes(request.body[: 4 * _TEXT_LENGTH]).decode("utf-8", "replace"), _TEXT_LENGTH)
    try:
        said = json.loads(bytes(request.body))
    except (ValueError, RecursionError):
        return ""
    if not isinstance(said, dict):
        return ""
    shown = {name: value for name, value in said.items() if name.lower() not in _PASSWORDS}
    return _clean(json.dumps(shown, ensure_ascii=False), _TEXT_LENGTH)


def _clean(text: str, longest: int) -> str:
    """Return a text that JSON, logs and databases take as it is."""
    return text[:longest].encode("utf-8", "replace").decode().replace("\0", "\ufffd")
