"""Settings of the broker by RocketMQ's names, and which of them may be changed while it runs.

A change is kept in the store (namespace `ESCAPEMENT_BROKER` of the named values) and holds after a restart, too: as in
RocketMQ, where it is written into broker.conf. Changed back to what the broker was started with, it is forgotten.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from ..engine.config import EngineConfig
from ..engine.engine import Engine
from ..engine.errors import StoreUnsupported
from ..engine.tables.key_values import OWN_PREFIX
from ..rocketmq.topics import TRACE_TOPIC
from .processors.pull import MOST_BYTES, MOST_MESSAGES

logger = logging.getLogger(__name__)

NAMESPACE = f"{OWN_PREFIX}BROKER"
_LONGEST_MS = 30 * 86_400_000


class BadSetting(ValueError):
    """A setting cannot be changed, or not to that; the message says what can."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting that may be changed: its field of EngineConfig, how to read and how to show it."""

    field: str
    read: Callable[[str], bool | int | float]
    show: Callable[[EngineConfig], object]
    allowed: str


def _whole(low: int, high: int) -> Callable[[str], int]:
    def read(value: str) -> int:
        number = int(value) if value.isascii() and value.isdigit() and len(value) < 20 else -1
        if not low <= number <= high:
            raise ValueError(value)
        return number

    return read


def _truth(value: str) -> bool:
    return {"true": True, "false": False}[value.lower()]


def _hours(value: str) -> float:
    number = float(value)
    if not 0 < number <= 1_000_000:
        raise ValueError(value)
    return number


def _ratio(value: str) -> float:
    return _whole(1, 99)(value) / 100


CHANGEABLE: Mapping[str, Setting] = {
    "autoCreateSubscriptionGroup": Setting(
        "auto_create_groups", _truth, lambda one: one.auto_create_groups, "true or false"
    ),
    "autoCreateTopicEnable": Setting("auto_create_topics", _truth, lambda one: one.auto_create_topics, "true or false"),
    "defaultTopicQueueNums": Setting(
        "default_topic_queues", _whole(1, 16_384), lambda one: one.default_topic_queues, "1 to 16,384"
    ),
    "diskMaxUsedSpaceRatio": Setting(
        "disk_refuse_ratio", _ratio, lambda one: round(one.disk_refuse_ratio * 100), "1 to 99 (per cent)"
    ),
    "fileReservedTime": Setting("retention_hours", _hours, lambda one: f"{one.retention_hours:g}", "hours, above 0"),
    "maxTransferBytesOnMessageInMemory": Setting(
        "pull_most_bytes", _whole(1, MOST_BYTES), lambda one: one.pull_most_bytes, f"1 to {MOST_BYTES:,} bytes"
    ),
    "maxTransferCountOnMessageInMemory": Setting(
        "pull_most_messages", _whole(1, MOST_MESSAGES), lambda one: one.pull_most_messages, f"1 to {MOST_MESSAGES:,}"
    ),
    "transactionCheckInterval": Setting(
        "transaction_interval_ms", _whole(1, _LONGEST_MS), lambda one: one.transaction_interval_ms, "1 ms to 30 days"
    ),
    "transactionCheckMax": Setting(
        "transaction_checks", _whole(1, 255), lambda one: one.transaction_checks, "1 to 255"
    ),
    "transactionTimeOut": Setting(
        "transaction_timeout_ms", _whole(0, _LONGEST_MS), lambda one: one.transaction_timeout_ms, "0 ms to 30 days"
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
