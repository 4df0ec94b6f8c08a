"""Topic permissions in the stock Django admin."""

from __future__ import annotations

from django.contrib import admin
from django.utils.translation import gettext_lazy as _

from console.security.models import MaskRule, TopicPermission


@admin.register(TopicPermission)
class TopicPermissionAdmin(admin.ModelAdmin):
    """Which topics a group of users may see."""

    list_display = ("group", "prefix")
    list_filter = ("group",)
    search_fields = ("prefix",)


@admin.register(MaskRule)
class MaskRuleAdmin(admin.ModelAdmin):
    """What is masked, of which topics, and why."""

    list_display = ("prefix", "shown_names", "why", "is_on")
    list_filter = ("is_on",)
    search_fields = ("prefix", "fields", "why")

    @admin.display(description=_("what is masked"))
    def shown_names(self, rule: MaskRule) -> str:
        """The masked fields in one line."""
        return ", ".join(rule.names)
