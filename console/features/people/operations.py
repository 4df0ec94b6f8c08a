"""Accounts of people changed and closed; their passwords and second factors reset. How one is made: new_person.py.

    {"name": "anna", "roles": [], "is_active": False}  change
    {"name": "anna"}                                   another password; reset of the second factor

Nobody gives away what is not one's own: roles, and changes of accounts, with permissions that the person who acts does
not have are refused, and so is a change of one's own account; only superusers change superusers.
"""

from __future__ import annotations

import secrets
from abc import abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.contrib.auth.validators import UnicodeUsernameValidator
from django.core.exceptions import ValidationError
from django.http import QueryDict
from django.urls import reverse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from console.features.people.closed import Reach, closed, permissions_in
from console.features.people.limits import own_topics, seen_with
from console.features.people.opened import PeoplePreview, opened
from console.operations.actor import CHANGE_USER
from console.operations.errors import InvalidParameter, NotPossible
from console.operations.kind import REASON, AtOnce, Call, ItemResult, Outcome, Target
from console.operations.models import OperationItem
from console.operations.registry import register
from console.operations.shown_once import require_reader, show_once
from console.security import second_factor
from console.security.models import PasswordDue
from console.security.name_patterns import EVERY
from console.security.own_role import own_roles, shared_roles, take_roles
from console.site.clock import real_now_ms as now_ms

#: who acts from a shell of this machine may do everything
_SHELL = "shell "
PASSWORD_BYTES = 15
LONGEST_NAME = 150
Facts = dict[str, str]


