"""Dead letters: reading them, and their pages.

Which groups have some is known from the mirror. The messages themselves are read from the broker, the newest first, and
each is shown with what was done with it here before.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from operator import attrgetter

from django.db.models import F, Max, Sum
from django.http import HttpRequest
from django.utils.http import urlencode
from django.views.decorators.http import require_safe

from broker.client import Admin, BrokerRefused, Message, RouteNotFound
from broker.mirror.models import ConsumerGroup, Queue
from broker.rocketmq.codes import Request
from broker.rocketmq.properties import DEAD_REASON, DLQ_ORIGIN_TOPIC, RETRY_TOPIC
from broker.rocketmq.topics import DLQ_PREFIX, RETRY_PREFIX
from console.features.dead_letters.models import LetterMark, Marks, marks_of
from console.features.dead_letters.resent import marked, with_fates
from console.features.dead_letters.shapes import (
    ALL,
    DEAD_LETTERS,
    GROUPS,
    MOST,
    NO_ERROR,
    PAGE,
    STATES,
    After,
    DeadLetter,
    DeadLetterFilter,
    DeadLetterGroup,
    DeadLetterGroups,
    DeadLetterPage,
    LetterKind,
    LetterKinds,
    Place,
    kind_of_error,
    place_text,
    read_after,
    read_place,
)
from console.operations.typed_moments import bound_ms
from console.security.masking import masks
from console.security.topic_scope import TopicScope, authorised
from console.site.broker import ask_each, pull_all, row_of
from console.site.chosen import chosen
from console.site.merged import Part, Places, merged
from console.site.mirrored import Cluster, cluster
from console.ui.export import Answer, page_or_file
from console.ui.ordering import Key, asked_order, ordered
from console.ui.page_sizes import size_of

#: what an Apache RocketMQ broker is asked for the groups; what any is asked for the letters of one
GROUPS_REQUESTS = (Request.GET_TOPIC_STATS_INFO,)
PAGE_REQUESTS = (Request.GET_TOPIC_STATS_INFO, Request.PULL_MESSAGE)
ROWS = 50
#: read for one page at most: a page with a narrow filter is short rather than slow
READ_AT_MOST = 2_000

#: records read at once
STEP = 32


@authorised
def dead_letter_groups(scope: TopicScope, order: str = MOST) -> DeadLetterGroups:
    """Return every group that has dead letters; `order` is one of those of the table."""
    here = cluster()
    queues = Queue.objects.filter(broker__in=here.names, topic__startswith=DLQ_PREFIX)
    held = queues.values("topic", "broker").annotate(
        held=Sum(F("max_offset") - F("min_offset")), stored=Sum("max_offset"), last=Max("last_ms")
    )
    members = _members(here)
    found: dict[str, DeadLetterGroup] = {}
    for row in held.order_by("broker"):
        name = row["topic"].removeprefix(DLQ_PREFIX)
        if not row["held"] or not scope.group(name):
            continue
        part = DeadLetterGroup(
            name, int(row["held"]), int(row["stored"]), row["last"], members.get(name), (row["broker"],)
        )
        found[name] = _added(found[name], part) if name in found else part
    # of one that reads what is not seen, too, nobody counts the letters by topic: its page reads them
    listed = [each if scope.whole_group(each.name) else each.uncounted for each in found.values()]
    rows = ordered(sorted(listed, key=attrgetter("name")), order, _SORTED_BY)
    evidence = here.evidence(polled_by=GROUPS_REQUESTS)
    return DeadLetterGroups(evidence, here.now_ms, tuple(rows), here.has_several, order)


#: what each order of the list looks at
_SORTED_BY: dict[str, Key] = {
    "name": attrgetter("name"), "count": attrgetter("count"), "total": attrgetter("stored_total"),
    "last": attrgetter("last_ms"), "members": attrgetter("members"),
}  # fmt: skip


def _added(one: DeadLetterGroup, other: DeadLetterGroup) -> DeadLetterGroup:
    times = [each.last_ms for each in (one, other) if each.last_ms is not None]
    return DeadLetterGroup(
        one.name, (one.count or 0) + (other.count or 0), (one.stored_total or 0) + (other.stored_total or 0),
        max(times, default=None), one.members, one.brokers + other.brokers,
    )  # fmt: skip


def _members(here: Cluster, group: str | None = None) -> dict[str, int | None]:
    """Return how many consume by group, of several brokers the most at one; None: not known."""
    rows = ConsumerGroup.objects.filter(broker__in=here.names, **({} if group is None else {"name": group}))
    found: dict[str, int | None] = {}
    for name, members in rows.values_list("name", "members"):
        known = [each for each in (found.get(name), members) if each is not None]
        found[name] = max(known, default=None)
    return found


@authorised
def dead_letters(
    scope: TopicScope, group: str, wanted: DeadLetterFilter, after: After = None, count: int = ROWS
) -> DeadLetterPage:
    """Return a page of a group's dead letters, the newest first; `after` is the `following` of the page before."""
    scope.require_group(group)
    found = read_dead_letters(group, wanted, after, scope.topic, count)
    if not scope.whole_group(group):
        found = replace(found, total=None, dealt_with=0)
    return replace(found, rows=masks().rows(found.rows))


