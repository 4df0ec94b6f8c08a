"""Finding a message, and one message with every physical record of it."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from console import queries
from console.operations.moments import bound_ms
from console.pages.jumping import OFFSET_ID
from console.pages.life import life_of
from console.queries import raw_body
from console.queries.shapes.messages import MessageFilter
from console.tracing import TOLD_LIMIT

_TOPICS_OFFERED = 200
_LENGTHS = {"from": 64, "to": 64, "tag": 255, "property": 500}


@require_safe
@login_required
def search(request: HttpRequest) -> HttpResponse:
    """By offset id; by key or unique id, in a topic or those written to last; or a topic's newest, by time and more."""
    sought = (request.GET.get("q") or "").strip()[:300]
    topic = (request.GET.get("topic") or "").strip()[:255]
    if OFFSET_ID.fullmatch(sought) and not topic:
        return redirect("message", sought)
    found = None
    errors: dict[str, str] = {}
    given = {name: request.GET.get(name, "").strip()[:most] for name, most in _LENGTHS.items()}
    if topic and not sought:
        found = queries.messages_through(topic, _filter(given, errors))
    elif sought:
        found = queries.messages(topic, sought) if topic else queries.messages_everywhere(sought)
    context = {
        "data": found,
        "here": "messages",
        "sought": sought,
        "topic": topic,
        "given": given,
        "errors": errors,
        "offered": [row.name for row in queries.topics(count=_TOPICS_OFFERED).rows],
    }
    return render(request, "messages/search.html", context, status=422 if errors else 200)


def _filter(given: dict[str, str], errors: dict[str, str]) -> MessageFilter:
    """From the form; what is no moment is said in `errors`, and asks for nothing."""
    from_ms, to_ms = (bound_ms(given[name], name, errors) for name in ("from", "to"))
    name, _equals, value = given["property"].partition("=")
    return MessageFilter(from_ms, to_ms, given["tag"], name.strip(), value.strip())


@require_safe
@login_required
def message(request: HttpRequest, message_id: str) -> HttpResponse:
    """One message; `?topic=` says that the id is the client's unique id."""
    topic = request.GET.get("topic", "")[:255] or None
    data = queries.message(message_id, topic)
    if not data.found and not data.evidence.stale:
        raise Http404(_("There is no such message."))
    body_url = reverse("message_body", args=[message_id]) + ("?" + urlencode({"topic": topic}) if topic else "")
    context = {
        "data": data, "here": "messages", "life": life_of(data), "body_url": body_url, "shown_told": TOLD_LIMIT,
    }  # fmt: skip
    return render(request, "messages/message.html", context)


@require_safe
@login_required
def body(request: HttpRequest, message_id: str) -> HttpResponse:
    """The stored bytes as a download: never shown by the browser, whatever they are."""
    found = raw_body(message_id, request.GET.get("topic", "")[:255] or None)
    if found is None:
        raise Http404(_("There is no such message."))
    _topic, content = found
    response = HttpResponse(content, content_type="application/octet-stream")
    response["Content-Disposition"] = 'attachment; filename="body.bin"'
    response["X-Content-Type-Options"] = "nosniff"
    response["Content-Security-Policy"] = "sandbox; default-src 'none'"
    return response
