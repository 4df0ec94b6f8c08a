"""The settings of a broker by RocketMQ's names: 26 tells all of them, 25 changes some while it runs.

A changed setting is kept in the store (namespace `ESCAPEMENT_BROKER` of the named values) and holds after a restart,
too: as in RocketMQ, where it is written into broker.conf. Changed back to what the broker was started with, it is
forgotten.

What RocketMQ has no name for begins with `esc`. It is told, with what every setting is by default, what the broker was
started with and what it can be changed to, to who asks with `escDetails`: RocketMQ's tools get RocketMQ's names.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from ...engine.config import EngineConfig
from ...engine.engine import Engine
from ...engine.errors import StoreUnsupported
from ...engine.tables.key_values import OWN_PREFIX
from ...rocketmq.codes import Answer, Request
from ...rocketmq.errors import RequestRefused
from ...rocketmq.fields import json_body
from ...rocketmq.frame import Command
from ...rocketmq.topics import TRACE_TOPIC
from ..connection import Connection, Handler
from ..state import BrokerState
from .clients import DETAILS
from .pull import MOST_BYTES, MOST_MESSAGES

logger = logging.getLogger(__name__)

NAMESPACE = f"{OWN_PREFIX}BROKER"
MOST_CHANGED_BYTES = 65_536
_LONGEST_MS = 30 * 86_400_000
_LARGEST_INT = 0x7FFF_FFFF
_LARGEST_BODY_BYTES = 8 * 1024 * 1024
"""A frame, which Java's clients read up to 16 MiB, may have the message with a header."""


@dataclass(frozen=True, slots=True)
class Doors:
    """What guards the ways into a broker: fixed while it runs."""

    has_access_control: bool = False
    has_tls: bool = False


class ConfigurationProcessor:
    """The requests that show settings, and change those that may be changed while the broker runs."""

    def __init__(self, state: BrokerState, kept: KeptSettings, doors: Doors) -> None:
        self._state = state
        self._kept = kept
        self._doors = doors
        self._version = 0

    def handlers(self) -> Mapping[int, Handler]:
        """Request code -> handler."""
        return {Request.GET_BROKER_CONFIG: self._all, Request.UPDATE_BROKER_CONFIG: self._change}

    def _all(self, _: Connection, request: Command) -> Command:
        lines = [f"{name}={_java(value)}" for name, value in sorted(all_settings(self._state.config).items())]
        version = {"counter": self._version, "stateVersion": 0, "timestamp": self._state.started_ms}
        ext = {"version": json_body(version).decode()}
        if request.ext.get(DETAILS) == "true":
            ext["escSettings"] = json_body(self._details()).decode()
        return request.answer(ext, ("\n".join(lines) + "\n").encode())

    def _details(self) -> dict[str, dict[str, str]]:
        """Return each setting, those without a name in RocketMQ too: as it is, was at the start, and is by default.

        `allowed`: what it can be changed to; it is not there where it cannot be changed.
        """
        config = self._state.config
        now, started = _with_own(config), _with_own(self._kept.started_with)
        usual = _with_own(EngineConfig(root=config.root))
        doors = {"escAccessControl": self._doors.has_access_control, "escTls": self._doors.has_tls}
        told = {
            name: {"value": _java(value), "started": _java(started[name]), "default": _java(usual[name])}
            for name, value in now.items()
        }
        told |= {
            name: {"value": _java(value), "started": _java(value), "default": "false"} for name, value in doors.items()
        }
        for name, setting in CHANGEABLE.items():
            told[name]["allowed"] = setting.allowed
        return told

    def _change(self, connection: Connection, request: Command) -> Command:
        changes = _properties(request.body)
        try:
            self._state.use_settings(self._kept.change(changes))
        except BadSetting as error:
            raise RequestRefused(Answer.INVALID_PARAMETER, str(error)) from None
        self._version += 1
        logger.warning("%s changed settings: %s", connection.address, changes)
        return request.answer()