def read_dead_letters(
    group: str, wanted: DeadLetterFilter, after: After, is_seen: Callable[[str], bool], count: int = ROWS
) -> DeadLetterPage:
    """Return a page of those whose topic is seen, nothing masked: for callers that decide themselves who may."""
    here = cluster()
    if here.has_several:
        return _read_of_several(here, group, wanted, after, is_seen, count)
    place = after if isinstance(after, tuple) else None
    wants = _Wanted(wanted, is_seen, marks_of(group, here.names), count)
    found, evidence = ask_each(
        lambda admin: _page(admin, group, wants, one_name(here), place), here, requests=PAGE_REQUESTS
    )
    rows, total, following, looked = found[0][1] if found else ((), None, None, 0)
    own = tuple(replace(row, broker=here.source) for row in rows) if here.brokers else rows
    members = _members(here, group).get(group)
    return DeadLetterPage(
        evidence, here.now_ms, group, wanted, with_fates(group, marked(group, own)), total, following, members, looked,
        dealt_with=len(wants.marks),
    )  # fmt: skip


def _read_of_several(
    here: Cluster, group: str, wanted: DeadLetterFilter, after: After, is_seen: Callable[[str], bool], count: int
) -> DeadLetterPage:
    """Return a page of all brokers' letters, merged by when they died; each broker gives a page at most."""
    before: Places = after if isinstance(after, Mapping) else {}
    wants = _Wanted(wanted, is_seen, marks_of(group, here.names), count)

    def part(admin: Admin) -> _Page:
        place = before.get(chosen().name, "")
        if place is None:
            return (), sum(high - low for low, high in bounds_of(admin, group).values()), None, 0
        return _page(admin, group, wants, chosen().name, read_place(str(place)))

    found, evidence = ask_each(part, here, requests=PAGE_REQUESTS)
    parts = [
        Part(
            each.name,
            [replace(row, broker=each.name, of_several=True) for row in rows],
            None if following is None else place_text(following),
        )
        for each, (rows, _held, following, _looked) in found
    ]
    whole = merged(
        parts,
        before=before,
        key=lambda row: -row.died_ms,
        place=lambda row: place_text((row.queue_id, row.offset)),
        count=count,
    )
    return DeadLetterPage(
        evidence=evidence,
        now_ms=here.now_ms,
        group=group,
        wanted=wanted,
        rows=with_fates(group, marked(group, whole.rows)),
        total=sum(held for _each, (_rows, held, _following, _looked) in found) if found else None,
        following=whole.places,
        members=_members(here, group).get(group),
        looked=0 if len(whole.rows) == count else sum(page[3] for _each, page in found),
        has_several=True,
        dealt_with=len(wants.marks),
    )


