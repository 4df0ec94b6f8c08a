"""The permissions that a role can have, with what each lets one do, in the order of the form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from django.contrib.auth.models import Permission
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from console.operations.kind import Words

PERMISSIONS: Mapping[str, Words] = {
    "console.view_console": _("See the pages. Without it a user sees nothing."),
    "console.view_alert": _("See alerts."),
    "console.view_dashboardrun": _("See dashboards."),
    "console.view_auditentry": _("See the audit log."),
    "console.steer_timers": _("Cancel and reschedule timers, and deliver them now."),
    "console.pause_timers": _("Pause and resume all timers of a broker."),
    "console.steer_transactions": _("Commit, roll back and check half messages."),
    "console.steer_delayed_queues": _("Remove, reschedule, move and deliver values of Redisson queues."),
    "console.resend_dead_letters": _("Resend dead letters and messages, and mark dead letters as handled."),
    "console.send_messages": _("Send messages to topics."),
    "console.reset_offsets": _("Reset offsets of consumer groups."),
    "console.change_settings": _("Create, change and delete topics and groups, and change settings of brokers."),
    "console.run_dashboards": _("Run and stop dashboards."),
    "console.silence_alerts": _("Silence alerts and findings for a while."),
    "console.add_alertrule": _("Create alert rules."),
    "console.change_alertrule": _("Change, disable and test alert rules."),
    "console.delete_alertrule": _("Delete alert rules."),
    "console.share_views": _("Share saved views with everybody."),
    "console.unmask": _("View masked content, each time with a reason that is kept."),
    "console.view_apitoken": _("See tokens of REST."),
    "console.add_apitoken": _("Create tokens of REST."),
    "console.change_apitoken": _("Rotate and revoke tokens of REST."),
    "console.change_access": _("Create, change and delete broker users, their secrets and policies."),
    "console.view_checkaddress": _("See the addresses at which producers are checked by HTTP."),
    "console.add_checkaddress": _("Register addresses for checks by HTTP."),
    "console.change_checkaddress": _("Change addresses for checks by HTTP."),
    "console.delete_checkaddress": _("Delete addresses for checks by HTTP."),
    "auth.add_user": _("Create users of this console."),
    "auth.change_user": _("Change and disable users, and reset their passwords and second factors."),
    "auth.add_group": _("Create roles."),
    "auth.change_group": _("Limit roles and users to topics."),
}


def rows_of(names: Iterable[str]) -> list[Permission]:
    """Return Django's rows of these permissions."""
    parts = [name.partition(".") for name in names]
    wanted = Q(pk__in=())
    for app, _dot, codename in parts:
        wanted |= Q(content_type__app_label=app, codename=codename)
    return list(Permission.objects.filter(wanted).order_by("pk"))
