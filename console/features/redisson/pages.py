"""Redisson's delayed queues: all of them, and one with its values."""

from __future__ import annotations

import uuid
from operator import attrgetter

from django.http import Http404, HttpRequest
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from console.features.redisson import read
from console.features.redisson.operations import CODECS
from console.features.redisson.read import QUEUES, VALUES, QueuePage, QueuesPage
from console.operations.typed_moments import bound_ms
from console.site.parsing import whole_number
from console.ui.export import Answer, page_or_file
from console.ui.live import LiveKind

FAMILY = "delayed_queues"
NAME_LENGTH = 255
#: codecs that values can be read with
READERS = (*CODECS, "Kryo5Codec", "MarshallingCodec", "SerializationCodec", "ByteArrayCodec")


@require_safe
def queues(request: HttpRequest) -> Answer:
    """Show all queues, what waits in each, and who moves them."""
    search = request.GET.get("search", "").strip()[:NAME_LENGTH]
    offset = whole_number(request.GET.get("offset")) or 0

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
    """Show one queue by `name`, which may be any text."""
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


_LENGTHS = {"name": NAME_LENGTH, "cursor": 100, "from": 64, "to": 64, "codec": 40, "aside": 1, "plan": 1}


LIVE = {
    "delayed_queues": LiveKind(
        lambda _, query: read.delayed_queues(query.get("search", ""), whole_number(query.get("offset")) or 0),
        frozenset(),
        frozenset({"search", "offset"}),
    ),
    "delayed_queue": LiveKind(
        lambda _, query: read.delayed_queue(query.get("name", "")), frozenset(), frozenset({"name"})
    ),
}
