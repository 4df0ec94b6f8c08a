"""`manage.py secret_key`: seal anew what an older SECRET_KEY has sealed, and say what still needs that one."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from broker.log_lines import escaped
from console.features.alerts import sealed_secret
from console.features.alerts.models import AlertRule
from console.features.alerts.webhooks.plain import Plain
from console.features.checkback.registry import groups_of_older_keys
from console.security import second_factor


class Command(BaseCommand):
    """Bring what is kept from older keys to the key of today; does nothing twice."""

    help = "Seals anew what a key of SECRET_KEY_FALLBACKS has sealed, and says what ends with those. Idempotent."

    def handle(self, *args: Any, **options: Any) -> None:
        """Seal, then say what is left; exit code 1 where something cannot be opened by any key."""
        renewed, unreadable = second_factor.renew_seals()
        self.stdout.write(escaped(f"{renewed} second factors were sealed anew."))
        of_webhooks, closed = sealed_secret.renew_seals()
        self.stdout.write(escaped(f"{of_webhooks} secrets of webhooks were sealed anew."))
        if closed:
            self.stdout.write(
                escaped(f"No key opens the secrets of these webhooks, enter them again: {'; '.join(closed)}.")
            )
        groups = groups_of_older_keys()
        if groups:
            self.stdout.write(escaped(f"Check-back addresses need a new secret: {', '.join(groups)}."))
        older = len(settings.SECRET_KEY_FALLBACKS)
        if older:
            plain = AlertRule.objects.filter(webhook_format=Plain.name).exclude(webhook="")
            hooked = plain.order_by("name").values_list("name", flat=True)
            if hooked:
                names = ", ".join(map(str, hooked))
                self.stdout.write(escaped(f"Webhooks are signed with another secret since, see their rules: {names}."))
            said = f"{older} older keys count: sessions that nobody used since the change end with them."
            self.stdout.write(escaped(said))
        if unreadable:
            names = ", ".join(unreadable)
            raise CommandError(escaped(f"No key opens the second factors of {names}: add the key, or reset them."))
