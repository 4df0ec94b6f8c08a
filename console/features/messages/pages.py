"""Finding a message, and one message with every physical record of it.

Without a key the messages of a topic are looked through by when they were stored, tag and property: read from the
newest on, as far as time allows.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from operator import attrgetter

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from broker.client import Admin, Message
from broker.rocketmq.codes import Request
from broker.rocketmq.properties import TAGS
from broker.rocketmq.topics import GROUP_PREFIXES
from console.features.messages import read
from console.features.messages.decoders import Decoder
from console.features.messages.hops import TOLD_LIMIT
from console.features.messages.operations import Unmask
from console.features.messages.shapes import MESSAGES, OFFSET_ID, Found, MessageFilter, MessageSearch, life_of
from console.operations.models import AuditEntry
from console.operations.typed_moments import bound_ms
from console.operations.workflow import REASON_LENGTH
from console.security.masking import UNMASK, lifted, masks
from console.security.topic_scope import TopicScope, authorised
from console.site.broker import ask_each, pull_all
from console.site.mirrored import cluster
from console.ui.addresses import form_of
from console.ui.export import Answer, page_or_file

LOOKING_REQUESTS = (Request.GET_TOPIC_STATS_INFO, Request.SEARCH_OFFSET_BY_TIMESTAMP, Request.PULL_MESSAGE)
#: hits of a page, records that are read for them, and for how long
SHOWN, READ, PATIENCE_S = 64, 4_000, 1.5
STEP = 32


@dataclass(slots=True)
class _Part:
    """The unread rest of one queue: from `low` to before `high`."""

    queue_id: int
    low: int
    high: int


@authorised
def messages_through(scope: TopicScope, topic: str, wanted: MessageFilter) -> MessageSearch:
    """Return the newest that match; `read` and `left` say how much was looked at.

    Raises PermissionDenied for a filter by something that is masked: whoever may ask whether a value is there has read
    it soon.
    """
    scope.require_topic(topic)
    hide = masks()
    masked = hide.of(topic)
    if wanted.name in masked or (wanted.tag and TAGS in masked):
        raise PermissionDenied(masked.get(wanted.name) or masked[TAGS])
    here = cluster()
    found, evidence = ask_each(lambda admin: _through(admin, topic, wanted), here, requests=LOOKING_REQUESTS)
    hits = [replace(hit, broker=broker.name) for broker, part in found for hit in part[0]]
    hits.sort(key=lambda hit: hit.store_ms, reverse=True)
    looked, left = sum(part[1] for _broker, part in found), sum(part[2] for _broker, part in found)
    shown = hide.rows(hits[:SHOWN])
    return MessageSearch(evidence, here.now_ms, topic, "", shown, SHOWN, 1, looked, left, here.has_several)


def _through(admin: Admin, topic: str, wanted: MessageFilter) -> tuple[list[Found], int, int]:
    parts = _parts(admin, topic, wanted)
    hits: list[Found] = []
    read, until_s = 0, time.monotonic() + PATIENCE_S
    for part in _in_turn(parts):
        first = max(part.low, part.high - STEP)
        messages = pull_all(admin, topic, part.queue_id, first, part.high - first)
        read += part.high - first
        part.high = first
        hits += [_hit(message) for message in messages if _matches(message, wanted)]
        if read >= READ or len(hits) >= SHOWN or time.monotonic() > until_s:
            break
    hits.sort(key=lambda hit: hit.store_ms, reverse=True)
    return hits[:SHOWN], read, sum(part.high - part.low for part in parts)


def _parts(admin: Admin, topic: str, wanted: MessageFilter) -> list[_Part]:
    """Return each queue's stretch of the range; its ends by the broker's own index of time."""
    parts = []
    for queue in admin.topic_stats(topic).queues:
        queue_id, low, high = queue.queue.queue_id, queue.min_offset, queue.max_offset
        if wanted.from_ms is not None and low < high:
            low = max(low, admin.offset_at(topic, queue_id, wanted.from_ms))
        if wanted.to_ms is not None and low < high:
            high = min(high, admin.offset_at(topic, queue_id, wanted.to_ms) + 1)
        parts.append(_Part(queue_id, low, max(low, high)))
    return parts


def _in_turn(parts: list[_Part]) -> Iterator[_Part]:
    """Yield the queues' parts by turns, until all are read."""
    while any(part.high > part.low for part in parts):
        yield from (part for part in parts if part.high > part.low)


