"""Users of the brokers' access control made, changed and deleted, their secrets rotated, their policies set.

    {"name": "alice", "is_super": False}                                          create; the secret is shown once
    {"name": "alice", "overlap_hours": 24}                                        rotate; the new one is shown once
    {"name": "alice"}                                                             end the old secret; delete
    {"name": "alice", "is_enabled": False}                                        disable, enable
    {"name": "alice", "type": "Custom", "resource": "Topic:order*",
     "actions": ["Pub"], "decision": "Allow", "sources": []}                      policy
    {"name": "alice", "type": "Custom", "resource": "Topic:order*"}               take a policy away

Each broker keeps users of its own: it is done at the broker that is chosen, else at all, an item a broker. What makes a
secret is done at all of them or at none: one that does not answer would have another one afterwards.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar
from urllib.parse import quote

from django.conf import settings
from django.http import QueryDict
from django.urls import reverse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from broker.client import Admin, BrokerRefused, ClientError, InvalidArgument
from broker.client.admin import AccessUser
from broker.client.names import check_user
from broker.rocketmq.acl import AccessError, Entry, PolicyType, entry, parse_resource, policy_type
from console.operations.actor import CHANGE_ACCESS
from console.operations.errors import InvalidParameter, NotPossible
from console.operations.kind import REASON, Call, ChangesPreview, ItemResult, Kind, Outcome, Target, Words
from console.operations.models import OperationItem
from console.operations.registry import register
from console.operations.shown_once import checked_overlap, new_secret, require_reader, show_once, typed_overlap
from console.site.broker import Told, asked_of, tell_each
from console.site.chosen import chosen
from console.site.clock import now_ms
from console.site.mirrored import cluster

HOUR_MS = 3_600_000
_CUSTOM = str(PolicyType.CUSTOM)
#: a user as the preview shows it
Facts = dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessPreview(ChangesPreview):
    """A user before and after; `apart`: brokers at which nothing is done, or nothing is known: [broker, code, why]."""

    apart: list[list[str]] = field(default_factory=list)


class AccessKind(Kind[AccessPreview]):
    """An operation on one user of access control."""

    permission, page = CHANGE_ACCESS, "access"
    destroys = True
    is_red = False
    is_repeatable = True
    has_figures = False
    preview_type = AccessPreview
    preview_template = "access/preview.html"
    outcomes = {"changed": Outcome(_("changed"))}
    #: there must be none yet, or there must be one
    is_new: ClassVar[bool] = False
    makes_secret: ClassVar[bool] = False

    def checked(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return the name, and what else the kind knows."""
        name = parameters.get("name")
        try:
            check_user(name if isinstance(name, str) else "")
        except InvalidArgument as error:
            raise InvalidParameter("name", str(error)) from None
        if name == settings.ACCESS_KEY:
            raise NotPossible(f"{name} is the brokers' own user; their configuration says what it is.")
        return {"name": name, **self.more(parameters)}

    def more(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return the other parameters in their one form; raises InvalidParameter."""
        return {}

    def from_form(self, given: QueryDict) -> dict[str, Any]:
        """Return the name that the form says."""
        return {"name": given.get("name", "").strip()}

    def selection(self, parameters: Mapping[str, Any]) -> str:
        """Return the name of the user."""
        return str(parameters["name"])

    def leave_address(self, parameters: Mapping[str, Any]) -> str:
        """Return the page of the user, or the list of all."""
        return reverse("access") if self.is_new else reverse("access_user", args=[parameters["name"]])

    def back_to(self, parameters: Mapping[str, Any]) -> tuple[Words, str]:
        """Return the list: each user that is still there is led to by its item."""
        return self.leave_words, self.list_address()

    def page_of(self, item: OperationItem) -> tuple[str, str] | None:
        """Return the page of the user."""
        if self.name == DeleteUser.name:
            return None
        return gettext("Open broker user"), reverse("access_user", args=[item.label["name"]])

    def places(self, parameters: Mapping[str, Any]) -> tuple[list[Told[AccessUser | None]], list[list[str]]]:
        """Return the brokers at which something is to be done, and the others as [broker, code, why].

        Raises NotPossible where there is none, or where a secret would not be the same everywhere; ClientError.
        """
        name = parameters["name"]
        told = tell_each(lambda admin: admin.access_user(name), asked_of(cluster()))
        away = [each for each in told if each.error is not None]
        if self.makes_secret and away:
            raise NotPossible(f"{away[0].broker} does not respond: its user would keep another secret. {away[0].error}")
        wanted = [each for each in told if each.error is None and (each.answer is None) == self.is_new]
        if not wanted:
            raise NotPossible(f"There is a user {name} already." if self.is_new else f"There is no user {name}.")
        code = "there" if self.is_new else "missing"
        apart = [[each.broker, code, ""] for each in told if each.error is None and each not in wanted]
        return wanted, [*apart, *([each.broker, "away", str(each.error)] for each in away)]

    def preview(self, parameters: Mapping[str, Any]) -> AccessPreview:
        """Compare the user before and after, at the first broker that has it."""
        wanted, apart = self.places(parameters)
        self.require_possible(parameters, [each.broker for each in wanted])
        before = _facts(wanted[0].answer)
        after = {**before, **self.after(parameters, wanted[0].answer)}
        changes = AccessPreview.between(before, after)
        return AccessPreview(
            at_ms=now_ms(),
            count=len(wanted) if changes else 0,
            changes=changes,
            apart=apart if wanted[0].broker else [],
        )

    def require_possible(self, parameters: Mapping[str, Any], brokers: Sequence[str]) -> None:
        """Raise NotPossible for what one of these brokers cannot do."""

    @abstractmethod
    def after(self, parameters: Mapping[str, Any], user: AccessUser | None) -> Facts:
        """Return what is another one afterwards."""

    def targets(self, parameters: Mapping[str, Any], preview: AccessPreview) -> Sequence[Target]:
        """Return the user at each broker."""
        wanted, _apart = self.places(parameters)
        own = [{"name": parameters["name"], **({"broker": each.broker} if each.broker else {})} for each in wanted]
        return [Target(each, each) for each in own]

    def act(self, parameters: Mapping[str, Any], reason: str, targets: Sequence[Mapping[str, Any]]) -> list[ItemResult]:
        """Send one request to each broker, with one secret for all of them."""
        secret = ""
        if self.makes_secret:
            require_reader()
            secret = new_secret()

        def made(admin: Admin) -> ItemResult:
            try:
                self.change(admin, parameters, secret)
                return ItemResult(next(iter(self.outcomes)))
            except (BrokerRefused, InvalidArgument) as error:
                return ItemResult("refused", {"error": str(error)})
            except ClientError as error:
                return ItemResult("unknown", {"error": str(error)})

        told = tell_each(made, [target.get("broker", "") for target in targets])
        found = [each.answer for each in told if each.answer is not None]
        if secret and any(each.outcome != "refused" for each in found):
            show_once(parameters["name"], secret)
        return found

    @abstractmethod
    def change(self, admin: Admin, parameters: Mapping[str, Any], secret: str) -> None:
        """Change it at one broker; raises ClientError."""

    def rest_call(self, parameters: Mapping[str, Any]) -> Call:
        """Return the call that does the same."""
        method, path = self.call(parameters)
        of = f"?broker={quote(chosen().name, safe='')}" if chosen().broker else ""
        body = {name: value for name, value in parameters.items() if self.is_new or name != "name"}
        return method, f"broker-users{path}{of}", {**body, **REASON}

    @abstractmethod
    def call(self, parameters: Mapping[str, Any]) -> tuple[str, str]:
        """Return method and the rest of the address of the REST call."""


def named(parameters: Mapping[str, Any]) -> str:
    """Return the part of an address that names the user."""
    return f"/{quote(parameters['name'], safe='')}"


@register
class CreateUser(AccessKind):
    """Make a user with a new secret."""

    name = "access.create"
    title, verb = _("Create a broker user"), _("Create broker user")
    begun_on, begun_at = "access", "#new"
    effect = _("The secret is shown once. Without a policy the user has no access, unless it is Super.")
    outcomes = {"made": Outcome(_("created"))}
    is_new = makes_secret = True

    def from_form(self, given: QueryDict) -> dict[str, Any]:
        """Return the name, and whether it may do everything."""
        return {**super().from_form(given), "is_super": given.get("is_super") == "yes"}

    def more(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return whether it may do everything."""
        return {"is_super": _said(parameters, "is_super", default=False)}

    def after(self, parameters: Mapping[str, Any], user: AccessUser | None) -> Facts:
        """Return the new user."""
        return {"user_type": "Super" if parameters["is_super"] else "Normal", "user_status": "enable", "secret": "new"}

    def change(self, admin: Admin, parameters: Mapping[str, Any], secret: str) -> None:
        """Make it at one broker."""
        admin.create_access_user(parameters["name"], secret, is_super=parameters["is_super"])

    def call(self, parameters: Mapping[str, Any]) -> tuple[str, str]:
        """Return the call that makes it."""
        return "POST", ""


@register
class RotateSecret(AccessKind):
    """Give a user another secret; the old one counts for a while."""

    name = "access.rotate"
    title, verb = _("Rotate a secret"), _("Rotate secret")
    effect = _("The new secret is shown once. The old one stays valid until it expires or you end it.")
    makes_secret = True
    is_repeatable = False

    def from_form(self, given: QueryDict) -> dict[str, Any]:
        """Return the name, and how long both secrets count."""
        return {**super().from_form(given), "overlap_hours": typed_overlap(given)}

    def more(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return how long both secrets count."""
        return {"overlap_hours": checked_overlap(parameters)}

    def require_possible(self, parameters: Mapping[str, Any], brokers: Sequence[str]) -> None:
        """Raise NotPossible where a broker keeps one secret only and both shall count."""
        polled = [
            each.name for each in cluster().brokers if (each.polling and each.name in (*brokers, "")) or not brokers
        ]
        if parameters["overlap_hours"] and polled:
            raise NotPossible(f"{polled[0]} is a broker of Apache RocketMQ: it keeps one secret. Rotate with 0 hours.")

    def after(self, parameters: Mapping[str, Any], user: AccessUser | None) -> Facts:
        """Return that the secret is another one, and how long the old one counts."""
        hours = parameters["overlap_hours"]
        return {"secret": "new", "previous": f"{hours:g} h" if hours else "ends"}

    def change(self, admin: Admin, parameters: Mapping[str, Any], secret: str) -> None:
        """Set the new one; by the clock of the broker the old one ends."""
        hours = parameters["overlap_hours"]
        until_ms = now_ms() + round(hours * HOUR_MS) if hours else None
        admin.change_access_user(parameters["name"], secret=secret, keep_until_ms=until_ms)

    def call(self, parameters: Mapping[str, Any]) -> tuple[str, str]:
        """Return the call that rotates it."""
        return "POST", f"{named(parameters)}:rotate"


@register
class EndOldSecret(AccessKind):
    """End the secret before the present one now."""

    name = "access.end_old_secret"
    is_red = True
    title, verb = _("Expire an old secret"), _("Expire secret")
    effect = _("Clients that still use the old secret are refused from now on.")

    def after(self, parameters: Mapping[str, Any], user: AccessUser | None) -> Facts:
        """Return that there is one secret only."""
        return {"previous": "ends"} if user is not None and user.previous_until_ms else {}

    def change(self, admin: Admin, parameters: Mapping[str, Any], secret: str) -> None:
        """Let it count no more."""
        admin.change_access_user(parameters["name"], keep_until_ms=0)

    def call(self, parameters: Mapping[str, Any]) -> tuple[str, str]:
        """Return the call that ends it."""
        return "POST", f"{named(parameters)}:end-old-secret"


@register
class ChangeUser(AccessKind):
    """Disable a user, or enable it again."""

    name = "access.change"
    title, verb = _("Disable or enable a broker user"), _("Apply changes")
    effect = _(
        "A disabled user is refused from now on; secret and policies are kept and apply again once it is enabled."
    )

    def from_form(self, given: QueryDict) -> dict[str, Any]:
        """Return the name, and which of the two."""
        return {**super().from_form(given), "is_enabled": given.get("is_enabled") == "yes"}

    def more(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return which of the two."""
        return {"is_enabled": _said(parameters, "is_enabled")}

    def after(self, parameters: Mapping[str, Any], user: AccessUser | None) -> Facts:
        """Return what it is then."""
        return {"user_status": "enable" if parameters["is_enabled"] else "disable"}

    def change(self, admin: Admin, parameters: Mapping[str, Any], secret: str) -> None:
        """Change it as the parameters say."""
        admin.change_access_user(parameters["name"], is_enabled=parameters["is_enabled"])

    def call(self, parameters: Mapping[str, Any]) -> tuple[str, str]:
        """Return the call that changes it."""
        return "PATCH", named(parameters)


@register
class DeleteUser(AccessKind):
    """Delete a user with all policies."""

    name, is_final = "access.delete", True
    is_red = True
    title, verb = _("Delete a broker user"), _("Delete broker user")
    effect = _("Its secret stops working, and its policies are deleted. This cannot be undone.")
    outcomes = {"deleted": Outcome(_("deleted"))}

    def typed_word(self, parameters: Mapping[str, Any]) -> str:
        """Return the name of the user."""
        return str(parameters["name"])

    def after(self, parameters: Mapping[str, Any], user: AccessUser | None) -> Facts:
        """Return that nothing is left."""
        return dict.fromkeys(_facts(user), "")

    def change(self, admin: Admin, parameters: Mapping[str, Any], secret: str) -> None:
        """Delete it with its policies."""
        admin.delete_access_user(parameters["name"])

    def rest_call(self, parameters: Mapping[str, Any]) -> Call:
        """Return the call that deletes it."""
        of = f"&broker={quote(chosen().name, safe='')}" if chosen().broker else ""
        return "DELETE", f"broker-users{named(parameters)}?reason=...{of}", None

    def call(self, parameters: Mapping[str, Any]) -> tuple[str, str]:
        """Return method and address without its query."""
        return "DELETE", named(parameters)


@register
class SetPolicy(AccessKind):
    """Allow or deny a user something; an entry takes the place of the one of the same resource."""

    name = "access.set_policy"
    title, verb = _("Set a policy"), _("Set policy")
    effect = _("It applies from the next request on. An entry of the same resource is replaced.")

    def from_form(self, given: QueryDict) -> dict[str, Any]:
        """Return the entry as the form has it."""
        sources = given.get("sources", "").replace(",", " ").split()
        entry_ = {"resource": given.get("resource", "").strip(), "decision": given.get("decision", "Allow")}
        more = {"actions": given.getlist("actions"), "sources": sources, "type": given.get("type", _CUSTOM)}
        return {**super().from_form(given), **entry_, **more}

    def more(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return the entry in RocketMQ's words."""
        made = entry_of(parameters).to_json()
        return {
            "type": str(_type_of(parameters)),
            "resource": made["resource"],
            "actions": made["actions"],
            "decision": made["decision"],
            "sources": made.get("sourceIps", []),
        }

    def after(self, parameters: Mapping[str, Any], user: AccessUser | None) -> Facts:
        """Return the entry in words."""
        return {_title(parameters["resource"], _type_of(parameters)): entry_words(entry_of(parameters))}

    def change(self, admin: Admin, parameters: Mapping[str, Any], secret: str) -> None:
        """Set it for the account."""
        admin.set_policies(parameters["name"], [entry_of(parameters)], kind=_type_of(parameters))

    def call(self, parameters: Mapping[str, Any]) -> tuple[str, str]:
        """Return the call that sets it."""
        return "POST", f"{named(parameters)}/policies"


@register
class DeletePolicy(AccessKind):
    """Take a policy of a user away."""

    name = "access.delete_policy"
    is_red = True
    title, verb = _("Remove a policy"), _("Remove policy")
    effect = _("What it allowed is denied from the next request on, unless another entry allows it.")

    def from_form(self, given: QueryDict) -> dict[str, Any]:
        """Return the name, the resource and the type."""
        of = {"resource": given.get("resource", "").strip(), "type": given.get("type", _CUSTOM)}
        return {**super().from_form(given), **of}

    def more(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return type and resource in RocketMQ's words."""
        type_ = str(_type_of(parameters))
        try:
            return {"type": type_, "resource": str(parse_resource(str(parameters.get("resource", ""))))}
        except AccessError as error:
            raise InvalidParameter("resource", str(error)) from None

    def after(self, parameters: Mapping[str, Any], user: AccessUser | None) -> Facts:
        """Return that the entry is gone."""
        title = _title(parameters["resource"], _type_of(parameters))
        return {title: ""} if title in _facts(user) else {}

    def change(self, admin: Admin, parameters: Mapping[str, Any], secret: str) -> None:
        """Take the entry away."""
        admin.delete_policy(parameters["name"], parameters["resource"], kind=_type_of(parameters))

    def call(self, parameters: Mapping[str, Any]) -> tuple[str, str]:
        """Return the call that takes it away."""
        return "POST", f"{named(parameters)}/policies:delete"


def entry_of(parameters: Mapping[str, Any]) -> Entry:
    """Return the entry of a policy; raises InvalidParameter."""
    actions, sources = parameters.get("actions", ()), parameters.get("sources", ())
    for name, given in (("actions", actions), ("sources", sources)):
        if isinstance(given, str) or not all(isinstance(each, str) for each in given):
            raise InvalidParameter(name, f"{name} is a list of words.")
    try:
        return entry(str(parameters.get("resource", "")), actions, str(parameters.get("decision", "Allow")), sources)
    except AccessError as error:
        raise InvalidParameter(_field_of(str(error)), str(error)) from None


def entry_words(each: Entry) -> str:
    """Return what an entry says, in RocketMQ's words."""
    said = each.to_json()
    of = f" · {', '.join(each.sources)}" if each.sources else ""
    return f"{said['decision']} {', '.join(said['actions'])}{of}"


def _type_of(parameters: Mapping[str, Any]) -> PolicyType:
    """Return which of a user's two lists is meant; operations from before there was a choice mean Custom."""
    try:
        return policy_type(str(parameters.get("type", "")))
    except AccessError as error:
        raise InvalidParameter("type", str(error)) from None


def _title(resource: str, type_: PolicyType) -> str:
    """Return what an entry is called in a preview: both lists may have one of the same resource."""
    return resource if type_ is PolicyType.CUSTOM else f"{resource} ({type_})"


def _field_of(message: str) -> str:
    return next((name for name in ("actions", "action", "decision", "address") if name in message), "resource")


def _facts(user: AccessUser | None) -> Facts:
    """Return a user as a preview compares it: settings by their codes, entries by their resources."""
    if user is None:
        return {}
    found = {
        "user_type": "Super" if user.is_super else "Normal",
        "user_status": "enable" if user.is_enabled else "disable",
    }
    for type_ in PolicyType:
        for each in user.policies.get(type_, ()):
            found[_title(str(each.resource), type_)] = entry_words(each)
    return found


def _said(parameters: Mapping[str, Any], name: str, *, default: bool | None = None) -> bool:
    given = parameters.get(name, default)
    if not isinstance(given, bool):
        raise InvalidParameter(name, f"{name} is true or false.")
    return given
