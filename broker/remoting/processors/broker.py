"""The broker about itself: configuration (26) and runtime (28)."""

from __future__ import annotations

from collections.abc import Mapping

from ..codec import Command
from ..codes import PROTOCOL_VERSION, Request
from ..jsonbody import json_body
from ..server import Connection, Handler
from ..state import BrokerState

VERSION_NAME = "V5_5_0"
"""The RocketMQ version whose protocol is spoken: clients compare it."""

_ZEROES = (
    "EndTransactionQueueSize", "ackThreadPoolQueueHeadWaitTimeMills", "ackThreadPoolQueueSize", "dispatchBehindBytes",
    "dispatchMaxBuffer", "getMessageEntireTimeMax", "litePullThreadPoolQueueHeadWaitTimeMills",
    "litePullThreadPoolQueueSize", "msgGetTotalTodayMorning", "msgGetTotalYesterdayMorning", "msgPutTotalTodayMorning",
    "msgPutTotalYesterdayMorning", "pageCacheLockTimeMills", "pullThreadPoolQueueHeadWaitTimeMills",
    "pullThreadPoolQueueSize", "putMessageEntireTimeMax", "putMessageFailedTimes",
    "queryThreadPoolQueueHeadWaitTimeMills", "queryThreadPoolQueueSize", "sendThreadPoolQueueHeadWaitTimeMills",
    "sendThreadPoolQueueSize", "startAcceptSendRequestTimeStamp",
)  # fmt: skip
"""Figures of RocketMQ's thread pools that have no counterpart here, but that its tools read."""


class BrokerProcessor:
    """Describes the broker in RocketMQ's words."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self._engine = state.engine

    def handlers(self) -> Mapping[int, Handler]:
        """Request code -> handler."""
        return {Request.GET_BROKER_CONFIG: self._config, Request.GET_BROKER_RUNTIME_INFO: self._runtime}

    def _config(self, _: Connection, request: Command) -> Command:
        config = self._state.config
        values: dict[str, object] = {
            "autoCreateSubscriptionGroup": True,
            "autoCreateTopicEnable": config.auto_create_topics,
            "brokerClusterName": config.cluster_name,
            "brokerIP1": config.host,
            "brokerId": config.broker_id,
            "brokerName": config.broker_name,
            "brokerPermission": 6,
            "brokerRole": "ASYNC_MASTER",
            "defaultTopicQueueNums": config.default_topic_queues,
            "diskMaxUsedSpaceRatio": round(config.disk_refuse_ratio * 100),
            "enablePropertyFilter": False,
            "enabledAppendPropCRC": True,
            "fileReservedTime": f"{config.retention_hours:g}",
            "flushDiskType": f"{config.flush.upper()}_FLUSH",
            "listenPort": config.port,
            "mappedFileSizeCommitLog": config.segment_size_bytes,
            "mappedFileSizeConsumeQueue": config.queue_file_entries * 20,
            "maxIndexNum": config.index_entries,
            "maxHashSlotNum": config.index_slots,
            "maxMessageSize": config.max_body_bytes,
            "messageDelayLevel": config.delay_levels,
            "recallMessageEnable": True,
            "storePathRootDir": config.root,
            "timerMaxDelaySec": config.timer_max_delay_ms // 1000,
            "timerPrecisionMs": 1000,
            "timerWheelEnable": True,
        }
        lines = [f"{name}={_java(value)}" for name, value in sorted(values.items())]
        version = json_body({"counter": 0, "stateVersion": 0, "timestamp": self._state.started_ms}).decode()
        return request.answer({"version": version}, ("\n".join(lines) + "\n").encode())

    def _runtime(self, _: Connection, request: Command) -> Command:
        state, health, now_ms = self._state, self._engine.health(), self._state.clock()
        put = state.rates.per_second(("put",), state.put_total, now_ms)
        got = state.rates.per_second(("get",), state.get_total, now_ms)
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
            "earliestMessageTimeStamp": -1,
            "getFoundTps": _three(got),
            "getMissTps": _three(0),
            "getTotalTps": _three(got),
            "getTransferredTps": _three(got),
            "healthReasons": "; ".join(health.reasons),
            "healthState": health.state,
            "msgGetTotalTodayNow": state.get_total,
            "msgPutTotalTodayNow": state.put_total,
            "putMessageTimesTotal": state.put_total,
            "putTps": _three(put),
            "remainHowManyDataToFlush": "0 B",
            "runtime": _lasting(now_ms - state.started_ms),
            **self._timers(now_ms),
        }
        for level in self._engine.schedule.status(now_ms):
            if level.max_offset:
                table[f"scheduleMessageOffset_{level.number}"] = f"{level.offset},{level.max_offset}"
        return request.answer(body=json_body({"table": {name: _java(value) for name, value in table.items()}}))

    def _timers(self, now_ms: int) -> dict[str, object]:
        """RocketMQ's five figures of its timer wheel: how far behind, how many overdue, how fast."""
        status = self._engine.timer_status(now_ms)
        totals, rates = self._engine.timers.core.totals, self._state.rates
        taken = status["pending"] + totals.released + totals.cancelled
        return {
            "timerCongestNum": status["backlog"],
            "timerDequeueTps": rates.per_second(("timers released",), totals.released, now_ms),
            "timerEnqueueTps": rates.per_second(("timers taken",), taken, now_ms),
            "timerOffsetBehind": max(0, status["queueMaxOffset"] - status["enqueueOffset"]),
            "timerReadBehind": max(0, now_ms - status["readMs"]),
        }


def _java(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _three(rate: float) -> str:
    """A rate in the place of RocketMQ's means over 10 s, 1 min and 10 min: only the first is kept here."""
    return f"{rate} {rate} {rate}"


def _lasting(duration_ms: int) -> str:
    minutes, seconds = divmod(duration_ms // 1000, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"[ {days} days, {hours} hours, {minutes} minutes, {seconds} seconds ]"
