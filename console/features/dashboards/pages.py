"""Dashboards: nine pages of figures from the log, their data, and the runs that compute them."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse, StreamingHttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from console.features.dashboards import DASHBOARDS
from console.features.dashboards import read as reads
from console.features.dashboards import runs as dashboards_runs
from console.features.dashboards.read import Asked, Bar
from console.features.dashboards.runs import ARCHIVE, run_dashboards
from console.operations.typed_moments import bound_ms
from console.security.topic_scope import visible_topics
from console.site.parsing import whole_number
from console.ui.addresses import form_of
from console.ui.export import FORMS, exported

SEE, RUN = "console.view_dashboardrun", "console.run_dashboards"
WINDOWS = ("all", ARCHIVE, "7d", "24h", dashboards_runs.LIVE)
#: no bar of a drawing begins, or lasts, longer than this
_LAST_MS = 10**15 - 1
_COLUMNS = ("series", "topic", "label", "part", "at_ms", "value", "positions", "brokers")


@require_safe
def dashboards(request: HttpRequest) -> HttpResponse:
    """Show the first dashboard."""
    return redirect("dashboard", next(iter(DASHBOARDS)))


@require_safe
def dashboard(request: HttpRequest, name: str) -> HttpResponse:
    """Show one dashboard, for the window, topic and moments in the address."""
    if name not in DASHBOARDS:
        raise Http404(_("There is no such dashboard."))
    asked, errors = _asked(request)
    given = {key: request.GET.get(key, "")[:255] for key in ("window", "topic", "from", "to")}
    context = {
        "data": reads.dashboard(name, asked, visible_topics(request.user)),
        "here": "dashboards",
        "title": DASHBOARDS[name].title,
        "about": DASHBOARDS[name].about,
        "titles": [(each, declared.title) for each, declared in DASHBOARDS.items()],
        "windows": WINDOWS if settings.ARCHIVE_DIR.is_dir() else tuple(each for each in WINDOWS if each != ARCHIVE),
        "to_come": DASHBOARDS[name].panels,
        "given": given,
        "errors": errors,
        "query": urlencode({key: value for key, value in given.items() if value}),
        "may_run": request.user.has_perm(RUN),
    }
    return render(request, "dashboards/page.html", context, status=422 if errors else 200)


@require_safe
def data(request: HttpRequest, name: str, form: str) -> HttpResponse | StreamingHttpResponse:
    """Send all points of a dashboard as CSV or JSON, with what they cover."""
    asked, errors = _asked(request)
    run = reads.current_run(name, asked.window)
    if run is None or form not in FORMS:
        raise Http404(_("There is no such dashboard."))
    if errors:
        return HttpResponse("\n".join(errors.values()), status=422, content_type="text/plain; charset=utf-8")
    rows = reads.exported(run, asked, visible_topics(request.user))
    about: dict[str, object] = {
        "dashboard": name,
        "run": str(run.id),
        "broker": run.broker,
        "source": run.source,
        "window": run.window,
        "as_of_ms": run.as_of_ms,
        "start_position": run.start_position,
        "end_position": run.end_position,
        "rows_read": run.rows_read,
        "damaged_rows": run.damaged_rows,
        "engine": run.engine,
        "parts": run.parts,
    }
    return exported(name, form, _COLUMNS, rows, about)


@require_safe
def series(request: HttpRequest, name: str, series: str) -> HttpResponse:
    """Send one series over time in columns, as a plot reads it."""
    asked, errors = _asked(request)
    run = reads.current_run(name, asked.window)
    if run is None or errors or series not in {spec.series for spec in DASHBOARDS[name].panels if spec.kind == "time"}:
        raise Http404(_("There is no such dashboard."))
    found = reads.lines(run, series, asked, visible_topics(request.user))
    columns = {"step_ms": found.step_ms, "at_s": found.at_s, "names": found.names, "values": found.values}
    return JsonResponse({"run": str(run.id), "as_of_ms": run.as_of_ms, **columns})


@form_of("dashboards")
def run(request: HttpRequest) -> HttpResponse:
    """Queue a run of one dashboard, or of all of them."""
    name, window = request.POST.get("name", ""), request.POST.get("window", "all")
    if name not in DASHBOARDS:
        raise Http404(_("There is no such dashboard."))
    if dashboards_runs.missing() is None:
        try:
            batch = dashboards_runs.queue_chosen(tuple(DASHBOARDS), window, actor=request.user.get_username())
        except ValueError:
            raise Http404(_("There is no such window.")) from None
        run_dashboards.delay(str(batch))
    return redirect(_address(name, window))


@form_of("dashboards")
def cancel(request: HttpRequest) -> HttpResponse:
    """End a batch that runs or waits."""
    try:
        dashboards_runs.cancel(uuid.UUID(request.POST.get("batch", "")))
    except ValueError:
        raise Http404(_("There is no such run.")) from None
    name = request.POST.get("name", "")
    return redirect(_address(name if name in DASHBOARDS else next(iter(DASHBOARDS)), request.POST.get("window", "all")))


def _address(name: str, window: str) -> str:
    return reverse("dashboard", args=[name]) + ("?" + urlencode({"window": window}) if window != "all" else "")


def _asked(request: HttpRequest) -> tuple[Asked, dict[str, str]]:
    errors: dict[str, str] = {}
    bounds: dict[str, int | None] = {"from": None, "to": None}
    for name in bounds:
        text = request.GET.get(name, "").strip()[:64]
        bounds[name] = bound_ms(text, name, errors, "back")
    window = request.GET.get("window", "all")
    if window != dashboards_runs.LIVE and not dashboards_runs.WINDOW.fullmatch(window):
        errors["window"] = _("%(text)s is not a window: all, archive, or hours or days such as 24h, 7d.") % {
            "text": window[:16]
        }
        window = "all"
    return Asked(window, _text(request, "topic").strip()[:255], bounds["from"], bounds["to"], _bar(request)), errors


def _bar(request: HttpRequest) -> Bar | None:
    """Return the bar whose messages are wanted, None for an address without one."""
    asked = request.GET
    if not asked.get("series"):
        return None
    moments = {key: whole_number(asked[key], high=_LAST_MS) for key in ("at", "step") if key in asked}
    if None in moments.values():
        return None
    name = _text(request, "name")[:1024] if "name" in asked else None
    return Bar(_text(request, "series")[:32], name, moments.get("at"), moments.get("step") or 0)


def _text(request: HttpRequest, name: str) -> str:
    """Return a text of the address without NUL, which the database has in no text."""
    return request.GET.get(name, "").replace("\0", "\ufffd")