def _java(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _properties(body: bytes) -> dict[str, str]:
    """Read lines of `name=value`, as java.util.Properties has them at their simplest."""
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


class BadSetting(ValueError):
    """A setting cannot be changed, or not to that; the message says what can."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting that may be changed: its field of EngineConfig, how to read and how to show it."""

    field: str
    read: Callable[[str], bool | int | float]
    show: Callable[[EngineConfig], object]
    allowed: str


def _whole_of(low: int, high: int) -> Callable[[str], int]:
    def read(value: str) -> int:
        number = int(value) if value.isascii() and value.isdigit() and len(value) < 20 else -1
        if not low <= number <= high:
            raise ValueError(value)
        return number

    return read


def _truth_of(value: str) -> bool:
    return {"true": True, "false": False}[value.lower()]


def _hours(value: str) -> float:
    number = float(value)
    if not 0 < number <= 1_000_000:
        raise ValueError(value)
    return number


def _ratio(value: str) -> float:
    return _whole_of(1, 99)(value) / 100


def _per_slot(value: str) -> int:
    """Read a limit of which RocketMQ's largest whole number stands for none."""
    number = _whole_of(1, _LARGEST_INT)(value)
    return 0 if number == _LARGEST_INT else number


CHANGEABLE: Mapping[str, Setting] = {
    "autoCreateSubscriptionGroup": Setting(
        "auto_create_groups", _truth_of, lambda one: one.auto_create_groups, "true or false"
    ),
    "autoCreateTopicEnable": Setting(
        "auto_create_topics", _truth_of, lambda one: one.auto_create_topics, "true or false"
    ),
    "defaultTopicQueueNums": Setting(
        "default_topic_queues", _whole_of(1, 16_384), lambda one: one.default_topic_queues, "1 to 16,384"
    ),
    "diskMaxUsedSpaceRatio": Setting(
        "disk_refuse_ratio", _ratio, lambda one: round(one.disk_refuse_ratio * 100), "1 to 99 (per cent)"
    ),
    "escKeepUnconsumed": Setting("keep_unconsumed", _truth_of, lambda one: one.keep_unconsumed, "true or false"),
    "escTimerMaxPending": Setting(
        "timer_max_pending", _whole_of(1, 10**12), lambda one: one.timer_max_pending, "1 to 1,000,000,000,000"
    ),
    "escTimerOverduePerSecond": Setting(
        "timer_overdue_per_s", _whole_of(1, 1_000_000), lambda one: one.timer_overdue_per_s, "1 to 1,000,000"
    ),
    "fileReservedTime": Setting("retention_hours", _hours, lambda one: f"{one.retention_hours:g}", "hours, above 0"),
    "flushIntervalCommitLog": Setting(
        "flush_interval_ms", _whole_of(1, 60_000), lambda one: one.flush_interval_ms, "1 to 60,000 ms"
    ),
    "maxMessageSize": Setting(
        "max_body_bytes", _whole_of(1, _LARGEST_BODY_BYTES), lambda one: one.max_body_bytes,
        f"1 to {_LARGEST_BODY_BYTES:,} bytes",
    ),
    "maxTransferBytesOnMessageInMemory": Setting(
        "pull_most_bytes", _whole_of(1, MOST_BYTES), lambda one: one.pull_most_bytes, f"1 to {MOST_BYTES:,} bytes"
    ),
    "maxTransferCountOnMessageInMemory": Setting(
        "pull_most_messages", _whole_of(1, MOST_MESSAGES), lambda one: one.pull_most_messages, f"1 to {MOST_MESSAGES:,}"
    ),
    "timerCongestNumEachSlot": Setting(
        "timer_max_per_slot", _per_slot, lambda one: one.timer_max_per_slot or _LARGEST_INT,
        f"1 to {_LARGEST_INT:,}, which is no limit",
    ),
    "transactionCheckInterval": Setting(
        "transaction_interval_ms", _whole_of(1, _LONGEST_MS), lambda one: one.transaction_interval_ms, "1 ms to 30 days"
    ),
    "transactionCheckMax": Setting(
        "transaction_checks", _whole_of(1, 255), lambda one: one.transaction_checks, "1 to 255"
    ),
    "transactionTimeOut": Setting(
        "transaction_timeout_ms", _whole_of(0, _LONGEST_MS), lambda one: one.transaction_timeout_ms, "0 ms to 30 days"
    ),
}  # fmt: skip


def changed(config: EngineConfig, changes: Mapping[str, str]) -> EngineConfig:
    """Return the settings after changes by RocketMQ's names; raises BadSetting, then none is meant to be made."""
    fields: dict[str, bool | int | float] = {}
    for name, value in changes.items():
        setting = CHANGEABLE.get(name)
        if setting is None:
            raise BadSetting(f"{name[:80]!r} cannot be changed while the broker runs; {', '.join(CHANGEABLE)} can.")
        try:
            fields[setting.field] = setting.read(value.strip())
        except (ValueError, KeyError, OverflowError):
            raise BadSetting(f"{name} is {setting.allowed}, not {value[:80]!r}.") from None
    try:
        return replace(config, **fields)  # type: ignore[arg-type]  # each was read as its field's type
    except StoreUnsupported as error:
        raise BadSetting(str(error)) from None


class KeptSettings:
    """The settings that were changed while the broker ran, kept for its next start."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.started_with = engine.config

    def restore(self) -> EngineConfig:
        """Apply the changes that were kept; what cannot be applied any more is logged and left out."""
        for name, value in self._engine.key_values.all(NAMESPACE).items():
            try:
                self._engine.reconfigure(changed(self._engine.config, {name: value}))
                logger.warning("%s is %s: it was changed while the broker ran, and kept", name, value)
            except BadSetting as error:
                logger.error("a kept setting is left out: %s", error)
        return self._engine.config

    def change(self, changes: Mapping[str, str]) -> EngineConfig:
        """Make and keep changes, all or none. Raises BadSetting, OSError."""
        config = changed(self._engine.config, changes)
        for name, value in changes.items():
            show = CHANGEABLE[name].show
            if show(config) == show(self.started_with):
                self._engine.key_values.delete(NAMESPACE, name)
            else:
                self._engine.key_values.put(NAMESPACE, name, value.strip())
        self._engine.reconfigure(config)
        return config


def all_settings(config: EngineConfig) -> dict[str, object]:
    """Return every setting that has a name in RocketMQ, as it is now."""
    named = (name for name in CHANGEABLE if not name.startswith("esc"))
    return {
        "brokerClusterName": config.cluster_name,
        "brokerIP1": config.host,
        "brokerId": config.broker_id,
        "brokerName": config.broker_name,
        "brokerPermission": 6,
        "brokerRole": "ASYNC_MASTER",
        "clientCallbackExecutorThreads": os.cpu_count() or 1,  # where mqadmin looks for the number of processors
        "enablePropertyFilter": True,
        "enabledAppendPropCRC": True,
        "flushDiskType": f"{config.flush.upper()}_FLUSH",
        "listenPort": config.port,
        "mappedFileSizeCommitLog": config.segment_size_bytes,
        "mappedFileSizeConsumeQueue": config.queue_file_entries * 20,
        "mappedFileSizeTimerLog": config.timer_log_file_bytes,
        "maxHashSlotNum": config.index_slots,
        "maxIndexNum": config.index_entries,
        "messageDelayLevel": config.delay_levels,
        "msgTraceTopicName": TRACE_TOPIC,
        "recallMessageEnable": True,
        "slaveReadEnable": False,
        "storePathRootDir": config.root,
        "timerMaxDelaySec": config.timer_max_delay_ms // 1000,
        "timerPrecisionMs": 1000,
        "timerWheelEnable": True,
        "traceOn": True,
        "traceTopicEnable": True,
        **{name: CHANGEABLE[name].show(config) for name in named},
    }


def _with_own(config: EngineConfig) -> dict[str, object]:
    """Return every setting, those that RocketMQ has no name for too."""
    own = (name for name in CHANGEABLE if name.startswith("esc"))
    return {
        **all_settings(config),
        "escCheckpointBytes": config.checkpoint_bytes,
        "escCheckpointIntervalMs": config.checkpoint_interval_ms,
        "escMaxPropertiesBytes": config.max_properties_bytes,
        "escPendingLimitBytes": config.pending_limit_bytes,
        **{name: CHANGEABLE[name].show(config) for name in own},
    }
