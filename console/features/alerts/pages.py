"""The Alerts pages: what is raised now, what was, the rules, and silencing.

A rule has a form of its own. From it, or from a button, the way leads to an operation that is previewed first; only a
silence is done at once.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from operator import attrgetter
from typing import Any

from django.core.exceptions import PermissionDenied
from django.db.models import Max, Prefetch, Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_http_methods, require_safe

from console.features.alerts import rule_fields, units
from console.features.alerts.channels import CHANNELS, MAIL, Trial, without_path
from console.features.alerts.evaluate import look
from console.features.alerts.models import Alert, AlertRule, Delivery, Silence
from console.features.alerts.operations import ChangeRule, CreateRule, SilenceAlerts
from console.features.alerts.sealed_secret import secret_of_rule
from console.features.alerts.suggestions import SUGGESTIONS, offered
from console.features.alerts.trial_operations import require_trial, try_rule
from console.features.alerts.webhooks.plain import Plain
from console.features.alerts.webhooks.registry import FORMATS, format_of
from console.operations import workflow
from console.operations.actor import ADD_ALERT_RULE, CHANGE_ALERT_RULE, DELETE_ALERT_RULE, SILENCE_ALERTS, Actor
from console.operations.errors import InvalidParameter, NotAllowed, NotPossible, OutOfReach, words
from console.operations.kind import Words
from console.operations.pages import drafted
from console.operations.reading import number_of
from console.operations.typed_moments import bound_ms
from console.security.topic_scope import TopicScope, current_scope
from console.site.clock import real_now_ms as now_ms
from console.site.parsing import whole_number
from console.ui.addresses import form_of
from console.ui.export import Answer, page_or_file
from console.ui.table import FIGURE, VALUE, Cell, Column, Table, file_columns

_SUBJECT = Column("subject", _("Subject"), Cell("alerts/cells/subject.html", by=(VALUE, "reads_others")))
_STATE = Column("state", _("State"), Cell("alerts/cells/state.html", by=(VALUE, "was_silenced")))
_WHAT = Column("rule.what", _("Metric"), Cell("alerts/cells/what.html", by=(VALUE,)))
_MEASURED = replace(FIGURE, text=lambda value, place: units.in_words(place.row.rule.what, value))
_HIGHEST = Column("highest", _("Peak"), _MEASURED)
_AT = Cell("alerts/cells/moment.html")
_SINCE = Column("since", _("Since"), _AT)
_TOLD = Column("told", _("Notified"), Cell("alerts/cells/told.html", by=(VALUE,)))

#: what is above its limit now, and what was; the file has both
ALERTS = Table(
    "alerts",
    (
        _SUBJECT,
        _STATE,
        _WHAT,
        Column("value", _("Now"), _MEASURED),
        _HIGHEST,
        Column("rule.limit", _("Threshold"), _MEASURED),
        _SINCE,
        *file_columns("raised_at ended_at was_silenced"),
        _TOLD,
    ),
)
PAST_ALERTS = replace(ALERTS, columns=(_SUBJECT, _WHAT, _HIGHEST, _SINCE, Column("ended_at", _("Until"), _AT), _TOLD))

VIEW, SILENCE = "console.view_alert", SILENCE_ALERTS
#: offered lengths of quiet, in minutes
LENGTHS_MIN = (30, 120, 480, 1_440)
LISTED = 100
#: typed as a secret it takes away the one that is kept
TAKES_AWAY = "-"
#: of the form that asks for quiet
_FIELDS = ("subject", "rule", "minutes", "until", "reason")
#: what is watched of a consumer group; a queue of Redisson's, and the broker itself, are the others
_OF_GROUPS = (AlertRule.What.BACKLOG, AlertRule.What.STILL, AlertRule.What.DEAD_LETTERS)


@dataclass(frozen=True, slots=True)
class Field:
    """A setting of the form: the text that stands in it, and what is wrong with that."""

    name: str
    value: str
    fault: str = ""


@dataclass(frozen=True, slots=True)
class RuleRow:
    """A rule in the list. `silence`: the one that holds longest, of this rule or of all."""

    rule: AlertRule
    last_raised: datetime | None
    silence: Silence | None
    #: why it cannot arrive by the channels that the rule has
    hindrances: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Stretch:
    """A part of all alerts, and where the next part begins."""

    rows: list[Alert]
    following: int | None


@require_safe
def alerts(request: HttpRequest) -> Answer:
    """Show the page, or all alerts, raised and over, as a file."""
    return _page(request, {}, {})


@form_of("alerts")
def silence(request: HttpRequest) -> Answer:
    """Silence these subjects for a while: an operation that is done at once, for three in the morning."""
    given = {name: request.POST.get(name, "").strip()[:1_000] for name in _FIELDS}
    faults: dict[str, str] = {}
    if not given["reason"]:
        faults["reason"] = gettext("Enter a reason. It is kept.")
    until_ms = _until_ms(given, faults)
    subject, wrong = rule_fields.read({"subject": given["subject"]})
    faults |= wrong
    parameters = {"rule": whole_number(given["rule"]), "until_ms": until_ms, **subject}
    if not faults:
        try:
            workflow.start(SilenceAlerts.name, parameters, Actor.of(request.user), reason=given["reason"])
        except OutOfReach as error:
            faults["subject"] = words(error)
        except InvalidParameter as error:
            faults[error.field if error.field in _FIELDS else "until"] = words(error)
        except NotPossible:
            raise Http404 from None
    return _page(request, given, faults, status=422) if faults else _back()


@require_http_methods(["GET", "HEAD", "POST"])
def new_rule(request: HttpRequest) -> HttpResponse:
    """Show the form of a new rule, or preview making it."""
    _require(request, ADD_ALERT_RULE)
    suggestion = SUGGESTIONS.get(request.GET.get("suggested", ""))
    now = _forms_texts({**rule_fields.DEFAULTS, **(suggestion.settings if suggestion is not None else {})})
    if request.method != "POST":
        return _rule_page(request, None, now, {}, why=suggestion.why if suggestion is not None else "")
    given = _given(request.POST)
    settings, faults = rule_fields.read({**now, **given})
    faults = faults or rule_fields.faults_together(settings)
    if faults:
        return _rule_page(request, None, {**now, **given}, faults)
    return drafted(request, CreateRule.name, lambda: {"settings": settings}, _operation(request))


@require_http_methods(["GET", "HEAD", "POST"])
def rule(request: HttpRequest, rule_id: int) -> HttpResponse:
    """Show the form of a rule, or preview changing it; unchanged values are not checked."""
    _require(request, CHANGE_ALERT_RULE)
    row = AlertRule.objects.filter(pk=rule_id).first()
    if row is None:
        raise Http404(gettext("There is no such rule."))
    shown = rule_fields.shown(row)
    now = _forms_texts(shown)
    if request.method != "POST":
        return _rule_page(request, row, now, {})
    given = _given(request.POST)
    settings, faults = _read_changes(row.what, given, now)
    changed = {name: value for name, value in settings.items() if value != shown[name]}
    changed = rule_fields.with_secret(changed, shown)
    faults = faults or rule_fields.faults_together({**shown, **changed})
    if faults:
        return _rule_page(request, row, {**now, **given}, faults)
    parameters = {"rule": row.pk, "settings": changed, "expected": {name: shown[name] for name in changed}}
    return drafted(request, ChangeRule.name, lambda: parameters, _operation(request))


@form_of("alert_rule", "rule_id")
def test_rule(request: HttpRequest, rule_id: int) -> HttpResponse:
    """Send a test by every channel of a rule, and show what came back beside its form."""
    actor = Actor.of(request.user)
    try:
        require_trial(actor)
    except NotAllowed as error:
        raise PermissionDenied(error.permission) from None
    row = AlertRule.objects.filter(pk=rule_id).first()
    if row is None:
        raise Http404(gettext("There is no such rule."))
    tried = try_rule(row, actor)
    return _rule_page(request, row, _forms_texts(rule_fields.shown(row)), {}, tried=tried)


def _read_changes(
    what: str, given: Mapping[str, str], now: Mapping[str, str]
) -> tuple[dict[str, rule_fields.Value], dict[str, str]]:
    """Read what differs from what the form showed; a limit also where what it measures is another thing now."""
    is_other = given.get("what", what) != what
    changes = {name: text for name, text in given.items() if text != now[name] or (name == "limit" and is_other)}
    # "-" takes a secret away; one that is not typed again stays
    secret = changes.pop("webhook_secret", "").strip()
    if secret:
        changes["webhook_secret"] = "" if secret == TAKES_AWAY else secret
    return rule_fields.read(changes, given.get("what", what))


def _until_ms(given: Mapping[str, str], faults: dict[str, str]) -> int | None:
    """Return the moment that was typed, or now plus the chosen length. Raises Http404 for a length that was not
    offered."""
    if given["until"]:
        return bound_ms(given["until"], "until", faults, "from_now")
    minutes = whole_number(given["minutes"])
    if minutes not in LENGTHS_MIN:
        raise Http404
    return now_ms() + minutes * 60_000


def _back() -> HttpResponse:
    answer = redirect("alerts")
    answer.status_code = 303
    return answer


def _page(request: HttpRequest, given: Mapping[str, str], faults: Mapping[str, str], status: int = 200) -> Answer:
    seen = current_scope()
    rows = _named_to(seen)
    shown = {"subject": "*", "minutes": "30", **given}
    may_add = seen.see_all and request.user.has_perm(ADD_ALERT_RULE)
    silences = [
        row
        for row in Silence.objects.select_related("rule").filter(until__gt=timezone.now())
        if seen.see_all or row.subject == "*" or seen.queue(row.subject) or seen.group(row.subject)
    ]
    opened, over = rows.exclude(state=Alert.State.ENDED), rows.filter(state=Alert.State.ENDED)
    context = {
        "here": "alerts",
        "open_table": ALERTS,
        "past_table": PAST_ALERTS,
        "now_ms": now_ms(),
        "open_ones": _told_apart(opened.order_by("-state", "since")[:LISTED], seen),
        "past": _told_apart(over.order_by("-ended_at")[:LISTED], seen),
        "rules": [_shown(rule, silences) for rule in _rules() if _is_named(rule, rule.subject, seen)],
        "silences": silences,
        "offers": offered(set(AlertRule.objects.values_list("what", flat=True))) if may_add else (),
        "lengths": LENGTHS_MIN,
        "mail_state": MAIL.state,
        "may_silence": request.user.has_perm(SILENCE),
        "may_add": may_add,
        "may_change": seen.see_all and request.user.has_perm(CHANGE_ALERT_RULE),
        "fields": {name: Field(name, shown.get(name, ""), faults.get(name, "")) for name in _FIELDS},
    }
    return page_or_file(
        request, "alerts/page.html", context, ALERTS, _all_from, following=attrgetter("following"), status=status
    )


def _told_apart(rows: Iterable[Alert], seen: TopicScope) -> list[Any]:
    """Return the alerts; those about a group that reads what is not seen, too, say that their values are of all that it
    reads."""
    found: list[Any] = list(rows)
    for row in found:
        row.reads_others = row.rule.what in _OF_GROUPS and row.subject != "*" and not seen.whole_group(row.subject)
    return found


def _rules() -> QuerySet[AlertRule]:
    return AlertRule.objects.annotate(last_raised=Max("alerts__raised_at"))


def _shown(rule: AlertRule, silences: Iterable[Silence]) -> RuleRow:
    held = [each for each in silences if each.rule_id in (None, rule.pk)]
    return RuleRow(
        rule,
        getattr(rule, "last_raised", None),
        max(held, key=lambda each: each.until, default=None),
        tuple(filter(None, (each.hindrance(rule) for each in CHANNELS.values() if each.is_wanted(rule)))),
    )


def _all_from(offset: int | None) -> _Stretch:
    first = offset or 0
    found = list(_named_to(current_scope())[first : first + LISTED + 1])
    return _Stretch(found[:LISTED], first + LISTED if len(found) > LISTED else None)


def _named_to(seen: TopicScope) -> QuerySet[Alert]:
    """Return the alerts whose subjects the reader sees, by the same rule as `_is_named`."""
    deliveries = Prefetch("deliveries", Delivery.objects.defer("body"))
    rows = Alert.objects.select_related("rule").prefetch_related(deliveries)
    if seen.see_all:
        return rows
    stuck, every = AlertRule.What.STUCK_QUEUE, Q(subject="*")
    of_groups = Q(rule__what__in=_OF_GROUPS) & (every | Q(subject__in=seen.groups()))
    of_queues = Q(rule__what=stuck) & (every | seen.visible.among("subject"))
    return rows.filter(of_groups | of_queues | ~Q(rule__what__in=(*_OF_GROUPS, stuck)))


def _is_named(rule: AlertRule, subject: str, seen: TopicScope) -> bool:
    """Tell whether the reader sees the watched group or queue; rules on other things name neither."""
    if rule.what in _OF_GROUPS:
        return subject == "*" or seen.group(subject)
    return rule.what != AlertRule.What.STUCK_QUEUE or subject == "*" or seen.queue(subject)


def _rule_page(
    request: HttpRequest,
    row: AlertRule | None,
    texts: Mapping[str, str],
    faults: dict[str, str],
    *,
    why: Words = "",
    tried: Sequence[Trial] | None = None,
) -> HttpResponse:
    """`why` is said of a suggested rule; `tried` is what came of a test."""
    fields = {name: Field(name, text, faults.get(name, "")) for name, text in texts.items()}
    # what was typed is not shown again either
    fields["webhook_secret"] = replace(fields["webhook_secret"], value="")
    is_plain = row is not None and row.webhook_format == Plain.name
    context: dict[str, Any] = {
        "here": "alerts",
        "rule": row,
        "fields": fields,
        "is_wrong": bool(faults),
        "why": why,
        "tried": tried,
        "kinds": [(code, title, units.unit_words(code)) for code, title in AlertRule.What.choices],
        "formats": FORMATS.values(),
        "form": format_of(texts["webhook_format"]),
        "mail_state": MAIL.state,
        "hindrances": {channel.setting: channel.hindrance() for channel in CHANNELS.values()},
        "has_secret": row is not None and bool(row.webhook_secret),
        "number": uuid.uuid4(),
        "look": None if row is None else look(row.what, row.subject, row.limit),
        "secret": secret_of_rule(row) if row is not None and row.webhook and is_plain else "",
        "may_delete": request.user.has_perm(DELETE_ALERT_RULE),
    }
    return render(request, "alerts/rule.html", context, status=422 if faults else 200)


def _require(request: HttpRequest, permission: str) -> None:
    """Raise PermissionDenied unless the user sees everything: a rule can watch everything."""
    if not request.user.has_perm(permission) or not current_scope().see_all:
        raise PermissionDenied(permission)


def _given(posted: QueryDict) -> dict[str, str]:
    """Return the settings that were sent, with one kind of line break."""
    return {name: str(posted[name]).replace("\r\n", "\n") for name in rule_fields.DEFAULTS if name in posted}


def _forms_texts(settings: Mapping[str, rule_fields.Value]) -> dict[str, str]:
    """Return the settings as texts, as a form sends them; what a service gave is not shown again."""
    texts = {name: _text(name, value, str(settings["what"])) for name, value in settings.items()}
    if format_of(texts["webhook_format"]).is_address_secret:
        texts["webhook"] = without_path(texts["webhook"])
    return {**texts, "webhook_secret": ""}


def _text(name: str, value: rule_fields.Value, what: str) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name == "for_s" and isinstance(value, int):
        return units.span_text(value * 1_000)
    if name == "limit" and isinstance(value, int | float):
        return units.as_text(what, value)
    return str(value)


def _operation(request: HttpRequest) -> uuid.UUID | None:
    return number_of(request.POST.get("operation", ""))
