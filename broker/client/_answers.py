"""The meaning of the JSON bodies of answers: pure functions from the parsed body to the API's values.

Our brokers write strict JSON. Apache RocketMQ's fastjson writes two forms that a strict reader refuses: bare integers
as keys (requests 106 and 45: ``{0:"127.0.0.1:10911"}``) and whole objects as keys (202 and 208:
``{{"queueId":0,"topic":"T"}:{"maxOffset":3}}``). `read_json` takes both: integers become text keys, as in strict JSON,
and an object whose keys are objects becomes a `Table`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Union

from ._types import Broker, MessageQueue, Route, RouteQueues
from .admin import (
    BrokerSetting,
    Connection,
    ConsumeStats,
    GroupConfig,
    GroupConnections,
    QueueEntries,
    QueueEntry,
    QueueProgress,
    QueueStats,
    TopicConfig,
    TopicStats,
)
from .errors import BadAnswer

Json = Union[str, int, float, bool, None, list["Json"], dict[str, "Json"], "Table"]

Fields = dict[str, Json]


def fields(value: Json) -> Fields:
    """Return the object that `value` is; null and nothing count as empty."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise BadAnswer(f"An object was expected in the answer, not {str(value)[:60]}.")
    return value


def rows(value: Json) -> list[Fields]:
    """Return the objects of a list in JSON; raises BadAnswer for anything else."""
    if value is None:
        return []
    if not isinstance(value, list) or isinstance(value, Table):
        raise BadAnswer(f"A list was expected in the answer, not {str(value)[:60]}.")
    return [fields(row) for row in value]


def words(value: Json) -> tuple[str, ...]:
    """Return the texts of a list in JSON; raises BadAnswer for anything else."""
    if value is None:
        return ()
    if not isinstance(value, list) or isinstance(value, Table):
        raise BadAnswer(f"A list was expected in the answer, not {str(value)[:60]}.")
    return tuple(str(word) for word in value)


def number(value: Json) -> int:
    """Return the whole number that `value` is, also when written as text."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise BadAnswer(f"A number was expected in the answer, not {str(value)[:60]}.")
    try:
        return int(value)
    except ValueError:
        raise BadAnswer(f"A number was expected in the answer, not {str(value)[:60]!r}.") from None


def broker_config(body: bytes) -> dict[str, str]:
    """Read answer 26: the values as text by name."""
    lines = body.decode("utf-8", "replace").splitlines()
    pairs = (line.partition("=") for line in lines if "=" in line and not line.startswith("#"))
    return {name.strip(): text.strip() for name, _, text in pairs}


def broker_settings(body: bytes, told: str) -> tuple[BrokerSetting, ...]:
    """Read answer 26, and what an Escapement broker tells of each setting beside it; raises BadAnswer."""
    found = {name: BrokerSetting(name, value) for name, value in broker_config(body).items()}
    for name, about in (read_object(told.encode()) if told else {}).items():
        said = {key: str(value) for key, value in fields(about).items()}
        value = said.get("value", "")
        found[name] = BrokerSetting(name, value, said.get("default"), said.get("started"), said.get("allowed", ""))
    return tuple(found[name] for name in sorted(found))


def route(topic: str, answer: Fields) -> Route:
    """Read answer 105: where a topic is, masters and slaves."""
    addresses: dict[str, str] = {}
    slaves: dict[str, dict[int, str]] = {}
    for broker in rows(answer.get("brokerDatas")):
        name = str(broker.get("brokerName"))
        for broker_id, address in _processes(broker):
            if broker_id:
                slaves.setdefault(name, {})[broker_id] = address
            else:
                addresses[name] = address
    queues = tuple(
        RouteQueues(
            str(part.get("brokerName")),
            number(part.get("readQueueNums")),
            number(part.get("writeQueueNums")),
            number(part.get("perm")),
        )
        for part in rows(answer.get("queueDatas"))
    )
    return Route(topic, addresses, queues, slaves)


def members(answer: Fields) -> tuple[Broker, ...]:
    """Answer 106: masters and slaves, by name and broker id."""
    found = []
    for name, broker in fields(answer.get("brokerAddrTable")).items():
        about = fields(broker)
        for broker_id, address in _processes(about):
            found.append(Broker(name, str(about.get("cluster")), address, broker_id))
    return tuple(sorted(found, key=lambda broker: (broker.name, broker.broker_id)))


def _processes(broker: Fields) -> Iterator[tuple[int, str]]:
    """Yield broker ids and addresses; those are all that names a process."""
    for broker_id, address in fields(broker.get("brokerAddrs")).items():
        yield number(broker_id), str(address)


def topic_configs(broker: str, answer: Fields) -> tuple[TopicConfig, ...]:
    """Answer 21, by name."""
    table = fields(answer.get("topicConfigTable"))
    return tuple(topic_config(broker, fields(table[name])) for name in sorted(table))


def topic_config(broker: str, about: Fields) -> TopicConfig:
    """Return one topic of answer 21, or of answer 351."""
    return TopicConfig(
        name=str(about.get("topicName")),
        read_queues=number(about.get("readQueueNums")),
        write_queues=number(about.get("writeQueueNums")),
        permission=number(about.get("perm")),
        broker=broker,
        order=bool(about.get("order")),
        attributes={name: str(text) for name, text in fields(about.get("attributes")).items()},
    )


def group_configs(broker: str, answer: Fields) -> tuple[GroupConfig, ...]:
    """Answer 201, by name."""
    table = fields(answer.get("subscriptionGroupTable"))
    found = []
    for name in sorted(table):
        about = fields(table[name])
        found.append(
            GroupConfig(
                name=name,
                retry_max_times=number(about.get("retryMaxTimes", 16)),
                retry_queues=number(about.get("retryQueueNums", 1)),
                consume_enabled=bool(about.get("consumeEnable", True)),
                broadcast_enabled=bool(about.get("consumeBroadcastEnable", True)),
                orderly=bool(about.get("consumeMessageOrderly", False)),
                broker=broker,
            )
        )
    return tuple(found)


def _by_queue(table: Json) -> Iterator[tuple[MessageQueue, Fields]]:
    """Yield the pairs of an offsetTable whose keys are queues; an empty table reads as an empty object."""
    if not table:
        return
    if not isinstance(table, Table):
        raise BadAnswer("The answer's offsetTable should have queues as keys.")
    for key, value in table:
        queue = MessageQueue(str(key.get("topic")), str(key.get("brokerName")), number(key.get("queueId")))
        yield queue, fields(value)


def queue_stats(answer: Fields) -> tuple[QueueStats, ...]:
    """Answer 202's queues, sorted."""
    found = [
        QueueStats(
            queue,
            number(about.get("minOffset")),
            number(about.get("maxOffset")),
            number(about.get("lastUpdateTimestamp")),
        )
        for queue, about in _by_queue(answer.get("offsetTable"))
    ]
    return tuple(sorted(found, key=_queue_order))


