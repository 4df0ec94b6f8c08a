"""New sends of a broker stopped, so that it runs empty, or allowed again: name servers say so of all its topics.

It is not a kind of operation: nothing is counted and no item is touched. The audit keeps who did it and why.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from console.operations.actor import CHANGE_SETTINGS, Actor
from console.operations.errors import ReasonMissing
from console.operations.kind import Act
from console.operations.models import AuditEntry
from console.operations.registry import register
from console.site import broker as site_broker
from console.site.chosen import choice_of, choosing


@register
class Sends(Act):
    """The act of stopping new sends to a broker, or of allowing them again."""

    name = "brokers.sends"
    title = _("New sends to a broker")

    def audited(self, result: Mapping[str, Any]) -> str:
        """Return the broker, and whether it takes new sends now."""
        words = gettext("allowed") if result.get("is_allowed") else gettext("stopped")
        return f"{result.get('broker', '')} · {words}"


def set_sends(broker: str, is_allowed: bool, actor: Actor, reason: str) -> dict[str, int]:
    """Stop or allow new sends to a broker; return by name server how many topics that are.

    Raises NotAllowed, ReasonMissing, ClientError; Http404 for a cluster that the settings do not have.
    """
    actor.require(CHANGE_SETTINGS, Sends.name)
    if not reason.strip():
        raise ReasonMissing
    choice = choice_of(broker)
    with choosing(choice):
        admin = site_broker.admin()
        # one that no name server knows would be answered with 0 topics
        admin.asked()
        counts = admin.set_writable(choice.broker, is_allowed)
    AuditEntry.objects.create(
        user_id=actor.user_id,
        actor=actor.name,
        what=AuditEntry.What.CONFIRMED,
        kind=Sends.name,
        reason=reason.strip(),
        result={"broker": broker, "is_allowed": is_allowed, "topics": counts, **actor.told},
    )
    return counts
