"""Rules of alerts created, changed and deleted; and silences, in which nobody is told of some alerts for a while.

    {"settings": {"what": "backlog", "subject": "billing", "limit": 1000, "for_s": 60}}     create
    {"rule": 5, "settings": {"limit": 500}, "expected": {"limit": 1000}}                    change; `expected`: undo
    {"rule": 5}                                                                             delete
    {"rule": 5, "subject": "*", "until_ms": 1795247527000}                                  silence; rule None: of all
    {"silence": 7}                                                                          end a silence

The database is asked at once, so that what is done here is done, or refused; nothing stays unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Any, ClassVar, TypeVar

from django.http import QueryDict
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from console.features.alerts import rule_fields
from console.features.alerts.channels import without_path
from console.features.alerts.evaluate import look
from console.features.alerts.models import Alert, AlertRule, Silence
from console.operations.actor import (
    ADD_ALERT_RULE,
    CHANGE_ALERT_RULE,
    DELETE_ALERT_RULE,
    SILENCE_ALERTS,
    UNBOUNDED,
    Scope,
    named,
)
from console.operations.errors import InvalidParameter, NotPossible
from console.operations.kind import (
    REASON,
    AtOnce,
    Call,
    ChangesPreview,
    ItemResult,
    Outcome,
    Preview,
    Target,
    Undo,
    Words,
    renamed,
)
from console.operations.models import Operation, OperationItem
from console.operations.registry import register
from console.site.clock import real_now_ms as now_ms
from console.site.parsing import whole_number

#: a rule looks at everything that there is, each time
MOST_RULES = 200


LONGEST_SILENCE_MS = 366 * 86_400_000
OfAlert = TypeVar("OfAlert", bound=Preview)


@dataclass(frozen=True, slots=True, kw_only=True)
class RulePreview(ChangesPreview):
    """A rule as it would be, and what it would say now."""

    #: its what, limit, for_s and is_on
    rule: dict[str, Any] = field(default_factory=dict)
    #: its highest readings: [subject, value]
    watched: list[list[Any]] = field(default_factory=list)
    #: how many it would watch, and how many of them are above its limit now (None: that cannot be read)
    watched_count: int | None = None
    watched_above: int | None = None

    @property
    def is_read(self) -> bool:
        """Tell whether the value that the rule watches can be read now."""
        return self.watched_above is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleDeletionPreview(Preview):
    """The loss that comes with a rule's deletion: the alerts that it raised, now and before."""

    lost_alerts: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SilencePreview(ChangesPreview):
    """The raised alerts that a silence keeps quiet: how many, and some of them as [subject, value]."""

    watched: list[list[Any]] = field(default_factory=list)
    watched_count: int | None = None


