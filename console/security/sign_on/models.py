"""Rows of who a user is at the provider."""

from __future__ import annotations

from django.conf import settings
from django.db import models

SUBJECT_LENGTH = 255


class Identity(models.Model):
    """A user who signs in by a provider. Names may change there, or be given to somebody else; the subject does not."""

    issuer = models.CharField(max_length=255)
    #: at most 255 ASCII characters (OpenID Connect Core 1.0, 2)
    subject = models.CharField(max_length=SUBJECT_LENGTH)
    user = models.OneToOneField(settings.AUTH_USER_MODEL, models.CASCADE, related_name="identity")

    class Meta:
        default_permissions = ()
        constraints = [models.UniqueConstraint(fields=["issuer", "subject"], name="one_identity")]

    def __str__(self) -> str:
        return f"{self.user} of {self.issuer}"
