"""Roles made and limited to topics, and single users limited.

    {"role": "tenants", "permissions": ["console.view_console"], "topics": ["orders"]}    make
    {"role": "tenants", "topics": ["orders", "bill*"]}        the topics that a role is limited to; none: it sees all
    {"name": "anna", "topics": ["bill*"]}                     the same for one user, by a role of her own (own_role.py)

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

from console.features.people.closed import Reach, permissions_in
from console.features.people.limits import checked_topics, limit_alone, own_topics, seen_with, write_topics
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
from console.security.name_patterns import EVERY
from console.security.own_role import LONGEST_ROLE, is_own, own_roles

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
    effect = _("Users get it on their pages. It allows what its permissions say, on its topics.")
    outcomes = {"made": Outcome(_("created"))}

    def from_form(self, given: QueryDict) -> dict[str, Any]:
        """Return name, permissions and topics, one a line."""
        return {
            "role": given.get("role", "").strip(),
            "permissions": given.getlist("permissions"),
            "topics": given.get("topics", "").split(),
        }

    def form_again(self, given: QueryDict, faults: Mapping[str, str]) -> Form:
        """Return the form with all that was written and ticked."""
        return Form("people/new_role.html", role_form(given.getlist("permissions")))

    def checked(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return name, permissions and topics."""
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
            "topics": checked_topics(parameters),
        }

    def rest_call(self, parameters: Mapping[str, Any]) -> Call:
        """Return the call that makes one."""
        return "POST", "roles", {"name": parameters["role"], **_but(parameters, "role"), **REASON}

    def facts(self, parameters: Mapping[str, Any]) -> tuple[Facts, Facts]:
        """Return what the new role allows, and where."""
        _require_free(parameters["role"])
        permissions = ", ".join(parameters["permissions"])
        return {}, {"permissions": permissions, "topics": joined(parameters["topics"])}

    def given_on(self, parameters: Mapping[str, Any]) -> Mapping[str, Collection[str]]:
        """Return the topics; a role without any sees all."""
        return {"topics": parameters["topics"] or [EVERY]}

    def reaches(self, parameters: Mapping[str, Any]) -> tuple[Reach, Reach]:
        """Hold the new role against the same one without topics."""
        held = frozenset(parameters["permissions"])
        return Reach(permissions=held), Reach(self.given_on(parameters)["topics"], held)

    def apply(self, who: str, parameters: Mapping[str, Any]) -> None:
        """Make the role; who has not all of its permissions may not."""
        _require_free(parameters["role"])
        group = Group.objects.create(name=parameters["role"])
        group.permissions.add(*rows_of(parameters["permissions"]))
        require_may_give(who, [group])
        write_topics(group, parameters["topics"])


