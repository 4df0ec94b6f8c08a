"""Settings of a broker changed while it runs.

    {"broker": "broker-a", "settings": {"fileReservedTime": "48"}}                      change
    {"broker": "broker-a", "settings": {"fileReservedTime": "72"}, "expected": {"fileReservedTime": "48"}}
                                                                                        only if it is so now: undo

Without `broker` it is about the one that is chosen, or that there is. Escapement makes all changes or none and keeps
them over a start; Apache RocketMQ takes what it can read: what it did not take is found by looking again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from django.http import QueryDict
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from broker.client import BrokerRefused, ClientError
from console.features.brokers import catalogue
from console.features.brokers.read import read_broker
from console.features.brokers.shapes import setting_row
from console.operations.actor import CHANGE_SETTINGS
from console.operations.errors import InvalidParameter, NotPossible
from console.operations.kind import (
    REASON,
    Call,
    ChangesPreview,
    Form,
    ItemNow,
    ItemResult,
    Kind,
    Outcome,
    Target,
    Undo,
)
from console.operations.models import Operation, OperationItem
from console.operations.registry import register
from console.site.broker import admin, at
from console.site.chosen import chosen
from console.site.clock import now_ms
from console.site.mirrored import cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerPreview(ChangesPreview):
    """Settings before and after."""

    #: messages may be deleted that would be kept now: what puts the settings back does not bring them back
    loses: bool = False


@register
class ConfigureBroker(Kind[BrokerPreview]):
    """Give a broker other settings while it runs."""

    name, permission = "brokers.configure", CHANGE_SETTINGS
    page = "broker"
    leave_words = _("Open broker")
    title, verb = _("Change the settings of a broker"), _("Apply changes")
    effect = _("It takes effect immediately and stays after a restart. This can be undone.")
    outcomes = {"changed": Outcome(_("changed"))}
    is_repeatable = True
    preview_type = BrokerPreview
    preview_template = "brokers/changes_preview.html"
    has_figures = False
    undone_by, undo_verb = name, _("Restore settings…")

    def checked(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return the broker, its settings, and what is expected to be there, as brokers write them."""
        settings = catalogue.checked(parameters.get("settings"))
        made: dict[str, Any] = {"broker": _broker_of(parameters.get("broker")), "settings": settings}
        if parameters.get("expected") is not None:
            made["expected"] = catalogue.checked(parameters["expected"])
        return made

    def from_form(self, given: QueryDict) -> dict[str, Any]:
        """Return the settings that differ from what the form was made of; raises InvalidParameter where none does."""
        names = [name for name, about in catalogue.KNOWN.items() if about.is_changeable and name in given]
        settings = {name: str(given[name]) for name in names if given[name] != given.get(f"was_{name}", "")}
        if not settings:
            raise InvalidParameter("settings", gettext("No setting was changed."))
        return {"broker": given.get("broker", ""), "settings": settings}

    def form_again(self, given: QueryDict, faults: Mapping[str, str]) -> Form | None:
        """Return the form as it was sent."""
        with at(given.get("broker", "")):
            return Form("brokers/form.html", {"data": read_broker().as_sent(given, faults)})

    def preview(self, parameters: Mapping[str, Any]) -> BrokerPreview:
        """Compare each setting before and after; raises NotPossible, InvalidParameter, ClientError."""
        now = _now(parameters)
        changes = ChangesPreview.between(now, parameters["settings"])
        loses = any(_loses(*change) for change in changes)
        return BrokerPreview(at_ms=now_ms(), count=1 if changes else 0, changes=changes, loses=loses)

    def targets(self, parameters: Mapping[str, Any], preview: BrokerPreview) -> Sequence[Target]:
        """Return the broker, with what was before."""
        name, settings = parameters["broker"], parameters["settings"]
        before = _now({"broker": name, "settings": settings})
        return [Target({"name": name}, {"name": name, "before": before, "after": dict(settings)})]

    def act(self, parameters: Mapping[str, Any], reason: str, targets: Sequence[Mapping[str, Any]]) -> list[ItemResult]:
        """Look once more, change all in one request, and look whether it is so; what was taken alone is put back."""
        try:
            before = _now(parameters)
            with at(parameters["broker"]):
                left_out = _changed(before, parameters["settings"])
        except (NotPossible, InvalidParameter, BrokerRefused) as error:
            return [ItemResult("refused", {"error": str(error)})]
        except ClientError as error:
            return [ItemResult("unknown", {"error": str(error)})]
        if left_out:
            told = f"The broker did not take {', '.join(left_out)}: nothing was changed."
            return [ItemResult("refused", {"error": told})]
        return [ItemResult("changed")]

    def selection(self, parameters: Mapping[str, Any]) -> str:
        """Return the broker, and how many of its settings."""
        names = list(parameters["settings"])
        words = ngettext(
            "%(count)s setting of %(broker)s: %(names)s", "%(count)s settings of %(broker)s: %(names)s", len(names)
        )
        return words % {"count": len(names), "broker": parameters["broker"], "names": ", ".join(names)[:120]}

    def item_now(self, item: OperationItem) -> ItemNow | None:
        """Return what was changed to what, or why it was not."""
        if item.result.get("error"):
            return super().item_now(item)
        before, after = item.label.get("before") or {}, item.label.get("after") or {}
        told = [f"{name}: {before.get(name, '')} → {value}" for name, value in after.items()]
        return ItemNow(text=", ".join(told)) if told else None

    def rest_call(self, parameters: Mapping[str, Any]) -> Call:
        """Return the call that changes them."""
        body = {part: parameters[part] for part in ("settings", "expected") if part in parameters}
        return "PATCH", f"brokers/{quote(parameters['broker'], safe='')}/settings", {**body, **REASON}

    def undo_of(self, row: Operation) -> Undo | None:
        """Return that they can be put back, if it changed something."""
        return Undo(bool(row.results.get("changed")))

    def undo_parameters(self, row: Operation, given: QueryDict) -> dict[str, Any]:
        """Return the settings of before, to be set if nobody changed them since; raises NotPossible."""
        label = row.items.filter(outcome="changed").values_list("label", flat=True).first()
        if not label or not label.get("before"):
            raise NotPossible("It changed nothing that was there before.")
        return {"broker": label["name"], "settings": label["before"], "expected": label["after"]}


