"""Rows of who may see what and who that is: topic permissions of groups, masking rules, API tokens, users at a
provider, passwords that are to be changed, second factors."""

from __future__ import annotations

import re

from django.conf import settings
from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.db import models
from django.utils.translation import gettext_lazy as _

from console.security.name_patterns import is_well_formed


class TopicPermission(models.Model):
    """Users of the group see the topics that the pattern names: one, all that begin so, or all (name_patterns.py).

    A user none of whose groups has a row sees all topics.
    """

    group = models.ForeignKey(Group, models.CASCADE, related_name="topic_permissions", verbose_name=_("group"))
    pattern = models.CharField(
        _("topics"),
        max_length=256,
        help_text=_("orders is the topic of that name, orders* are all that begin so, * is every topic."),
    )

    class Meta:
        verbose_name = _("topic permission")
        verbose_name_plural = _("topic permissions")
        ordering = ["group__name", "pattern"]
        permissions = [("view_console", _("Can see the console"))]
        constraints = [models.UniqueConstraint(fields=["group", "pattern"], name="one_topic_permission")]

    def __str__(self) -> str:
        return f"{self.group}: {self.pattern}"

    def clean(self) -> None:
        """Check that it is a name or the beginning of names."""
        if self.pattern and not is_well_formed(self.pattern):
            raise ValidationError({"pattern": _("A star stands at the end only, as in orders*.")})


class MaskRule(models.Model):
    """Bodies or properties of topics that begin with the prefix are shown as masked, with the reason."""

    prefix = models.CharField(_("prefix of topics"), max_length=255, blank=True)
    #: "body", or names of properties as RocketMQ stores them (KEYS, TAGS, UNIQ_KEY, or one of the sender's own)
    fields = models.TextField(_("masked fields: body, or property names, one per line"), default="body")
    why = models.CharField(_("reason, shown in place of the content"), max_length=100)
    is_on = models.BooleanField(_("enabled"), default=True)

    class Meta:
        verbose_name = _("masking rule")
        verbose_name_plural = _("masking rules")
        ordering = ["prefix", "pk"]
        permissions = [("unmask", _("Can view masked content, each time with a reason that is kept"))]

    def __str__(self) -> str:
        return f"{self.prefix}*: {', '.join(self.names)}"

    @property
    def names(self) -> list[str]:
        """The body and properties that it masks."""
        return [name.strip() for name in re.split(r"[\n,]", self.fields) if name.strip()]

    def clean(self) -> None:
        """Check that the rule masks something."""
        if not self.names:
            raise ValidationError({"fields": _("Enter at least one.")})


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


class ApiToken(models.Model):
    """A token of the REST interface. Only a hash is kept; the token itself is shown once, when it is made.

    `scopes` is a list of ``{"pattern": "orders*", "actions": ["publish", "read"]}`` (name_patterns.py).
    `access_user` is the user of the brokers' access control that the token is bound to; "" for none.
    """

    name = models.CharField(_("name"), max_length=100)
    prefix = models.CharField(_("prefix"), max_length=16, unique=True, editable=False)
    digest = models.CharField(_("SHA-256"), max_length=64, editable=False)
    scopes = models.JSONField(_("scopes"), default=list)
    access_user = models.CharField(_("user of access control"), max_length=128, blank=True, default="")
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, verbose_name=_("created by"), related_name="+"
    )
    created_at = models.DateTimeField(_("created at"), auto_now_add=True)
    expires_at = models.DateTimeField(_("expires"), null=True, blank=True)
    revoked_at = models.DateTimeField(_("revoked"), null=True, blank=True)
    last_used_at = models.DateTimeField(_("last used"), null=True, blank=True, editable=False)
    #: the one that was made in its place; both count until this one expires
    replaced_by = models.ForeignKey(
        "self", models.SET_NULL, null=True, blank=True, editable=False, related_name="+", verbose_name=_("replaced by")
    )
    requests_per_s = models.PositiveIntegerField(
        _("requests per second (0: as in the settings)"), default=0, db_default=0
    )

    class Meta:
        verbose_name = _("API token")
        verbose_name_plural = _("API tokens")
        ordering = ["name", "prefix"]
        constraints = [
            models.UniqueConstraint(
                fields=["name"],
                condition=models.Q(revoked_at=None, replaced_by=None),
                name="one_token_of_a_name",
                violation_error_message=_("A token with this name already exists."),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} (esc_{self.prefix}_...)"


class PasswordDue(models.Model):
    """An account whose password somebody else has set: nothing is served to it before its owner sets another one."""

    user = models.OneToOneField(settings.AUTH_USER_MODEL, models.CASCADE, primary_key=True, related_name="password_due")
    since = models.DateTimeField(auto_now_add=True)

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return str(self.user)


class SecondFactor(models.Model):
    """The secret that a person's authenticator has, too, sealed with SECRET_KEY (keys.py).

    `last_step` is the number of the 30 seconds whose code was taken last: no code is taken twice. `wrong` counts wrong
    codes since the last right one.
    """

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, models.CASCADE, primary_key=True, related_name="second_factor"
    )
    secret = models.CharField(max_length=255)
    confirmed_at = models.DateTimeField(auto_now_add=True)
    last_step = models.BigIntegerField(default=0)
    wrong = models.PositiveIntegerField(default=0)

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return str(self.user)


class RecoveryCode(models.Model):
    """A code that opens once in the place of an authenticator that is lost. Only its SHA-256 is kept."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="recovery_codes")
    digest = models.CharField(max_length=64)
    used_at = models.DateTimeField(null=True)

    class Meta:
        default_permissions = ()
        constraints = [models.UniqueConstraint(fields=["user", "digest"], name="one_recovery_code")]

    def __str__(self) -> str:
        return str(self.user)
