"""The page on which a message is written; with `like` it begins with what a stored one has.

A copy has what its sender gave: body, keys, tag, properties and sharding key. What a rule masks is not copied.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from broker.client import ClientError, Message
from broker.rocketmq.properties import KEYS, OWN_PREFIX, SHARDING_KEY, SYSTEM_PROPERTIES, TAGS
from console.features.messages import read
from console.features.messages.bodies import set_out
from console.features.messages.send_operations import form_context
from console.features.messages.sending import queues_of, readers_of_topic
from console.features.messages.written import MOST_BODY_BYTES, lines_of
from console.operations.copies import COPY_OF, NotReadable, plain_body
from console.operations.errors import InvalidParameter
from console.security.masking import BODY
from console.security.topic_scope import TopicScope, authorised
from console.site.mirrored import cluster


@dataclass(slots=True)
class Copied:
    """What the form begins with, and what of the stored message it does not have."""

    fields: dict[str, str] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)


@authorised
def readers(scope: TopicScope, topic: str) -> tuple[int, int]:
    """Return how many groups read a topic that takes messages, and how many members of them are connected.

    Raises Http404 for a topic that is not seen, that there is not, or that nobody but its broker writes.
    """
    scope.require_topic(topic)
    here = cluster()
    try:
        # whoever sends is told that nobody answers
        with suppress(ClientError):
            queues_of(here, topic)
    except InvalidParameter as error:
        raise Http404(str(error)) from None
    found = readers_of_topic(here, topic)
    return len(found), sum(each[2] or 0 for each in found)


@require_safe
def send(request: HttpRequest, name: str) -> HttpResponse:
    """Show the form, empty or with what a stored message has."""
    groups, members = readers(name)
    like = request.GET.get("like", "")[:300]
    copied = _copied(like, request.GET.get("of", "")[:255] or None) if like else None
    context = {
        "here": "topics",
        "topic": name,
        "readers": groups,
        "members": members,
        "like": like,
        "copied": copied,
        "number": uuid.uuid4(),
        **form_context({**(copied.fields if copied else {}), "topic": name}, {}),
    }
    return render(request, "messages/send.html", context)


def _copied(message_id: str, topic: str | None) -> Copied | None:
    """Return what the stored message has; None where there is none (at another broker, say), or none that is seen."""
    found = read.stored(message_id, topic)
    if found is None:
        return None
    _topic, message, masked = found
    made = Copied()
    _copy_body(message, masked, made)
    properties = message.properties
    own = {
        name: text
        for name, text in properties.items()
        if name not in SYSTEM_PROPERTIES and not name.startswith(OWN_PREFIX) and name != COPY_OF
    }
    shown = {name: text for name, text in own.items() if name not in masked}
    lines = lines_of(shown)
    parts = {"keys": (KEYS, " ".join(message.keys)), "tag": (TAGS, message.tags or "")}
    parts["sharding_key"] = (SHARDING_KEY, properties.get(SHARDING_KEY, ""))
    made.fields |= {part: text for part, (name, text) in parts.items() if name not in masked}
    made.fields["properties"] = lines
    hidden = [name for name, text in parts.values() if text and name in masked]
    hidden += [name for name in own if name in masked]
    if hidden:
        made.left_out.append(_("masked by a rule: %(names)s") % {"names": ", ".join(hidden)})
    if len(shown) > len(lines.splitlines()):
        made.left_out.append(_("properties that do not fit into a line"))
    return made


def _copy_body(message: Message, masked: Mapping[str, str], made: Copied) -> None:
    """Copy the body in the form in which the browser sends it back as it is."""
    if BODY in masked:
        made.left_out.append(_("the body, which a rule masks"))
        return
    try:
        body = plain_body(message)
    except NotReadable:
        made.left_out.append(_("the body, whose compression cannot be read here"))
        return
    if len(body) > MOST_BODY_BYTES:
        made.left_out.append(_("the body, which is too large for this form"))
        return
    try:
        text = body.decode()
    except UnicodeDecodeError:
        text = "\0"
    # a browser turns every line end into CR LF, and drops the first one
    if "\0" in text or "\r" in text or text.startswith("\n"):
        made.fields |= {"body_as": "base64", "body": base64.encodebytes(body).decode()}
        return
    made.fields |= {"body_as": "text" if set_out(text) is None else "json", "body": text}
