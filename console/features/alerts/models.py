"""Rows of alerts: the rules, what they raised, and what is silenced."""

from __future__ import annotations

import uuid

from django.db import models
from django.utils import timezone
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from console.features.alerts.units import in_words
from console.features.checkback.models import new_salt


class AlertRule(models.Model):
    """A rule that watches one value: raised when the value of a subject has been above the limit for `for_s`."""

    class What(models.TextChoices):
        """The values that a rule can watch; units.py says in which unit each is kept."""

        BROKER_DOWN = "broker-down", _("broker unreachable")
        BACKLOG = "backlog", _("lag of a group")
        STILL = "still", _("group with lag consumes nothing")
        DEAD_LETTERS = "dead-letters", _("messages dead-lettered by a group in 5 min")
        LATENESS = "lateness", _("timer lateness p99")
        LANE_LATE = "lane-late", _("delay level overdue")
        HALF_AGE = "half-age", _("age of the oldest undecided half message")
        STUCK_QUEUE = "stuck-queue", _("due value of a Redisson queue not transferred")
        DISK_USED = "disk-used", _("disk used on a broker")
        SLAVE_BEHIND = "slave-behind", _("slave behind its master")

    #: empty: it is called by what it watches
    name = models.CharField(_("name"), max_length=80, blank=True, default="")
    what = models.CharField(_("metric"), max_length=16, choices=What.choices)
    #: `*` stands for any characters
    subject = models.CharField(_("subject (name, * for any)"), max_length=255, default="*")
    limit = models.FloatField(_("threshold"))
    for_s = models.PositiveIntegerField(_("for at least (s)"), default=60)
    emails = models.TextField(_("e-mail recipients, one per line"), blank=True)
    webhook = models.CharField(_("webhook"), max_length=500, blank=True)
    #: name of what is posted there (webhooks/registry.py)
    webhook_format = models.CharField(_("webhook format"), max_length=16, default="plain")
    #: sealed (rule_fields.py); empty: the service asks for none, or it follows from `salt`
    webhook_secret = models.TextField(_("webhook secret"), blank=True, default="", editable=False)
    salt = models.CharField(max_length=32, default=new_salt, editable=False)
    is_on = models.BooleanField(_("enabled"), default=True)

    class Meta:
        verbose_name = _("alert rule")
        verbose_name_plural = _("alert rules")
        ordering = ["what", "subject", "limit"]

    def __str__(self) -> str:
        watched = f"{self.get_what_display()} {self.subject} > {in_words(self.what, self.limit)}"
        return f"{self.name}: {watched}" if self.name else watched

    @property
    def addresses(self) -> list[str]:
        """The mail addresses of the rule."""
        return self.emails.split()


class Alert(models.Model):
    """A subject that is, or was, above the limit of a rule."""

    class State(models.TextChoices):
        """The state of an alert: above its limit, raised or over."""

        PENDING = "pending", _("above threshold, not firing yet")
        FIRING = "firing", _("firing")
        ENDED = "ended", _("resolved")

    rule = models.ForeignKey(AlertRule, models.CASCADE, related_name="alerts", verbose_name=_("rule"))
    subject = models.CharField(_("subject"), max_length=255)
    state = models.CharField(_("state"), max_length=8, choices=State.choices, default=State.PENDING)
    #: the newest and the highest that was read
    value = models.FloatField(_("value"))
    highest = models.FloatField(_("highest"))
    since = models.DateTimeField(_("since"))
    raised_at = models.DateTimeField(_("firing since"), null=True)
    ended_at = models.DateTimeField(_("resolved"), null=True)
    was_silenced = models.BooleanField(_("silenced"), default=False)
    #: what became of telling, as releases wrote it that had no rows for it; empty since then
    told_before = models.TextField(_("notified"), blank=True, editable=False)
    #: set for whoever sees some of the topics only that the group reads which it is about
    reads_others = False

    class Meta:
        verbose_name = _("alert")
        verbose_name_plural = _("alerts")
        ordering = ["-since", "-id"]
        default_permissions = ("view",)
        permissions = [("silence_alerts", _("Can silence alerts"))]
        constraints = [
            models.UniqueConstraint(
                fields=["rule", "subject"], condition=~models.Q(state="ended"), name="one_open_alert"
            )
        ]

    def __str__(self) -> str:
        return f"{self.subject}: {self.rule}"

    @property
    def told(self) -> str:
        """The newest known outcome of telling, by channel; empty until somebody was told."""
        known = [row for row in self.deliveries.all() if row.changed_at is not None]
        known.sort(key=lambda row: (row.changed_at, row.tries > 0, row.created_at))
        newest = {row.channel: row for row in known}
        words = [newest[channel].words for channel in sorted(newest)]
        return "; ".join([self.told_before, *words] if self.told_before else words)


