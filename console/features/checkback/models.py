"""The address at which producers of one group are asked, and its secret.

The secret is not stored: it is made from Django's SECRET_KEY, the group and a salt of the row, so that a copy of the
database signs nothing.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
from typing import Any

from django.conf import settings
from django.db import models
from django.utils.crypto import salted_hmac
from django.utils.translation import gettext_lazy as _

from console.features.checkback.allowed import LONGEST_ADDRESS

_PURPOSE = "console.features.checkback.secret"


def new_salt() -> str:
    """Return 128 random bits in hex, for a new secret."""
    return secrets.token_hex(16)


def make_secret(group: str, salt: str, key: str | None = None) -> str:
    """Return the secret of a group's address, by which it knows our questions, and we its answers; made from
    SECRET_KEY unless another key is named."""
    raw = salted_hmac(_PURPOSE, f"{group}\n{salt}", secret=key, algorithm="sha256").digest()
    return "chk_" + base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def digest(secret: str) -> str:
    """Return the SHA-256 of a secret in hex, by which a change of SECRET_KEY is noticed."""
    return hashlib.sha256(secret.encode()).hexdigest()


class CheckAddress(models.Model):
    """The address at which one group's producers are asked what became of a half. Its secret is not here."""

    group = models.CharField(_("producer group"), max_length=127, unique=True)
    url = models.CharField(_("address"), max_length=LONGEST_ADDRESS)
    #: what the secret is made from, together with SECRET_KEY
    salt = models.CharField(max_length=32, editable=False)
    #: SHA-256 of the secret: differs once SECRET_KEY is another one
    digest = models.CharField(max_length=64, editable=False)
    is_enabled = models.BooleanField(_("enabled"), default=True)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, editable=False, related_name="+"
    )
    #: kept when the user is deleted; a token has a name only
    actor = models.CharField(_("created by"), max_length=150, editable=False)
    created_at = models.DateTimeField(_("created at"), auto_now_add=True)
    changed_at = models.DateTimeField(_("changed"), auto_now=True)
    # what the worker found, written by it alone
    asked_at = models.DateTimeField(_("last checked"), null=True, editable=False)
    outcome = models.CharField(_("last answer"), max_length=200, blank=True, editable=False)
    #: in a row
    failures = models.IntegerField(_("failures"), default=0, editable=False)
    #: not asked before, because it failed so often
    resting_until = models.DateTimeField(_("not checked until"), null=True, editable=False)

    class Meta:
        verbose_name = _("check-back address")
        verbose_name_plural = _("check-back addresses")
        ordering = ["group"]

    def __str__(self) -> str:
        return self.group

    def shown(self) -> dict[str, Any]:
        """Return what the audit keeps of the address."""
        return {"group": self.group, "url": self.url, "is_enabled": self.is_enabled}
