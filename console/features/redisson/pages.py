"""Redisson's delayed queues: all of them, and one with its values, each thing that can be done to it a form."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from operator import attrgetter
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from console.features.redisson import read
from console.features.redisson.queue_operations import CODECS
from console.features.redisson.shapes import QueuePage, QueuesPage
from console.operations.forms import Form, draft_of_form
from console.operations.typed_moments import bound_ms, is_shift, shift_ms
from console.ui.export import Answer, page_or_file
from console.ui.form_addresses import form_of
from console.ui.live import LiveKind, number
from console.ui.table import Table, file_columns

QUEUES = Table(
    "redisson-queues",
    file_columns("name survey.set_size survey.overdue survey.next_due_ms listeners is_stuck problem"),
)
VALUES = Table("redisson-values", file_columns("handle due_ms text codec packing size_bytes is_poison"))

FAMILY = "delayed_queues"
NAME_LENGTH = 255
#: codecs that values can be read with
READERS = (*CODECS, "Kryo5Codec", "MarshallingCodec", "SerializationCodec", "ByteArrayCodec")


@require_safe
def queues(request: HttpRequest) -> Answer:
    """All queues, what waits in each, and who moves them."""
    search = request.GET.get("search", "").strip()[:NAME_LENGTH]
    offset = number(request.GET.get("offset")) or 0

    def page(place: int | None) -> QueuesPage:
        return read.delayed_queues(search, place or 0)

    context = {
        "data": page(offset),
        "here": FAMILY,
        "live": "delayed_queues?" + urlencode([("search", search), ("offset", str(offset))]),
    }
    return page_or_file(request, "delayed_queues/page.html", context, QUEUES, page, following=attrgetter("following"))


@require_safe
def queue(request: HttpRequest) -> Answer:
    """One queue by `name`, which may be any text."""
    given = {key: request.GET.get(key, "").strip()[:length] for key, length in _LENGTHS.items()}
    if not given["name"]:
        raise Http404(_("There is no such queue."))
    errors: dict[str, str] = {}
    from_ms, to_ms = (bound_ms(given[key], key, errors) for key in ("from", "to"))
    codec = given["codec"] if given["codec"] in READERS else ""

    def page(place: str | None) -> QueuePage:
        return read.delayed_queue(
            given["name"], cursor=place, from_ms=from_ms, to_ms=to_ms, aside=given["aside"] == "1", codec=codec,
            with_plan=given["plan"] == "1",
        )  # fmt: skip

    try:
        data = page(given["cursor"] or None)
    except ValueError:
        raise Http404(_("There is no such page.")) from None
    shown = {key: text for key, text in given.items() if text and key not in ("cursor", "plan")}
    context = {
        "data": data,
        "here": FAMILY,
        "given": given,
        "errors": errors,
        "number": uuid.uuid4(),
        "numbers": [uuid.uuid4() for _ in range(5)],
        "codecs": CODECS,
        "readers": READERS,
        "first_page": "?" + urlencode(shown),
        "next_page": "?" + urlencode({**shown, "cursor": data.cursor}) if data.cursor else None,
        "plan_page": "?" + urlencode({**shown, "plan": "1"}),
        "live": "delayed_queue?" + urlencode({"name": given["name"]}),
    }
    return page_or_file(
        request, "delayed_queues/queue.html", context, VALUES, page, rows=attrgetter("values"),
        following=attrgetter("cursor"), status=422 if errors else 200,
    )  # fmt: skip


@form_of("delayed_queues")
def draft(request: HttpRequest) -> HttpResponse:
    """Preview; nothing is done yet."""
    return draft_of_form(request, FAMILY, parameters_of, _again)


def _again(given: QueryDict, faults: Mapping[str, str]) -> Form | None:
    """Of a value that is offered, or of the queue or topic that is written; the rows that were chosen go with it."""
    field = {"redisson.offer": "delay", "redisson.move": "to"}.get(given.get("kind", ""), "topic")
    if field not in given:
        return None
    kept = [
        (name, text)
        for name, texts in given.lists()
        if name not in ("csrfmiddlewaretoken", "operation", field)
        for text in texts
    ]
    text, fault = given.get(field, ""), faults.get(field, "")
    around = {"field": field, "kept": kept, "text": text, "fault": fault, "codecs": CODECS}
    return Form("delayed_queues/again.html", around)


def parameters_of(given: QueryDict) -> dict[str, Any]:
    """The fields of any of the forms, as their kinds take them; raises InvalidParameter."""
    found: dict[str, Any] = {"queue": given.get("queue", "")}
    found |= {name: given.get(name) for name in ("to", "topic", "value", "codec", "packing") if name in given}
    if "delay" in given:
        text = given.get("delay", "").strip()
        found["delay_ms"] = shift_ms(text if is_shift(text) else f"+{text}", "delay")
    if given.get("scope") == "matching":
        found["filter"] = {name: number(given.get(name)) for name in ("from_ms", "to_ms")}
        found["is_all"] = given.get("is_all") == "1"
    elif "scope" in given:
        found["handles"] = given.getlist("handle")
    return found


_LENGTHS = {"name": NAME_LENGTH, "cursor": 100, "from": 64, "to": 64, "codec": 40, "aside": 1, "plan": 1}


LIVE = {
    "delayed_queues": LiveKind(
        lambda _, query: read.delayed_queues(query.get("search", ""), number(query.get("offset")) or 0),
        frozenset(),
        frozenset({"search", "offset"}),
    ),
    "delayed_queue": LiveKind(
        lambda _, query: read.delayed_queue(query.get("name", "")), frozenset(), frozenset({"name"})
    ),
}
