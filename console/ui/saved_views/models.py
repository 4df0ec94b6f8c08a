"""Rows of saved views."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

NAME_LENGTH = 60


class SavedView(models.Model):
    """A list and its filters under a name, which is its owner's own on that page."""

    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, related_name="saved_views", verbose_name=_("owner")
    )
    #: name of the page, its path, and its filters (console.ui.saved_views.addresses)
    page = models.CharField(_("page"), max_length=64)
    path = models.CharField(_("path"), max_length=1_500)
    query = models.CharField(_("filters"), max_length=1_500, blank=True)
    name = models.CharField(_("name"), max_length=NAME_LENGTH)
    #: seen by everybody who sees all topics and may open the page
    is_shared = models.BooleanField(_("shared with everybody"), default=False)
    #: what its owner sees when the page is opened without filters
    is_default = models.BooleanField(_("opens with the page"), default=False)
    created_at = models.DateTimeField(_("created"), auto_now_add=True)

    class Meta:
        verbose_name = _("saved view")
        verbose_name_plural = _("saved views")
        ordering = ["page", "name", "pk"]
        default_permissions = ()
        permissions = [("share_views", _("Can share saved views with everybody"))]
        constraints = [
            models.UniqueConstraint(fields=["owner", "page", "name"], name="one_view_of_a_name"),
            models.UniqueConstraint(
                fields=["owner", "path"], condition=models.Q(is_default=True), name="one_default_view"
            ),
        ]

    def __str__(self) -> str:
        return self.name
