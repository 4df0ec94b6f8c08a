"""Settings of topics and groups: looked at, and made, changed and deleted by the console's operations.

Who may is said by the token's `settings` prefixes, which are of topics and of consumer groups.
"""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Generic, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from broker.client.names import check_group, check_topic
from console.features.topics import setting_fields
from console.features.topics.operations import PENDING
from console.operations.actor import CHANGE_SETTINGS
from console.operations.models import OperationItem
from console.operations.preview import Preview
from console.operations.registry import kind_of
from console.security.tokens import SETTINGS, Grant

from ...rest.errors import GroupUnknown, OperationRefused, TopicUnknown
from ...rest.grants import require
from ...rest.operations_bridge import begun, in_thread
from ...rest.request_body import decode, read_body
from ...rest.responses import json_answer
from ...rest.state import Room
from ..messages.rest import only_parameters
from ..timers.rest_bulk import MAX_BODY_BYTES, actor_of
from .rest_schemas import (
    GroupChange,
    GroupSettings,
    NewGroup,
    NewTopic,
    SettingsOfGroup,
    SettingsOfTopic,
    SettingsPreview,
    TopicChange,
    TopicSettings,
    WaitingForTopic,
)

New = TypeVar("New", NewTopic, NewGroup)
Change = TypeVar("Change", TopicChange, GroupChange)


class _Settings(ABC, Generic[New, Change]):
    """The handlers of topics, or of groups; `kind` is the word for one of them."""

    kind: ClassVar[str]

    def __init__(self, new: type[New], change: type[Change]) -> None:
        self._new: msgspec.json.Decoder[New] = msgspec.json.Decoder(new)
        self._change: msgspec.json.Decoder[Change] = msgspec.json.Decoder(change)

    async def look(self, request: Request, grant: Grant, room: Room) -> Response:
        """As they are now."""
        only_parameters(request)
        name = self._named(request)
        return json_answer(await self._shown(name, room))

    async def make(self, request: Request, grant: Grant, room: Room) -> Response:
        """One that is not there yet."""
        only_parameters(request)
        wanted = decode(await read_body(request, MAX_BODY_BYTES), self._new)
        self._check(wanted.name)
        require(grant, SETTINGS, wanted.name, self.kind)
        parameters = {"name": wanted.name, "settings": msgspec.to_builtins(wanted.settings)}
        return await self._done("create", parameters, grant, wanted.reason, is_look=wanted.preview)

    async def change(self, request: Request, grant: Grant, room: Room) -> Response:
        """What is named; 200 if all of it is so already."""
        only_parameters(request)
        name = self._named(request)
        wanted = decode(await read_body(request, MAX_BODY_BYTES), self._change)
        parameters = msgspec.to_builtins(wanted)
        is_look, reason = parameters.pop("preview"), parameters.pop("reason")
        now = await self._shown(name, room)
        settings = msgspec.to_builtins(now.settings)
        if not is_look and all(settings[each] == value for each, value in parameters["settings"].items()):
            return json_answer(now)
        return await self._done("change", {"name": name, **parameters}, grant, reason, is_look=is_look)

    async def delete(self, request: Request, grant: Grant, room: Room) -> Response:
        """Nothing of it stays."""
        only_parameters(request, "reason", "preview", *(("pending",) if self.kind == "topic" else ()))
        name, pending = self._named(request), request.query_params.get("pending")
        if pending not in (None, *PENDING):
            raise OperationRefused(f"pending is one of {', '.join(PENDING)}.", "pending")
        reason, look = request.query_params.get("reason", ""), request.query_params.get("preview", "false")
        if look not in ("true", "false"):
            raise OperationRefused("preview is true or false.", "preview")
        await self._shown(name, room)
        parameters = {"name": name} if pending is None else {"name": name, "pending": pending}
        return await self._done("delete", parameters, grant, reason, is_look=look == "true")

    @abstractmethod
    async def _shown(self, name: str, room: Room) -> SettingsOfTopic | SettingsOfGroup:
        """As the broker keeps them; raises TopicUnknown, GroupUnknown."""

    def _check(self, name: str) -> None:
        (check_topic if self.kind == "topic" else check_group)(name)

    def _named(self, request: Request) -> str:
        name: str = request.path_params[self.kind]
        self._check(name)
        return name

    async def _done(
        self, verb: str, parameters: Mapping[str, Any], grant: Grant, reason: str, *, is_look: bool
    ) -> Response:  # fmt: skip
        kind = f"{self.kind}s.{verb}"
        if is_look:
            return json_answer(await in_thread(lambda: _preview(kind, parameters)))
        actor = replace(actor_of(grant), permissions=frozenset((CHANGE_SETTINGS,)))
        answer = await begun(kind, parameters, reason, actor)
        number = uuid.UUID(answer.headers["location"].rpartition("/")[2])
        refused = await in_thread(lambda: OperationItem.objects.filter(operation_id=number, outcome="refused").first())
        if refused is not None:
            raise OperationRefused(str(refused.result.get("error", "The broker refused it.")))
        return answer


class _Topics(_Settings[NewTopic, TopicChange]):
    kind = "topic"

    async def _shown(self, name: str, room: Room) -> SettingsOfTopic:
        found = await room.admin.topic_settings(name)
        if found is None:
            raise TopicUnknown(f"The broker has no topic {name}.")
        settings = msgspec.convert(setting_fields.shown(setting_fields.TOPIC, found), TopicSettings)
        return SettingsOfTopic(name=name, settings=settings)


class _Groups(_Settings[NewGroup, GroupChange]):
    kind = "group"

    async def _shown(self, name: str, room: Room) -> SettingsOfGroup:
        found = await room.admin.group_settings(name)
        if found is None:
            raise GroupUnknown(f"The broker has no consumer group {name}.")
        settings = msgspec.convert(setting_fields.shown(setting_fields.GROUP, found), GroupSettings)
        return SettingsOfGroup(name=name, settings=settings)


def _preview(kind_name: str, parameters: Mapping[str, Any]) -> SettingsPreview:
    """As the console's operation counts it."""
    kind = kind_of(kind_name)
    checked = kind.checked(parameters)
    found = kind.preview(checked)
    return SettingsPreview(
        name=checked["name"], changes=[(name, before, after) for name, before, after in found.changes],
        unread=found.unread, lost_messages=found.lost_messages, lost_readers=found.lost_readers,
        members=found.members, waiting=_waiting(found),
    )  # fmt: skip


def _waiting(found: Preview) -> WaitingForTopic | None:
    """Of what is to be deleted."""
    return WaitingForTopic(**found.waiting, complete=not found.missing) if found.waiting else None


topics = _Topics(NewTopic, TopicChange)
groups = _Groups(NewGroup, GroupChange)
