"""Topic permissions in the stock Django admin."""

from __future__ import annotations

from django.contrib import admin

from console.access.rows import TopicPermission


@admin.register(TopicPermission)
class TopicPermissionAdmin(admin.ModelAdmin):
    """Which topics a group of users may see."""

    list_display = ("group", "prefix")
    list_filter = ("group",)
    search_fields = ("prefix",)
