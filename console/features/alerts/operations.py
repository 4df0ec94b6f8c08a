"""Rules of alerts made, changed and deleted.

    {"settings": {"what": "backlog", "subject": "billing", "limit": 1000, "for_s": 60}}     make
    {"rule": 5, "settings": {"limit": 500}, "expected": {"limit": 1000}}                    change; `expected`: undo
    {"rule": 5}                                                                             delete

The database is asked at once, so that what is done here is done, or refused; nothing stays unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.db import transaction

from console.features.alerts import rule_fields
from console.features.alerts.evaluate import look
from console.features.alerts.models import AlertRule
from console.features.alerts.webhooks import without_path
from console.operations.actor import ADD_ALERT_RULE, CHANGE_ALERT_RULE, DELETE_ALERT_RULE
from console.operations.errors import InvalidParameter, NotPossible
from console.operations.kind import ItemResult, Kind, Target
from console.operations.preview import Preview
from console.site.clock import real_now_ms as now_ms

#: a rule looks at everything that there is, each time
MOST_RULES = 200


class OfAlerts(Kind):
    """What they have in common: one item each."""

    page = "alerts"

    def targets(self, parameters: Mapping[str, Any], preview: Preview) -> Sequence[Target]:
        """The one; what is needed to take it back stands in its target."""
        return [Target(self.kept(parameters), {"name": self.called(parameters)})]

    def act(self, parameters: Mapping[str, Any], reason: str, targets: Sequence[Mapping[str, Any]]) -> list[ItemResult]:
        """In nobody's name."""
        return self.act_as("", parameters, reason, targets)

    def act_as(
        self, who: str, parameters: Mapping[str, Any], reason: str, targets: Sequence[Mapping[str, Any]]
    ) -> list[ItemResult]:
        """Done or refused."""
        try:
            with transaction.atomic():
                return [self.done(who, parameters, reason)]
        except NotPossible as error:
            return [ItemResult("refused", {"error": str(error)})]

    def kept(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """What was before; raises NotPossible."""
        return {}

    def called(self, parameters: Mapping[str, Any]) -> str:
        """What people call it."""
        return str(rule_of(parameters))

    def done(self, who: str, parameters: Mapping[str, Any], reason: str) -> ItemResult:
        """Do it; raises NotPossible."""
        raise AssertionError("each kind does its own")


class MakeRule(OfAlerts):
    """A new rule."""

    name, permission = "alerts.create", ADD_ALERT_RULE

    def checked(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Its settings, all of them."""
        given = parameters.get("settings", {})
        settings = rule_fields.checked({**rule_fields.DEFAULTS, **given} if isinstance(given, Mapping) else given)
        return {"settings": settings}

    def preview(self, parameters: Mapping[str, Any]) -> Preview:
        """Its settings, and what it would say now."""
        _check_room()
        wanted = parameters["settings"]
        changes = [[name, None, shown_value(name, value)] for name, value in wanted.items()]
        return _looked(wanted, changes)

    def called(self, parameters: Mapping[str, Any]) -> str:
        """By its settings: it is not there yet."""
        return str(AlertRule(**parameters["settings"]))

    def done(self, who: str, parameters: Mapping[str, Any], reason: str) -> ItemResult:
        """One row."""
        _check_room()
        return ItemResult("made", {"rule": AlertRule.objects.create(**parameters["settings"]).pk})


class ChangeRule(OfAlerts):
    """Other settings, on or off."""

    name, permission = "alerts.change", CHANGE_ALERT_RULE

    def checked(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Which rule, and what is to be another."""
        made = {"rule": number_in(parameters, "rule"), "settings": rule_fields.checked(parameters.get("settings", {}))}
        if parameters.get("expected") is not None:
            # what was so once may be refused by now; it is compared only
            if not isinstance(parameters["expected"], Mapping):
                raise InvalidParameter("expected", "expected are names with values.")
            made["expected"] = dict(parameters["expected"])
        return made

    def preview(self, parameters: Mapping[str, Any]) -> Preview:
        """Each setting before and after, and what it would say now."""
        now = rule_fields.shown(rule_of(parameters))
        _expect(parameters, now)
        wanted = {**now, **parameters["settings"]}
        changes = [
            [name, shown_value(name, now[name]), shown_value(name, value)]
            for name, value in wanted.items()
            if value != now[name]
        ]
        return _looked(wanted, changes)

    def kept(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """What is changed, before and after."""
        now = rule_fields.shown(rule_of(parameters))
        return {"before": {name: now[name] for name in parameters["settings"]}, "after": parameters["settings"]}

    def done(self, who: str, parameters: Mapping[str, Any], reason: str) -> ItemResult:
        """What is named; the rest stays."""
        row = rule_of(parameters, is_locked=True)
        _expect(parameters, rule_fields.shown(row))
        for name, value in parameters["settings"].items():
            setattr(row, name, value)
        row.save(update_fields=list(parameters["settings"]) or None)
        return ItemResult("changed", {"rule": row.pk})


class DeleteRule(OfAlerts):
    """Its history goes with it."""

    name, permission, is_final = "alerts.delete", DELETE_ALERT_RULE, True

    def checked(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Which."""
        return {"rule": number_in(parameters, "rule")}

    def preview(self, parameters: Mapping[str, Any]) -> Preview:
        """What is lost with it."""
        row = rule_of(parameters)
        return Preview(at_ms=now_ms(), count=1, lost_alerts=row.alerts.count())

    def kept(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """All of it: it can be made again."""
        return {"before": rule_fields.shown(rule_of(parameters))}

    def done(self, who: str, parameters: Mapping[str, Any], reason: str) -> ItemResult:
        """One row, and what it raised."""
        rule_of(parameters, is_locked=True).delete()
        return ItemResult("deleted")


KINDS: tuple[Kind, ...] = (MakeRule(), ChangeRule(), DeleteRule())


#: kinds by which these, and silences, are taken back; a rule that is made again has no history and another secret
UNDONE_BY: Mapping[str, str] = {
    "alerts.create": "alerts.delete", "alerts.change": "alerts.change", "alerts.delete": "alerts.create",
    "alerts.silence": "alerts.end_silence",
}  # fmt: skip


def undo_parameters(kind: str, target: Mapping[str, Any], result: Mapping[str, Any]) -> dict[str, Any]:
    """Those of what takes one of these back, by its item's target and result; raises NotPossible."""
    try:
        if kind == "alerts.create":
            return {"rule": result["rule"]}
        if kind == "alerts.change":
            return {"rule": result["rule"], "settings": target["before"], "expected": target["after"]}
        return {"settings": target["before"]} if kind == "alerts.delete" else {"silence": result["silence"]}
    except KeyError:
        raise NotPossible("It changed nothing.") from None


def rule_of(parameters: Mapping[str, Any], *, is_locked: bool = False) -> AlertRule:
    """The rule that is meant; raises NotPossible."""
    rows = AlertRule.objects.select_for_update() if is_locked else AlertRule.objects.all()
    row = rows.filter(pk=parameters["rule"]).first()
    if row is None:
        raise NotPossible(f"There is no alert rule {parameters['rule']}.")
    return row


def shown_value(name: str, value: Any) -> Any:
    """As others may see it who do not administer rules."""
    return without_path(value) if name == "webhook" and isinstance(value, str) else value


def _looked(wanted: Mapping[str, Any], changes: list[list[Any]]) -> Preview:
    """What a rule with these settings would say now."""
    found = look(str(wanted["what"]), str(wanted["subject"]), float(wanted["limit"]))
    return Preview(
        at_ms=now_ms(), count=1 if changes else 0, changes=changes,
        watched=[[each.subject, each.value] for each in found.rows], watched_count=found.count,
        watched_above=found.above if found.is_told else None,
        missing=["silenced"] if found.is_silenced else [],
        rule={name: wanted[name] for name in ("what", "limit", "for_s", "is_on")},
    )  # fmt: skip


def _expect(parameters: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    for name, value in parameters.get("expected", {}).items():
        if now.get(name) != value:
            raise NotPossible(f"{name} is another one now: somebody has changed it since.")


def _check_room() -> None:
    if AlertRule.objects.count() >= MOST_RULES:
        raise NotPossible(f"There are {MOST_RULES} rules already, which is the limit.")


def number_in(parameters: Mapping[str, Any], name: str) -> int:
    """The number of a rule or silence; raises InvalidParameter."""
    number = parameters.get(name)
    if not isinstance(number, int) or isinstance(number, bool) or not 0 < number < 2**63:
        raise InvalidParameter(name, f"{name} is the number of one.")
    return number
