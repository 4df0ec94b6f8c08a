"""The app that other Django projects add: `escapement_mq.tasks` (here `broker.tasks`)."""

from __future__ import annotations

from django.apps import AppConfig


class TasksConfig(AppConfig):
    """One table of tasks and two commands; it stands on the outbox's app."""

    name = __name__.rpartition(".")[0]
    label = "escapement_tasks"
    verbose_name = "Escapement tasks"
