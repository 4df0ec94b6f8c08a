"""A test of who a rule tells: one message, marked as such, by each of its channels, now. The audit keeps who did it.

It is not a kind of operation: nothing changes, and there is nothing to preview.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.utils import timezone
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from console.features.alerts.channels import CHANNELS, Trial
from console.features.alerts.models import AlertRule
from console.operations.actor import CHANGE_ALERT_RULE, UNBOUNDED, Actor
from console.operations.kind import Act
from console.operations.models import AuditEntry
from console.operations.registry import register


@register
class TestRule(Act):
    """The act of testing the channels of a rule."""

    name = "alerts.test"
    title = _("Test an alert rule")

    def audited(self, result: Mapping[str, Any]) -> str:
        """Return the rule, and which channels delivered."""
        told = [
            f"{each['channel']}: {gettext('delivered') if not each['error'] else each['error']}"
            for each in result.get("channels", ())
        ]
        return " · ".join([str(result.get("rule", "")), *told])


def require_trial(actor: Actor) -> None:
    """Raise NotAllowed or OutOfReach for who may not test rules; the audit keeps the refusal."""
    actor.require(CHANGE_ALERT_RULE, TestRule.name)
    actor.require_scope(UNBOUNDED, TestRule.name)


def try_rule(rule: AlertRule, actor: Actor) -> Sequence[Trial]:
    """Send the test by every channel of a rule, also of one that is off. Raises NotAllowed, OutOfReach."""
    require_trial(actor)
    at = timezone.now()
    tried = [channel.trial(rule, at) for channel in CHANNELS.values() if channel.is_wanted(rule)]
    channels = [
        {"channel": each.name, "status": each.status, "took_ms": each.took_ms, "error": each.error} for each in tried
    ]
    AuditEntry.objects.create(
        user_id=actor.user_id,
        actor=actor.name,
        what=AuditEntry.What.DONE if all(each.is_delivered for each in tried) else AuditEntry.What.FAILED,
        kind=TestRule.name,
        result={"rule": str(rule), "number": rule.pk, "channels": channels, **actor.told},
    )
    return tried
