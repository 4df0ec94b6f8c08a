"""The broker itself: what it does, how it is set, and tidying at once.

- runtime (28), statistics (315), its state as one of several (907);
- its settings by RocketMQ's names: 26 all of them, 25 changing some while it runs;
- what the broker tidies by itself, now: 306 queues, 316 topics, 329 the log.

A changed setting is kept in the store (namespace `ESCAPEMENT_BROKER` of the named values) and holds after a restart,
too: as in RocketMQ, where it is written into broker.conf. Changed back to what the broker was started with, it is
forgotten.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from ...engine.config import EngineConfig
from ...engine.engine import Engine
from ...engine.errors import CorruptRecord, RecordNotFound, StoreUnsupported
from ...engine.tables.key_values import OWN_PREFIX
from ...rocketmq.codes import PROTOCOL_VERSION, Answer, Request
from ...rocketmq.errors import RequestRefused
from ...rocketmq.fields import json_body, text
from ...rocketmq.frame import Command
from ...rocketmq.message import decode
from ...rocketmq.topics import TRACE_TOPIC
from ..connection import Connection, Handler
from ..state import BrokerState
from .pull import MOST_BYTES, MOST_MESSAGES

logger = logging.getLogger(__name__)


VERSION_NAME = "V5_5_0"
"""The RocketMQ version whose protocol is spoken: clients compare it."""

_ZEROES = (
    "EndTransactionQueueSize", "ackThreadPoolQueueHeadWaitTimeMills", "ackThreadPoolQueueSize", "dispatchBehindBytes",
    "dispatchMaxBuffer", "getMessageEntireTimeMax", "litePullThreadPoolQueueHeadWaitTimeMills",
    "litePullThreadPoolQueueSize", "pageCacheLockTimeMills", "pullThreadPoolQueueHeadWaitTimeMills",
    "pullThreadPoolQueueSize", "putMessageEntireTimeMax", "putMessageFailedTimes",
    "queryThreadPoolQueueHeadWaitTimeMills", "queryThreadPoolQueueSize", "sendThreadPoolQueueHeadWaitTimeMills",
    "sendThreadPoolQueueSize", "startAcceptSendRequestTimeStamp",
)  # fmt: skip
"""Figures of RocketMQ's thread pools that have no counterpart here, but that its tools read."""


class BrokerProcessor:
    """The requests that describe the broker in RocketMQ's words."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self._engine = state.engine
        self._began_position = state.engine.health().log_end_position
        self._earliest = (-1, -1)
        """Where the log began when it was last looked at, and when its first message was stored."""

    def handlers(self) -> Mapping[int, Handler]:
        """Request code -> handler."""
        return {
            Request.GET_BROKER_RUNTIME_INFO: self._runtime,
            Request.VIEW_BROKER_STATS_DATA: self._statistics,
            Request.GET_BROKER_HA_STATUS: self._replication,
        }

    def _runtime(self, _: Connection, request: Command) -> Command:
        state, health, now_ms = self._state, self._engine.health(), self._state.clock()
        put = state.rates.per_second(("put",), state.sends.total, now_ms)
        got = state.rates.per_second(("get",), state.statistics.get.total, now_ms)
        ratio = f"{health.disk_used_ratio:.2f}"
        table: dict[str, object] = {
            **dict.fromkeys(_ZEROES, 0),
            "bootTimestamp": state.started_ms,
            "brokerActive": health.state != "FAILED",
            "brokerVersion": PROTOCOL_VERSION,
            "brokerVersionDesc": VERSION_NAME,
            "commitLogDiskRatio": ratio,
            "commitLogMaxOffset": health.log_end_position,
            "commitLogMinOffset": health.log_min_position,
            "consumeQueueDiskRatio": ratio,
            "earliestMessageTimeStamp": self._earliest_ms(health.log_min_position),
            "getFoundTps": _three(got),
            "getMissTps": _three(0),
            "getTotalTps": _three(got),
            "getTransferredTps": _three(got),
            "healthReasons": "; ".join(health.reasons),
            "healthState": health.state,
            "putMessageAverageSize": self._average_bytes(health.log_end_position),
            "putMessageTimesTotal": state.sends.total,
            "putTps": _three(put),
            "remainHowManyDataToFlush": "0 B",
            "runtime": _lasting(now_ms - state.started_ms),
            **self._totals(now_ms),
            **({} if state.speed is None else {"simulatedClockSpeed": state.speed, "simulatedClockMs": now_ms}),
            **self._timers(now_ms),
            **self._registrations(),
        }
        for level in self._engine.schedule.status(now_ms):
            if level.max_offset:
                table[f"scheduleMessageOffset_{level.number}"] = f"{level.offset},{level.max_offset}"
        return request.answer(body=json_body({"table": {name: _java(value) for name, value in table.items()}}))

    def _earliest_ms(self, log_min_position: int) -> int:
        """Return when the first message that is still there was stored; -1 if there is none."""
        if self._earliest[0] != log_min_position or self._earliest[1] < 0:
            try:
                self._earliest = log_min_position, decode(self._engine.look_at(log_min_position)).store_ms
            except (RecordNotFound, CorruptRecord):
                self._earliest = log_min_position, -1
        return self._earliest[1]

    def _average_bytes(self, log_end_position: int) -> float:
        """Return the mean size of what was put since the start, all else that the broker wrote included."""
        total = self._state.sends.total
        return round((log_end_position - self._began_position) / total, 1) if total else 0.0

    def _totals(self, now_ms: int) -> dict[str, object]:
        """Return the messages since the start, and how many they were at the last two midnights."""
        statistics = self._state.statistics
        totals: dict[str, object] = {}
        for word, daily in (("Put", statistics.put), ("Get", statistics.get)):
            daily.look(now_ms)
            totals[f"msg{word}TotalTodayNow"] = daily.total
            totals[f"msg{word}TotalTodayMorning"] = daily.today_morning
            totals[f"msg{word}TotalYesterdayMorning"] = daily.yesterday_morning
        return totals

    def _registrations(self) -> dict[str, object]:
        """Return the name servers where the broker registers, if there are any, and which of them have it."""
        states = (f"{address}={str(is_there).lower()}" for address, is_there in self._state.registered().items())
        told = ";".join(states)
        return {"nameServers": told} if told else {}

    def _timers(self, now_ms: int) -> dict[str, object]:
        """Return RocketMQ's five figures of its timer wheel: how far behind, how many overdue, how fast."""
        status = self._engine.timers.status(now_ms)
        totals, rates = self._engine.timers.states.totals, self._state.rates
        taken = status["pending"] + totals.released + totals.cancelled
        return {
            "timerCongestNum": status["backlog"],
            "timerDequeueTps": rates.per_second(("timers released",), totals.released, now_ms),
            "timerEnqueueTps": rates.per_second(("timers taken",), taken, now_ms),
            "timerOffsetBehind": max(0, status["queueMaxOffset"] - status["enqueueOffset"]),
            "timerReadBehind": max(0, now_ms - status["readMs"]),
        }

    def _statistics(self, _: Connection, request: Command) -> Command:
        """Answer what was counted under one name and key in the last minute, hour and day."""
        name, key = text(request.ext, "statsName"), text(request.ext, "statsKey")
        sums = self._state.statistics.sums(name, key, self._state.clock())
        if sums is None:
            raise RequestRefused(Answer.SYSTEM_ERROR, f"The stats <{name}> <{key}> not exist")
        windows = zip(("statsMinute", "statsHour", "statsDay"), sums, strict=True)
        body = {word: {"avgpt": 0.0, "sum": one.count, "tps": one.per_second} for word, one in windows}
        return request.answer(body=json_body(body))

    def _replication(self, _: Connection, request: Command) -> Command:
        """Answer as a broker that stands alone: it is the master, and nobody copies it."""
        end = self._engine.health().log_end_position
        follower = {
            "activated": False, "lastReadTimestamp": 0, "lastWriteTimestamp": 0, "masterFlushOffset": 0, "maxOffset": 0,
            "transferredByteInSecond": 0,
        }  # fmt: skip
        body = {
            "haClientRuntimeInfo": follower,
            "haConnectionInfo": [],
            "inSyncSlaveNums": 0,
            "master": True,
            "masterCommitLogMaxOffset": end,
        }
        return request.answer(body=json_body(body))


