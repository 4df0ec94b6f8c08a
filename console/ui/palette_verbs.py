"""Verbs of the palette: `cancel order-4711`, `resend 200 billing`, `move billing -1h`; what follows is the reason.

A command leads to the preview of an operation, never further. Nothing is asked of the broker before it is chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.utils.translation import gettext as _

from broker.mirror.models import ConsumerOffset
from broker.rocketmq.topics import GROUP_PREFIXES
from console.features.transactions.keys import halves_named
from console.operations.errors import InvalidParameter
from console.operations.registry import KINDS
from console.operations.typed_moments import is_shift, moment_ms, shift_ms
from console.security.topic_scope import eyes
from console.site.clock import now_ms
from console.site.mirrored import mirrored

#: verbs in both languages, whichever the reader has -> kind of operation
VERBS: Mapping[str, str] = {
    "cancel": "timers.cancel", "取消": "timers.cancel",
    "deliver": "timers.deliver_now", "投递": "timers.deliver_now",
    "commit": "transactions.commit", "提交": "transactions.commit",
    "rollback": "transactions.rollback", "回滚": "transactions.rollback",
    "check": "transactions.check", "回查": "transactions.check",
    "resend": "dead_letters.send_back", "重发": "dead_letters.send_back",
    "move": "groups.reset_offsets", "移动": "groups.reset_offsets",
}  # fmt: skip
#: topics of one group that are offered, one command each
TOPICS = 8
_ENDS = {"first": "first", "last": "last"}


@dataclass(frozen=True, slots=True)
class Command:
    """One thing that a text may ask for. `text` asks for exactly this again; `label` says it in words."""

    text: str
    label: str
    kind: str
    parameters: Callable[[], dict[str, Any]]
    reason: str = ""
    #: a number that was named: confirms that many if the preview counts the same
    count: str = ""

    @property
    def permission(self) -> str:
        """Who may do it."""
        return KINDS[self.kind].permission


def commands(text: str) -> Iterator[Command]:
    """What the text asks for, whoever may do it; nothing if it begins with no verb."""
    verb, _blank, rest = text.partition(" ")
    kind = VERBS.get(verb.lower(), "")
    if not kind or not rest.strip():
        return
    if kind == "groups.reset_offsets":
        yield from _moves(verb, rest.split())
    elif kind == "dead_letters.send_back":
        yield from _resending(verb, rest.split())
    else:
        key, _blank, reason = rest.strip().partition(" ")
        yield _of_key(f"{verb} {rest.strip()}", kind, key, reason.strip())


def offered(text: str) -> Iterator[Command]:
    """What can be done about a text without a verb, as if it were a key."""
    key = text.split()[0]
    if key.lower() not in VERBS:
        yield _of_key(f"cancel {key}", "timers.cancel", key, "")


def _of_key(text: str, kind: str, key: str, reason: str) -> Command:
    labels = {
        "timers.cancel": _("Cancel the timers with the key “%(key)s”"),
        "timers.deliver_now": _("Deliver the timers with the key “%(key)s” now"),
        "transactions.commit": _("Commit the transactions with the key “%(key)s”"),
        "transactions.rollback": _("Roll back the transactions with the key “%(key)s”"),
        "transactions.check": _("Ask about the transactions with the key “%(key)s”"),
    }

    def parameters() -> dict[str, Any]:
        if kind.startswith("timers."):
            return {"filter": {"topic": "", "key": key}}
        halves = [row for row in halves_named(key) if row.is_undecided]
        if not halves:
            raise InvalidParameter("targets", _("No undecided transaction has the key “%(key)s”.") % {"key": key[:80]})
        return {"targets": [{"offset": row.offset, "position": row.position} for row in halves]}

    return Command(text, labels[kind] % {"key": key}, kind, parameters, reason)


def _resending(verb: str, words: list[str]) -> Iterator[Command]:
    count = words[0] if words[0].isascii() and words[0].isdigit() and len(words) > 1 else ""
    group, reason = words[bool(count)], " ".join(words[bool(count) + 1 :])
    if eyes().group(group):
        wanted = {"group": group, "filter": {}, "is_all": True}
        text = " ".join((verb, *words))
        label = _("Send the dead letters of %(group)s back to it") % {"group": group}
        yield Command(text, label, "dead_letters.send_back", lambda: wanted, reason, count)


def _moves(verb: str, words: list[str]) -> Iterator[Command]:
    """`GROUP WHERE` or `GROUP TOPIC WHERE`; without a topic, each that the group reads."""
    group, seen = words[0], eyes()
    found = ConsumerOffset.objects.filter(broker=mirrored().name, group=group).values_list("topic", flat=True)
    topics = [name for name in found.distinct().order_by("topic") if not name.startswith(GROUP_PREFIXES)]
    if len(words) > 1 and words[1] in topics:
        topics, words = [words[1]], [group, *words[2:]]
    if len(words) < 2 or not seen.group(group):
        return
    to, reason = words[1], " ".join(words[2:])
    for topic in topics[:TOPICS]:
        label = _("Move %(group)s on %(topic)s to %(to)s") % {"group": group, "topic": topic, "to": to}
        place = {"group": group, "topic": topic}
        text = " ".join(word for word in (verb, group, topic, to, reason) if word)
        yield Command(text, label, "groups.reset_offsets", partial(_place, place, to), reason)


def _place(place: dict[str, Any], to: str) -> dict[str, Any]:
    """Raises InvalidParameter for what is neither an end, a span nor a moment."""
    if to in _ENDS:
        return {**place, "to": _ENDS[to]}
    return {**place, "to": "time", "at_ms": now_ms() + shift_ms(to) if is_shift(to) else moment_ms(to)}
