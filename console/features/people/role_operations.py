"""Roles made and limited to topics, and single users limited.

    {"role": "tenants", "permissions": ["console.view_console"], "prefixes": ["a-"]}     make
    {"role": "tenants", "prefixes": ["a-", "b-"]}            the topics that a role is limited to; none: it sees all
    {"name": "anna", "prefixes": ["a-"]}                     the same for one user, by a role of her own (own_role.py)

Nobody gives away what is not one's own, as in operations.py.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any
from urllib.parse import quote

from django.contrib.auth.models import Group, Permission
from django.db.models import Q
from django.http import QueryDict
from django.urls import reverse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from console.features.people.operations import (
    Facts,
    PeopleKind,
    account_named,
    joined,
    require_may_change,
    require_may_give,
    roles_named,
)
from console.operations.actor import ADD_ROLE, CHANGE_ROLE
from console.operations.errors import InvalidParameter, NotPossible
from console.operations.kind import REASON, Call, Form, Outcome, Words
from console.operations.models import OperationItem
from console.operations.registry import register
from console.security.gate import VIEW
from console.security.models import TopicPermission
from console.security.own_role import LONGEST_ROLE, is_own, own_name, own_roles

MOST_PREFIXES, LONGEST_PREFIX = 100, 255
#: what a role can have, with what each lets one do, in the order of the form
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
#: stands for every topic in what a user sees
_ALL = "all"


class RoleKind(PeopleKind):
    """An operation on one role."""

    def selection(self, parameters: Mapping[str, Any]) -> str:
        """Return the name of the role."""
        return str(parameters["role"])

    def page_of(self, item: OperationItem) -> tuple[str, str] | None:
        """Return the page of all users and roles."""
        return gettext("Open users"), reverse("people")


@register
class AddRole(RoleKind):
    """Make a role with permissions, limited to topics or not."""

    name, permission = "people.add_role", ADD_ROLE
    title, verb = _("Create a role"), _("Create role")
    begun_on, begun_at = "people", "#new-role"
    effect = _("Users get it on their pages. It allows what its permissions say, on the topics of its prefixes.")
    outcomes = {"made": Outcome(_("created"))}

    def from_form(self, given: QueryDict) -> dict[str, Any]:
        """Return name, permissions and prefixes, one a line."""
        return {
            "role": given.get("role", "").strip(),
            "permissions": given.getlist("permissions"),
            "prefixes": given.get("prefixes", "").split(),
        }

    def form_again(self, given: QueryDict, faults: Mapping[str, str]) -> Form:
        """Return the form with all that was written and ticked."""
        return Form("people/new_role.html", role_form(given.getlist("permissions")))

    def checked(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return name, permissions and prefixes."""
        role, given = parameters.get("role"), parameters.get("permissions", ())
        if not isinstance(role, str) or not 0 < len(role) <= LONGEST_ROLE or not role.isprintable() or is_own(role):
            raise InvalidParameter(
                "role", f"A role's name has 1 to {LONGEST_ROLE} printable characters and does not begin with @."
            )
        if isinstance(given, str) or not all(isinstance(each, str) and each in PERMISSIONS for each in given):
            raise InvalidParameter("permissions", f"permissions is a list of: {', '.join(PERMISSIONS)}.")
        if not given:
            raise InvalidParameter("permissions", "A role without a permission is of no use: choose at least one.")
        return {
            "role": role,
            "permissions": [name for name in PERMISSIONS if name in given],
            "prefixes": checked_prefixes(parameters),
        }

    def rest_call(self, parameters: Mapping[str, Any]) -> Call:
        """Return the call that makes one."""
        return "POST", "roles", {"name": parameters["role"], **_but(parameters, "role"), **REASON}

    def facts(self, parameters: Mapping[str, Any]) -> tuple[Facts, Facts]:
        """Return what the new role allows, and where."""
        _require_free(parameters["role"])
        permissions = ", ".join(parameters["permissions"])
        return {}, {"permissions": permissions, "prefixes": joined(parameters["prefixes"])}

    def done(self, who: str, parameters: Mapping[str, Any]) -> None:
        """Make the role; who has not all of its permissions may not."""
        _require_free(parameters["role"])
        group = Group.objects.create(name=parameters["role"])
        group.permissions.add(*rows_of(parameters["permissions"]))
        require_may_give(who, [group])
        write_prefixes(group, parameters["prefixes"])


