"""What rights on names open, for the preview of who gives them: which of the names that are there now they mean.

A name alone that nothing has yet, or that others begin with, is what people type by mistake: the preview says both.

    {"right": "publish", "what": "topic", "how": "beginning", "name": "order", "count": 4, "names": [...], "others": 0}

`how` is every, beginning or name; `what` topic, group, producer, or either: a name that no topic and no group has yet.
`others` begin with a name, and are not opened by it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from broker.mirror.models import ConsumerGroup, Topic
from console.operations.kind import ChangesPreview
from console.security.name_patterns import EVERY, beginning, is_beginning

#: names of each line that are shown
SHOWN = 5
TOPIC, GROUP, EITHER, PRODUCER = "topic", "group", "either", "producer"
#: what the names of a right are of; rights that are on every name only have none
_MEANT: Mapping[str, tuple[str, ...]] = {
    "topics": (TOPIC,),
    "publish": (TOPIC,),
    "read": (TOPIC, GROUP),
    "admin": (PRODUCER,),
    "consume": (TOPIC, GROUP),
    "configure": (TOPIC, GROUP),
    "unmask": (TOPIC,),
}
#: behind every character of a name
_LAST = "\U0010ffff"


@dataclass(frozen=True, slots=True, kw_only=True)
class PeoplePreview(ChangesPreview):
    """A preview of an account, a role or a token that is changed."""

    #: what the names in it open now (`opened`)
    opens: list[dict[str, Any]] = field(default_factory=list)
    #: what falls away with it (`closed`)
    closes: list[dict[str, Any]] = field(default_factory=list)


def opened(patterns_of: Mapping[str, Collection[str]]) -> list[dict[str, Any]]:
    """Return a line for each pattern of each right, and two where it means topics and groups."""
    if not any(patterns_of.values()):
        return []
    there = {TOPIC: _names(Topic, is_system=False), GROUP: _names(ConsumerGroup), PRODUCER: ()}
    lines = []
    for right, patterns in patterns_of.items():
        for pattern in patterns:
            of_kinds = [_line(right, pattern, kind, there[kind]) for kind in _MEANT.get(right, ())]
            lines += _told(of_kinds)
    return lines


def _names(model: Any, **only: Any) -> Sequence[str]:
    return sorted(set(model.objects.filter(**only).values_list("name", flat=True)))


def _line(right: str, pattern: str, kind: str, names: Sequence[str]) -> dict[str, Any]:
    start = beginning(pattern)
    begin_so = names[bisect_left(names, start) : bisect_left(names, start + _LAST)]
    meant = begin_so if is_beginning(pattern) else [name for name in begin_so if name == start]
    return {
        "right": right,
        "what": kind,
        "how": "every" if pattern == EVERY else "beginning" if is_beginning(pattern) else "name",
        "name": start,
        "count": len(meant),
        "names": list(meant[:SHOWN]),
        "others": len(begin_so) - len(meant),
    }


def _told(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the lines that are worth a sentence: of a name alone what has it, or that neither does yet."""
    if len(lines) < 2 or lines[0]["how"] != "name":
        return lines
    there = [line for line in lines if line["count"]]
    return there or [{**lines[0], "what": EITHER, "others": sum(line["others"] for line in lines)}]
