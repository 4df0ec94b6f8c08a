"""Finding a message, and one message with every physical record of it."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from broker.rocketmq.topics import GROUP_PREFIXES
from console.features.messages import read
from console.features.messages.across import is_offset_id
from console.features.messages.decoders import Decoder
from console.features.messages.hops import TOLD_LIMIT
from console.features.messages.newest import beginning
from console.features.messages.operations import Unmask
from console.features.messages.shapes import (
    MESSAGES,
    MessageFilter,
    MessagePage,
    MessageSearch,
    WaitingUnder,
    life_of,
)
from console.features.messages.through import messages_through
from console.operations.models import AuditEntry
from console.operations.typed_moments import bound_ms
from console.operations.workflow import REASON_LENGTH
from console.security.masking import UNMASK, lifted
from console.security.topic_scope import current_scope
from console.site.merged import read_cursor
from console.ui.addresses import form_of
from console.ui.export import Answer, page_or_file

_TOPICS_OFFERED = 200
_LENGTHS = {"from": 64, "to": 64, "tag": 255, "property": 500, "text": 500}


def search(request: HttpRequest, waiting_under: Callable[[str, str], WaitingUnder]) -> Answer:
    """Search by offset id; by key or message id, in a topic or those written last; or a topic's newest by filters.

    `waiting_under` tells what else waits with a key, in a topic or ("") in all.
    """
    sought = (request.GET.get("q") or "").strip()[:300]
    topic = (request.GET.get("topic") or "").strip()[:255]
    if not topic and is_offset_id(sought):
        return redirect("message", sought)
    found, waiting, begun = None, WaitingUnder(), None
    errors: dict[str, str] = {}
    given = {name: request.GET.get(name, "").strip()[:most] for name, most in _LENGTHS.items()}
    if topic and not sought:
        found = messages_through(topic, _filter(given, errors), read_cursor(request.GET.get("after")))
    elif sought:
        found = read.messages(topic, sought) if topic else read.messages_everywhere(sought)
        waiting = waiting_under(sought, topic)
    else:
        begun = beginning()
    context = {
        "data": found,
        "waiting": waiting,
        "here": "messages",
        "sought": sought,
        "topic": topic,
        "given": given,
        "errors": errors,
        "offered": read.topics_offered(_TOPICS_OFFERED),
        "next_page": _continued(request, found),
        "begun": begun,
        "is_archived": settings.ARCHIVE_DIR.is_dir(),
        # time, tag, property and body are looked for in one topic, and for no key
        "is_too_wide": bool(any(given.values()) and (sought or not topic)),
    }
    if found is None:
        return render(request, "messages/search.html", context, status=422 if errors else 200)
    return page_or_file(
        request, "messages/search.html", context, MESSAGES, lambda _place: found, rows=attrgetter("hits"),
        status=422 if errors else 200,
    )  # fmt: skip


def _continued(request: HttpRequest, found: MessageSearch | None) -> str:
    """Return the query of the next page of what is looked through; empty where there is none."""
    if found is None or found.cursor is None:
        return ""
    query = request.GET.copy()
    query["after"] = found.cursor
    return f"?{query.urlencode()}"


def _filter(given: dict[str, str], errors: dict[str, str]) -> MessageFilter:
    """Read the filter from the form; what is no moment is said in `errors`, and asks for nothing."""
    from_ms, to_ms = (bound_ms(given[name], name, errors, "back") for name in ("from", "to"))
    name, _equals, value = given["property"].partition("=")
    return MessageFilter(from_ms, to_ms, given["tag"], name.strip(), value.strip(), given["text"])


@require_safe
def message(request: HttpRequest, message_id: str) -> HttpResponse:
    """Show one message; `?topic=` says that the id is the client's message id."""
    return _message(request, message_id)


