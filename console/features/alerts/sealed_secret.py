"""Secrets of webhooks: the one that follows from a rule, and the one that a service gave, which is kept sealed."""

from __future__ import annotations

from django.db import transaction

from console.features.alerts.models import AlertRule
from console.features.checkback.models import make_secret
from console.security import keys

#: what a sealed secret opens for
_PURPOSE = "alert webhook"


def secret_of_rule(rule: AlertRule) -> str:
    """Return the secret under which a plain webhook of a rule is signed."""
    return make_secret(f"alert rule {rule.pk}", rule.salt)


def seal(text: str) -> str:
    """Return a secret as it is kept."""
    return keys.seal(_PURPOSE, text)


def is_sealed(value: object) -> bool:
    """Tell whether a value is a secret as it is kept, which a key that there is opens."""
    try:
        return isinstance(value, str) and keys.unseal(_PURPOSE, value) != value
    except keys.Unreadable:
        return False


def unsealed(rule: AlertRule) -> str:
    """Return the secret that was typed in for a rule; empty for none. Raises keys.Unreadable."""
    return keys.unseal(_PURPOSE, rule.webhook_secret)


def renew_seals() -> tuple[int, list[str]]:
    """Seal every secret with the key of today; return how many were not, and the rules whose secret no key opens."""
    changed_rows, unreadable = 0, []
    with transaction.atomic():
        for row in AlertRule.objects.select_for_update().exclude(webhook_secret="").order_by("pk"):
            if keys.is_of_today(_PURPOSE, row.webhook_secret):
                continue
            try:
                row.webhook_secret = seal(unsealed(row))
            except keys.Unreadable:
                unreadable.append(str(row))
                continue
            row.save(update_fields=["webhook_secret"])
            changed_rows += 1
    return changed_rows, unreadable
