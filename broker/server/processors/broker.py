"""The broker itself: what it does, and tidying at once.

- runtime (28), statistics (315), its state as one of several (907);
- what the broker tidies by itself, now: 306 queues, 316 topics, 329 the log.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from ...engine.errors import CorruptRecord, RecordNotFound
from ...rocketmq.codes import PROTOCOL_VERSION, Answer, Request
from ...rocketmq.errors import RequestRefused
from ...rocketmq.fields import json_body, text
from ...rocketmq.frame import Command
from ...rocketmq.message import decode
from ..connection import Connection, Handler
from ..listener import Places, anonymous_bytes, descriptor_limit, open_descriptors
from ..state import BrokerState

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

    def __init__(self, state: BrokerState, places: Places) -> None:
        self._state = state
        self._engine = state.engine
        self._places = places
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
            **self._room(),
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

    def _room(self) -> dict[str, object]:
        """Return what the broker uses of what it may: connections, descriptors, memory, disk; what cannot be told is
        left out."""
        told: dict[str, object] = {
            "connections": self._places.taken,
            "connectionsMax": self._places.most,
            "descriptorsMax": descriptor_limit(),
            "connectionsRefused": self._places.refused_total,
        }
        try:
            told["descriptors"] = open_descriptors()
            told["memoryMaxBytes"] = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
            disk = os.statvfs(self._state.config.root)
        except (OSError, ValueError):  # no descriptor is left to look with, or the store is not on a disk
            return told
        usable = disk.f_blocks - disk.f_bfree + disk.f_bavail
        told["diskMaxBytes"], told["diskFreeBytes"] = usable * disk.f_frsize, disk.f_bavail * disk.f_frsize
        if (memory_bytes := anonymous_bytes()) is not None:
            told["memoryBytes"] = memory_bytes
        return told

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