def topic_stats(topic: str, several: list[Fields]) -> TopicStats:
    """Return the answers 202 of all brokers of a topic, as one."""
    queues = [queue for answer in several for queue in queue_stats(answer)]
    rates = [float(rate) for answer in several if isinstance(rate := answer.get("topicPutTps"), int | float)]
    return TopicStats(topic, tuple(sorted(queues, key=_queue_order)), sum(rates) if rates else None)


def consume_stats(group: str, several: list[Fields]) -> ConsumeStats:
    """Return the answers 208 of all brokers, as one."""
    found = [
        QueueProgress(
            queue,
            number(about.get("brokerOffset")),
            number(about.get("consumerOffset")),
            number(about.get("lastTimestamp")),
            number(about.get("pullOffset")),
        )
        for answer in several
        for queue, about in _by_queue(answer.get("offsetTable"))
    ]
    rates = [float(rate) for answer in several if isinstance(rate := answer.get("consumeTps"), int | float)]
    return ConsumeStats(group, tuple(sorted(found, key=_queue_order)), sum(rates))


def _queue_order(row: QueueStats | QueueProgress) -> tuple[str, str, int]:
    return row.queue.topic, row.queue.broker, row.queue.queue_id


def group_connections(group: str, answer: Fields) -> GroupConnections:
    """Return the members of a group from answer 203."""
    connections = tuple(
        Connection(
            str(row.get("clientId")),
            str(row.get("clientAddr")),
            str(row.get("language")),
            number(row.get("version", 0)),
        )
        for row in rows(answer.get("connectionSet"))
    )
    subscriptions = {
        topic: str(fields(about).get("subString")) for topic, about in fields(answer.get("subscriptionTable")).items()
    }
    return GroupConnections(
        group,
        tuple(sorted(connections, key=lambda connection: connection.client_id)),
        str(answer.get("consumeType")),
        str(answer.get("messageModel")),
        str(answer.get("consumeFromWhere")),
        subscriptions,
    )