#: rows, how many are held, where the next page begins, and how many were looked through in vain
_Page = tuple[tuple[DeadLetter, ...], int, Place | None, int]


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The letters that a list has: by filter, by what the reader sees, and by what became of them."""

    by: DeadLetterFilter
    is_seen: Callable[[str], bool]
    marks: Marks
    #: rows of a page
    count: int

    def taken(self, row: DeadLetter, broker: str) -> DeadLetter | None:
        """Return the row with its state if the list has it."""
        placed = with_state(row, broker, self.marks)
        return placed if self.is_seen(row.topic) and matches(placed, self.by) else None


def one_name(here: Cluster) -> str:
    """Return the name of the one broker; empty before the mirror's first round."""
    return "".join(here.names[:1])


def with_state(row: DeadLetter, broker: str, marks: Marks) -> DeadLetter:
    """Return the letter with what became of it."""
    position, state = marks.get((broker, row.queue_id, row.offset), (None, ""))
    return replace(row, state=state) if position == row.position else row


def _page(admin: Admin, group: str, wants: _Wanted, broker: str, after: Place | None) -> _Page:
    bounds = bounds_of(admin, group)
    rows: list[DeadLetter] = []
    following, looked = None, 0
    for number, row in enumerate(newest_first(admin, group, bounds, after), 1):
        if (taken := wants.taken(row, broker)) is not None:
            rows.append(taken)
        if len(rows) == wants.count or number == READ_AT_MOST:
            following, looked = (row.queue_id, row.offset), 0 if len(rows) == wants.count else number
            break
    return tuple(rows), sum(high - low for low, high in bounds.values()), following, looked


def bounds_of(admin: Admin, group: str) -> dict[int, tuple[int, int]]:
    """Return first offset and end of each queue of the group's dead letters; none without such a topic."""
    try:
        stats = admin.topic_stats(DLQ_PREFIX + group)
    except (BrokerRefused, RouteNotFound):
        return {}
    return {part.queue.queue_id: (part.min_offset, part.max_offset) for part in stats.queues}


def newest_first(
    admin: Admin, group: str, bounds: dict[int, tuple[int, int]], after: tuple[int, int] | None
) -> Iterator[DeadLetter]:
    """Yield them from the end of the last queue backwards, or from before `after`. Brokers give a group one queue."""
    for queue_id in sorted(bounds, reverse=True):
        low, high = bounds[queue_id]
        if after is not None:
            if queue_id > after[0]:
                continue
            high = min(high, after[1]) if queue_id == after[0] else high
        while high > low:
            first = max(low, high - STEP)
            for message in reversed(pull_all(admin, DLQ_PREFIX + group, queue_id, first, high - first)):
                yield letter_of(message)
            high = first


def letter_of(message: Message) -> DeadLetter:
    """Return a record as a dead letter."""
    row = row_of(message)
    topic = message.properties.get(DLQ_ORIGIN_TOPIC) or message.properties.get(RETRY_TOPIC) or ""
    group = message.topic.removeprefix(DLQ_PREFIX)
    # on Apache RocketMQ what was popped more than once is said to be of the topic it was popped from then
    for popped in (f"{RETRY_PREFIX}{group}_", f"{RETRY_PREFIX}{group}+"):
        topic = topic.removeprefix(popped)
    return DeadLetter(
        queue_id=message.queue_id, offset=row.offset, position=row.position, offset_message_id=row.offset_message_id,
        topic=topic, unique_key=row.unique_key or "", keys=row.keys, tag=row.tag or "", born_ms=row.born_ms,
        died_ms=row.store_ms, attempts=row.reconsume_times, size_bytes=row.size_bytes, preview=row.preview,
        last_error=message.properties.get(DEAD_REASON) or "",
    )  # fmt: skip


def matches(row: DeadLetter, wanted: DeadLetterFilter) -> bool:
    """Tell whether the filter takes this dead letter."""
    if wanted.topic and row.topic != wanted.topic:
        return False
    if wanted.key and wanted.key not in (*row.keys, row.unique_key, row.tag):
        return False
    if wanted.error and kind_of_error(row.last_error or NO_ERROR) != kind_of_error(wanted.error):
        return False
    if row.state == LetterMark.State.HIDDEN or (wanted.state != ALL and row.state != wanted.state):
        return False
    if wanted.from_ms is not None and row.died_ms < wanted.from_ms:
        return False
    return wanted.to_ms is None or row.died_ms < wanted.to_ms