class AlertKind(AtOnce[OfAlert]):
    """An operation on one rule or one silence; it is one item."""

    page = "alerts"
    leave_words = _("Open alerts")

    def selection(self, parameters: Mapping[str, Any]) -> str:
        """Return the rule in words, or its number where it is not there any more."""
        row = AlertRule.objects.filter(pk=parameters["rule"]).first()
        return str(row) if row is not None else gettext("rule %(number)s") % {"number": parameters["rule"]}

    def page_of(self, item: OperationItem) -> tuple[str, str] | None:
        """Return the page of the rule while there is one, or that of the alerts."""
        rule = item.result.get("rule")
        if rule is None:
            return gettext("Open alerts"), reverse("alerts")
        if not AlertRule.objects.filter(pk=rule).exists():
            return None
        return gettext("Open rule"), reverse("alert_rule", args=[rule])

    def shown_parameters(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters without secrets, and with the origin of a webhook only: its address may be one."""
        shown = dict(parameters)
        for part in ("settings", "expected"):
            given = shown.get(part)
            if isinstance(given, Mapping):
                shown[part] = {name: shown_value(name, value) for name, value in given.items()}
        return shown

    def undo_of(self, row: Operation) -> Undo | None:
        """Return that it can be taken back, if it is over and did something."""
        return Undo(row.is_over and any(row.results.get(each) for each in self.outcomes)) if self.undone_by else None

    def undo_parameters(self, row: Operation, given: QueryDict) -> dict[str, Any]:
        """Return the parameters by the target and the result of its item; raises NotPossible."""
        item = row.items.first()
        target, result = (item.target, item.result) if item is not None else ({}, {})
        try:
            return self.undone(target, result)
        except KeyError:
            raise NotPossible("It changed nothing.") from None

    def undone(self, target: Mapping[str, Any], result: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters of what takes it back; raises KeyError where it did nothing, NotPossible."""
        raise NotPossible("This cannot be undone.")

    def targets(self, parameters: Mapping[str, Any], preview: OfAlert) -> Sequence[Target]:
        """Return the one; what is needed to take it back stands in its target."""
        return [Target(self.kept(parameters), {"name": self.called(parameters)})]

    def kept(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return what was before; raises NotPossible."""
        return {}

    def called(self, parameters: Mapping[str, Any]) -> str:
        """Return what people call it."""
        return str(rule_of(parameters))


@register
class CreateRule(AlertKind[RulePreview]):
    """Create an alert rule."""

    name, permission = "alerts.create", ADD_ALERT_RULE
    title, verb = _("Create an alert rule"), _("Create rule")
    begun_on = "alert_rule_new"
    effect = _("It is evaluated from now on and notifies its recipients.")
    outcomes = {"made": Outcome(_("created"))}
    preview_type = RulePreview
    preview_template = "alerts/rule_preview.html"
    undone_by = "alerts.delete"

    def selection(self, parameters: Mapping[str, Any]) -> str:
        """Return the rule in words, by its settings."""
        return str(AlertRule(**parameters["settings"]))

    def rest_call(self, parameters: Mapping[str, Any]) -> Call:
        """Return the call that creates it."""
        return "POST", "alert-rules", {"settings": _listed(parameters["settings"]), **REASON}

    def checked(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return its settings, all of them."""
        given = parameters.get("settings", {})
        settings = rule_fields.checked({**rule_fields.DEFAULTS, **given} if isinstance(given, Mapping) else given)
        rule_fields.check_together(settings)
        return {"settings": settings}

    def preview(self, parameters: Mapping[str, Any]) -> RulePreview:
        """Show its settings, and what it would say now."""
        _check_room()
        wanted = parameters["settings"]
        changes = [[name, None, shown_value(name, value)] for name, value in wanted.items()]
        return _looked(wanted, changes)

    def called(self, parameters: Mapping[str, Any]) -> str:
        """Return the rule in words, by its settings: it is not there yet."""
        return self.selection(parameters)

    def done(self, who: str, parameters: Mapping[str, Any], reason: str) -> ItemResult:
        """Write the row of the rule."""
        _check_room()
        return ItemResult("made", {"rule": AlertRule.objects.create(**parameters["settings"]).pk})

    def undone(self, target: Mapping[str, Any], result: Mapping[str, Any]) -> dict[str, Any]:
        """Return the rule, which is deleted again."""
        return {"rule": result["rule"]}


@register
class ChangeRule(AlertKind[RulePreview]):
    """Give an alert rule other settings, or switch it on or off."""

    name, permission = "alerts.change", CHANGE_ALERT_RULE
    title, verb = _("Change an alert rule"), _("Apply changes")
    effect = _("It applies from the next evaluation on. This can be undone unless somebody else changes it again.")
    outcomes = {"changed": Outcome(_("changed"))}
    preview_type = RulePreview
    preview_template = "alerts/rule_preview.html"
    undone_by, undo_verb = name, _("Restore settings…")

    def from_form(self, given: QueryDict) -> dict[str, Any]:
        """Return which rule, and what is to be another."""
        settings = {name: str(given[name]).replace("\r\n", "\n") for name in rule_fields.DEFAULTS if name in given}
        return {"rule": whole_number(given.get("rule")), **({"settings": settings} if settings else {})}

    def rest_call(self, parameters: Mapping[str, Any]) -> Call:
        """Return the call that changes it."""
        body = {part: _listed(parameters[part]) for part in ("settings", "expected") if part in parameters}
        return "PATCH", f"alert-rules/{parameters['rule']}", {**body, **REASON}

    def checked(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return which rule, and what is to be another."""
        row = AlertRule.objects.filter(pk=number_in(parameters, "rule")).first()
        changes = rule_fields.checked(parameters.get("settings", {}), row.what if row is not None else "")
        now = rule_fields.shown(row if row is not None else rule_of(parameters))
        changes = rule_fields.with_secret(changes, now)
        rule_fields.check_together({**now, **changes})
        made: dict[str, Any] = {"rule": parameters["rule"], "settings": changes}
        if parameters.get("expected") is not None:
            # what was so once may be refused by now; it is compared only
            if not isinstance(parameters["expected"], Mapping):
                raise InvalidParameter("expected", "expected are names with values.")
            made["expected"] = dict(parameters["expected"])
        return made

    def preview(self, parameters: Mapping[str, Any]) -> RulePreview:
        """Compare each setting before and after, and say what it would say now."""
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
        """Return what is changed, before and after."""
        now = rule_fields.shown(rule_of(parameters))
        return {"before": {name: now[name] for name in parameters["settings"]}, "after": parameters["settings"]}

    def done(self, who: str, parameters: Mapping[str, Any], reason: str) -> ItemResult:
        """Change what is named; the rest stays."""
        row = rule_of(parameters, is_locked=True)
        _expect(parameters, rule_fields.shown(row))
        for name, value in parameters["settings"].items():
            setattr(row, name, value)
        row.save(update_fields=list(parameters["settings"]) or None)
        return ItemResult("changed", {"rule": row.pk})

    def undone(self, target: Mapping[str, Any], result: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings of before, to be set if nobody changed them since."""
        return {"rule": result["rule"], "settings": target["before"], "expected": target["after"]}


@register
class DeleteRule(AlertKind[RuleDeletionPreview]):
    """Delete an alert rule with its history. Created again, it has no history and another secret."""

    name, permission, is_final = "alerts.delete", DELETE_ALERT_RULE, True
    is_red = True
    title, verb = _("Delete an alert rule"), _("Delete rule")
    effect = _("Its alerts are deleted with it. It can be created again, without them; disabling it keeps them.")
    outcomes = {"deleted": Outcome(_("deleted"))}
    preview_type = RuleDeletionPreview
    preview_template = "alerts/deletion_preview.html"
    undone_by = "alerts.create"

    def from_form(self, given: QueryDict) -> dict[str, Any]:
        """Return which rule is meant."""
        return {"rule": whole_number(given.get("rule"))}

    def rest_call(self, parameters: Mapping[str, Any]) -> Call:
        """Return the call that deletes it."""
        return "DELETE", f"alert-rules/{parameters['rule']}?reason=...", None

    def checked(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return which rule is meant."""
        return {"rule": number_in(parameters, "rule")}

    def preview(self, parameters: Mapping[str, Any]) -> RuleDeletionPreview:
        """Count what is lost with it."""
        row = rule_of(parameters)
        return RuleDeletionPreview(at_ms=now_ms(), count=1, lost_alerts=row.alerts.count())

    def kept(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return all of its settings: it can be created again."""
        return {"before": rule_fields.shown(rule_of(parameters))}

    def done(self, who: str, parameters: Mapping[str, Any], reason: str) -> ItemResult:
        """Delete its row, and what it raised."""
        rule_of(parameters, is_locked=True).delete()
        return ItemResult("deleted")

    def undone(self, target: Mapping[str, Any], result: Mapping[str, Any]) -> dict[str, Any]:
        """Return its settings, with which it is created again."""
        return {"settings": target["before"]}


class _QuietKind(AlertKind[SilencePreview]):
    """An operation on a silence."""

    permission = SILENCE_ALERTS
    preview_type = SilencePreview
    preview_template = "alerts/silence_preview.html"
    #: what is said of the alerts that are raised now
    said_of_raised: ClassVar[Words]


@register
class SilenceAlerts(_QuietKind):
    """Tell nobody of some alerts for a while; they are raised and kept all the same."""

    name = "alerts.silence"
    title, verb = _("Silence alerts"), _("Silence")
    effect = _("Alerts still fire and are kept; nobody is notified.")
    outcomes = {"silenced": Outcome(_("silenced"))}
    said_of_raised = _("no longer notified")
    undone_by = "alerts.end_silence"

    def scope(self, parameters: Mapping[str, Any], preview: Mapping[str, Any] | None) -> Scope:
        """Return the one group or queue that it names; what a pattern matches is not known. A rule says what its
        subjects are; without a rule it is a group."""
        subject, what = str(parameters.get("subject", "")), parameters.get("what", "")
        of_groups = (AlertRule.What.BACKLOG, AlertRule.What.STILL, AlertRule.What.DEAD_LETTERS)
        if set(subject) & set("*?[") or what not in ("", AlertRule.What.STUCK_QUEUE, *of_groups):
            return UNBOUNDED
        return Scope(queues=named(subject)) if what == AlertRule.What.STUCK_QUEUE else Scope(groups=named(subject))

    def selection(self, parameters: Mapping[str, Any]) -> str:
        """Return what its subjects are."""
        return str(parameters["subject"])

    def rest_call(self, parameters: Mapping[str, Any]) -> Call:
        """Return the call that creates the silence."""
        rule = {} if parameters["rule"] is None else {"rule": parameters["rule"]}
        given = renamed(parameters, {"subject": "subject", "until_ms": "until"})
        return "POST", "alert-silences", {**rule, **given, **REASON}

    def checked(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return which rule (None: all), which subjects, until when; `what` says what the rule's subjects are."""
        made: dict[str, Any] = {"rule": None, "what": ""}
        if parameters.get("rule") is not None:
            row = rule_of({"rule": number_in(parameters, "rule")})
            made = {"rule": row.pk, "what": row.what}
        until = parameters.get("until_ms")
        if not isinstance(until, int) or isinstance(until, bool) or not 0 < until - now_ms() <= LONGEST_SILENCE_MS:
            raise InvalidParameter("until", gettext("A silence must end in the future, within a year."))
        subject = rule_fields.checked({"subject": parameters.get("subject", "*")})["subject"]
        return {**made, "subject": subject, "until_ms": until}

    def preview(self, parameters: Mapping[str, Any]) -> SilencePreview:
        """Count the raised alerts that nobody would be told of."""
        changes = [["subject", None, parameters["subject"]], ["until_ms", None, parameters["until_ms"]]]
        return _quiet(parameters["rule"], parameters["subject"], changes)

    def called(self, parameters: Mapping[str, Any]) -> str:
        """Return what its subjects are."""
        return str(parameters["subject"])

    def done(self, who: str, parameters: Mapping[str, Any], reason: str) -> ItemResult:
        """Write the row of the silence."""
        rule = rule_of(parameters) if parameters["rule"] is not None else None
        until = datetime.fromtimestamp(parameters["until_ms"] / 1000, UTC)
        row = Silence.objects.create(
            rule=rule, subject=parameters["subject"], until=until, reason=reason, actor=who[:150]
        )
        return ItemResult("silenced", {"silence": row.pk})

    def undone(self, target: Mapping[str, Any], result: Mapping[str, Any]) -> dict[str, Any]:
        """Return the silence, which ends."""
        return {"silence": result["silence"]}


@register
class EndSilence(_QuietKind):
    """Tell again from now on; the silence itself is kept."""

    name = "alerts.end_silence"
    title, verb = _("End a silence"), _("End silence")
    effect = _("Alerts that fire from now on are notified again.")
    outcomes = {"silence_ended": Outcome(_("notified again"))}
    said_of_raised = _("silenced by this")

    def from_form(self, given: QueryDict) -> dict[str, Any]:
        """Return which silence is meant."""
        return {"silence": whole_number(given.get("silence"))}

    def selection(self, parameters: Mapping[str, Any]) -> str:
        """Return the number of the silence."""
        return gettext("silence %(number)s") % {"number": parameters["silence"]}

    def rest_call(self, parameters: Mapping[str, Any]) -> Call:
        """Return the call that ends it."""
        return "DELETE", f"alert-silences/{parameters['silence']}?reason=...", None

    def checked(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return which silence is meant."""
        return {"silence": number_in(parameters, "silence")}

    def preview(self, parameters: Mapping[str, Any]) -> SilencePreview:
        """Show until when it would have been, and what it keeps quiet."""
        row = _silence_of(parameters)
        changes: list[list[Any]] = [
            ["subject", row.subject, row.subject],
            ["until_ms", round(row.until.timestamp() * 1000), now_ms()],
        ]
        return _quiet(row.rule_id, row.subject, changes)

    def called(self, parameters: Mapping[str, Any]) -> str:
        """Return what its subjects are."""
        return _silence_of(parameters).subject

    def done(self, who: str, parameters: Mapping[str, Any], reason: str) -> ItemResult:
        """End the silence now."""
        _silence_of(parameters)
        Silence.objects.filter(pk=parameters["silence"]).update(until=timezone.now())
        return ItemResult("silence_ended")


def _quiet(rule: int | None, subject: str, changes: list[list[Any]]) -> SilencePreview:
    """Count the raised alerts that a silence keeps quiet."""
    raised = Alert.objects.exclude(state=Alert.State.ENDED)
    hits = [row for row in (raised if rule is None else raised.filter(rule=rule)) if fnmatchcase(row.subject, subject)]
    watched = [[row.subject, row.value] for row in hits[:5]]
    return SilencePreview(at_ms=now_ms(), count=1, changes=changes, watched=watched, watched_count=len(hits))


def _silence_of(parameters: Mapping[str, Any]) -> Silence:
    row = Silence.objects.filter(pk=parameters["silence"], until__gt=timezone.now()).first()
    if row is None:
        raise NotPossible(f"There is no silence {parameters['silence']}, or it is over.")
    return row


def rule_of(parameters: Mapping[str, Any], *, is_locked: bool = False) -> AlertRule:
    """Return the rule that is meant; raises NotPossible."""
    rows = AlertRule.objects.select_for_update() if is_locked else AlertRule.objects.all()
    row = rows.filter(pk=parameters["rule"]).first()
    if row is None:
        raise NotPossible(f"There is no alert rule {parameters['rule']}.")
    return row


def shown_value(name: str, value: Any) -> Any:
    """Return the value of a setting as others may see it who do not administer rules."""
    if name == "webhook_secret":
        return "•••" if value else ""
    return without_path(value) if name == "webhook" and isinstance(value, str) else value


def _looked(wanted: Mapping[str, Any], changes: list[list[Any]]) -> RulePreview:
    """Return what a rule with these settings would say now."""
    found = look(str(wanted["what"]), str(wanted["subject"]), float(wanted["limit"]))
    return RulePreview(
        at_ms=now_ms(),
        count=1 if changes else 0,
        changes=changes,
        watched=[[each.subject, each.value] for each in found.rows],
        watched_count=found.count,
        watched_above=found.above if found.is_told else None,
        missing=["silenced"] if found.is_silenced else [],
        rule={name: wanted[name] for name in ("what", "limit", "for_s", "is_on")},
    )


def _expect(parameters: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    for name, value in parameters.get("expected", {}).items():
        if now.get(name) != value:
            raise NotPossible(f"{name} is another one now: it was changed meanwhile.")


def _check_room() -> None:
    if AlertRule.objects.count() >= MOST_RULES:
        raise NotPossible(f"There are {MOST_RULES} rules already, which is the limit.")


def number_in(parameters: Mapping[str, Any], name: str) -> int:
    """Return the number of a rule or silence; raises InvalidParameter."""
    given = parameters.get(name)
    if not isinstance(given, int) or isinstance(given, bool) or not 0 < given < 2**63:
        raise InvalidParameter(name, f"{name} is the number of one.")
    return given


def _listed(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings as REST has them: mail addresses one by one."""
    return {name: value.split() if name == "emails" else value for name, value in settings.items()}
