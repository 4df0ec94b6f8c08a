"""The broker's settings: 26 all of them, 25 changing some."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from ...rocketmq.codes import Answer, Request
from ...rocketmq.errors import RequestRefused
from ...rocketmq.frame import Command
from ...rocketmq.json_body import json_body
from ..connection import Connection, Handler
from ..settings import BadSetting, KeptSettings, all_settings
from ..state import BrokerState

logger = logging.getLogger(__name__)

MOST_CHANGED_BYTES = 65_536


class ConfigurationProcessor:
    """Shows settings, and changes those that may be changed while the broker runs."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self._kept = KeptSettings(state.engine)
        self._version = 0
        state.config = self._kept.restore()

    def handlers(self) -> Mapping[int, Handler]:
        """Request code -> handler."""
        return {Request.GET_BROKER_CONFIG: self._all, Request.UPDATE_BROKER_CONFIG: self._change}

    def _all(self, _: Connection, request: Command) -> Command:
        lines = [f"{name}={_java(value)}" for name, value in sorted(all_settings(self._state.config).items())]
        version = {"counter": self._version, "stateVersion": 0, "timestamp": self._state.started_ms}
        return request.answer({"version": json_body(version).decode()}, ("\n".join(lines) + "\n").encode())

    def _change(self, connection: Connection, request: Command) -> Command:
        changes = _properties(request.body)
        try:
            self._state.config = self._kept.change(changes)
        except BadSetting as error:
            raise RequestRefused(Answer.INVALID_PARAMETER, str(error)) from None
        self._version += 1
        logger.warning("%s changed settings: %s", connection.address, changes)
        return request.answer()


def _properties(body: bytes) -> dict[str, str]:
    """Lines of `name=value`, as java.util.Properties has them at their simplest."""
    try:
        lines = body.decode().splitlines() if len(body) <= MOST_CHANGED_BYTES else []
    except UnicodeDecodeError:
        lines = []
    changes: dict[str, str] = {}
    for line in lines:
        name, separator, value = line.partition("=")
        if line.strip() and not line.lstrip().startswith(("#", "!")):
            if not separator:
                raise RequestRefused(Answer.INVALID_PARAMETER, f"{line[:80]!r} is not of the form name=value.")
            changes[name.strip()] = value.strip()
    if not changes:
        raise RequestRefused(Answer.INVALID_PARAMETER, "The body names no setting: lines of name=value are expected.")
    return changes


def _java(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
