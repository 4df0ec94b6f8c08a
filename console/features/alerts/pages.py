"""Alerts: what is raised now, the rules, what was, and asking for quiet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter

from django.contrib.auth.decorators import login_required, permission_required
from django.db.models import Max, Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from console.features.alerts import rule_fields
from console.features.alerts.models import Alert, AlertRule, Silence
from console.operations import workflow
from console.operations.actor import ADD_ALERT_RULE, CHANGE_ALERT_RULE, SILENCE_ALERTS, Actor
from console.operations.errors import InvalidParameter, NotPossible, OutOfReach
from console.operations.typed_moments import bound_ms
from console.security.topic_scope import Eyes, eyes
from console.site.clock import real_now_ms as now_ms
from console.ui.export import Answer, page_or_file
from console.ui.form_addresses import form_of
from console.ui.live import number
from console.ui.refusals import words

VIEW, SILENCE = "console.view_alert", SILENCE_ALERTS
#: offered lengths of quiet, in minutes
LENGTHS_MIN = (30, 120, 480, 1_440)
LISTED = 100
#: of the form that asks for quiet
_FIELDS = ("subject", "rule", "minutes", "until", "reason")
#: what is watched of a consumer group; a queue of Redisson's, and the broker itself, are the others
_OF_GROUPS = (AlertRule.What.BACKLOG, AlertRule.What.STILL, AlertRule.What.DEAD_LETTERS)


@require_safe
@login_required
@permission_required(VIEW, raise_exception=True)
def alerts(request: HttpRequest) -> Answer:
    """The page; its file has all alerts, what is raised and what was."""
    return _page(request, {}, {})


@login_required
@permission_required((VIEW, SILENCE), raise_exception=True)
@form_of("alerts")
def silence(request: HttpRequest) -> Answer:
    """Nobody is told of these subjects for a while: an operation that is done at once, for three in the morning."""
    given = {name: request.POST.get(name, "").strip()[:1_000] for name in _FIELDS}
    faults: dict[str, str] = {}
    if not given["reason"]:
        faults["reason"] = _("Say why: the reason is kept.")
    until_ms = _until_ms(given, faults)
    subject, wrong = rule_fields.read({"subject": given["subject"]})
    faults |= wrong
    parameters = {"rule": number(given["rule"]), "until_ms": until_ms, **subject}
    if not faults:
        try:
            workflow.start("alerts.silence", parameters, Actor.of(request.user), reason=given["reason"])
        except OutOfReach as error:
            faults["subject"] = words(error)
        except InvalidParameter as error:
            faults[error.field if error.field in _FIELDS else "until"] = words(error)
        except NotPossible:
            raise Http404 from None
    return _page(request, given, faults, status=422) if faults else _back()


def _until_ms(given: Mapping[str, str], faults: dict[str, str]) -> int | None:
    """The moment that was written, or so long from now; 404 for a length that was not offered."""
    if given["until"]:
        return bound_ms(given["until"], "until", faults)
    minutes = number(given["minutes"])
    if minutes not in LENGTHS_MIN:
        raise Http404
    return now_ms() + minutes * 60_000


def _back() -> HttpResponse:
    answer = redirect("alerts")
    answer.status_code = 303
    return answer


def _page(request: HttpRequest, given: Mapping[str, str], faults: Mapping[str, str], status: int = 200) -> Answer:
    seen = eyes()
    rows = _named_to(seen)
    silences = [
        row
        for row in Silence.objects.select_related("rule").filter(until__gt=timezone.now())
        if seen.see_all or row.subject == "*" or seen.queue(row.subject) or seen.group(row.subject)
    ]
    context = {
        "here": "alerts",
        "now_ms": now_ms(),
        "open_ones": list(rows.exclude(state=Alert.State.ENDED).order_by("-state", "since")[:LISTED]),
        "past": list(rows.filter(state=Alert.State.ENDED).order_by("-ended_at")[:LISTED]),
        "rules": [_shown(rule, silences) for rule in _rules() if _is_named(rule, rule.subject, seen)],
        "silences": silences,
        "lengths": LENGTHS_MIN,
        "may_silence": request.user.has_perm(SILENCE),
        "may_add": seen.see_all and request.user.has_perm(ADD_ALERT_RULE),
        "may_change": seen.see_all and request.user.has_perm(CHANGE_ALERT_RULE),
        "given": {"subject": "*", "minutes": "30", **given},
        "faults": faults,
    }
    return page_or_file(
        request, "alerts/page.html", context, "alerts", _all_from, following=attrgetter("following"), status=status
    )


@dataclass(frozen=True, slots=True)
class RuleRow:
    """A rule in the list. `silence`: the one that holds longest, of this rule or of all."""

    rule: AlertRule
    last_raised: datetime | None
    silence: Silence | None


def _rules() -> QuerySet[AlertRule]:
    return AlertRule.objects.annotate(last_raised=Max("alerts__raised_at"))


def _shown(rule: AlertRule, silences: Iterable[Silence]) -> RuleRow:
    held = [each for each in silences if each.rule_id in (None, rule.pk)]
    return RuleRow(rule, getattr(rule, "last_raised", None), max(held, key=lambda each: each.until, default=None))


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Some of all alerts, and where the next are."""

    rows: list[Alert]
    following: int | None


def _all_from(offset: int | None) -> _Stretch:
    first = offset or 0
    found = list(_named_to(eyes())[first : first + LISTED + 1])
    return _Stretch(found[:LISTED], first + LISTED if len(found) > LISTED else None)


def _named_to(seen: Eyes) -> QuerySet[Alert]:
    """Alerts of what the reader sees, as `_is_named` says it of one."""
    rows = Alert.objects.select_related("rule")
    if seen.see_all:
        return rows
    stuck, every = AlertRule.What.STUCK_QUEUE, Q(subject="*")
    of_groups = Q(rule__what__in=_OF_GROUPS) & (every | Q(subject__in=seen.groups()))
    of_queues = Q(rule__what=stuck) & (every | seen.visible.among("subject"))
    return rows.filter(of_groups | of_queues | ~Q(rule__what__in=(*_OF_GROUPS, stuck)))


def _is_named(rule: AlertRule, subject: str, seen: Eyes) -> bool:
    """Whether the name of what is watched is one that the reader sees."""
    if rule.what in _OF_GROUPS:
        return subject == "*" or seen.group(subject)
    return rule.what != AlertRule.What.STUCK_QUEUE or subject == "*" or seen.queue(subject)
