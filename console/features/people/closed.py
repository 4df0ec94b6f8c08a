"""What is not seen, and what has no effect, once topics or roles are others: for the preview of who takes them away.

Somebody who is limited to topics loses sight of the rest, and whatever is of all topics: permissions for that are kept
and open nothing.

    {"what": "topics", "count": 12, "names": ["bills", ...]}       hidden of those that are there now, some named
    {"what": "groups", "count": 3, "names": ["billing", ...]}      the same of consumer groups
    {"what": "all_topics", "count": 1, "names": ["auth.change_user"]}   permissions that need all topics
    {"what": "permissions", "count": 1, "names": ["console.unmask"]}    permissions that the account has no more
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import Group

from broker.mirror.models import ConsumerGroup, Topic
from broker.rocketmq.topics import GROUP_PREFIXES
from console.operations.registry import KINDS
from console.security.name_patterns import EVERY
from console.security.topic_scope import TopicScope, VisibleTopics

#: names of each line that are shown
SHOWN = 5
#: of no operation: pages and forms that whoever sees some topics only does not get
_PAGES_OF_ALL = frozenset(
    {
        "console.view_apitoken",
        "console.share_views",
        "console.view_checkaddress",
        "console.add_checkaddress",
        "console.change_checkaddress",
        "console.delete_checkaddress",
    }
)


@dataclass(frozen=True, slots=True)
class Reach:
    """What an account or a role reaches: topics by their patterns (`EVERY`: all; none: nothing), and permissions."""

    topics: Collection[str] = (EVERY,)
    permissions: frozenset[str] = frozenset()


def permissions_of_all() -> frozenset[str]:
    """Return the permissions for what is of all topics: each operation that asks for one of them is."""
    of_all = {kind.permission for kind in KINDS.values() if kind.is_of_all}
    bounded = {kind.permission for kind in KINDS.values() if not kind.is_of_all}
    return frozenset(of_all - bounded) | _PAGES_OF_ALL


def permissions_in(roles: Iterable[Group]) -> frozenset[str]:
    """Return the full names of the permissions that these roles have together."""
    rows = Group.objects.filter(pk__in=[role.pk for role in roles])
    pairs = rows.values_list("permissions__content_type__app_label", "permissions__codename")
    return frozenset(f"{app}.{codename}" for app, codename in pairs if codename)


def closed(before: Reach, after: Reach) -> list[dict[str, Any]]:
    """Return a line for each kind of thing that falls away between the two, the widest first."""
    was, will_be = (TopicScope(VisibleTopics.of(reach.topics)) for reach in (before, after))
    lines = []
    if not will_be.see_all:
        named = set(Topic.objects.filter(is_system=False).values_list("name", flat=True))
        # retries and dead letters are their group's
        topics = [name for name in named if not name.startswith(GROUP_PREFIXES)]
        groups = set(ConsumerGroup.objects.values_list("name", flat=True))
        lines.append(_line("topics", [name for name in topics if was.topic(name) and not will_be.topic(name)]))
        lines.append(_line("groups", [name for name in groups if was.group(name) and not will_be.group(name)]))
        lines.append(_line("all_topics", after.permissions & permissions_of_all(), shown=None))
    lines.append(_line("permissions", before.permissions - after.permissions, shown=None))
    return [line for line in lines if line["count"]]


def _line(what: str, names: Collection[str], shown: int | None = SHOWN) -> dict[str, Any]:
    return {"what": what, "count": len(names), "names": sorted(names)[:shown]}
