"""Alerts: what is raised now, the rules, what was, and asking for quiet."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from operator import attrgetter

from django.contrib.auth.decorators import login_required, permission_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from console.access.topics import Eyes, eyes
from console.alerts.rows import Alert, AlertRule, Silence
from console.live import number
from console.pages.exporting import Answer, page_or_file
from console.queries.clock import now_ms

VIEW, SILENCE = "console.view_alert", "console.silence_alerts"
#: offered lengths of quiet, in minutes
LENGTHS_MIN = (30, 120, 480, 1_440)
LISTED = 100
#: what is watched of a consumer group; a queue of Redisson's, and the broker itself, are the others
_OF_GROUPS = (AlertRule.What.BACKLOG, AlertRule.What.STILL, AlertRule.What.DEAD_LETTERS)


@require_safe
@login_required
@permission_required(VIEW, raise_exception=True)
def alerts(request: HttpRequest) -> Answer:
    """The page; its file has all alerts, what is raised and what was."""
    return _page(request, "")


@login_required
@permission_required((VIEW, SILENCE), raise_exception=True)
@require_POST
def silence(request: HttpRequest) -> Answer:
    """Nobody is told of these subjects for a while."""
    given = {name: request.POST.get(name, "").strip()[:255] for name in ("subject", "reason", "rule", "minutes")}
    if not given["reason"]:
        return _page(request, _("Say why: the reason is kept."), status=422)
    minutes = number(given["minutes"])
    if minutes not in LENGTHS_MIN:
        raise Http404
    chosen = number(given["rule"])
    rule = None if chosen is None else AlertRule.objects.filter(pk=chosen).first()
    if given["rule"] and rule is None:
        raise Http404
    Silence.objects.create(
        rule=rule, subject=given["subject"] or "*", until=timezone.now() + timedelta(minutes=minutes),
        reason=given["reason"], actor=request.user.get_username(),
    )  # fmt: skip
    return _back()


@login_required
@permission_required((VIEW, SILENCE), raise_exception=True)
@require_POST
def end_silence(request: HttpRequest, silence_id: int) -> HttpResponse:
    """Tell again from now on; the silence itself is kept."""
    Silence.objects.filter(pk=silence_id, until__gt=timezone.now()).update(until=timezone.now())
    return _back()


def _back() -> HttpResponse:
    answer = redirect("alerts")
    answer.status_code = 303
    return answer


def _page(request: HttpRequest, error: str, status: int = 200) -> Answer:
    rows, seen = Alert.objects.select_related("rule"), eyes()
    context = {
        "here": "alerts",
        "now_ms": now_ms(),
        "open_ones": _seen(rows.exclude(state=Alert.State.ENDED).order_by("-state", "since")[:LISTED], seen),
        "past": _seen(rows.filter(state=Alert.State.ENDED).order_by("-ended_at")[:LISTED], seen),
        "rules": [rule for rule in AlertRule.objects.all() if _is_named(rule, rule.subject, seen)],
        "silences": [
            row
            for row in Silence.objects.select_related("rule").filter(until__gt=timezone.now())
            if seen.see_all or row.subject == "*" or seen.queue(row.subject) or seen.group(row.subject)
        ],
        "lengths": LENGTHS_MIN,
        "may_silence": request.user.has_perm(SILENCE),
        "may_change": request.user.is_staff and request.user.has_perm("console.change_alertrule"),
        "error": error,
    }
    return page_or_file(
        request, "alerts/page.html", context, "alerts", _all_from, following=attrgetter("following"), status=status
    )


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Some of all alerts, and where the next are."""

    rows: list[Alert]
    following: int | None


def _all_from(offset: int | None) -> _Stretch:
    first = offset or 0
    found = list(Alert.objects.select_related("rule")[first : first + LISTED + 1])
    return _Stretch(_seen(found[:LISTED], eyes()), first + LISTED if len(found) > LISTED else None)


def _seen(rows: Iterable[Alert], seen: Eyes) -> list[Alert]:
    return [row for row in rows if _is_named(row.rule, row.subject, seen)]


def _is_named(rule: AlertRule, subject: str, seen: Eyes) -> bool:
    """Whether the name of what is watched is one that the reader sees."""
    if rule.what in _OF_GROUPS:
        return subject == "*" or seen.group(subject)
    return rule.what != AlertRule.What.STUCK_QUEUE or subject == "*" or seen.queue(subject)
