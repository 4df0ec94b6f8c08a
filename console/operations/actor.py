"""The person in the console, or bearer of a token, who acts, and what an operation of theirs can touch.

Names bound an operation. Who sees some topics only may do, and look at, no others; what nothing bounds (pausing all
timers, creating a topic) is for those who see all topics.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

from django.utils import timezone

from console.operations.errors import NotAllowed, OutOfReach
from console.operations.models import AuditEntry
from console.security.topic_scope import ALL, TopicScope, VisibleTopics, visible_topics


@dataclass(frozen=True, slots=True)
class Scope:
    """Names of topics, consumer groups and Redisson queues that are touched, and no others."""

    topics: frozenset[str] = frozenset()
    #: touched as a whole: all that they read has to be seen
    groups: frozenset[str] = frozenset()
    queues: frozenset[str] = frozenset()
    #: groups that are touched in `topics` alone: whatever else they read stays as it is
    readers: frozenset[str] = frozenset()

    def is_seen(self, scope: TopicScope) -> bool:
        """Return whether all of it is seen; a scope without any name is seen by those who see all."""
        if scope.see_all:
            return True
        checks = [*map(scope.topic, self.topics), *map(scope.whole_group, self.groups)]
        checks += [*map(scope.queue, self.queues), *map(scope.group, self.readers)]
        return bool(checks) and all(checks)


#: seen by those who see all topics
UNBOUNDED = Scope()


def named(name: object) -> frozenset[str]:
    """Return a set with this one name; empty for no name."""
    return frozenset({str(name)} if name else ())


STEER_TIMERS = "console.steer_timers"
PAUSE_TIMERS = "console.pause_timers"
STEER_DELAYED_QUEUES = "console.steer_delayed_queues"
STEER_TRANSACTIONS = "console.steer_transactions"
RESEND_DEAD_LETTERS = "console.resend_dead_letters"
SEND_MESSAGES = "console.send_messages"
RESET_OFFSETS = "console.reset_offsets"
CHANGE_SETTINGS = "console.change_settings"
#: users of the brokers' access control, their secrets and policies
CHANGE_ACCESS = "console.change_access"
#: those of the stock admin, for people and their tokens
ADD_USER, CHANGE_USER = "auth.add_user", "auth.change_user"
ADD_ROLE, CHANGE_ROLE = "auth.add_group", "auth.change_group"
ADD_TOKEN, CHANGE_TOKEN = "console.add_apitoken", "console.change_apitoken"
SILENCE_ALERTS = "console.silence_alerts"
#: those of the stock admin
ADD_ALERT_RULE, CHANGE_ALERT_RULE, DELETE_ALERT_RULE = (
    "console.add_alertrule",
    "console.change_alertrule",
    "console.delete_alertrule",
)
PERMISSIONS = (
    STEER_TIMERS,
    PAUSE_TIMERS,
    STEER_DELAYED_QUEUES,
    STEER_TRANSACTIONS,
    RESEND_DEAD_LETTERS,
    SEND_MESSAGES,
    RESET_OFFSETS,
    CHANGE_SETTINGS,
    CHANGE_ACCESS,
    ADD_USER,
    CHANGE_USER,
    ADD_ROLE,
    CHANGE_ROLE,
    ADD_TOKEN,
    CHANGE_TOKEN,
    SILENCE_ALERTS,
    ADD_ALERT_RULE,
    CHANGE_ALERT_RULE,
    DELETE_ALERT_RULE,
)


#: refusals of one actor that the audit keeps within an hour: who may only look could fill it
DENIALS_AN_HOUR = 100


@dataclass(frozen=True, slots=True)
class Actor:
    """The person or token that asks: `name` stands in the audit; `permissions` are Django's, by their full names."""

    name: str
    permissions: frozenset[str]
    user_id: int | None = None
    #: topics that it may touch; who has a token is bounded by the token
    visible: VisibleTopics = ALL
    #: the prefix of the token, by which it is known whatever its name
    token: str = ""

    @property
    def told(self) -> dict[str, str]:
        """What an entry of the audit says of the actor beside the name."""
        return {"token": self.token} if self.token else {}

    @classmethod
    def of(cls, user: Any) -> Actor:
        """Return the actor that a signed-in person is, with what this person may do."""
        allowed = frozenset(permission for permission in PERMISSIONS if user.has_perm(permission))
        return cls(user.get_username(), allowed, user.pk, visible_topics(user))

    def require(self, permission: str, kind: str) -> None:
        """Raise NotAllowed unless the actor has the permission; the audit keeps the refusal."""
        if permission not in self.permissions:
            self._note_denial(kind, permission)
            raise NotAllowed(permission)

    def require_scope(self, scope: Scope, kind: str, why: Literal["selection", "all", "other"] = "selection") -> None:
        """Raise OutOfReach when it touches what the actor does not see; the audit keeps the refusal. `why` says what is
        refused: a selection that is too wide, what is of all topics, or something else that is named."""
        if not scope.is_seen(TopicScope(self.visible)):
            self._note_denial(kind, "topics")
            raise OutOfReach(why)

    def _note_denial(self, kind: str, permission: str) -> None:
        """Write the refusal down, unless this actor has had so many within the hour that nothing is learnt by more."""
        lately = timezone.now() - timedelta(hours=1)
        denied = AuditEntry.objects.filter(actor=self.name, what=AuditEntry.What.DENIED, at__gt=lately)
        if denied[:DENIALS_AN_HOUR].count() >= DENIALS_AN_HOUR:
            return
        AuditEntry.objects.create(
            user_id=self.user_id,
            actor=self.name,
            what=AuditEntry.What.DENIED,
            kind=kind,
            result={"permission": permission, **self.told},
        )