@authorised
def kinds_of(scope: TopicScope, group: str) -> LetterKinds:
    """Return the kinds of the newest letters that nobody has dealt with, READ_AT_MOST of each broker."""
    scope.require_group(group)
    here = cluster()
    wants = _Wanted(DeadLetterFilter(), scope.topic, marks_of(group, here.names), ROWS)

    def read(admin: Admin) -> tuple[list[DeadLetter], int, bool]:
        broker, bounds, rows = chosen().name if here.has_several else one_name(here), bounds_of(admin, group), []
        count = 0
        for count, row in enumerate(newest_first(admin, group, bounds, None), 1):
            if (taken := wants.taken(row, broker)) is not None:
                rows.append(taken)
            if count == READ_AT_MOST:
                break
        return rows, count, count == sum(high - low for low, high in bounds.values())

    found, evidence = ask_each(read, here, requests=PAGE_REQUESTS)
    by_kind: dict[tuple[str, str], LetterKind] = {}
    for row in (row for _each, (rows, _count, _whole) in found for row in masks().rows(rows)):
        kind = (row.topic, kind_of_error(row.last_error))
        known = by_kind.get(kind, LetterKind(row.topic, row.last_error, 0, 0))
        by_kind[kind] = replace(known, count=known.count + 1, last_ms=max(known.last_ms, row.died_ms))
    return LetterKinds(
        group=group, now_ms=here.now_ms,
        rows=tuple(sorted(by_kind.values(), key=lambda kind: (-kind.count, kind.topic, kind.last_error))),
        read=sum(count for _each, (_rows, count, _whole) in found),
        is_whole=not evidence.stale and all(whole for _each, (_rows, _count, whole) in found),
    )  # fmt: skip


_LENGTHS = {"topic": 255, "key": 255, "error": 1_000, "state": 8, "from": 64, "to": 64}


@require_safe
def groups(request: HttpRequest) -> Answer:
    """Show every group that has dead letters, the one with most first unless another order is asked for."""
    data = dead_letter_groups(asked_order(request.GET.get("order", ""), GROUPS.orders, MOST))
    context = {"data": data, "here": PAGE}
    return page_or_file(request, "dead_letters/groups.html", context, GROUPS, lambda _place: data)


@require_safe
def letters(request: HttpRequest, name: str) -> Answer:
    """Show dead letters of one group, the newest first; rows or all that match can be sent again."""
    given = {field: request.GET.get(field, "").strip()[:length] for field, length in _LENGTHS.items()}
    errors: dict[str, str] = {}
    bounds = {field: bound_ms(given[field], field, errors, "back") for field in ("from", "to")}
    if given["state"] not in STATES:
        given["state"] = ""
    wanted = DeadLetterFilter(
        given["topic"], given["key"], bounds["from"], bounds["to"], given["error"], given["state"]
    )

    def page(place: After) -> DeadLetterPage:
        return dead_letters(name[:255], wanted, place, size.count)

    size = size_of(request, ROWS)
    data = page(read_after(request.GET.get("after", "")))
    chosen = {field: text for field, text in given.items() if text}
    shown = size.shown(chosen)
    following = None if data.cursor is None else {**shown, "after": data.cursor}
    context = {
        "data": data,
        "kinds": kinds_of(name[:255]) if request.GET.get("by") == "kind" else None,
        "here": PAGE,
        "given": given,
        "errors": errors,
        "number": uuid.uuid4(),
        "size": size,
        "sizes": size.offered(chosen),
        # those that are handled are not among the rows, and of a filter nobody knows how many match
        "total": data.total if wanted.is_empty and not data.dealt_with else None,
        "first_page": "?" + urlencode(shown),
        "next_page": None if following is None else "?" + urlencode(following),
    }
    return page_or_file(
        request, "dead_letters/letters.html", context, DEAD_LETTERS, page, following=attrgetter("following"),
        status=422 if errors else 200,
    )  # fmt: skip
