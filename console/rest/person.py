"""A person who asks REST without a token: the grant that follows from the sign-in, with no more rights than the pages
give.

Each route says which permission a person needs. The person's topics stand in the place of a user's policies: topics and
groups are seen as on the pages, figures of the whole cluster are everybody's, and what names no topic is for those who
see all. Masks stay: unmasking is done on the pages, each time with a reason.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from console.operations.actor import Actor
from console.rest.errors import PermissionMissing
from console.security.name_patterns import EVERY
from console.security.tokens import ACTIONS, UNMASK, Grant, Scope
from console.security.topic_scope import TopicScope, visible_topics

#: what the person may not do follows from permissions and topics
_SCOPES = (Scope(EVERY, frozenset(ACTIONS) - {UNMASK}),)


@dataclass(frozen=True, slots=True)
class SeenTopics:
    """The topics and groups that a person sees, in the place of policies."""

    name: str
    seen: TopicScope

    def allows(self, action: str, name: str, kind: str = "topic") -> bool:
        """Tell whether the topic or the group is seen; producer groups are seen by who sees all."""
        if kind == "producer group":
            return self.seen.see_all
        return self.seen.group(name) if kind == "group" else self.seen.topic(name)

    def allows_overview(self) -> bool:
        """Return True: figures of the whole cluster are everybody's."""
        return True

    def allows_everything(self) -> bool:
        """Tell whether all topics are seen."""
        return self.seen.see_all

    def refusal(self, what: str) -> str:
        """Return a sentence that says that it is not among what is seen."""
        return f"The topics that {self.name} sees do not allow {what}."


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonGrant(Grant):
    """The rights of somebody who is signed in."""

    actor: Actor
    seen: TopicScope
    #: those of the asked permissions that the person has, also ones that no operation asks for
    permissions: frozenset[str] = field(default_factory=frozenset)

    @property
    def who(self) -> str:
        """Who asks, as logs and the audit have it."""
        return self.name

    def require(self, permission: str) -> None:
        """Raise PermissionMissing unless the person has it."""
        if permission not in self.permissions:
            raise PermissionMissing(f"{self.name} does not have the permission {permission!r}.")


def grant_of(user: Any, asked: Collection[str]) -> PersonGrant:
    """Return the grant of somebody who is signed in, for routes that ask for these permissions; reads the database."""
    seen = TopicScope(visible_topics(user))
    seen.look_up()
    name = user.get_username()
    return PersonGrant(
        name=name,
        scopes=_SCOPES,
        expires_at=None,
        policies=SeenTopics(name, seen),
        user_id=user.pk,
        # no token has such a prefix: what is kept by it (idempotency) is the person's own
        prefix=f"person-{user.pk}",
        actor=Actor.of(user),
        seen=seen,
        permissions=frozenset(permission for permission in asked if user.has_perm(permission)),
    )
