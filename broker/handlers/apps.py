"""The app that other Django projects add, `escapement_mq.handlers`, and what `manage.py check` says of its handlers.

- escapement.E001, always: handlers contradict each other.
- escapement.W001, `check --deploy`: no name server can be reached at ESCAPEMENT_NAMESRV.
- escapement.W002, `migrate` and `check --database alias`: tables of our apps lack migrations.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Any

from django.apps import AppConfig, apps
from django.core.checks import CheckMessage, Error, Tags, register
from django.core.checks import Warning as CheckWarning
from django.db import Error as DatabaseError
from django.db import connections
from django.utils.module_loading import autodiscover_modules

from ..client import ClientError
from ..django import namesrv, remember_access
from . import HandlingError

REACH_S = 2.0
_APPS = ("escapement_outbox", "escapement_handlers", "escapement_tasks")


def check_handlers(app_configs: Sequence[Any] | None = None, **options: Any) -> list[CheckMessage]:
    """Load all handlers as `manage.py consume` does."""
    try:
        autodiscover_modules("handlers")
    except (HandlingError, ClientError) as error:
        return [Error(str(error), id="escapement.E001")]
    return []


def check_name_server(app_configs: Sequence[Any] | None = None, **options: Any) -> list[CheckMessage]:
    """Connect to the name servers of the settings; one is enough."""
    failures = []
    for address in (part.strip() for part in namesrv().replace(",", ";").split(";") if part.strip()):
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=REACH_S).close()
        except (OSError, ValueError) as error:
            failures.append(f"{address}: {error}")
        else:
            return []
    hint = "Set ESCAPEMENT_NAMESRV to host:port of the name server, and see that it runs."
    text = f"No name server can be reached ({'; '.join(failures) or 'ESCAPEMENT_NAMESRV is empty'})."
    return [CheckWarning(text, hint=hint, id="escapement.W001")]


def check_migrations(
    app_configs: Sequence[Any] | None = None, databases: Sequence[str] | None = None, **options: Any
) -> list[CheckMessage]:
    """Look whether the tables of our apps are there, in the databases that are asked about."""
    from django.db.migrations.executor import MigrationExecutor  # it needs the apps

    found: list[CheckMessage] = []
    ours = {config.label for config in apps.get_app_configs()} & set(_APPS)
    for alias in databases or ():
        try:
            executor = MigrationExecutor(connections[alias])
            wanted = [node for node in executor.loader.graph.leaf_nodes() if node[0] in ours]
            lacking = sorted({migration.app_label for migration, _ in executor.migration_plan(wanted)} & ours)
        except DatabaseError:
            continue  # Django's own checks say so
        if lacking:
            text = f"Database {alias!r} lacks migrations of {', '.join(lacking)}."
            hint = f"Run `manage.py migrate --database {alias}`: without its table a block, or a handler, raises."
            found.append(CheckWarning(text, hint=hint, id="escapement.W002"))
    return found


class HandlingConfig(AppConfig):
    """The app of the command `consume`; its one table is the inbox of handlers that do each message once."""

    name = __name__.rpartition(".")[0]
    label = "escapement_handlers"
    verbose_name = "Escapement handlers"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Have clients of the configured name server sign and encrypt as ESCAPEMENT_CLIENT says; add the checks."""
        remember_access()
        register(check_handlers)
        register(check_name_server, deploy=True)
        register(check_migrations, Tags.database)
