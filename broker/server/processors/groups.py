"""Consumer groups: 200, 201, 207, 225, 352, 353."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from ...engine.errors import GroupNotFound
from ...engine.tables.groups import FIELDS, Group
from ...rocketmq.codes import Answer, Request
from ...rocketmq.errors import RequestRefused
from ...rocketmq.fields import body_as, json_body, text, truth, whole
from ...rocketmq.frame import Command
from ..connection import Connection, Handler
from ..state import BrokerState

MOST_GROUPS_AT_ONCE = 10_000


class GroupListBody(msgspec.Struct, rename="camel"):
    """The body of request 225 (SubscriptionGroupList)."""

    group_config_list: list[dict[str, Any]] = []


class GroupProcessor:
    """The requests that make, change, delete and describe consumer groups."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self._engine = state.engine

    def handlers(self) -> Mapping[int, Handler]:
        """Request code -> handler."""
        return {
            Request.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: self._put,
            Request.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: self._put_list,
            Request.DELETE_SUBSCRIPTIONGROUP: self._delete,
            Request.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: self._all,
            Request.GET_SUBSCRIPTIONGROUP_CONFIG: self._one,
            Request.UPDATE_AND_GET_GROUP_FORBIDDEN: self._forbid,
        }

    def _put(self, _: Connection, request: Command) -> Command:
        self._put_all([_group(body_as(dict[str, Any], request.body))])
        return request.answer()

    def _put_list(self, _: Connection, request: Command) -> Command:
        """Make or change all groups of a list, or none."""
        wanted = body_as(GroupListBody, request.body).group_config_list
        if not 0 < len(wanted) <= MOST_GROUPS_AT_ONCE:
            raise RequestRefused(Answer.INVALID_PARAMETER, f"A list holds 1 to {MOST_GROUPS_AT_ONCE:,} groups.")
        self._put_all([_group(value) for value in wanted])
        return request.answer()

    def _put_all(self, groups: list[Group]) -> None:
        changed = [group for group in groups if group != self._engine.groups.get(group.name)]
        if changed:
            self._engine.groups.put_many(changed)

    def _delete(self, _: Connection, request: Command) -> Command:
        """Delete a group; deleting one that is not there succeeds, as deleting a topic does."""
        name = text(request.ext, "groupName")
        if self._engine.groups.get(name) is not None:
            self._engine.groups.delete(name)
        if truth(request.ext, "removeOffset") or truth(request.ext, "cleanOffset"):
            self._engine.offsets.remove(name)
        return request.answer()

    def _one(self, _: Connection, request: Command) -> Command:
        """Answer one group; one that is not there is made, as by Apache RocketMQ, but not for who only looks
        (`escLook`)."""
        name = text(request.ext, "group")
        if truth(request.ext, "escLook"):
            group = self._engine.groups.find(name, may_make=False)
        else:
            group = self._state.group(name)
        return request.answer(body=json_body(group.to_json()))

    def _all(self, _: Connection, request: Command) -> Command:
        groups = self._engine.groups
        every = groups.all()
        start = whole(request.ext, "groupSeq", 0, low=0)
        count = whole(request.ext, "maxGroupNum", len(every), low=0) or len(every)
        body = {
            "dataVersion": {"counter": groups.data_version, "stateVersion": 0, "timestamp": 0},
            "forbiddenTable": groups.forbidden(),
            "subscriptionGroupTable": {group.name: group.to_json() for group in every[start : start + count]},
        }
        return request.answer({"totalGroupNum": str(len(every))}, json_body(body))

    def _forbid(self, _: Connection, request: Command) -> Command:
        """Answer, and where `readable` is given change, whether a group may read a topic."""
        group, topic = text(request.ext, "group"), text(request.ext, "topic")
        groups = self._engine.groups
        if request.ext.get("readable"):
            if groups.get(group) is None:
                raise GroupNotFound(group)
            groups.forbid(group, topic, not truth(request.ext, "readable"))
        body = {"group": group, "topic": topic, "readable": not groups.is_forbidden(group, topic)}
        return request.answer(body=json_body(body))


def _group(value: dict[str, Any]) -> Group:
    """Return the group that an administrator means; numbers and truths may stand there as text, as Java allows."""
    kinds: dict[type, Callable[[str, object], object]] = {str: _name, int: _whole, bool: _truth}
    read = {name: kinds[kind](name, value[name]) for name, kind in FIELDS if value.get(name) is not None}
    if "groupName" not in read:
        raise RequestRefused(Answer.INVALID_PARAMETER, "The group has no field 'groupName'.")
    return Group.from_json({**value, **read})


def _name(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise _unreadable(name, "text")
    return value


def _whole(name: str, value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if not isinstance(value, str):
        raise _unreadable(name, "a whole number")
    return whole({name: value}, name)


def _truth(name: str, value: object) -> bool:
    if isinstance(value, str):
        value = {"true": True, "false": False}.get(value.lower())
    if not isinstance(value, bool):
        raise _unreadable(name, "true or false")
    return value


def _unreadable(name: str, kind: str) -> RequestRefused:
    return RequestRefused(Answer.INVALID_PARAMETER, f"The field {name!r} of the group is not {kind}.")
