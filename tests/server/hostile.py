"""What strangers, and tools out of their mind, may ask: every request code, every field it reads, every odd value."""

from __future__ import annotations

import copy
import json
import random
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from broker.rocketmq.acl import ACCESS_KEY, SIGNATURE, content, sign
from broker.rocketmq.codes import PROTOCOL_VERSION, Request
from broker.rocketmq.frame import BINARY, JSON, Command, FrameBuffer, decode, encode
from broker.server.connection import Connection, Server

PATIENCE_S = 30
#: requests written together; a connection's frames beyond these wait for their turn
BATCH = 100
#: headers longer than this may end their connection: they go alone
LONG = 60_000

TEXTS = (
    "", "-1", "0", "2147483648", "9223372036854775807", "-9223372036854775808", str(1 << 70), "9" * 5_000, "\0", "a\0b",
    "a\nb", "\x1b[31m", "x" * 33, "x" * 300, "a-" + "x" * 300, "b-other", "%RETRY%", "%DLQ%a-group", "*", "..", "null",
    "true", "1.5", "NaN", "{}", "[1]", "٣", "‮", "a-topic\x01x\x02", "0 0 0 0 0 broker-a 0 0", "a=1,+b", "||", ";", ",",
)  # fmt: skip
#: these may end their connection: each goes alone
ROUGH_TEXTS = ("\udcff", "a-\udc80", "x" * 100_000)
VALUES: tuple[Any, ...] = (
    None, True, -1, 1 << 31, 1 << 63, 1 << 70, 1.5, "", "\0", "a\nb", "x" * 300, "x" * 100_000, [], {}, [None], [1],
    {"x": 1},
)  # fmt: skip
BODIES = (
    b"", b"{}", b"[]", b"null", b"1", b'"x"', b"\xff\xfe", b"\0" * 100, b"{" * 50_000, b"[" * 50_000, b'{"a":' * 2_000,
    b'{"acks":', b'{"x":"\\ud800"}', b"x" * 100_000, b'{"a":1e999}', b'{"a":' + b"9" * 10_000 + b"}",
)  # fmt: skip