@register
class LimitRole(RoleKind):
    """Limit a role to topics that begin with one of some prefixes."""

    name, permission = "people.limit_role", CHANGE_ROLE
    title, verb = _("Limit a role to topics"), _("Apply changes")
    effect = _(
        "A user sees the topics that begin with a prefix of any of their roles; a user whose roles have no "
        "prefixes sees all."
    )

    def from_form(self, given: QueryDict) -> dict[str, Any]:
        """Return the role and its prefixes, one a line."""
        return {"role": given.get("role", ""), "prefixes": given.get("prefixes", "").split()}

    def checked(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return role and prefixes."""
        (group,) = roles_named([str(parameters.get("role", ""))])
        return {"role": group.name, "prefixes": checked_prefixes(parameters)}

    def rest_call(self, parameters: Mapping[str, Any]) -> Call:
        """Return the call that limits it."""
        return "PATCH", f"roles/{quote(parameters['role'], safe='')}", {"prefixes": parameters["prefixes"], **REASON}

    def facts(self, parameters: Mapping[str, Any]) -> tuple[Facts, Facts]:
        """Return the prefixes before and after."""
        rows = TopicPermission.objects.filter(group__name=parameters["role"])
        before = joined(rows.values_list("prefix", flat=True))
        return {"prefixes": before}, {"prefixes": joined(parameters["prefixes"])}

    def done(self, who: str, parameters: Mapping[str, Any]) -> None:
        """Write the rows that are wanted."""
        (group,) = roles_named([parameters["role"]])
        require_may_give(who, [group])
        write_prefixes(group, parameters["prefixes"])


@register
class LimitPerson(PeopleKind):
    """Limit one user to topics that begin with one of some prefixes: by a role of the user's own."""

    name, permission, call = "people.limit", CHANGE_ROLE, ("POST", ":limit")
    title, verb = _("Limit a user to topics"), _("Apply changes")
    effect = _(
        "Kept as a role of this user alone, without permissions. Prefixes of their other roles count as well; "
        "without any prefix the user sees all topics."
    )

    def from_form(self, given: QueryDict) -> dict[str, Any]:
        """Return the user and the prefixes, one a line."""
        return {**super().from_form(given), "prefixes": given.get("prefixes", "").split()}

    def form_again(self, given: QueryDict, faults: Mapping[str, str]) -> Form:
        """Return the form with the prefixes that were written."""
        row = {"username": given.get("name", "")}
        return Form("people/limit.html", {"row": row, "prefixes": given.get("prefixes", "")})

    def checked(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return user and prefixes."""
        return {**super().checked(parameters), "prefixes": checked_prefixes(parameters)}

    def facts(self, parameters: Mapping[str, Any]) -> tuple[Facts, Facts]:
        """Return the user's own prefixes, and what is seen with those of all roles, before and after."""
        user = account_named(parameters)
        if user.is_superuser:
            raise NotPossible(f"{parameters['name']} is a superuser and sees all topics.")
        rows = TopicPermission.objects.filter(group__user=user)
        own = own_prefixes(user)
        others = set(rows.exclude(group__in=own_roles(user)).values_list("prefix", flat=True))
        wanted = set(parameters["prefixes"])
        return (
            {"prefixes": joined(own), "sees": _seen({*own, *others})},
            {"prefixes": joined(wanted), "sees": _seen(wanted | others)},
        )

    def done(self, who: str, parameters: Mapping[str, Any]) -> None:
        """Write the prefixes to the user's own role; without any it is gone."""
        user = account_named(parameters)
        require_may_change(who, user)
        name = own_name(user)
        if len(name) > LONGEST_ROLE:
            raise NotPossible("The user's name is too long for a role of its own: limit one of the user's roles.")
        for former in own_roles(user).exclude(name=name):
            user.groups.remove(former)
        group = Group.objects.filter(name=name).first()
        if group is not None and (group.permissions.exists() or group.user_set.exclude(pk=user.pk).exists()):
            raise NotPossible(f"The role {name} has permissions or other users: it is no role of this user alone.")
        if parameters["prefixes"]:
            group = group or Group.objects.create(name=name)
            write_prefixes(group, parameters["prefixes"])
            user.groups.add(group)
        elif group is not None:
            group.delete()


def role_form(ticked: Collection[str] = (VIEW,)) -> dict[str, Any]:
    """Return what the form of a role needs: each permission with its sentence, and whether it is ticked."""
    return {"permissions": [(name, sentence, name in ticked) for name, sentence in PERMISSIONS.items()]}


def own_prefixes(user: Any) -> list[str]:
    """Return the beginnings of topics that one user is limited to beside those of roles."""
    rows = TopicPermission.objects.filter(group__in=own_roles(user))
    return sorted(set(rows.values_list("prefix", flat=True)))


def rows_of(names: Iterable[str]) -> list[Permission]:
    """Return Django's rows of these permissions."""
    parts = [name.partition(".") for name in names]
    wanted = Q(pk__in=())
    for app, _dot, codename in parts:
        wanted |= Q(content_type__app_label=app, codename=codename)
    return list(Permission.objects.filter(wanted).order_by("pk"))


def checked_prefixes(parameters: Mapping[str, Any]) -> list[str]:
    """Return the beginnings of topics, each once; raises InvalidParameter."""
    given = parameters.get("prefixes", ())
    if isinstance(given, str) or len(given) > MOST_PREFIXES:
        raise InvalidParameter("prefixes", f"prefixes is a list of at most {MOST_PREFIXES}.")
    if not all(isinstance(each, str) and 0 < len(each) <= LONGEST_PREFIX for each in given):
        raise InvalidParameter("prefixes", f"A prefix has 1 to {LONGEST_PREFIX} characters.")
    return sorted(set(given))


def write_prefixes(group: Group, prefixes: Iterable[str]) -> None:
    """Write the rows that are wanted, one by one, so that the audit has each."""
    known = {row.prefix: row for row in TopicPermission.objects.filter(group=group)}
    for prefix in known.keys() - set(prefixes):
        known[prefix].delete()
    for prefix in sorted(set(prefixes) - known.keys()):
        TopicPermission.objects.create(group=group, prefix=prefix)


def _seen(prefixes: Iterable[str]) -> str:
    found = set(prefixes)
    return joined(found) if found and "" not in found else _ALL


def _require_free(role: str) -> None:
    if Group.objects.filter(name__iexact=role).exists():
        raise NotPossible(f"There is a role {role} already.")


def _but(parameters: Mapping[str, Any], left_out: str) -> dict[str, Any]:
    return {name: value for name, value in parameters.items() if name != left_out}