def _matches(message: Message, wanted: MessageFilter) -> bool:
    if wanted.from_ms is not None and message.store_ms < wanted.from_ms:
        return False
    if wanted.to_ms is not None and message.store_ms >= wanted.to_ms:
        return False
    if wanted.tag and message.tags != wanted.tag:
        return False
    return not wanted.name or _has(message.properties.get(wanted.name), wanted.value)


def _has(text: str | None, value: str) -> bool:
    return text is not None and (not value or text == value)


def _hit(message: Message) -> Found:
    return Found(
        topic=message.topic, unique_key=message.unique_key, offset_message_id=message.offset_message_id,
        keys=tuple(message.keys), tag=message.tags, store_ms=message.store_ms, size_bytes=message.size,
        pending=False, due_ms=None,
    )  # fmt: skip


_TOPICS_OFFERED = 200
_LENGTHS = {"from": 64, "to": 64, "tag": 255, "property": 500}


@require_safe
def search(request: HttpRequest) -> Answer:
    """Search by offset id; by key or message id, in a topic or those written last; or a topic's newest by filters."""
    sought = (request.GET.get("q") or "").strip()[:300]
    topic = (request.GET.get("topic") or "").strip()[:255]
    if OFFSET_ID.fullmatch(sought) and not topic:
        return redirect("message", sought)
    found = None
    errors: dict[str, str] = {}
    given = {name: request.GET.get(name, "").strip()[:most] for name, most in _LENGTHS.items()}
    if topic and not sought:
        found = messages_through(topic, _filter(given, errors))
    elif sought:
        found = read.messages(topic, sought) if topic else read.messages_everywhere(sought)
    context = {
        "data": found,
        "here": "messages",
        "sought": sought,
        "topic": topic,
        "given": given,
        "errors": errors,
        "offered": read.topics_offered(_TOPICS_OFFERED),
    }
    if found is None:
        return render(request, "messages/search.html", context, status=422 if errors else 200)
    return page_or_file(
        request, "messages/search.html", context, MESSAGES, lambda _place: found, rows=attrgetter("hits"),
        status=422 if errors else 200,
    )  # fmt: skip


def _filter(given: dict[str, str], errors: dict[str, str]) -> MessageFilter:
    """Read the filter from the form; what is no moment is said in `errors`, and asks for nothing."""
    from_ms, to_ms = (bound_ms(given[name], name, errors) for name in ("from", "to"))
    name, _equals, value = given["property"].partition("=")
    return MessageFilter(from_ms, to_ms, given["tag"], name.strip(), value.strip())


@require_safe
def message(request: HttpRequest, message_id: str) -> HttpResponse:
    """Show one message; `?topic=` says that the id is the client's message id."""
    return _message(request, message_id)


@form_of("message", "message_id")
def unmask(request: HttpRequest, message_id: str) -> HttpResponse:
    """Show once, to a user who may see it and gives a reason, what a rule masks; `what=body` gives the stored bytes."""
    reason = request.POST.get("reason", "").strip()[:REASON_LENGTH]
    if not reason:
        return _message(request, message_id, error=_("Enter a reason. It is kept in the audit log."), status=422)
    topic = request.GET.get("topic", "")[:255] or None
    with lifted():
        is_body = request.POST.get("what") == "body"
        shown = _body(message_id, topic) if is_body else _message(request, message_id, reason)
    AuditEntry.objects.create(
        user_id=request.user.pk, actor=request.user.get_username(), what=AuditEntry.What.CONFIRMED, kind=Unmask.name,
        reason=reason, result={"message": message_id, "topic": topic or "", "what": request.POST.get("what", "page")},
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
        "unmask_url": reverse("message_unmask", args=[message_id]) + query,
        "decoders": Decoder, "topic_of_id": topic or "",
        "may_unmask": request.user.has_perm(UNMASK), "unmasked_for": unmasked_for, "reason_length": REASON_LENGTH,
    }  # fmt: skip
    return render(request, "messages/message.html", context, status=status)


@require_safe
def body(request: HttpRequest, message_id: str) -> HttpResponse:
    """Send the stored bytes as a download: never shown by the browser, whatever they are."""
    return _body(message_id, request.GET.get("topic", "")[:255] or None)


def _body(message_id: str, topic: str | None) -> HttpResponse:
    found = read.raw_body(message_id, topic)
    if found is None:
        raise Http404(_("There is no such message."))
    _topic, content = found
    response = HttpResponse(content, content_type="application/octet-stream")
    response["Content-Disposition"] = 'attachment; filename="body.bin"'
    response["X-Content-Type-Options"] = "nosniff"
    response["Content-Security-Policy"] = "sandbox; default-src 'none'"
    return response