@register
class LimitRole(RoleKind):
    """Limit a role to some topics."""

    name, permission = "people.limit_role", CHANGE_ROLE
    title, verb = _("Limit a role to topics"), _("Apply changes")
    effect = _("A user sees the topics of all their roles together; a user whose roles name none sees all.")

    def from_form(self, given: QueryDict) -> dict[str, Any]:
        """Return the role and its topics, one a line."""
        return {"role": given.get("role", ""), "topics": given.get("topics", "").split()}

    def checked(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return role and topics."""
        (group,) = roles_named([str(parameters.get("role", ""))])
        return {"role": group.name, "topics": checked_topics(parameters)}

    def rest_call(self, parameters: Mapping[str, Any]) -> Call:
        """Return the call that limits it."""
        return "PATCH", f"roles/{quote(parameters['role'], safe='')}", {"topics": parameters["topics"], **REASON}

    def facts(self, parameters: Mapping[str, Any]) -> tuple[Facts, Facts]:
        """Return the topics before and after."""
        rows = TopicPermission.objects.filter(group__name=parameters["role"])
        before = joined(rows.values_list("pattern", flat=True))
        return {"topics": before}, {"topics": joined(parameters["topics"])}

    def given_on(self, parameters: Mapping[str, Any]) -> Mapping[str, Collection[str]]:
        """Return the topics; a role without any sees all."""
        return {"topics": parameters["topics"] or [EVERY]}

    def reaches(self, parameters: Mapping[str, Any]) -> tuple[Reach, Reach]:
        """Return what the role reaches by itself, with its topics and with the others."""
        groups = roles_named([parameters["role"]])
        held = permissions_in(groups)
        return Reach(seen_with(groups, ()), held), Reach(self.given_on(parameters)["topics"], held)

    def apply(self, who: str, parameters: Mapping[str, Any]) -> None:
        """Write the rows that are wanted."""
        (group,) = roles_named([parameters["role"]])
        require_may_give(who, [group])
        write_topics(group, parameters["topics"])


@register
class LimitPerson(PeopleKind):
    """Limit one user to some topics: by a role of the user's own."""

    name, permission, call = "people.limit", CHANGE_ROLE, ("POST", ":limit")
    title, verb = _("Limit a user to topics"), _("Apply changes")
    effect = _(
        "Kept as a role of this user alone, without permissions. Topics of their other roles count as well; "
        "a user none of whose roles names topics sees all."
    )

    def from_form(self, given: QueryDict) -> dict[str, Any]:
        """Return the user and the topics, one a line."""
        return {**super().from_form(given), "topics": given.get("topics", "").split()}

    def form_again(self, given: QueryDict, faults: Mapping[str, str]) -> Form:
        """Return the form with the topics that were written."""
        row = {"username": given.get("name", "")}
        return Form("people/limit.html", {"row": row, "topics": given.get("topics", "")})

    def checked(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return user and topics."""
        return {**super().checked(parameters), "topics": checked_topics(parameters)}

    def facts(self, parameters: Mapping[str, Any]) -> tuple[Facts, Facts]:
        """Return the user's own topics, and what is seen with those of all roles, before and after."""
        user = account_named(parameters)
        if user.is_superuser:
            raise NotPossible(f"{parameters['name']} is a superuser and sees all topics.")
        rows = TopicPermission.objects.filter(group__user=user)
        own = own_topics(user)
        others = set(rows.exclude(group__in=own_roles(user)).values_list("pattern", flat=True))
        wanted = set(parameters["topics"])
        return (
            {"topics": joined(own), "sees": _seen({*own, *others})},
            {"topics": joined(wanted), "sees": _seen(wanted | others)},
        )

    def given_on(self, parameters: Mapping[str, Any]) -> Mapping[str, Collection[str]]:
        """Return what is seen with the topics of all roles."""
        user = account_named(parameters)
        return {"topics": seen_with(user.groups.exclude(pk__in=own_roles(user)), parameters["topics"])}

    def reaches(self, parameters: Mapping[str, Any]) -> tuple[Reach, Reach]:
        """Return what the user reaches with the topics until now, and with the others."""
        user = account_named(parameters)
        roles = list(user.groups.exclude(pk__in=own_roles(user)))
        held = permissions_in(roles)
        before, after = (seen_with(roles, topics) for topics in (own_topics(user), parameters["topics"]))
        return Reach(before, held), Reach(after, held)

    def apply(self, who: str, parameters: Mapping[str, Any]) -> None:
        """Write the topics to the user's own role; without any it is gone."""
        user = account_named(parameters)
        require_may_change(who, user)
        limit_alone(user, parameters["topics"])


def role_form(ticked: Collection[str] = (VIEW,)) -> dict[str, Any]:
    """Return what the form of a role needs: each permission with its sentence, and whether it is ticked."""
    return {"permissions": [(name, sentence, name in ticked) for name, sentence in PERMISSIONS.items()]}


def rows_of(names: Iterable[str]) -> list[Permission]:
    """Return Django's rows of these permissions."""
    parts = [name.partition(".") for name in names]
    wanted = Q(pk__in=())
    for app, _dot, codename in parts:
        wanted |= Q(content_type__app_label=app, codename=codename)
    return list(Permission.objects.filter(wanted).order_by("pk"))


def _seen(patterns: Iterable[str]) -> str:
    found = set(patterns)
    return joined(found) if found and EVERY not in found else _ALL


def _require_free(role: str) -> None:
    if Group.objects.filter(name__iexact=role).exists():
        raise NotPossible(f"There is a role {role} already.")


def _but(parameters: Mapping[str, Any], left_out: str) -> dict[str, Any]:
    return {name: value for name, value in parameters.items() if name != left_out}
