"""Mirror rows in the Django admin: to look at, never to change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.db import models
from django.http import HttpRequest

from .models import (
    Broker,
    ConsumerGroup,
    ConsumerOffset,
    MirrorState,
    OpMessage,
    Queue,
    RateHistory,
    Replica,
    ScheduleLevel,
    Topic,
)

if TYPE_CHECKING:
    ModelAdmin = admin.ModelAdmin[Any]
else:  # generic for the type checker only
    ModelAdmin = admin.ModelAdmin


class ReadOnlyAdmin(ModelAdmin):
    """The admin of rows that nobody adds, changes or deletes: a search and the columns that matter."""

    show_full_result_count = False

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Refuse to add: only the mirror does."""
        return False

    def has_change_permission(self, request: HttpRequest, row: models.Model | None = None) -> bool:
        """Refuse to change: only the mirror does."""
        return False

    def has_delete_permission(self, request: HttpRequest, row: models.Model | None = None) -> bool:
        """Refuse to delete: only the mirror does."""
        return False


@admin.register(Broker)
class BrokerAdmin(ReadOnlyAdmin):
    """The admin of brokers as they describe themselves."""

    list_display = ("name", "cluster", "address", "version", "state", "log_end_position")


@admin.register(Replica)
class ReplicaAdmin(ReadOnlyAdmin):
    """The admin of the processes of brokers, masters and slaves."""

    list_display = ("broker", "number", "role", "address", "version", "log_end_position", "as_of_ms", "error")
    list_filter = ("role",)


@admin.register(MirrorState)
class MirrorStateAdmin(ReadOnlyAdmin):
    """The admin of how far the mirror has read."""

    list_display = ("broker", "sequence", "polling", "as_of_ms", "took_ms", "error")


@admin.register(Topic)
class TopicAdmin(ReadOnlyAdmin):
    """The admin of topics and their queues' numbers."""

    list_display = ("name", "read_queues", "write_queues", "permission", "order", "is_system")
    list_filter = ("is_system",)
    search_fields = ("name",)


@admin.register(Queue)
class QueueAdmin(ReadOnlyAdmin):
    """The admin of queues with their offsets."""

    list_display = ("topic", "queue_id", "min_offset", "max_offset", "last_ms")
    search_fields = ("topic",)


@admin.register(ConsumerGroup)
class ConsumerGroupAdmin(ReadOnlyAdmin):
    """The admin of consumer groups; the console registers them once more, with actions."""

    list_display = ("name", "members", "retry_max_times", "consume_enable", "is_system")
    list_filter = ("is_system",)
    search_fields = ("name",)


@admin.register(ConsumerOffset)
class ConsumerOffsetAdmin(ReadOnlyAdmin):
    """The admin of offsets of groups."""

    list_display = ("group", "topic", "queue_id", "offset")
    search_fields = ("group", "topic")


@admin.register(OpMessage)
class OpMessageAdmin(ReadOnlyAdmin):
    """The admin of op messages; half messages can be acted on, so they are registered by the console."""

    list_display = ("offset", "position", "store_ms", "half_offsets", "commits", "rollbacks")
    ordering = ("-offset",)


@admin.register(ScheduleLevel)
class ScheduleLevelAdmin(ReadOnlyAdmin):
    """The admin of delay levels and what waits in them."""

    list_display = ("level", "delay_ms", "min_offset", "delay_offset", "max_offset", "persisted_offset", "next_due_ms")
    ordering = ("level",)


@admin.register(RateHistory)
class RateHistoryAdmin(ReadOnlyAdmin):
    """The admin of the histories that sparklines show."""

    list_display = ("kind", "name", "slot")
    list_filter = ("kind",)
    search_fields = ("name",)
