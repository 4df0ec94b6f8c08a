"""What a policy is about: a topic, a group, the cluster, one by its name, many by its beginning, or all.

*            everything          Topic:*        every topic
Topic:order  one topic           Topic:order*   the topics that begin with "order"
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from .errors import InvalidAccess

MOST_NAME_CHARACTERS = 255


class Kind(StrEnum):
    """Kinds of resources (ResourceType)."""

    ANY = "Any"
    CLUSTER = "Cluster"
    NAMESPACE = "Namespace"
    TOPIC = "Topic"
    GROUP = "Group"


class Pattern(StrEnum):
    """How a resource's name is meant (ResourcePattern)."""

    ANY = "Any"
    LITERAL = "Literal"
    PREFIXED = "Prefixed"


_KINDS = {kind.lower(): kind for kind in Kind}
_RANKS = {Pattern.LITERAL: 0, Pattern.PREFIXED: 1, Pattern.ANY: 2}


@dataclass(frozen=True, slots=True)
class Resource:
    """One or many resources of a kind."""

    kind: Kind
    pattern: Pattern
    name: str = ""

    def __str__(self) -> str:
        if self.kind is Kind.ANY:
            return "*"
        return f"{self.kind}:{self.name}{'' if self.pattern is Pattern.LITERAL else '*'}"

    def covers(self, kind: Kind, name: str) -> bool:
        """Tell whether the resource of this kind and name is meant."""
        if self.kind is not kind:
            return self.kind is Kind.ANY
        if self.pattern is Pattern.LITERAL:
            return name == self.name
        return self.pattern is Pattern.ANY or name.startswith(self.name)

    @property
    def rank(self) -> tuple[bool, int, int]:
        """The smaller, the more exact: of several that cover one name, the most exact decides."""
        return self.kind is Kind.ANY, _RANKS[self.pattern], -len(self.name)


def parse_resource(text: str) -> Resource:
    """The resource that is written so; raises InvalidAccess."""
    if text == "*":
        return Resource(Kind.ANY, Pattern.ANY)
    word, colon, name = text.partition(":")
    kind = _KINDS.get(word.lower())
    if kind is None or not colon or not name:
        raise InvalidAccess(f"{text[:80]!r} is no resource; write Topic:name, Group:name*, Cluster:* or *.")
    if kind is Kind.ANY:
        raise InvalidAccess("All resources of every kind are written as *.")
    if name == "*":
        return Resource(kind, Pattern.ANY)
    pattern = Pattern.PREFIXED if name.endswith("*") else Pattern.LITERAL
    name = name.removesuffix("*")
    if "*" in name or not name.isprintable() or " " in name or len(name) > MOST_NAME_CHARACTERS:
        raise InvalidAccess(f"{text[:80]!r} is no resource; a star may only end it, and names have no blanks.")
    return Resource(kind, pattern, name)
