"""A random log with everything a broker writes, faults included: what the jobs are counted on."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from tests.spark.logs import record
from tests.spark.plain import LEVELS_MS

HALF, OP = "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC"
STUCK, CHECKS = "TRANS_CHECK_MAX_TIME_TOPIC", "rmq_sys_esc_checks"
LEVEL, TIMER = "SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer"
START_MS = 1_795_000_000_000
SIZE = 1 << 16


@dataclass
class RandomLog:
    """Writes records one after the other; ``segments`` is the log, ``now_ms`` the clock."""

    seed: int
    segments: dict[int, bytes] = field(default_factory=dict)
    now_ms: int = START_MS

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self._data = b""
        self._base = 0
        self._offsets: dict[str, int] = {}
        self._waiting: list[tuple[int, int, dict[str, str]]] = []
        self._halves: list[tuple[int, int, dict[str, str]]] = []
        self._number = 0

    def write(self, topic: str, properties: dict[str, str], body: bytes = b"x", **fields: Any) -> int:
        """Append one record; returns its position."""
        self.now_ms += self.random.choice((1, 30, 900, 20_000, 900_000))
        queue_id = fields.pop("queue_id", 0)
        offset = self._offsets[topic] = self._offsets.get(topic, -1) + 1
        position = self._base + len(self._data)
        made = record(
            position, topic, body, properties, born=(f"10.0.0.{self._number % 3}", 5), store_ms=self.now_ms,
            born_ms=self.now_ms - 5, queue_offset=offset, queue_id=queue_id, times=fields.pop("times", 0),
            prepared=fields.pop("prepared", 0), **fields,
        )  # fmt: skip
        if len(self._data) + len(made) + 8 > SIZE:
            left = SIZE - len(self._data)
            self._data += left.to_bytes(4, "big") + b"\xcb\xd4\x31\x94" + bytes(left - 8)
            self._close()
            self._offsets[topic] = offset - 1
            return self.write(topic, properties, body, queue_id=queue_id, **fields)
        self._data += made
        self._number += 1
        return position

    def _close(self) -> None:
        self.segments[self._base] = self._data.ljust(SIZE, b"\0")
        self._base, self._data = self._base + SIZE, b""

    def fill(self, count: int) -> RandomLog:
        """Write so many things that can happen."""
        steps = [
            self.plain, self.plain, self.park_level, self.park_timer, self.end, self.end, self.end, self.half,
            self.decide, self.check, self.stick, self.retry, self.apache, self.fault,
        ]  # fmt: skip
        for _ in range(count):
            self.random.choice(steps)()
        self.half()
        self._close()
        return self

    def _named(self, **more: str) -> dict[str, str]:
        order = self.random.randrange(12)
        keys = self.random.choice(
            (f"order-{order}", f"order-{order}  order-{order + 1}", f"order-{order} order-{order}")
        )
        return {"UNIQ_KEY": f"K{self._number:08}", "KEYS": keys, **more}

    def plain(self) -> None:
        """A message."""
        self.write(self.random.choice(("orders", "seats")), self._named(), queue_id=self.random.randrange(2))

    def park_level(self) -> None:
        """A message with a delay level."""
        level = self.random.randint(1, 18)
        found = self._named(DELAY=str(level), REAL_TOPIC=self.random.choice(("orders", "late")), REAL_QID="0")
        position = self.write(LEVEL, found)
        self._waiting.append((position, self.now_ms + LEVELS_MS[level], found))

    def park_timer(self, **more: str) -> None:
        """A timer."""
        due = self.now_ms + self.random.choice((-5, 0, 40, 70_000, 9_000_000, 90 * 86_400_000))
        found = self._named(ESC_DUE_MS=str(due), TIMER_OUT_MS=str(due // 1000 * 1000), REAL_TOPIC="late", REAL_QID="0")
        position = self.write(TIMER, found | more)
        self._waiting.append((position, due, found))

    def end(self) -> None:
        """A parked message is released, cancelled or moved."""
        if not self._waiting:
            return
        position, due, found = self._waiting.pop(self.random.randrange(len(self._waiting)))
        how = self.random.choice(("release", "release", "cancel", "replace"))
        if how == "release":
            self.now_ms = max(self.now_ms, min(due, self.now_ms + 86_400_000))
            self.write(found["REAL_TOPIC"], {**found, "ESC_SOURCE": str(position)})
        elif how == "cancel":
            self.write(
                TIMER,
                {"TIMER_DEL_UNIQKEY": found["UNIQ_KEY"], "REAL_TOPIC": found["REAL_TOPIC"], "ESC_DUE_MS": str(due)}
                | {"ESC_CANCELS": str(position)},
            )
        else:
            by_sender = {"ESC_ON_CONFLICT": "replace"} if self.random.random() < 0.5 else {}
            self.park_timer(ESC_REPLACES=str(position), **by_sender)

    def half(self) -> None:
        """A half message."""
        found = self._named(
            PGROUP=self.random.choice(("pay", "ship")), REAL_TOPIC="orders", REAL_QID="0", TRAN_MSG="true"
        )
        position = self.write(HALF, found)
        self._halves.append((position, self._offsets[HALF], found))

    def decide(self) -> None:
        """Some halves are committed or rolled back; sometimes the op record is Apache's, or the copy is not there."""
        taken = [self._halves.pop() for _ in range(min(len(self._halves), self.random.randint(1, 3)))]
        letters = []
        for number, (position, _, found) in enumerate(taken):
            letters.append(self.random.choice("ccr"))
            kept = {name: found[name] for name in ("UNIQ_KEY", "KEYS", "PGROUP")}
            for _ in range(self.random.choice((1, 1, 1, 1, 0, 2)) if letters[number] == "c" else 0):
                own = {"ESC_SOURCE": str(position)} if self.random.random() < 0.7 else {}
                if self.random.random() < 0.2 and own:
                    parked = kept | own | {"DELAY": "3", "REAL_TOPIC": "orders", "REAL_QID": "0"}
                    where = self.write(LEVEL, parked, sys_flag=8, prepared=position)
                    self._waiting.append((where, self.now_ms + LEVELS_MS[3], parked))
                else:
                    self.write("orders", kept | own, sys_flag=8, prepared=position)
        body = "".join(f"{offset}," for _, offset, _ in taken).encode()
        said = {"ESC_DECISIONS": "".join(f"{letter}0" for letter in letters)} if self.random.random() < 0.7 else {}
        if taken:
            self.write(OP, {"TAGS": "d", "WAIT": "true", **said}, body)

    def check(self) -> None:
        """A producer is asked: ours in a note, Apache's by a half put back."""
        if not self._halves:
            return
        position, offset, found = self._halves[-1]
        if self.random.random() < 0.5:
            self.write(CHECKS, {"TAGS": "check"}, b"%d:%d," % (offset, self.random.randint(1, 4)))
        else:
            times = int(found.get("TRANSACTION_CHECK_TIMES", "0")) + 1
            again = {**found, "TRANSACTION_CHECK_TIMES": str(times)}
            position = self.write(HALF, again)
            self._halves[-1] = (position, self._offsets[HALF], again)

    def stick(self) -> None:
        """A half is given up, in either broker's form."""
        if len(self._halves) > 3:
            position, _, found = self._halves.pop(0)
            own = {"ESC_PARKED": str(position)} if self.random.random() < 0.5 else {}
            self.write(STUCK, found | own)

    def retry(self) -> None:
        """A message comes back, or is given up."""
        origin = f"O{self.random.randrange(9)}"
        topic = self.random.choice(("%RETRY%mail", "%RETRY%mail", "%RETRY%print", "%DLQ%mail"))
        found = {"ORIGIN_MESSAGE_ID": origin, "KEYS": origin}
        if self.random.random() < 0.4:  # popped
            topic = self.random.choice(("%RETRY%mail_a_b", "%RETRY%mail+a_b", "%RETRY%mails_a", "%DLQ%mail"))
            found["ORIGIN_GROUP"] = "mail"
        self.write(topic, found, times=self.random.randint(1, 5))

    def apache(self) -> None:
        """A timer as Apache RocketMQ keeps it, released or deleted by its key alone."""
        out = str(self.now_ms // 1000 * 1000 + 60_000)
        found = self._named(
            TIMER_OUT_MS=out, TIMER_DELIVER_MS=str(self.now_ms + 60_500), REAL_TOPIC="late", REAL_QID="0"
        )
        self.write(TIMER, found)
        fate = self.random.choice(("release", "delete", "delete by topic", "wait", "roll"))
        if fate == "roll":
            self.write(TIMER, {**found, "TIMER_ROLL_TIMES": "1"})
        elif fate == "release":
            self.write("late", found)
        elif fate != "wait":
            name = found["UNIQ_KEY"] if fate == "delete" else f"late+{found['UNIQ_KEY']}"
            self.write(TIMER, {"TIMER_DEL_UNIQKEY": name, "TIMER_OUT_MS": out, "REAL_TOPIC": "late", "UNIQ_KEY": "x"})

    def fault(self) -> None:
        """What must not happen: released twice, released without having been parked."""
        if self._waiting and self.random.random() < 0.3:
            position, _, found = self._waiting[0]
            for _ in range(2):
                self.write(found["REAL_TOPIC"], {**found, "ESC_SOURCE": str(position)})
            self._waiting.pop(0)
        elif self.random.random() < 0.2:
            self.write("late", self._named(ESC_SOURCE=str(self._base + 1)))
