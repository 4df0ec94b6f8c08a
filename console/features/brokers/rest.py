"""Brokers and their settings by REST: look at them, and change what can be changed while a broker runs.

A change is the console's operation. It needs the token's `settings` right on every name: it is of no topic.
"""

from __future__ import annotations

import uuid
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType
from starlette.responses import Response

from broker.client.admin import BrokerSetting
from console.features.brokers.shapes import setting_row
from console.operations.actor import CHANGE_SETTINGS
from console.operations.models import OperationItem
from console.rest.access import Everywhere, Overview
from console.rest.database import token_actor
from console.rest.errors import BrokerUnknown, OperationRefused
from console.rest.operations import begun, in_thread
from console.rest.responses import json_answer
from console.rest.route import Call, route
from console.rest.schemas import BEGUN_OR_WAITS, PREVIEWED, Look, Reason
from console.rest.several import asked, of_broker
from console.security.tokens import READ, SETTINGS

Values = Annotated[
    dict[str, str | int | float | bool],
    Meta(min_length=1, max_length=100, description="By RocketMQ's names; those of Escapement begin with esc."),
]


class BrokerSettingShown(Struct, kw_only=True):
    """A setting of a broker, values as the broker writes them. null: the broker does not tell.

    `started`: what it was started with. What may be a secret is hidden.
    """

    name: str
    value: str
    unit: str
    default: str | None
    started: str | None
    is_changeable: bool


class BrokerSettings(Struct, kw_only=True):
    """The settings of a broker as they are now."""

    broker: str
    settings: list[BrokerSettingShown]


class BrokerShown(Struct, kw_only=True):
    """A broker, as the name service lists it."""

    name: str
    cluster: str
    address: str


class BrokerRows(Struct, kw_only=True):
    """The brokers of the cluster."""

    brokers: list[BrokerShown]


class BrokerSettingsChange(Struct, forbid_unknown_fields=True, kw_only=True):
    """The settings to change; the others stay as they are."""

    settings: Values
    expected: Annotated[Values, Meta(description="The change is refused unless these are so now.")] | UnsetType = UNSET
    reason: Reason
    preview: Look = False


@route("GET", "/brokers", "List brokers", action=READ, on=Overview(), answers=((200, "Brokers.", BrokerRows),))
async def brokers(call: Call) -> Response:
    """List the masters that the name service lists."""
    found = await call.state.admin.brokers()
    rows = [BrokerShown(name=each.name, cluster=each.cluster, address=each.address) for each in found]
    return json_answer(BrokerRows(brokers=rows))


@route(
    "GET",
    "/brokers/{broker}/settings",
    "Get the settings of a broker",
    action=READ,
    on=Overview(),
    answers=((200, "As they are now.", BrokerSettings),),
    errors=(BrokerUnknown,),
)
async def broker_settings(call: Call) -> Response:
    """Answer the settings of a broker, with defaults and what can be changed where it tells."""
    name = call.named["broker"]
    (admin,) = (await asked(call.state, name)).values()
    rows = [_shown(each) for each in await admin.broker_settings()]
    return json_answer(BrokerSettings(broker=name, settings=rows))


@route(
    "PATCH",
    "/brokers/{broker}/settings",
    "Change settings of a broker while it runs",
    action=SETTINGS,
    permission=CHANGE_SETTINGS,
    on=Everywhere(),
    answers=(BEGUN_OR_WAITS, PREVIEWED),
    errors=(BrokerUnknown, OperationRefused),
    example={"settings": {"fileReservedTime": 48}, "reason": "the disk is small", "preview": True},
)
async def change_broker(call: Call, body: BrokerSettingsChange) -> Response:
    """Change the settings that are named, all or none."""
    name, parameters = call.named["broker"], msgspec.to_builtins(body)
    is_look, reason = parameters.pop("preview"), parameters.pop("reason")
    await in_thread(lambda: _check(name))
    parameters["broker"] = name
    actor = token_actor(call.grant, frozenset((CHANGE_SETTINGS,)))
    answer = await begun("brokers.configure", parameters, reason, actor, is_look=is_look, broker=name)
    if not is_look:
        await in_thread(lambda: _refuse(answer.headers["location"]))
    return answer


def _check(name: str) -> None:
    """Raise BrokerUnknown for a broker that the cluster does not have."""
    with of_broker(name):
        pass


def _refuse(location: str) -> None:
    """Raise OperationRefused with the broker's words where it refused."""
    items = OperationItem.objects.filter(operation_id=uuid.UUID(location.rpartition("/")[2]), outcome="refused")
    refused: dict[str, Any] | None = items.values_list("result", flat=True).first()
    if refused is not None:
        raise OperationRefused(str(refused.get("error", "The broker refused it.")))


def _shown(each: BrokerSetting) -> BrokerSettingShown:
    row = setting_row(each.name, each.value, each.default, each.started, each.allowed)
    return BrokerSettingShown(
        name=row.name, value=row.value, unit=row.unit, default=row.default, started=row.started,
        is_changeable=row.is_changeable,
    )  # fmt: skip
