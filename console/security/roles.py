"""Three groups that a new installation has: viewer, operator, administrator. Afterwards they are the owner's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from django.contrib.auth.models import Group, Permission

#: without it nobody sees anything
VIEW = "console.view_console"
VIEWER, OPERATOR, ADMINISTRATOR = "viewer", "operator", "administrator"
_SEE = ("view_console", "view_dashboardrun", "view_operation", "view_auditentry", "view_alert")
_ACT = (
    "steer_timers",
    "pause_timers",
    "steer_delayed_queues",
    "steer_transactions",
    "resend_dead_letters",
    "reset_offsets",
    "change_settings",
    "run_dashboards",
    "silence_alerts",
)
#: codenames by app; "*" is every permission of the app
ROLES: Mapping[str, Mapping[str, Iterable[str]]] = {
    VIEWER: {"console": _SEE},
    OPERATOR: {"console": (*_SEE, *_ACT)},
    ADMINISTRATOR: {"console": ("*",), "broker": ("*",), "auth": ("*",)},
}


def ensure_roles(using: str = "default") -> None:
    """Create the groups that are missing; existing ones stay as their owner has made them."""
    group_rows = Group.objects.using(using)
    permission_rows = Permission.objects.using(using)
    for name, wanted in ROLES.items():
        if group_rows.filter(name=name).exists():
            continue
        group = group_rows.create(name=name)
        for app, codenames in wanted.items():
            found = permission_rows.filter(content_type__app_label=app)
            group.permissions.add(*(found if "*" in codenames else found.filter(codename__in=codenames)))
