"""The addresses for programs that watch the web process: is it alive, is it ready, and `/metrics` in OpenMetrics.

Metrics are of the process itself, of the mirror's progress, and of operations. The broker tells its own
(broker/server/metrics.py). Supervisors and load balancers are told nothing else.
"""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Iterable, Iterator

from django.conf import settings
from django.db import DatabaseError, connection
from django.db.models import Count
from django.http import HttpRequest, HttpResponse
from django.http.request import split_domain_port
from django.views.decorators.http import require_safe
from prometheus_client import ProcessCollector
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.registry import Collector

from broker.mirror.models import MirrorState
from console.operations.models import Operation
from console.site.mirrored import cluster


@require_safe
def healthz(request: HttpRequest) -> HttpResponse:
    """Answer 200 with no content of interest."""
    return HttpResponse("ok\n", content_type="text/plain")


@require_safe
def readyz(request: HttpRequest) -> HttpResponse:
    """Answer 200 while the database answers, else 503; with `?broker` only while every broker is known as well.

    Which one is not, a stranger is not told.
    """
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        is_known = "broker" not in request.GET or _every_broker_is_known()
    except DatabaseError:
        return HttpResponse("the database does not respond\n", content_type="text/plain", status=503)
    if not is_known:
        return HttpResponse("a broker is not known as it is now\n", content_type="text/plain", status=503)
    return HttpResponse("OK\n", content_type="text/plain")


def _every_broker_is_known() -> bool:
    return not cluster().evidence(polled_by=()).stale


CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"
_FORWARDED = ("HTTP_FORWARDED", "HTTP_VIA", "HTTP_X_FORWARDED_FOR", "HTTP_X_REAL_IP")
_process = ProcessCollector(registry=None)


@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """Answer programs that bring the token, or, where none is set, those on this machine; else 403."""
    if not _may_see(request):
        text = "Metrics need the token, or, where none is set, a request from this machine.\n"
        return HttpResponse(text, content_type="text/plain", status=403)
    told = generate_latest(WebMetrics())  # type: ignore[no-untyped-call]  # it says nothing of what it takes
    return HttpResponse(told, content_type=CONTENT_TYPE)


class WebMetrics(Collector):
    """The metrics of the database and of this process, read when they are asked for."""

    def collect(self) -> Iterable[Metric]:
        """Yield each family of metrics once."""
        yield from _mirror()
        yield _operations()
        yield from _process.collect()


def _mirror() -> Iterator[Metric]:
    seen = GaugeMetricFamily("escapement_mirror_as_of_seconds", "The time that the rows show", labels=["broker"])
    took = GaugeMetricFamily("escapement_mirror_took_seconds", "From asking to the last row", labels=["broker"])
    fails = GaugeMetricFamily("escapement_mirror_failing", "1: it cannot read its broker", labels=["broker"])
    for state in MirrorState.objects.order_by("broker_id"):
        labels = [state.broker_id]
        fails.add_metric(labels, 1.0 if state.error else 0.0)
        if state.as_of_ms is not None:
            seen.add_metric(labels, state.as_of_ms / 1000)
        if state.took_ms is not None:
            took.add_metric(labels, state.took_ms / 1000)
    yield from (seen, took, fails)


def _operations() -> Metric:
    family = GaugeMetricFamily("escapement_operations", "Operations that are remembered", labels=["state"])
    for state, count in Operation.objects.values_list("state").annotate(Count("pk")).order_by("state"):
        family.add_metric([state], count)
    return family


def _may_see(request: HttpRequest) -> bool:
    if settings.METRICS_TOKEN:
        kind, _, given = request.headers.get("Authorization", "").partition(" ")
        return kind.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), settings.METRICS_TOKEN.encode())
    # the name that was asked for is looked at, too: a page in a browser may have a name of its own lead here
    named = split_domain_port(request.get_host())[0].strip("[]")
    is_here = _is_this_machine(request.META.get("REMOTE_ADDR", "")) and _is_this_machine(named)
    return is_here and not any(name in request.META for name in _FORWARDED)


def _is_this_machine(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