def _broker_of(given: object) -> str:
    """Return the name of the one broker that this is about, as its rows have it; raises InvalidParameter, NotPossible.

    Who says nothing means the one that is chosen, or that there is.
    """
    if given not in (None, ""):
        if not isinstance(given, str) or (chosen().broker and given != chosen().name):
            raise InvalidParameter("broker", f"broker is another one than {chosen().name}, which is chosen.")
        return given
    if chosen().broker:
        return chosen().name
    here = cluster()
    if here.has_several:
        raise NotPossible("Settings are of one broker: name one of them.")
    return "".join(here.names)


def _now(parameters: Mapping[str, Any]) -> dict[str, str]:
    """Return the values of the settings that are to be changed; raises NotPossible where they are not as expected,
    InvalidParameter where the broker does not have one, and ClientError."""
    with at(parameters["broker"]):
        told = admin().broker_settings()
    found = {each.name: setting_row(each.name, each.value, each.default, each.started, each.allowed) for each in told}
    for name in parameters["settings"]:
        row = found.get(name)
        if row is None:
            raise InvalidParameter("settings", f"The broker has no setting {name}.")
        if not row.has_field:
            raise InvalidParameter("settings", f"{name} cannot be changed while the broker runs.")
    for name, value in parameters.get("expected", {}).items():
        is_now = found[name].value if name in found else ""
        if not _is_same(is_now, value):
            raise NotPossible(f"{name} is {is_now!r} now, not {value!r}: it was changed meanwhile.")
    return {name: found[name].value for name in parameters["settings"]}


def _changed(before: Mapping[str, str], wanted: Mapping[str, str]) -> list[str]:
    """Change the settings of the broker that is asked here; return those that it did not take: then none is changed.
    Raises ClientError."""
    admin().change_broker_settings(wanted)
    now = {each.name: each.value for each in admin().broker_settings() if each.name in wanted}
    left_out = [name for name, value in wanted.items() if not _is_same(now.get(name, ""), value)]
    taken = {name: before[name] for name in wanted if name not in left_out and before[name] != now[name]}
    if left_out and taken:
        admin().change_broker_settings(taken)
    return left_out


def _loses(name: str, before: str, after: str) -> bool:
    """Tell whether messages that are kept now may be deleted after this change."""
    if name == "escKeepUnconsumed":
        return after == "false"
    try:
        return name == "fileReservedTime" and float(after) < float(before)
    except ValueError:
        return True


def _is_same(one: str, other: str) -> bool:
    """Tell whether two values are the same: brokers write a number in more than one way."""
    if one == other:
        return True
    try:
        return float(one) == float(other)
    except ValueError:
        return False