_TOPIC = {"topicName": "a-topic", "readQueueNums": 1, "writeQueueNums": 1, "perm": 6, "attributes": {"+x": "1"}}
_GROUP = {"groupName": "a-group", "retryMaxTimes": 3, "consumeEnable": True, "groupRetryPolicy": {"type": "CUSTOMIZED"}}
_SUBSCRIPTION = {"topic": "a-topic", "subString": "a || b", "subVersion": 1, "expressionType": "TAG"}
_QUEUE = {"topic": "a-topic", "queueId": 0, "brokerName": "broker-a"}
_LOCK = {"consumerGroup": "a-group", "clientId": "c", "mqSet": [_QUEUE]}
_ACL = {
    "subject": "User:a-user",
    "policies": [{"policyType": "Custom", "entries": [
        {"resource": "Topic:a-x", "actions": ["Pub"], "sourceIps": ["10.0.0.1"], "decision": "Allow"}]}],
}  # fmt: skip
_ACK = {"c": "a-group", "t": "a-topic", "r": "0", "so": 0, "q": 0, "pt": 1, "it": 1, "b": "AQ=="}
#: a body that each request with a JSON body understands
GOOD_BODIES: Mapping[int, Any] = {
    Request.UPDATE_AND_CREATE_TOPIC_LIST: {"topicConfigList": [_TOPIC]},
    Request.HEART_BEAT: {
        "clientID": "c", "producerDataSet": [{"groupName": "a-group"}],
        "consumerDataSet": [{"groupName": "a-group", "subscriptionDataSet": [_SUBSCRIPTION]}],
    },
    Request.CHECK_CLIENT_CONFIG: {"subscriptionData": _SUBSCRIPTION, "clientId": "c", "group": "a-group"},
    Request.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: _GROUP,
    Request.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: {"groupConfigList": [_GROUP]},
    Request.LOCK_BATCH_MQ: _LOCK,
    Request.UNLOCK_BATCH_MQ: _LOCK,
    Request.QUERY_ASSIGNMENT: {
        "topic": "a-topic", "consumerGroup": "a-group", "clientId": "c", "messageModel": "CLUSTERING",
        "strategyName": "AVG",
    },
    Request.SET_MESSAGE_REQUEST_MODE: {
        "topic": "a-topic", "consumerGroup": "a-group", "mode": "POP", "popShareQueueNum": 0
    },
    Request.BATCH_ACK_MESSAGE: {"acks": [_ACK]},
    Request.AUTH_CREATE_USER: {"password": "secret-123", "userType": "Normal", "userStatus": "enable"},
    Request.AUTH_UPDATE_USER: {"password": "secret-123", "userType": "Normal", "userStatus": "enable"},
    Request.AUTH_CREATE_ACL: _ACL,
    Request.AUTH_UPDATE_ACL: _ACL,
    Request.STEER_TIMERS: {"action": "cancel", "targets": [{"position": 0}, {"topic": "a-topic", "uniqueKey": "u"}]},
    Request.GET_TIMER: {"topic": "a-topic", "scheduleKey": "k"},
    Request.STEER_TRANSACTIONS: {"action": "commit", "targets": [{"offset": 0, "position": 0}], "who": "me"},
}  # fmt: skip
#: what a field holds where nothing odd is said; of all others "0"
USUAL = {
    "username": "a-user", "subject": "User:a-user", "policyType": "Custom", "resource": "Topic:a-x", "namespace": "N",
    "key": "k", "value": "v", "brokerName": "broker-a", "cluster": "DefaultCluster", "properties": "", "i": "",
    "msgId": "7F00000100002A9F" + "0" * 16, "perm": "6", "readQueueNums": "1", "writeQueueNums": "1", "maxMsgNums": "1",
    "exp": "*", "expType": "TAG", "subscription": "*", "expressionType": "TAG", "topicFilterType": "SINGLE_TAG",
    "extraInfo": "0 1 1 0 0 broker-a 0 0", "statsName": "TOPIC_PUT_NUMS", "statsKey": "a-topic", "token": "",
    "paused": "false", "maxNum": "1", "count": "1", "order": "false", "attributes": "+x=1", "toMs": "100000",
    "stepMs": "1000", "limit": "1", "indexType": "K", "clientId": "c", "clientID": "c", "l": "", "state": "open",
    "offsetMsgId": "", "recallHandle": "v1 a", "bornTimestamp": "1", "g": "1", "filter": "", "topicList": "",
    "attemptId": "", "filterGroups": "", "cursor": "", "sysFlag": "4", "subVersion": "1", "invisibleTime": "1000",
}  # fmt: skip
_LONG_SEND = (
    "producerGroup", "topic", "defaultTopic", "defaultTopicQueueNums", "queueId", "sysFlag", "bornTimestamp", "flag",
    "properties", "reconsumeTimes", "unitMode", "maxReconsumeTimes", "batch",
)  # fmt: skip
#: fields that are read out of a copy, where nobody hears it
UNHEARD: Mapping[int, tuple[str, ...]] = {
    Request.SEND_MESSAGE: _LONG_SEND,
    Request.SEND_REPLY_MESSAGE: _LONG_SEND,
    Request.CONSUME_MESSAGE_DIRECTLY: ("msgId", "topic", "consumerGroup", "clientId"),
}
_TOPICS = ("topic", "b", "originTopic")
_GROUPS = ("a", "group", "consumergroup", "producergroup", "groupname", "srcgroup", "destgroup", "comparegroup")


def usual(name: str) -> str:
    """What a field holds where nothing odd is said."""
    if name in _TOPICS:
        return "a-topic"
    return "a-group" if name.lower() in _GROUPS else USUAL.get(name, "0")


class Heard(dict[str, str]):
    """Header fields that remember which were asked for."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.asked: dict[str, None] = {}

    def get(self, name: str, default: Any = None) -> Any:
        self.asked[name] = None
        return super().get(name, default)

    def __getitem__(self, name: str) -> str:
        self.asked[name] = None
        return super().__getitem__(name)

    def __contains__(self, name: object) -> bool:
        self.asked[str(name)] = None
        return super().__contains__(name)


def fields_of(server: Server, code: int) -> dict[str, str]:
    """The fields that the handler of a request reads, each with a usual value: asked until it asks for no other."""
    known = {name: usual(name) for name in UNHEARD.get(code, ())}
    connection = Connection(server)
    body = json.dumps(GOOD_BODIES[code]).encode() if code in GOOD_BODIES else b"body"
    for _ in range(30):
        ext = Heard(known)
        server.respond(connection, Command(code, ext, body, version=PROTOCOL_VERSION))
        if set(ext.asked) <= set(known):
            break
        known |= {name: usual(name) for name in ext.asked if name not in known}
    return known


def odd_bodies(good: Any, dice: random.Random) -> Iterator[bytes]:
    """Bodies with one value replaced, or one name left out, and pieces of the whole."""
    whole = json.dumps(good).encode()
    yield from (whole[: dice.randrange(len(whole))] for _ in range(4))
    for path in paths(good):
        for value in VALUES:
            yield json.dumps(
                replaced(good, path, lambda holder, last, value=value: holder.__setitem__(last, value))
            ).encode()
        yield json.dumps(replaced(good, path, lambda holder, last: holder.__delitem__(last))).encode()
    yield whole.replace(b"a-", b"\xff-")


def paths(value: Any, before: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to every value in a tree."""
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, member in members:
        yield (*before, name)
        yield from paths(member, (*before, name))


