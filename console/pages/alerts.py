"""Alerts: what is raised now, the rules, what was, and asking for quiet."""

from __future__ import annotations

from datetime import timedelta

from django.contrib.auth.decorators import login_required, permission_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from console.alerts.rows import Alert, AlertRule, Silence
from console.live import number
from console.queries.clock import now_ms

VIEW, SILENCE = "console.view_alert", "console.silence_alerts"
#: offered lengths of quiet, in minutes
LENGTHS_MIN = (30, 120, 480, 1_440)
LISTED = 100


@require_safe
@login_required
@permission_required(VIEW, raise_exception=True)
def alerts(request: HttpRequest) -> HttpResponse:
    """The page."""
    return _page(request, "")


@login_required
@permission_required((VIEW, SILENCE), raise_exception=True)
@require_POST
def silence(request: HttpRequest) -> HttpResponse:
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


def _page(request: HttpRequest, error: str, status: int = 200) -> HttpResponse:
    rows = Alert.objects.select_related("rule")
    context = {
        "here": "alerts",
        "now_ms": now_ms(),
        "open_ones": list(rows.exclude(state=Alert.State.ENDED).order_by("-state", "since")[:LISTED]),
        "past": list(rows.filter(state=Alert.State.ENDED).order_by("-ended_at")[:LISTED]),
        "rules": list(AlertRule.objects.all()),
        "silences": list(Silence.objects.select_related("rule").filter(until__gt=timezone.now())),
        "lengths": LENGTHS_MIN,
        "may_silence": request.user.has_perm(SILENCE),
        "may_change": request.user.is_staff and request.user.has_perm("console.change_alertrule"),
        "error": error,
    }
    return render(request, "alerts/page.html", context, status=status)
