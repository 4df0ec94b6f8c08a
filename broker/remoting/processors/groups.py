"""Consumer groups and how far they are: 200, 201, 207, 352, 208."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...engine.errors import GroupNotFound
from ...engine.store.groups import Group
from ..codec import Command
from ..codes import Answer, Request
from ..errors import RequestRefused
from ..fields import body_as, text, truth, whole
from ..jsonbody import json_body, message_queue, table_with_object_keys
from ..server import Connection, Handler
from ..state import BrokerState


class GroupProcessor:
    """Makes, changes, deletes and describes consumer groups."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self._engine = state.engine

    def handlers(self) -> Mapping[int, Handler]:
        """Request code -> handler."""
        return {
            Request.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: self._put,
            Request.DELETE_SUBSCRIPTIONGROUP: self._delete,
            Request.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: self._all,
            Request.GET_SUBSCRIPTIONGROUP_CONFIG: self._one,
            Request.GET_CONSUME_STATS: self._stats,
        }

    def _put(self, _: Connection, request: Command) -> Command:
        value: dict[str, Any] = body_as(dict[str, Any], request.body)
        try:
            group = Group.from_json(value)
        except (KeyError, ValueError, TypeError, OverflowError) as error:
            raise RequestRefused(Answer.INVALID_PARAMETER, f"The group cannot be read: {error!r}") from None
        if group != self._engine.groups.get(group.name):
            self._engine.groups.put(group)
        return request.answer()

    def _delete(self, _: Connection, request: Command) -> Command:
        name = text(request.ext, "groupName")
        self._engine.groups.delete(name)
        if truth(request.ext, "removeOffset") or truth(request.ext, "cleanOffset"):
            self._engine.offsets.remove(name)
        return request.answer()

    def _one(self, _: Connection, request: Command) -> Command:
        name = text(request.ext, "group")
        group = self._engine.groups.get(name)
        if group is None:
            raise GroupNotFound(name)
        return request.answer(body=json_body(group.to_json()))

    def _all(self, _: Connection, request: Command) -> Command:
        groups = self._engine.groups
        every = groups.all()
        start = whole(request.ext, "groupSeq", 0, low=0)
        count = whole(request.ext, "maxGroupNum", len(every), low=0) or len(every)
        body = {
            "dataVersion": {"counter": groups.data_version, "stateVersion": 0, "timestamp": 0},
            "forbiddenTable": {},
            "subscriptionGroupTable": {group.name: group.to_json() for group in every[start : start + count]},
        }
        return request.answer({"totalGroupNum": str(len(every))}, json_body(body))

    def _stats(self, _: Connection, request: Command) -> Command:
        name, only = text(request.ext, "consumerGroup"), request.ext.get("topic")
        committed = self._engine.offsets.of_group(name)
        rows: list[tuple[object, object]] = []
        for topic in [only] if only else sorted(committed):
            known = self._engine.topics.get(topic)
            for queue_id in range(known.read_queues if known is not None else 0):
                offset = committed.get(topic, {}).get(queue_id, 0)
                rows.append(
                    (
                        message_queue(self._state.config.broker_name, topic, queue_id),
                        self._progress(topic, queue_id, offset),
                    )
                )
        total = sum(sum(queues.values()) for queues in committed.values())
        rate = self._state.rates.per_second(("consume", name), total, self._state.clock())
        return request.answer(body=json_body({"consumeTps": rate, "offsetTable": table_with_object_keys(rows)}))

    def _progress(self, topic: str, queue_id: int, offset: int) -> dict[str, int]:
        last_ms = self._engine.store_ms(topic, queue_id, offset - 1) if offset > 0 else None
        return {
            "brokerOffset": self._engine.queue_bounds(topic, queue_id)[1],
            "consumerOffset": offset,
            "lastTimestamp": last_ms or 0,
            "pullOffset": offset,
        }
