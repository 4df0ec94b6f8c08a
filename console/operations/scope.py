"""What an operation can touch, as far as its parameters and its preview bound it: who sees some topics only may act,
and look at, no others. What nothing bounds (pausing all timers, every dead letter of a filter) is for who sees all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from console.operations.models import Operation
from console.security.topic_scope import Eyes

#: kinds of these families that choose by `targets` or by a `filter` with a topic
_CHOOSING = ("timers", "transactions")
#: what rules of alerts watch of consumer groups
_WATCHED_OF_GROUPS = ("backlog", "still", "dead-letters")


@dataclass(frozen=True, slots=True)
class Reach:
    """Names that are touched, and no others."""

    topics: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    queues: frozenset[str] = frozenset()

    def is_seen(self, eyes: Eyes) -> bool:
        """Whether all of it is; what touches nothing that is known is not."""
        if eyes.see_all:
            return True
        checks = [*map(eyes.topic, self.topics), *map(eyes.group, self.groups), *map(eyes.queue, self.queues)]
        return bool(checks) and all(checks)


#: seen by who sees all
UNBOUNDED = Reach()


def reach_of(kind: str, parameters: Mapping[str, Any], preview: Mapping[str, Any] | None) -> Reach:
    """Of a kind with parameters in their checked form; `preview` None: before it was counted, only what is named."""
    family, _, act = kind.partition(".")
    if kind == "timers.take_back":
        return _taken_back(parameters)
    if family in _CHOOSING:
        return _chosen(parameters, preview)
    if family == "dead_letters":
        topics = {str(topic) for topic, _count in (preview or {}).get("topics", ())}
        return Reach(frozenset(topics), groups=frozenset({str(parameters.get("group", ""))}))
    if kind == "messages.resend":
        return Reach(_named(parameters.get("topic")), _named(parameters.get("group")))
    if family == "redisson":
        queues = {parameters.get("queue", ""), *([parameters["to"]] if parameters.get("to") else [])}
        return Reach(_named(parameters.get("topic")), queues=frozenset(map(str, queues)))
    if kind == "groups.reset_offsets":
        return Reach(_named(parameters.get("topic")), _named(parameters.get("group")))
    if family == "topics":
        return Reach(_named(parameters.get("name")))
    if kind == "alerts.silence":
        return _silenced(parameters)
    if family == "groups" and act in ("change", "delete"):
        return Reach(groups=_named(parameters.get("name")))
    return UNBOUNDED


def _silenced(parameters: Mapping[str, Any]) -> Reach:
    """One name; what a pattern meets is not known. A rule says what is called so, else it is a group."""
    subject, what = str(parameters.get("subject", "")), parameters.get("what", "")
    if set(subject) & set("*?[") or what not in ("", "stuck-queue", *_WATCHED_OF_GROUPS):
        return UNBOUNDED
    return Reach(queues=_named(subject)) if what == "stuck-queue" else Reach(groups=_named(subject))


def _taken_back(parameters: Mapping[str, Any]) -> Reach:
    """What the operation touched whose effect is taken back."""
    row = Operation.objects.filter(pk=str(parameters.get("operation"))).first()
    return UNBOUNDED if row is None else reach_of(row.kind, row.parameters, row.preview)


def _chosen(parameters: Mapping[str, Any], preview: Mapping[str, Any] | None) -> Reach:
    if "filter" in parameters:
        # what matches is decided again when it runs: only a topic bounds that
        return Reach(_named(parameters["filter"].get("topic")))
    if "targets" not in parameters or preview is None:
        return UNBOUNDED
    counted = preview.get("topics", ())
    if sum(count for _topic, count in counted) != len(parameters["targets"]):
        return UNBOUNDED
    return Reach(frozenset(str(topic) for topic, _count in counted))


def _named(name: object) -> frozenset[str]:
    return frozenset({str(name)} if name else ())