def queue_entries(index: int, answer: Fields) -> QueueEntries:
    """Answer 321 to a question for entries from `index` on."""
    minimum = number(answer.get("minQueueIndex"))
    first = max(index, minimum)
    entries = tuple(
        QueueEntry(
            first + nth, number(row.get("physicOffset")), number(row.get("physicSize")), number(row.get("tagsCode"))
        )
        for nth, row in enumerate(rows(answer.get("queueData")))
    )
    return QueueEntries(minimum, number(answer.get("maxQueueIndex")), entries)


def delay_offsets(answer: Fields) -> dict[int, int]:
    """Answer 45: level -> offset reached."""
    return {int(level): number(offset) for level, offset in sorted(fields(answer.get("offsetTable")).items())}


def delay_level_ms(text: str) -> list[int]:
    """Return ``1s 5s 10s`` as ms, level 1 first (setting messageDelayLevel)."""
    units = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
    levels = []
    for word in text.split():
        if word[-1] not in units or not word[:-1].isdigit():
            raise BadAnswer(f"The broker's delay levels are not readable at {word!r}.")
        levels.append(int(word[:-1]) * units[word[-1]])
    return levels


# Reading JSON, also the forms that only fastjson writes.

MAX_DEPTH = 32
_BLANKS = " \t\n\r"
_DECODER = json.JSONDecoder()


class Table(list[tuple[dict[str, Json], Json]]):
    """An object whose keys are objects: its pairs, in order."""


def read_json(body: bytes) -> Json:
    """Return the value in `body`; raise BadAnswer. Strict JSON takes the fast way, only the rest this module's own."""
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadAnswer(f"The answer is not UTF-8: {error}") from None
    try:
        strict: Json = json.loads(text)
    except RecursionError:
        raise BadAnswer("The answer is nested too deeply.") from None
    except ValueError:
        return _Reader(text).whole()
    return strict


def read_object(body: bytes) -> dict[str, Json]:
    """Return the object in `body`; raise BadAnswer when it is something else."""
    value = read_json(body)
    if not isinstance(value, dict):
        raise BadAnswer(f"The answer should be a JSON object, it begins with {body[:40]!r}.")
    return value


class _Reader:
    """Recursive descent over one text; `at` is the index of the next character."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def whole(self) -> Json:
        value = self._value(0)
        self._skip_blanks()
        if self._at != len(self._text):
            raise self._error("more text after the value")
        return value

    def _value(self, depth: int) -> Json:
        if depth > MAX_DEPTH:
            raise self._error("nested too deeply")
        first = self._peek()
        if first == "{":
            return self._object(depth)
        if first == "[":
            return self._array(depth)
        return self._scalar()

    def _object(self, depth: int) -> dict[str, Json] | Table:
        self._expect("{")
        names: dict[str, Json] = {}
        pairs = Table()
        if self._peek() == "}":
            self._expect("}")
            return names
        while self._at < len(self._text):
            key = self._value(depth + 1)
            self._expect(":")
            value = self._value(depth + 1)
            if isinstance(key, dict):
                pairs.append((key, value))
            elif isinstance(key, str | int) and not isinstance(key, bool):
                names[str(key)] = value
            else:
                raise self._error("a key is neither text, an integer nor an object")
            if self._ends("}"):
                break
        else:
            raise self._error("an object does not end")
        if pairs and names:
            raise self._error("an object mixes kinds of keys")
        return pairs or names

    def _array(self, depth: int) -> list[Json]:
        self._expect("[")
        values: list[Json] = []
        if self._peek() == "]":
            self._expect("]")
            return values
        while self._at < len(self._text):
            values.append(self._value(depth + 1))
            if self._ends("]"):
                break
        else:
            raise self._error("a list does not end")
        return values

    def _ends(self, closing: str) -> bool:
        """Step over a comma (False) or the closing character (True)."""
        if self._peek() == ",":
            self._at += 1
            return False
        self._expect(closing)
        return True

    def _scalar(self) -> Json:
        """Read a text, number, true, false or null with the strict reader, from where this one stands."""
        scalar: Json
        try:
            scalar, self._at = _DECODER.raw_decode(self._text, self._at)
        except ValueError:
            raise self._error("a value expected") from None
        return scalar

    def _peek(self) -> str:
        self._skip_blanks()
        return self._text[self._at] if self._at < len(self._text) else ""

    def _expect(self, character: str) -> None:
        if self._peek() != character:
            raise self._error(f"{character!r} expected")
        self._at += 1

    def _skip_blanks(self) -> None:
        while self._at < len(self._text) and self._text[self._at] in _BLANKS:
            self._at += 1

    def _error(self, what: str) -> BadAnswer:
        return BadAnswer(f"The answer is not readable at character {self._at}: {what}.")
