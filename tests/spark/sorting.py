"""A log sorted slowly in plain Python, record by record, into what its records are.

Nothing here is shared with ``spark/``: messages come from the engine's codec.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from broker.rocketmq.message import Message
from tests.spark.plain import number

LEVELS, TIMERS = "SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer"
HALVES, OPS = "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC"
STUCK, CHECKS = "TRANS_CHECK_MAX_TIME_TOPIC", "rmq_sys_esc_checks"
POPS, REVIVE = "rmq_sys_esc_pops", "rmq_sys_REVIVE_LOG_"


@dataclass
class Item:
    """A parked message and the records that ended it: (position, how, when)."""

    message: Message
    topic: str
    ends: list[tuple[int, str, int]] = field(default_factory=list)

    @property
    def how(self) -> str | None:
        return min(self.ends)[1] if self.ends else None


@dataclass
class Transaction:
    """Half records of one transaction, and what is known of it."""

    halves: list[Message]
    said: str | None = None
    copies: int = 0
    decided: list[int] = field(default_factory=list)
    checks: int = 0
    stuck: bool = False

    @property
    def outcome(self) -> str:
        if self.said == "c" or self.copies:
            return "committed"
        return "rolled back" if self.said else "stuck" if self.stuck else "open"


class Counted:
    """A log, sorted into what its records are."""

    def __init__(self, messages: Iterable[Message]) -> None:
        self.messages = list(messages)
        self.items: dict[int, Item] = {}
        self.unknown: dict[int, list[int]] = defaultdict(list)
        self.transactions: list[Transaction] = []
        for message in self.messages:
            if is_parked(message):
                self.items[message.position] = Item(message, shown(message))
        self._end_items()
        self._decide()

    def _end_items(self) -> None:
        nth: Counter[tuple[str | None, str]] = Counter()
        for message in self.messages:
            found = message.properties
            if is_release(message):
                source = number(found.get("ESC_SOURCE"))
                if source is None:
                    key = (message.unique_key, message.topic)
                    same = [i for i in self.items.values() if (i.message.unique_key, i.topic) == key]
                    nth[key] += 1
                    if message.unique_key is not None and nth[key] <= len(same):
                        same[nth[key] - 1].ends.append((message.position, "released", message.store_ms))
                else:
                    self._end(source, message, "released")
            elif is_delete(message) and "ESC_CANCELS" in found:
                self._end(int(found["ESC_CANCELS"]), message, "cancelled")
            elif is_delete(message) and "ESC_DUE_MS" not in found:
                victim = found["TIMER_DEL_UNIQKEY"].rpartition("+")[2]
                for item in self.items.values():
                    other = item.message
                    if (
                        other.topic == TIMERS
                        and "ESC_DUE_MS" not in other.properties
                        and other.unique_key == victim
                        and other.properties.get("TIMER_OUT_MS") == found.get("TIMER_OUT_MS")
                        and other.position < message.position
                    ):
                        item.ends.append((message.position, "cancelled", message.store_ms))
            elif is_parked(message) and "ESC_REPLACES" in found:
                self._end(int(found["ESC_REPLACES"]), message, "replaced")

    def _end(self, position: int, message: Message, how: str) -> None:
        if position in self.items:
            self.items[position].ends.append((message.position, how, message.store_ms))
        else:
            self.unknown[position].append(message.position)

    def _decide(self) -> None:
        by_half: dict[int, Transaction] = {}
        by_offset: dict[int, Transaction] = {}
        latest: dict[tuple[str | None, str | None], Transaction] = {}
        for message in self.messages:
            if message.topic != HALVES:
                continue
            key = (message.unique_key, message.properties.get("PGROUP"))
            if is_put_back(message) and key in latest:
                latest[key].halves.append(message)
            else:
                latest[key] = Transaction([message])
                self.transactions.append(latest[key])
            transaction = latest[key]
            by_half[message.position] = by_offset[message.queue_offset] = transaction
            transaction.checks = max(transaction.checks, number(message.properties.get("TRANSACTION_CHECK_TIMES")) or 0)
        for message in self.messages:
            found = message.properties
            if message.topic == OPS:
                offsets = [int(word) for word in message.body.split(b",") if word]
                letters = [word for word in found.get("ESC_DECISIONS", "") if word in "cr"]
                for number_, offset in enumerate(offsets):
                    if offset in by_offset:
                        said = letters[number_] if len(letters) == len(offsets) else "?"
                        by_offset[offset].said = by_offset[offset].said or said
                        by_offset[offset].decided.append(message.store_ms)
            elif message.topic == CHECKS:
                for pair in message.body.decode().split(","):
                    offset, colon, count = pair.partition(":")
                    if colon and int(offset) in by_offset:
                        known = by_offset[int(offset)]
                        known.checks = max(known.checks, int(count))
            elif message.topic == STUCK:
                for transaction in self.transactions:
                    if "ESC_PARKED" in found:
                        stuck = int(found["ESC_PARKED"]) in {half.position for half in transaction.halves}
                    else:
                        stuck = transaction.halves[0].unique_key == message.unique_key
                    transaction.stuck |= stuck
            elif is_commit(message) and message.prepared_position in by_half:
                by_half[message.prepared_position].copies += 1
                by_half[message.prepared_position].decided.append(message.store_ms)


def is_parked(message: Message) -> bool:
    rolled = message.topic == TIMERS and "TIMER_ROLL_TIMES" in message.properties
    return message.topic in (LEVELS, TIMERS) and not is_delete(message) and not rolled


def is_delete(message: Message) -> bool:
    marks = {"TIMER_DEL_UNIQKEY", "ESC_CANCELS", "ESC_ECHO"}
    return message.topic == TIMERS and bool(marks & set(message.properties))


def is_put_back(message: Message) -> bool:
    return bool({"TRANSACTION_CHECK_TIMES", "TRAN_PREPARED_QUEUE_OFFSET"} & set(message.properties))


def is_system(message: Message) -> bool:
    return message.topic in (LEVELS, TIMERS, HALVES, OPS, STUCK, CHECKS, POPS) or message.topic.startswith(REVIVE)


def is_release(message: Message) -> bool:
    if is_system(message):
        return False
    source = number(message.properties.get("ESC_SOURCE"))
    if source is not None:
        return not (message.sys_flag & 12 == 8 and source == message.prepared_position)
    waited = (number(message.properties.get("DELAY")) or 0) >= 1 or "TIMER_OUT_MS" in message.properties
    return waited and message.properties.get("REAL_TOPIC") == message.topic


def is_commit(message: Message) -> bool:
    there = not is_system(message) or is_parked(message)
    return there and message.sys_flag & 12 == 8 and not is_release(message)


def is_sent(message: Message) -> bool:
    first_half = message.topic == HALVES and not is_put_back(message)
    plain = not is_system(message) or is_parked(message)
    return (plain and not is_release(message) and not is_commit(message) and not is_moved(message)) or first_half


def is_moved(message: Message) -> bool:
    found = message.properties
    return "ESC_REPLACES" in found and found.get("ESC_ON_CONFLICT") != "replace"


def shown(message: Message) -> str:
    return message.properties.get("REAL_TOPIC", message.topic) if is_system(message) else message.topic
