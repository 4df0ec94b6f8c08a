"""A message that is to be sent, or was, as its operation's page shows it: masked as a stored one would be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from django import template
from django.utils.translation import gettext as _

from console.features.messages.bodies import body_of
from console.features.messages.decoders import Decoder
from console.features.messages.sending import SendPreview
from console.features.messages.shapes import Body, BodyForm
from console.features.messages.written import body_bytes
from console.operations.models import Operation
from console.operations.reading import masked_parameters
from console.security.masking import BODY, masks
from console.security.topic_scope import current_scope
from console.site.broker import address_at, if_several

register = template.Library()


@dataclass(frozen=True, slots=True)
class Sent:
    """The message of an operation for whoever looks."""

    parameters: Mapping[str, Any]
    body: Body
    #: what it has beside topic and body: titles with texts
    facts: tuple[tuple[str, str], ...]
    #: groups that read the topic, as far as they are seen: [group, lag, connected members]
    readers: tuple[list[Any], ...]
    #: those that are not seen, and connected members of all
    hidden: int
    members: int
    #: how long it is kept from when it is sent; None: not at all, or until a moment
    delay_ms: int | None
    #: the page of what waits under its key
    waiting_address: str

    @property
    def groups(self) -> int:
        """All groups that read the topic."""
        return len(self.readers) + self.hidden

    @property
    def is_unread(self) -> bool:
        """Whether nobody who is connected reads the topic."""
        return not self.members


@register.simple_tag
def sent_message(row: Operation, preview: SendPreview) -> Sent:
    """Return the message of an operation with what it would meet."""
    shown, seen = masked_parameters(row.kind, row.parameters), current_scope()
    readers = tuple(each for each in preview.readers if seen.group(each[0]))
    return Sent(
        parameters=shown,
        body=_body(row.parameters),
        facts=tuple(_facts(shown)),
        readers=readers,
        hidden=len(preview.readers) - len(readers),
        members=sum(each[2] or 0 for each in preview.readers),
        delay_ms=preview.delay_ms,
        waiting_address=_address(preview.waiting),
    )


def _body(parameters: Mapping[str, Any]) -> Body:
    stored = body_bytes(parameters)
    found = body_of(stored, 0, asked=Decoder.NONE)
    masked = masks().of(parameters["topic"])
    return replace(found, form=BodyForm.MASKED, text=masked[BODY], hex="") if BODY in masked else found


def _facts(shown: Mapping[str, Any]) -> list[tuple[str, str]]:
    keys = shown.get("keys", "")
    found = [
        (_("Keys"), keys if isinstance(keys, str) else " ".join(keys)),
        (_("Tag"), shown.get("tag", "")),
        (_("Sharding key"), shown.get("sharding_key", "")),
        (_("Schedule key"), shown.get("schedule_key", "")),
    ]
    return [*((title, text) for title, text in found if text), *shown.get("properties", {}).items()]


def _address(waiting: Mapping[str, Any]) -> str:
    return address_at(if_several(waiting["broker"]), "timer", waiting["position"]) if waiting else ""
