"""Who acts: a person in the console, or the bearer of a token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from console.operations.errors import NotAllowed
from console.operations.rows import AuditEntry

STEER_TIMERS = "console.steer_timers"
PAUSE_TIMERS = "console.pause_timers"
STEER_DELAYED_QUEUES = "console.steer_delayed_queues"
STEER_TRANSACTIONS = "console.steer_transactions"
RESEND_DEAD_LETTERS = "console.resend_dead_letters"
RESET_OFFSETS = "console.reset_offsets"
CHANGE_SETTINGS = "console.change_settings"
PERMISSIONS = (
    STEER_TIMERS,
    PAUSE_TIMERS,
    STEER_DELAYED_QUEUES,
    STEER_TRANSACTIONS,
    RESEND_DEAD_LETTERS,
    RESET_OFFSETS,
    CHANGE_SETTINGS,
)


@dataclass(frozen=True, slots=True)
class Actor:
    """`name` stands in the audit; `permissions` are Django's, by their full names."""

    name: str
    permissions: frozenset[str]
    user_id: int | None = None

    @classmethod
    def of(cls, user: Any) -> Actor:
        """A signed-in person."""
        allowed = frozenset(permission for permission in PERMISSIONS if user.has_perm(permission))
        return cls(user.get_username(), allowed, user.pk)

    def require(self, permission: str, kind: str) -> None:
        """Raises NotAllowed, and says so in the audit."""
        if permission not in self.permissions:
            AuditEntry.objects.create(
                user_id=self.user_id, actor=self.name, what=AuditEntry.What.DENIED, kind=kind,
                result={"permission": permission},
            )  # fmt: skip
            raise NotAllowed(permission)
