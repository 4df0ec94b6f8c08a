"""Dead letters: the groups that have some, those of one group, and what is done with them."""

from __future__ import annotations

import uuid
from operator import attrgetter

from django.http import HttpRequest
from django.utils.http import urlencode
from django.views.decorators.http import require_safe

from console.features.dead_letters import read
from console.features.dead_letters.read import DEAD_LETTERS, GROUPS, DeadLetterFilter, DeadLetterPage
from console.operations.typed_moments import bound_ms
from console.site.parsing import whole_number
from console.ui.export import Answer, page_or_file

_LENGTHS = {"topic": 255, "key": 255, "from": 64, "to": 64}


@require_safe
def groups(request: HttpRequest) -> Answer:
    """Every group that has dead letters, the most first."""
    data = read.dead_letter_groups()
    context = {"data": data, "here": read.PAGE}
    return page_or_file(request, "dead_letters/groups.html", context, GROUPS, lambda _place: data)


@require_safe
def letters(request: HttpRequest, name: str) -> Answer:
    """Dead letters of one group, the newest first; rows or all that match can be sent again."""
    given = {field: request.GET.get(field, "").strip()[:length] for field, length in _LENGTHS.items()}
    errors: dict[str, str] = {}
    bounds = {field: bound_ms(given[field], field, errors) for field in ("from", "to")}
    wanted = DeadLetterFilter(given["topic"], given["key"], bounds["from"], bounds["to"])

    def page(place: tuple[int, int] | None) -> DeadLetterPage:
        return read.dead_letters(name[:255], wanted, place)

    data = page(_place(request.GET.get("after", "")))
    shown = {field: text for field, text in given.items() if text}
    following = None if data.following is None else {**shown, "after": f"{data.following[0]}-{data.following[1]}"}
    context = {
        "data": data,
        "here": read.PAGE,
        "given": given,
        "errors": errors,
        "number": uuid.uuid4(),
        "first_page": "?" + urlencode(shown),
        "next_page": None if following is None else "?" + urlencode(following),
    }
    return page_or_file(
        request, "dead_letters/letters.html", context, DEAD_LETTERS, page, following=attrgetter("following"),
        status=422 if errors else 200,
    )  # fmt: skip


def _place(text: str) -> tuple[int, int] | None:
    """`queue-offset` in an address; None for anything else."""
    queue_id, offset = (whole_number(part) for part in (text.split("-", 1) if "-" in text else ("", "")))
    return None if queue_id is None or offset is None else (queue_id, offset)
