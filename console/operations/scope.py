"""What an operation can touch: the names that bound it. Who sees some topics only may do, and look at, no others.

What nothing bounds (pausing all timers, creating a topic) is for those who see all topics.
"""

from __future__ import annotations

from dataclasses import dataclass

from console.security.topic_scope import Eyes


@dataclass(frozen=True, slots=True)
class Scope:
    """Names of topics, consumer groups and Redisson queues that are touched, and no others."""

    topics: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    queues: frozenset[str] = frozenset()

    def is_seen(self, eyes: Eyes) -> bool:
        """Return whether all of it is seen; a scope without any name is seen by those who see all."""
        if eyes.see_all:
            return True
        checks = [*map(eyes.topic, self.topics), *map(eyes.group, self.groups), *map(eyes.queue, self.queues)]
        return bool(checks) and all(checks)


#: seen by those who see all topics
UNBOUNDED = Scope()


def named(name: object) -> frozenset[str]:
    """Return a set with this one name; empty for no name."""
    return frozenset({str(name)} if name else ())
