"""Which topics a group of users may see."""

from __future__ import annotations

from django.contrib.auth.models import Group
from django.db import models
from django.utils.translation import gettext_lazy as _


class TopicPermission(models.Model):
    """Users of the group see topics whose name begins with the prefix; an empty prefix is every topic.

    A user none of whose groups has a row sees all topics.
    """

    group = models.ForeignKey(Group, models.CASCADE, related_name="topic_permissions", verbose_name=_("group"))
    prefix = models.CharField(_("prefix of topics"), max_length=255, blank=True)

    class Meta:
        verbose_name = _("topic permission")
        verbose_name_plural = _("topic permissions")
        ordering = ["group__name", "prefix"]
        permissions = [("view_console", _("Can see the console"))]
        constraints = [models.UniqueConstraint(fields=["group", "prefix"], name="one_topic_permission")]

    def __str__(self) -> str:
        return f"{self.group}: {self.prefix}*"