class Delivery(models.Model):
    """An alert's news that one channel tells, however often it is tried."""

    class Channel(models.TextChoices):
        """The way in which it is told (see deliveries.py)."""

        MAIL = "mail", _("mail")
        WEBHOOK = "webhook", _("webhook")

    #: known to a program that gets it, the same with each try
    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    alert = models.ForeignKey(Alert, models.CASCADE, related_name="deliveries")
    channel = models.CharField(max_length=16, choices=Channel.choices)
    #: people who get it; NULL: a program does
    receivers = models.PositiveSmallIntegerField(null=True)
    #: what its channel made of the news, the same with each try
    body = models.TextField()
    tries = models.PositiveSmallIntegerField(default=0)
    #: why the last try failed; empty: it did not, or there was none
    error = models.TextField(blank=True, default="")
    created_at = models.DateTimeField()
    #: of the last try, or of its making; NULL: made by a release that wrote `told_before`, and not tried since
    changed_at = models.DateTimeField(null=True)
    #: NULL: it was told, or is given up
    next_at = models.DateTimeField(null=True, db_index=True)
    told_at = models.DateTimeField(null=True)

    class Meta:
        verbose_name = _("delivery")
        verbose_name_plural = _("deliveries")
        ordering = ["created_at"]
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.alert}: {self.channel}, {self.tries}"

    @property
    def words(self) -> str:
        """The outcome of the delivery, in the reader's language."""
        channel = {"channel": self.get_channel_display()}
        if self.error:
            said = gettext("%(channel)s failed: %(error)s") % {**channel, "error": self.error}
        elif self.told_at is None:
            return gettext("%(channel)s pending") % channel
        elif self.receivers is None:
            said = gettext("%(channel)s notified") % channel
        else:
            said = gettext("%(channel)s to %(count)s") % {**channel, "count": self.receivers}
        if self.tries > 1:
            said += " " + gettext("(attempt %(number)s)") % {"number": self.tries}
        if self.next_at is not None:
            said += ", " + gettext("retry at %(time)s") % {"time": f"{timezone.localtime(self.next_at):%H:%M:%S %Z}"}
        elif self.error:
            said += ", " + gettext("abandoned")
        return said


class Silence(models.Model):
    """A silence: nobody is told of alerts of these subjects until then; they are raised and kept all the same."""

    rule = models.ForeignKey(AlertRule, models.CASCADE, null=True, blank=True, verbose_name=_("rule (empty: all)"))
    subject = models.CharField(_("subject (* for any)"), max_length=255, default="*")
    until = models.DateTimeField(_("until"))
    reason = models.CharField(_("reason"), max_length=500)
    actor = models.CharField(_("created by"), max_length=150)
    created_at = models.DateTimeField(_("created at"), auto_now_add=True)

    class Meta:
        verbose_name = _("silence")
        verbose_name_plural = _("silences")
        ordering = ["-until"]

    def __str__(self) -> str:
        return f"{self.subject} until {self.until:%Y-%m-%d %H:%M}"