@form_of("message", "message_id")
def unmask(request: HttpRequest, message_id: str) -> HttpResponse:
    """Show once, to a user who may see it and gives a reason, what a rule masks; `what=body` gives the stored bytes."""
    topic = request.GET.get("topic", "")[:255] or None
    return shown_unmasked(
        request,
        (message_id, topic or ""),
        lambda reason, error: _message(request, message_id, reason, error, 422 if error else 200),
        lambda: body_answer(message_id, topic),
    )


def shown_unmasked(
    request: HttpRequest,
    of: tuple[str, str],
    page: Callable[[str, str], HttpResponse],
    content: Callable[[], HttpResponse],
) -> HttpResponse:
    """Show a page (given the reason, or what is wrong), or the stored bytes, unmasked this once; `of`: message, topic.

    The audit keeps who saw it and why.
    """
    reason = request.POST.get("reason", "").strip()[:REASON_LENGTH]
    if not reason:
        return page("", _("Enter a reason. It is kept in the audit log."))
    with lifted():
        shown = content() if request.POST.get("what") == "body" else page(reason, "")
    AuditEntry.objects.create(
        user_id=request.user.pk, actor=request.user.get_username(), what=AuditEntry.What.CONFIRMED, kind=Unmask.name,
        reason=reason, result={"message": of[0], "topic": of[1], "what": request.POST.get("what", "page")},
    )  # fmt: skip
    shown["Cache-Control"] = "no-store"
    return shown


def _message(
    request: HttpRequest, message_id: str, unmasked_for: str = "", error: str = "", status: int = 200
) -> HttpResponse:
    topic = request.GET.get("topic", "")[:255] or None
    asked = request.GET.get("decode", "")
    data = read.message(message_id, topic, asked if asked in Decoder.values else Decoder.AUTOMATIC)
    if not data.found and not data.evidence.stale:
        raise Http404(_("There is no such message."))
    query = "?" + urlencode({"topic": topic}) if topic else ""
    like = urlencode({"like": message_id, **({"of": topic} if topic else {})})
    is_own = data.topic is not None and not data.topic.startswith(GROUP_PREFIXES)
    context = {
        "data": data, "here": "messages", "life": life_of(data), "shown_told": TOLD_LIMIT, "error": error,
        "body_url": reverse("message_body", args=[message_id]) + query,
        "like_url": f"{reverse('send', args=[data.topic])}?{like}" if is_own else "",
        "is_topic_seen": current_scope().topic(data.topic),
        "unmask_url": reverse("message_unmask", args=[message_id]) + query,
        "decoders": decoders_of(data), "topic_of_id": topic or "",
        "may_unmask": request.user.has_perm(UNMASK), "unmasked_for": unmasked_for, "reason_length": REASON_LENGTH,
    }  # fmt: skip
    return render(request, "messages/message.html", context, status=status)


def decoders_of(data: MessagePage) -> list[tuple[str, Any]]:
    """Return the ways to open the body that can be chosen: Protobuf where the topic has a descriptor."""
    is_asked = data.body is not None and data.body.asked == Decoder.PROTOBUF
    is_known = data.has_descriptor or is_asked
    return [(value, label) for value, label in Decoder.choices if is_known or value != Decoder.PROTOBUF]


@require_safe
def body(request: HttpRequest, message_id: str) -> HttpResponse:
    """Send the stored bytes as a download: never shown by the browser, whatever they are."""
    return body_answer(message_id, request.GET.get("topic", "")[:255] or None)


def body_answer(message_id: str, topic: str | None = None) -> HttpResponse:
    """Return the stored bytes as a download; raises Http404."""
    found = read.raw_body(message_id, topic)
    if found is None:
        raise Http404(_("There is no such message."))
    _topic, content = found
    response = HttpResponse(content, content_type="application/octet-stream")
    response["Content-Disposition"] = 'attachment; filename="body.bin"'
    response["X-Content-Type-Options"] = "nosniff"
    response["Content-Security-Policy"] = "sandbox; default-src 'none'"
    return response
