"""Names of topics and groups that a text may mean, from the mirror: those that begin with it first."""

from __future__ import annotations

from collections.abc import Iterable

from broker.mirror.models import ConsumerGroup, Topic
from console.security.topic_scope import eyes
from console.site.mirrored import mirrored


def topics_named(text: str, count: int) -> list[str]:
    """At most `count` topics, RocketMQ's own left out."""
    found = Topic.objects.filter(broker=mirrored().name, is_system=False, name__icontains=text)
    seen = eyes()
    return _first((name for name in found.values_list("name", flat=True) if seen.topic(name)), text, count)


def groups_named(text: str, count: int) -> list[str]:
    """At most `count` consumer groups, RocketMQ's own left out."""
    found = ConsumerGroup.objects.filter(broker=mirrored().name, is_system=False, name__icontains=text)
    seen = eyes()
    return _first((name for name in found.values_list("name", flat=True) if seen.group(name)), text, count)


def _first(names: Iterable[str], text: str, count: int) -> list[str]:
    wanted = text.lower()
    return sorted(names, key=lambda name: (not name.lower().startswith(wanted), name))[:count]