def replaced(tree: Any, path: tuple[Any, ...], change: Callable[[Any, Any], None]) -> Any:
    """A copy with a change at a place."""
    tree = copy.deepcopy(tree)
    holder = tree
    for name in path[:-1]:
        holder = holder[name]
    change(holder, path[-1])
    return tree


@dataclass
class Asked:
    """One request and what it was answered with; `is_rough`: it may end its connection."""

    code: int
    ext: dict[str, str]
    body: bytes = b""
    serialization: int = JSON
    answer: Command | None = None
    is_rough: bool = False

    def __str__(self) -> str:
        return ascii((self.code, {name: value[:60] for name, value in self.ext.items()}, self.body[:120]))


def requests_of(code: int, fields: Mapping[str, str], dice: random.Random) -> list[Asked]:
    """Every odd request of one code; headers in turn in JSON and binary where that has room for the code."""
    found: list[Asked] = []
    usual_body = json.dumps(GOOD_BODIES[code]).encode() if code in GOOD_BODIES else b"body"
    for name in fields:
        found.append(Asked(code, {other: value for other, value in fields.items() if other != name}, usual_body))
        for value in TEXTS:
            found.append(Asked(code, {**fields, name: value}, usual_body))
        for value in ROUGH_TEXTS:
            found.append(Asked(code, {**fields, name: value}, usual_body, is_rough=True))
    for body in (*BODIES, *(odd_bodies(GOOD_BODIES[code], dice) if code in GOOD_BODIES else ())):
        found.append(Asked(code, dict(fields), body))
    found += [Asked(code, {}), Asked(code, {name: dice.choice(TEXTS) for name in fields}, dice.choice(BODIES))]
    for number, asked in enumerate(found):
        asked.serialization = BINARY if number % 2 and code < 0x8000 else JSON
    return found


@dataclass
class Caller:
    """A user who asks; `say` may lose its connection and goes on with another."""

    address: str
    name: str
    secret: bytes
    unexpected: list[str] = field(default_factory=list)

    def say(self, requests: Sequence[Asked]) -> None:
        """Ask all of these; what is answered at once is noted, what waits is left alone."""
        for begin in range(0, len(requests), BATCH):
            batch = requests[begin : begin + BATCH]
            self._exchange([asked for asked in batch if not asked.is_rough], may_end=False)
            for asked in batch:
                if asked.is_rough:
                    self._exchange([asked], may_end=True)

    def ask(self, code: int, ext: dict[str, str] | None = None, body: bytes = b"") -> Command:
        """One request and its answer."""
        asked = Asked(code, ext or {}, body)
        self._exchange([asked], may_end=False)
        assert asked.answer is not None, f"{asked} was not answered"
        return asked.answer

    @contextmanager
    def staying(self, requests: Sequence[Asked]) -> Iterator[None]:
        """Have said all of these over one connection, which stays open for a `with` block."""
        host, _, port = self.address.rpartition(":")
        with socket.create_connection((host, int(port)), PATIENCE_S) as connection:
            connection.sendall(b"".join(self._frame(asked, number) for number, asked in enumerate(requests)))
            frames, answered = FrameBuffer(), 0
            while answered < len(requests):
                data = connection.recv(1 << 18)
                assert data, "the connection ended"
                answered += sum(decode(frame).is_response for frame in frames.feed(data))
            yield

    def _exchange(self, requests: list[Asked], *, may_end: bool) -> None:
        if not requests:
            return
        last = Asked(Request.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "a-nobody"})
        numbered = dict(enumerate([*requests, last]))
        host, _, port = self.address.rpartition(":")
        with socket.create_connection((host, int(port)), PATIENCE_S) as connection:
            try:
                connection.sendall(b"".join(self._frame(asked, number) for number, asked in numbered.items()))
                frames = FrameBuffer()
                while last.answer is None or (len(requests) == 1 and requests[0].answer is None and not may_end):
                    data = connection.recv(1 << 18)
                    if not data:
                        raise ConnectionResetError
                    for answer in map(decode, frames.feed(data)):
                        if answer.is_response:
                            numbered[answer.opaque].answer = answer
            except (ConnectionResetError, BrokenPipeError):
                if not may_end:
                    self.unexpected.append(f"the connection ended in {[str(asked) for asked in requests[:3]]} ...")
        for asked in requests:
            if asked.answer is not None and "The broker failed" in (asked.answer.remark or ""):
                self.unexpected.append(str(asked))

    def _frame(self, asked: Asked, number: int) -> bytes:
        ext = {**asked.ext, ACCESS_KEY: self.name}
        ext[SIGNATURE] = sign(self.secret, content(ext, asked.body, PROTOCOL_VERSION)).decode()
        return encode(Command(asked.code, ext, asked.body, opaque=number, serialization=asked.serialization))
