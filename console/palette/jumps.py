"""The palette: pages, topics, groups and messages by a few letters of their names; those that begin so come first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from django.urls import reverse
from django.utils.functional import Promise
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, override

from broker.mirror.models import ConsumerGroup, Topic
from console.features.messages.shapes import OFFSET_ID
from console.operations.kind import Command
from console.palette.verbs import commands, offered
from console.security.topic_scope import current_scope
from console.site.mirrored import mirrored
from console.templatetags.tables import view_address, view_page
from console.ui.navigation import BESIDE, places_for
from console.ui.saved_views.store import views_for

TEXT_LENGTH = 300
#: of each kind
LISTED = 8


@dataclass(frozen=True, slots=True)
class Jump:
    """One place to go to: `kind` says what it is. With a `command`, the preview of an operation instead."""

    address: str
    label: str | Promise
    kind: str | Promise
    key: str = ""
    command: str = ""


def jumps(text: str, user: Any) -> Iterator[Jump]:
    """What a verb asks for, pages, names, what has the text as its key; without a text all pages."""
    yield from (_to_do(command) for command in commands(text) if user.has_perm(command.permission))
    for place in (*places_for(user), *BESIDE):
        if _is_named(text, place.label) or text.lower() == place.key:
            yield Jump(place.address, place.label, gettext_lazy("page"), place.key.upper())
    saved = [row for row in views_for(user) if text.lower() in row.name.lower()]
    for row in saved[:LISTED]:
        yield Jump(view_address(row), row.name, _("view of %(page)s") % {"page": view_page(row)})
    if not text:
        return
    if _is_named(text, gettext_lazy("Saved views")):
        yield Jump(reverse("saved_views"), gettext_lazy("Saved views"), gettext_lazy("page"))
    for name in topics_named(text, LISTED):
        yield Jump(reverse("topic", args=[name]), name, gettext_lazy("topic"))
    for name in groups_named(text, LISTED):
        yield Jump(reverse("group", args=[name]), name, gettext_lazy("group"))
    if OFFSET_ID.fullmatch(text):
        yield Jump(reverse("message", args=[text]), text, gettext_lazy("message at this offset id"))
    yield from _with_key(text)
    yield from (_to_do(command) for command in offered(text) if user.has_perm(command.permission))


def _with_key(text: str) -> Iterator[Jump]:
    """What has this key is looked for when it is chosen, not for every letter."""
    labels = {
        "": (_("What has the key or id “%(text)s”"), gettext_lazy("message, timer or transaction")),
        "timers": (_("Timers with the key “%(text)s”"), gettext_lazy("waiting")),
        "transactions": (_("Transaction with the key “%(text)s”"), gettext_lazy("half message")),
    }
    for of, (label, kind) in labels.items():
        query = {"q": text, **({"of": of} if of else {})}
        yield Jump(reverse("find_key") + "?" + urlencode(query), label % {"text": text}, kind)
    address = reverse("messages") + "?" + urlencode({"q": text})
    yield Jump(address, _("Messages with the key or id “%(text)s”") % {"text": text}, gettext_lazy("in all topics"))


def _to_do(command: Command) -> Jump:
    label = f"{command.label}: {command.reason}" if command.reason else command.label
    return Jump("", label, gettext_lazy("look at it first"), command=command.text)


def _is_named(text: str, label: str | Promise) -> bool:
    """In the reader's language or in English."""
    with override("en"):
        english = str(label)
    wanted = text.lower()
    return wanted in str(label).lower() or wanted in english.lower()


def topics_named(text: str, count: int) -> list[str]:
    """At most `count` topics, RocketMQ's own left out."""
    found = Topic.objects.filter(broker=mirrored().name, is_system=False, name__icontains=text)
    seen = current_scope()
    return _first((name for name in found.values_list("name", flat=True) if seen.topic(name)), text, count)


def groups_named(text: str, count: int) -> list[str]:
    """At most `count` consumer groups, RocketMQ's own left out."""
    found = ConsumerGroup.objects.filter(broker=mirrored().name, is_system=False, name__icontains=text)
    seen = current_scope()
    return _first((name for name in found.values_list("name", flat=True) if seen.group(name)), text, count)


def _first(names: Iterable[str], text: str, count: int) -> list[str]:
    wanted = text.lower()
    return sorted(names, key=lambda name: (not name.lower().startswith(wanted), name))[:count]