class PeopleKind(AtOnce[PeoplePreview]):
    """An operation on one account or role: the database is asked at once, so that it is done or refused."""

    permission, page = CHANGE_USER, "people"
    destroys = True
    is_red = False
    has_figures = False
    preview_type = PeoplePreview
    preview_template = "people/preview.html"
    #: method and what stands behind the account in the address of the REST call
    call = ("PATCH", "")
    outcomes = {"changed": Outcome(_("changed"))}

    def from_form(self, given: QueryDict) -> dict[str, Any]:
        """Return the name of the account."""
        return {"name": given.get("name", "").strip()}

    def checked(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return the name of the account."""
        return {"name": checked_name(parameters)}

    def rest_call(self, parameters: Mapping[str, Any]) -> Call:
        """Return the call about this account."""
        more = {name: value for name, value in parameters.items() if name != "name"}
        method, path = self.call
        return method, f"people/{quote(parameters['name'], safe='')}{path}", {**more, **REASON}

    def selection(self, parameters: Mapping[str, Any]) -> str:
        """Return the name that the form says."""
        return str(parameters["name"])

    def page_of(self, item: OperationItem) -> tuple[str, str] | None:
        """Return the page of the account, if it is there."""
        number = get_user_model().objects.filter(username=item.label["name"]).values_list("pk", flat=True).first()
        return None if number is None else (gettext("Open user"), reverse("person", args=[number]))

    def preview(self, parameters: Mapping[str, Any]) -> PeoplePreview:
        """Compare the account before and after."""
        before, after = self.facts(parameters)
        changes = PeoplePreview.between(before, after)
        opens, closes = opened(self.given_on(parameters)), closed(*self.reaches(parameters))
        return PeoplePreview(
            at_ms=now_ms(), count=1 if changes else 0, changes=changes, opens=opens, closes=closes if changes else []
        )

    def given_on(self, parameters: Mapping[str, Any]) -> Mapping[str, Collection[str]]:
        """Return the names that rights are given on, by right."""
        return {}

    def reaches(self, parameters: Mapping[str, Any]) -> tuple[Reach, Reach]:
        """Return what is reached before and afterwards; what is new is held against one that sees all topics."""
        return Reach(), Reach()

    def targets(self, parameters: Mapping[str, Any], preview: PeoplePreview) -> Sequence[Target]:
        """Return the account or role."""
        return [Target({"name": self.selection(parameters)}, {"name": self.selection(parameters)})]

    def done(self, who: str, parameters: Mapping[str, Any], reason: str) -> ItemResult:
        """Do it, and say so."""
        self.apply(who, parameters)
        return ItemResult(next(iter(self.outcomes)))

    @abstractmethod
    def facts(self, parameters: Mapping[str, Any]) -> tuple[Facts, Facts]:
        """Return what is so now, and what is another one afterwards; raises NotPossible."""

    @abstractmethod
    def apply(self, who: str, parameters: Mapping[str, Any]) -> None:
        """Do it in the name of `who`; raises NotPossible."""


@register
class ChangePerson(PeopleKind):
    """Give an account other roles, close it or open it again."""

    name = "people.change"
    title, verb = _("Change a user"), _("Apply changes")
    effect = _("Roles apply from the next request on. A disabled user loses pages, sessions and tokens immediately.")

    def from_form(self, given: QueryDict) -> dict[str, Any]:
        """Return what the form says."""
        return {
            **super().from_form(given),
            "roles": given.getlist("roles"),
            "is_active": given.get("is_active") != "no",
        }

    def checked(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return name, roles, and whether the account is open."""
        is_active = parameters.get("is_active", True)
        if not isinstance(is_active, bool):
            raise InvalidParameter("is_active", "is_active is true or false.")
        return {"name": checked_name(parameters), "roles": checked_roles(parameters), "is_active": is_active}

    def facts(self, parameters: Mapping[str, Any]) -> tuple[Facts, Facts]:
        """Return roles and state before and after."""
        user = account_named(parameters)
        roles = user.groups.exclude(pk__in=own_roles(user)).values_list("name", flat=True)
        before = {"roles": joined(roles), "is_active": _yes(user.is_active)}
        return before, {"roles": joined(parameters["roles"]), "is_active": _yes(parameters["is_active"])}

    def given_on(self, parameters: Mapping[str, Any]) -> Mapping[str, Collection[str]]:
        """Return what is seen with the topics of the roles and the user's own; a superuser sees all."""
        user = account_named(parameters)
        if not parameters["roles"] and not user.is_superuser:
            return {}
        own = [EVERY] if user.is_superuser else own_topics(user)
        return {"topics": seen_with(roles_named(parameters["roles"]), own)}

    def reaches(self, parameters: Mapping[str, Any]) -> tuple[Reach, Reach]:
        """Return what the account reaches with its roles, and with the others; a superuser keeps all."""
        user, groups = account_named(parameters), roles_named(parameters["roles"])
        if user.is_superuser:
            return Reach(), Reach()
        own, former = own_topics(user), list(user.groups.exclude(pk__in=own_roles(user)))
        before, after = (seen_with(roles, own) if roles else [] for roles in (former, groups))
        return Reach(before, permissions_in(former)), Reach(after, permissions_in(groups))

    def apply(self, who: str, parameters: Mapping[str, Any]) -> None:
        """Change it as the parameters say; what the user alone is limited to stays."""
        user, groups = account_named(parameters), roles_named(parameters["roles"])
        require_may_change(who, user)
        require_may_give(who, [group for group in groups if group not in user.groups.all()])
        take_roles(user, groups)
        user.is_active = parameters["is_active"]
        user.save(update_fields=["is_active"])


@register
class ResetPassword(PeopleKind):
    """Give an account another password, which its owner has to change."""

    name, call = "people.reset_password", ("POST", ":reset-password")
    title, verb = _("Reset a password"), _("Reset password")
    effect = _(
        "The new password is shown once; sessions of the account end, and the user must change it at the next sign-in."
    )

    def facts(self, parameters: Mapping[str, Any]) -> tuple[Facts, Facts]:
        """Return that it is another one."""
        if not account_named(parameters).has_usable_password():
            raise NotPossible(f"{parameters['name']} signs in by a provider and has no password here.")
        return {}, {"password": "new"}

    def apply(self, who: str, parameters: Mapping[str, Any]) -> None:
        """Set it for the account."""
        require_reader()
        user = account_named(parameters)
        require_may_change(who, user)
        password = secrets.token_urlsafe(PASSWORD_BYTES)
        user.set_password(password)
        user.save(update_fields=["password"])
        show_due(user, parameters["name"], password)


@register
class ResetSecondFactor(PeopleKind):
    """Take a person's second factor and recovery codes away: the device is lost, or the codes are."""

    name, call = "people.reset_second_factor", ("POST", ":reset-second-factor")
    is_red = True
    title, verb = _("Reset a second factor"), _("Reset second factor")
    effect = _("The password alone is enough until a new one is set up; where the role requires one, that comes first.")

    def facts(self, parameters: Mapping[str, Any]) -> tuple[Facts, Facts]:
        """Return that there is none any more."""
        is_on = second_factor.is_on(account_named(parameters))
        return {"second_factor": _yes(is_on)}, {"second_factor": "no"}

    def apply(self, who: str, parameters: Mapping[str, Any]) -> None:
        """Forget secret and recovery codes."""
        user = account_named(parameters)
        require_may_change(who, user)
        second_factor.take_away(user, what="reset")


def person_named(who: str) -> Any:
    """Return the account of who acts; None where that is a shell. Raises NotPossible where there is none.

    A provider may name a person as shells are named: who has an account is that account.
    """
    user = get_user_model().objects.filter(username=who).first()
    if user is None and who.startswith(_SHELL):
        return None
    if user is None or not user.is_active:
        raise NotPossible("Only users can change users and tokens.")
    return user


def require_may_change(who: str, user: Any) -> None:
    """Raise NotPossible where who acts may not change this account."""
    actor = person_named(who)
    if actor is None:
        return
    if actor.pk == user.pk:
        raise NotPossible("You cannot change your own account here; your own page has your password and second factor.")
    if not actor.is_superuser and (user.is_superuser or not user.get_all_permissions() <= actor.get_all_permissions()):
        raise NotPossible(
            f"{user} has permissions that you do not have; an administrator who has them must change that account."
        )


def require_may_give(who: str, groups: Iterable[Group]) -> None:
    """Raise NotPossible where a role has permissions that who acts does not have."""
    actor = person_named(who)
    if actor is None or actor.is_superuser:
        return
    own = actor.get_all_permissions()
    for group in groups:
        rows = group.permissions.values_list("content_type__app_label", "codename")
        if not {f"{app}.{codename}" for app, codename in rows} <= own:
            raise NotPossible(f"The role {group} has permissions that you do not have.")


def show_due(user: Any, name: str, password: str) -> None:
    """Show a password that was made here, once; its owner has to change it."""
    PasswordDue.objects.get_or_create(user=user)
    show_once(name, password)


def account_named(parameters: Mapping[str, Any]) -> Any:
    """Return the account that the parameters name; raises NotPossible."""
    user = get_user_model().objects.filter(username=parameters["name"]).first()
    if user is None:
        raise NotPossible(f"There is no account {parameters['name']}.")
    return user


def checked_name(parameters: Mapping[str, Any]) -> str:
    """Return the name of an account; raises InvalidParameter."""
    name = parameters.get("name")
    try:
        if isinstance(name, str) and 0 < len(name) <= LONGEST_NAME:
            UnicodeUsernameValidator()(name)
            return name
    except ValidationError:
        pass
    raise InvalidParameter("name", "A name has 1 to 150 letters, digits and @ . + - _ only.")


def checked_roles(parameters: Mapping[str, Any]) -> list[str]:
    """Return the names of roles that there are; raises InvalidParameter."""
    given = parameters.get("roles", ())
    if isinstance(given, str) or not all(isinstance(each, str) for each in given):
        raise InvalidParameter("roles", "roles is a list of names.")
    return [group.name for group in roles_named(given)]


def roles_named(names: Iterable[str]) -> list[Group]:
    """Return the roles of these names that any user can have; raises InvalidParameter."""
    found = {group.name: group for group in shared_roles().filter(name__in=list(names))}
    for name in names:
        if name not in found:
            raise InvalidParameter("roles", f"There is no role {name[:60]!r}.")
    return sorted(found.values(), key=lambda group: group.name)


def joined(names: Iterable[str]) -> str:
    """Return names as a preview shows them."""
    return ", ".join(sorted(names)) or "-"


def _yes(value: bool) -> str:
    return "yes" if value else "no"
