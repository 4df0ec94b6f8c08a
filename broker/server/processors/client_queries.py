"""Questions that only a connected consumer can answer: 307 what it does, 309 to consume a message at once, 223 how far
it is (221 to each client). The broker asks the client and hands its answer on."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from ...rocketmq.codes import Answer, Request
from ...rocketmq.errors import RequestRefused
from ...rocketmq.fields import json_body, text
from ...rocketmq.frame import Command
from ...rocketmq.message import decode, parse_offset_message_id
from ...rocketmq.topics import RETRY_PREFIX
from ..clients import ClientCalls, Member
from ..connection import Connection, Handler
from ..state import BrokerState

CLIENT_TIMEOUT_MS = 10_000
"""As long as RocketMQ waits for a client (Broker2Client.callClient)."""

STATUS_TIMEOUT_MS = 5_000

_QUEUE_TABLE = b'"messageQueueTable":'
_STRING_OR_BRACE = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}]')


class RelayProcessor:
    """The requests of administrators that only a client can answer."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state

    def handlers(self) -> Mapping[int, Handler]:
        """Request code -> handler."""
        return {
            Request.GET_CONSUMER_RUNNING_INFO: self._running_info,
            Request.CONSUME_MESSAGE_DIRECTLY: self._consume_directly,
            Request.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: self._status,
        }

    def _running_info(self, connection: Connection, request: Command) -> None:
        self._relay(connection, request, request.ext, b"")

    def _consume_directly(self, connection: Connection, request: Command) -> None:
        engine, ext = self._state.engine, {**request.ext, "brokerName": self._state.config.broker_name}
        try:
            _, _, position = parse_offset_message_id(text(ext, "msgId"))
        except ValueError:
            remark = f"{ext['msgId'][:80]!r} is no offset message id: 32 hex digits, address and position."
            raise RequestRefused(Answer.INVALID_PARAMETER, remark) from None
        record = engine.look_at(position)
        name, real = ext.get("topic", ""), decode(record, verify=False).topic
        if name and real not in {name, RETRY_PREFIX + text(ext, "consumerGroup")}:
            raise RequestRefused(Answer.INVALID_PARAMETER, f"The message {ext['msgId']} is not of topic {name!r}.")
        topic = engine.topics.get(name)
        ext |= {"topicSysFlag": str(topic.system_flag if topic is not None else 0), "groupSysFlag": "0"}
        self._relay(connection, request, ext, record)

    def _relay(self, connection: Connection, request: Command, ext: dict[str, str], body: bytes) -> None:
        """Hand a question to the client that it names, and the client's answer back."""
        group, client_id = text(ext, "consumerGroup"), text(ext, "clientId")
        member = self._member(group, client_id)

        def answered(answer: Command | None) -> None:
            if answer is not None:
                back = request.answer(answer.ext, answer.body, code=answer.code, remark=answer.remark)
            else:
                remark = f"consumer <{group}> <{client_id}> did not answer within {CLIENT_TIMEOUT_MS} ms"
                back = request.answer(code=Answer.CONSUME_MSG_TIMEOUT, remark=remark)
            if not request.is_oneway:
                connection.send(back)

        self._state.calls.ask(member.connection, request.code, ext, body, CLIENT_TIMEOUT_MS, answered)

    def _member(self, group: str, client_id: str) -> Member:
        consumers = self._state.clients.consumers(group)
        for member in consumers.members.values() if consumers is not None else ():
            if member.client_id == client_id:
                return member
        raise RequestRefused(Answer.SYSTEM_ERROR, f"The Consumer <{group}> <{client_id}> not online")

    def _status(self, connection: Connection, request: Command) -> None:
        topic, group = text(request.ext, "topic"), text(request.ext, "group")
        only = request.ext.get("clientAddr")
        consumers = self._state.clients.consumers(group)
        if consumers is None:
            raise RequestRefused(Answer.SYSTEM_ERROR, f"No Any Consumer online in the consumer group: [{group}]")
        members = [member for member in consumers.members.values() if only in (None, "", member.client_id)]
        statuses = _Statuses(connection, request, len(members))
        for member in members:
            statuses.ask(self._state.calls, member, {"topic": topic, "group": group})


class _Statuses:
    """The answers of a group's clients to 221, told together once all have spoken or had their time."""

    def __init__(self, connection: Connection, request: Command, missing: int) -> None:
        self._connection = connection
        self._request = request
        self._missing = missing
        self._tables: list[tuple[str, msgspec.Raw]] = []
        if not missing:
            self._answer()

    def ask(self, calls: ClientCalls, member: Member, ext: dict[str, str]) -> None:
        """Ask one client for its table."""

        def answered(answer: Command | None) -> None:
            if answer is not None and answer.code == Answer.SUCCESS:
                self._tables.append((member.client_id, msgspec.Raw(queue_table(answer.body))))
            self._missing -= 1
            if not self._missing:
                self._answer()

        calls.ask(member.connection, Request.GET_CONSUMER_STATUS_FROM_CLIENT, ext, b"", STATUS_TIMEOUT_MS, answered)

    def _answer(self) -> None:
        body = {"consumerTable": dict(self._tables), "messageQueueTable": {}}
        self._connection.send(self._request.answer(body=json_body(body)))


def queue_table(body: bytes) -> bytes:
    """Return the table of queues in a client's answer to 221: it has objects as keys, so it is cut out, not read."""
    start = body.find(_QUEUE_TABLE) + len(_QUEUE_TABLE)
    depth = 0
    if start >= len(_QUEUE_TABLE):
        for found in _STRING_OR_BRACE.finditer(body, start):
            depth += {b"{": 1, b"}": -1}.get(found[0], 0)
            if not depth:
                return body[start : found.end()] if body[start : start + 1] == b"{" else b"{}"
    return b"{}"
