"""The console as a Django app, and the checks of its databases before anything is migrated.

Refused are databases that a release before the squashed migrations left half-way. Django takes a squashed migration as
applied where all that it replaces are, and applies it where none is. In between it would need the replaced ones, which
are not here any more (docs/decisions/0019).

Refused as well is a database that a newer release has migrated: this one does not know how to write its tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from django.apps import AppConfig, apps
from django.conf import settings
from django.core.checks import Error, Tags, register
from django.db import connections
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.db.models.signals import post_migrate, pre_delete

#: the last commit that has all of the replaced migrations
LAST_WITH_ALL = "0bfc4fa"
#: how the names of our own apps begin, in a checkout and in the wheel
_OWN = ("broker.", "console", "escapement_mq.")
#: the squashed migrations, by the label of their app
SQUASHED = {"console": "console.migrations.0001_initial", "broker": "broker.mirror.migrations.0001_initial"}


class ConsoleConfig(AppConfig):
    """Pages, live sockets, REST and management commands."""

    name = __name__.rpartition(".")[0]
    label = "console"

    def ready(self) -> None:
        """Make the project's Celery app the current one, so that every process sends tasks to the right broker.

        The kinds of operations are loaded, too: they register themselves.
        """
        import_module("console.site.celery")
        import_module("console.operations.registry").discover()
        import_module("console.features.audit.changes").connect()
        import_module("console.security.presence").connect()
        import_module("console.security.owed").connect()
        # behind auth: by then the permissions that the groups get are there
        post_migrate.connect(_make_roles, sender=apps.get_app_config("sessions"), dispatch_uid="console.roles")
        pre_delete.connect(_end_tokens, sender=settings.AUTH_USER_MODEL, dispatch_uid="console.tokens")


def _make_roles(using: str, **kwargs: Any) -> None:
    import_module("console.security.gate").ensure_roles(using)


def _end_tokens(instance: Any, **kwargs: Any) -> None:
    import_module("console.security.tokens").revoke_all_of(instance)


@register(Tags.database)
def check_migrations(databases: Sequence[str] | None = None, **kwargs: Any) -> list[Error]:
    """Return an error for each app of each database that stopped between two of the replaced migrations."""
    found = []
    for alias in databases or ():
        applied = set(MigrationRecorder(connections[alias]).applied_migrations())
        for app, module in SQUASHED.items():
            replaced: list[tuple[str, str]] = import_module(module).Migration.replaces
            missing = [name for key in replaced if key not in applied for name in key[1:]]
            if missing and len(missing) < len(replaced):
                found.append(_half_way(alias, app, missing))
    return found


@register(Tags.database)
def check_not_newer(databases: Sequence[str] | None = None, **kwargs: Any) -> list[Error]:
    """Return an error for each app of ours whose tables a newer release has changed, by database."""
    found = []
    own = {config.label for config in apps.get_app_configs() if config.name.startswith(_OWN)}
    for alias in databases or ():
        known = MigrationLoader(connections[alias]).disk_migrations
        known |= {key: migration for migration in list(known.values()) for key in migration.replaces}
        applied = MigrationRecorder(connections[alias]).applied_migrations()
        for app in sorted(own):
            unknown = sorted(name for label, name in applied.keys() - known.keys() if label == app)
            if unknown:
                last = max(name for label, name in known if label == app)
                found.append(_newer(alias, app, unknown, last))
    return found


def _newer(alias: str, app: str, unknown: Sequence[str], last: str) -> Error:
    return Error(
        f"The database {alias!r} was brought up to date by a newer release: {', '.join(unknown)} of {app}.",
        hint="Start that release again. To go back to this one: take a dump, and while the newer one is installed run "
        f"`manage.py migrate {app} {last}`, which drops what came since; or restore a dump from before the upgrade.",
        id="console.E002",
    )


def _half_way(alias: str, app: str, missing: Sequence[str]) -> Error:
    return Error(
        f"The database {alias!r} is of an older release and stopped before {app}.{missing[0]}.",
        hint=f"It still needs {', '.join(missing)}, which are not here any more. Check out the commit {LAST_WITH_ALL}, "
        "run `manage.py migrate` there once, and come back to this release.",
        id="console.E001",
    )