def _java(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _three(rate: float) -> str:
    """Return a rate in the place of RocketMQ's means over 10 s, 1 min and 10 min: only the first is kept here."""
    return f"{rate} {rate} {rate}"


def _lasting(duration_ms: int) -> str:
    minutes, seconds = divmod(duration_ms // 1000, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"[ {days} days, {hours} hours, {minutes} minutes, {seconds} seconds ]"


MOST_CHANGED_BYTES = 65_536


class ConfigurationProcessor:
    """The requests that show settings, and change those that may be changed while the broker runs."""

    def __init__(self, state: BrokerState, kept: KeptSettings) -> None:
        self._state = state
        self._kept = kept
        self._version = 0

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
            self._state.use_settings(self._kept.change(changes))
        except BadSetting as error:
            raise RequestRefused(Answer.INVALID_PARAMETER, str(error)) from None
        self._version += 1
        logger.warning("%s changed settings: %s", connection.address, changes)
        return request.answer()


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


class CleanupProcessor:
    """The requests that remove what has expired, by the rules that hold anyway: nothing pending or unconsumed goes."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self._engine = state.engine

    def handlers(self) -> Mapping[int, Handler]:
        """Request code -> handler."""
        return {
            Request.CLEAN_EXPIRED_CONSUMEQUEUE: self._clean_up,
            Request.CLEAN_UNUSED_TOPIC: self._clean_up,
            Request.DELETE_EXPIRED_COMMITLOG: self._clean_up,
        }

    def _clean_up(self, _: Connection, request: Command) -> Command:
        """Expire soon: queues are trimmed with the log and go with their topic, so what expires is the log's oldest
        segments."""
        self._engine.expire_soon()
        return request.answer()


# Settings by their names in RocketMQ.

NAMESPACE = f"{OWN_PREFIX}BROKER"
_LONGEST_MS = 30 * 86_400_000


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
    "fileReservedTime": Setting("retention_hours", _hours, lambda one: f"{one.retention_hours:g}", "hours, above 0"),
    "maxTransferBytesOnMessageInMemory": Setting(
        "pull_most_bytes", _whole_of(1, MOST_BYTES), lambda one: one.pull_most_bytes, f"1 to {MOST_BYTES:,} bytes"
    ),
    "maxTransferCountOnMessageInMemory": Setting(
        "pull_most_messages", _whole_of(1, MOST_MESSAGES), lambda one: one.pull_most_messages, f"1 to {MOST_MESSAGES:,}"
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
}


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
        self._started_with = engine.config

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
            if show(config) == show(self._started_with):
                self._engine.key_values.delete(NAMESPACE, name)
            else:
                self._engine.key_values.put(NAMESPACE, name, value.strip())
        self._engine.reconfigure(config)
        return config


def all_settings(config: EngineConfig) -> dict[str, object]:
    """Return every setting that has a name in RocketMQ, as it is now."""
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
        "maxHashSlotNum": config.index_slots,
        "maxIndexNum": config.index_entries,
        "maxMessageSize": config.max_body_bytes,
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
        **{name: setting.show(config) for name, setting in CHANGEABLE.items()},
    }
