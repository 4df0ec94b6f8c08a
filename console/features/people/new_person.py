"""Accounts of users created: the form, what is wrong with it, and the operation.

{"name": "anna", "roles": ["operator"]}            the first password is shown once and has to be changed
{"name": "anna", "roles": [], "topics": ["bill*"]} limited to topics from the beginning
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Mapping
from typing import Any

from django.contrib.auth import get_user_model
from django.http import QueryDict
from django.utils.translation import gettext_lazy as _

from console.features.people.closed import Reach, permissions_in
from console.features.people.limits import checked_topics, limit_alone, seen_with
from console.features.people.operations import (
    PASSWORD_BYTES,
    Facts,
    PeopleKind,
    checked_name,
    checked_roles,
    joined,
    person_named,
    require_may_give,
    roles_named,
    show_due,
)
from console.features.people.role_words import roles_in_words
from console.operations.actor import ADD_USER, CHANGE_ROLE
from console.operations.errors import InvalidParameter, NotPossible, words
from console.operations.kind import REASON, Call, Form, Outcome
from console.operations.registry import register
from console.operations.shown_once import require_reader
from console.security.own_role import take_roles


@register
class AddPerson(PeopleKind):
    """Make an account with a password that is shown once."""

    name, permission = "people.add", ADD_USER
    title, verb = _("Create a user"), _("Create user")
    begun_on, begun_at = "people", "#new"
    effect = _(
        "The initial password is shown once, when the account is created; the user must change it at the first sign-in."
    )
    outcomes = {"made": Outcome(_("created"))}

    def from_form(self, given: QueryDict) -> dict[str, Any]:
        """Return name, roles, and topics, one a line."""
        topics = given.get("topics", "").split()
        return {**super().from_form(given), "roles": given.getlist("roles"), "topics": topics}

    def checked(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return name, roles, and the topics that the user alone is limited to, if any."""
        topics = checked_topics(parameters)
        limit = {"topics": topics} if topics else {}
        return {**super().checked(parameters), "roles": checked_roles(parameters), **limit}

    def form_again(self, given: QueryDict, faults: Mapping[str, str]) -> Form:
        """Return the form with all that was written and ticked, and all that is wrong with it, and not the first
        alone."""
        return Form("people/new_person.html", person_form(given) | {"faults": {**faults, **self._faults(given)}})

    def _faults(self, given: QueryDict) -> dict[str, str]:
        parameters, found = self.from_form(given), {}
        checks: tuple[Callable[[Mapping[str, Any]], Any], ...] = (checked_name, checked_roles, checked_topics)
        for check in checks:
            try:
                check(parameters)
            except InvalidParameter as error:
                found[error.field or ""] = words(error)
        try:
            _require_free(parameters["name"])
        except NotPossible as error:
            found["name"] = words(error)
        return found

    def rest_call(self, parameters: Mapping[str, Any]) -> Call:
        """Return the call that makes one."""
        return "POST", "people", {**parameters, **REASON}

    def facts(self, parameters: Mapping[str, Any]) -> tuple[Facts, Facts]:
        """Return the new account."""
        _require_free(parameters["name"])
        limit = {"topics": joined(parameters["topics"])} if "topics" in parameters else {}
        return {}, {"roles": joined(parameters["roles"]), **limit, "is_active": "yes", "password": "new"}

    def given_on(self, parameters: Mapping[str, Any]) -> Mapping[str, Collection[str]]:
        """Return what is seen with the topics of the roles and the user's own; who has no role sees nothing."""
        if not parameters["roles"]:
            return {}
        return {"topics": seen_with(roles_named(parameters["roles"]), parameters.get("topics", ()))}

    def reaches(self, parameters: Mapping[str, Any]) -> tuple[Reach, Reach]:
        """Hold the new account against one with these roles that sees all topics; who has no role sees nothing."""
        given, held = self.given_on(parameters), permissions_in(roles_named(parameters["roles"]))
        return (Reach(permissions=held), Reach(given["topics"], held)) if given else (Reach(), Reach())

    def apply(self, who: str, parameters: Mapping[str, Any]) -> None:
        """Make the account with its roles, limited from the beginning; who limits has to be allowed to."""
        require_reader()
        _require_free(parameters["name"])
        groups, actor = roles_named(parameters["roles"]), person_named(who)
        require_may_give(who, groups)
        if "topics" in parameters and actor is not None and not actor.has_perm(CHANGE_ROLE):
            raise NotPossible(f"To limit a user to topics needs the permission {CHANGE_ROLE}.")
        password = secrets.token_urlsafe(PASSWORD_BYTES)
        user = get_user_model().objects.create_user(parameters["name"], password=password)
        take_roles(user, groups)
        if "topics" in parameters:
            limit_alone(user, parameters["topics"])
        show_due(user, parameters["name"], password)


def person_form(given: QueryDict) -> dict[str, Any]:
    """Return what the form of a new user needs: the roles, and which of them were ticked."""
    roles, ticked = roles_in_words(), set(given.getlist("roles"))
    return {"roles": roles, "own_roles": {role.pk for role in roles if role.name in ticked}}


def _require_free(name: str) -> None:
    if get_user_model().objects.filter(username__iexact=name).exists():
        raise NotPossible(f"There is an account {name} already.")
