"""What pages are given: every read, limited to what the one who looks may see (console.access.topics), and
masked by the rules (console.access.masking).

Pages and live frames read through `console.queries`, which has nothing that is not from here. What is not seen is not
there: Http404, as for what does not exist. Figures of the whole broker (how much waits, how late) are everybody's;
names, keys, ids and contents are not.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import Http404
from django.utils.translation import gettext as _

from console.access.masking import BODY, Masks, masks
from console.access.topics import Eyes, eyes
from console.queries import (
    catalogue,
    lane_pages,
    looking_through,
    progress,
    queue_pages,
    records,
    schedule,
    summary,
    tailing,
)
from console.queries import clients as of_clients
from console.queries import dead_letters as of_dead_letters
from console.queries import delayed_queues as of_delayed_queues
from console.queries import timers as of_timers
from console.queries import transactions as of_transactions
from console.queries.shapes.clients import ClientPage, Clients, Running
from console.queries.shapes.dead_letters import DeadLetterFilter, DeadLetterGroups, DeadLetterPage
from console.queries.shapes.delayed_queues import QueuePage, QueuesPage
from console.queries.shapes.groups import GroupPage, Groups
from console.queries.shapes.lane import LanePage
from console.queries.shapes.lanes import Lanes
from console.queries.shapes.message_life import StepKind
from console.queries.shapes.messages import Body, BodyForm, MessageFilter, MessagePage, MessageSearch
from console.queries.shapes.overview import Overview
from console.queries.shapes.timers import TimerFilter, TimerLife, TimerList, TimersPage
from console.queries.shapes.topics import QueueMessages, TopicPage, Topics
from console.queries.shapes.transactions import (
    TransactionFilter,
    TransactionLife,
    TransactionList,
    TransactionRow,
    TransactionsPage,
)
from console.queries.tailing import Tail


def overview() -> Overview:
    """The first page."""
    return summary.overview(eyes())


def topics(**asked: Any) -> Topics:
    """As catalogue.topics."""
    return catalogue.topics(**asked, eyes=eyes())


def topic(name: str) -> TopicPage:
    """One topic with the readers that are seen."""
    seen = _topic(name)
    found = catalogue.topic(name)
    return replace(found, readers=tuple(row for row in found.readers if seen.group(row.group)))


def tail(name: str) -> Tail:
    """The newest messages."""
    _topic(name)
    found, hide = tailing.tail(name), masks()
    return replace(found, rows=tuple((queue_id, hide.row(row, name)) for queue_id, row in found.rows))


def queue_messages(topic: str, queue_id: int, offset: int | None = None, count: int = 32) -> QueueMessages:
    """Messages of one queue."""
    _topic(topic)
    found = queue_pages.queue_messages(topic, queue_id, offset, count)
    return replace(found, messages=masks().rows(found.messages, topic))


def groups(**asked: Any) -> Groups:
    """As progress.groups."""
    return progress.groups(**asked, eyes=eyes())


def group(name: str) -> GroupPage:
    """One group; it may subscribe to what it has not read yet."""
    seen = _group(name)
    found = progress.group(name)
    subscriptions = tuple(pair for pair in found.subscriptions if seen.topic(pair[0]))
    return replace(found, subscriptions=subscriptions, queues=seen.rows(found.queues, lambda row: row.topic))


def clients(**asked: Any) -> Clients:
    """As clients.clients."""
    return of_clients.clients(**asked, eyes=eyes())


def client(client_id: str) -> ClientPage:
    """One client in the groups that are seen."""
    return of_clients.client(client_id, eyes())


def running(group: str, client_id: str, *, with_stack: bool = False) -> Running:
    """What a consumer says of itself."""
    seen = _group(group)
    found = of_clients.running(group, client_id, with_stack=with_stack)
    if found.info is None or seen.see_all:
        return found
    queues = seen.rows(found.info.queues, lambda row: row.queue.topic)
    works = seen.rows(found.info.topics, lambda row: row.topic)
    # a stack and the properties are texts that nobody can look through for names
    return replace(found, info=replace(found.info, queues=queues, topics=works, properties={}, stack=""))


def lanes() -> Lanes:
    """All lanes: counts and moments, no names."""
    return schedule.lanes()


def highest_level() -> int:
    """The number of the last level."""
    return schedule.highest_level()


def lane(level: int, offset: int | None = None, count: int = lane_pages.PAGE_COUNT) -> LanePage:
    """A page of one lane."""
    found = lane_pages.lane(level, offset, count)
    rows, hide = eyes().rows(found.messages, lambda row: row.real_topic), masks()
    left_out = len(found.messages) - len(rows)
    return replace(found, messages=tuple(hide.row(row, row.real_topic) for row in rows), left_out=left_out)


def messages(topic: str, key: str, limit: int = 64) -> MessageSearch:
    """By key or unique id."""
    _topic(topic)
    return _hits_masked(records.messages(topic, key, limit))


def messages_everywhere(key: str, limit: int = 64) -> MessageSearch:
    """The same in topics that are seen."""
    return _hits_masked(records.messages_everywhere(key, limit, eyes()))


def messages_through(topic: str, wanted: MessageFilter) -> MessageSearch:
    """The newest of a topic."""
    _topic(topic)
    masked = masks().of(topic)
    if wanted.name in masked or (wanted.tag and "TAGS" in masked):
        # who may ask whether a value is there has read it soon
        raise PermissionDenied(masked.get(wanted.name) or masked["TAGS"])
    return _hits_masked(looking_through.messages_through(topic, wanted))


def message(message_id: str, topic: str | None = None) -> MessagePage:
    """One message; of groups that are not seen neither tries nor what they told."""
    found = records.message(message_id, topic)
    seen = eyes()
    if found.found:
        found = _message_masked(found, masks())
    if seen.see_all or not found.found:
        return found
    if not seen.topic(found.topic):
        raise Http404(_("There is no such message."))
    hops = tuple(hop for hop in found.hops if seen.topic(hop.topic) or not hop.topic.startswith("%"))
    kept = (step for step in found.steps if step.hop is None or step.hop in hops)
    steps = tuple(
        step if seen.group(step.group) else replace(step, group=None, client=None)
        for step in kept
        if step.kind is not StepKind.CONSUMED or seen.group(step.group)
    )
    return replace(found, hops=hops, steps=steps)


def raw_body(message_id: str, topic: str | None = None) -> tuple[str, bytes] | None:
    """Real topic and bytes of a message; raises PermissionDenied if they are masked."""
    found = records.raw_body(message_id, topic)
    if found is None or not eyes().topic(found[0]):
        return None
    masked = masks().of(found[0])
    if BODY in masked:
        raise PermissionDenied(masked[BODY])
    return found


def dead_letter_groups() -> DeadLetterGroups:
    """Groups that have some."""
    found, seen = of_dead_letters.dead_letter_groups(), eyes()
    return replace(found, rows=tuple(row for row in found.rows if seen.group(row.name)))


def dead_letters(group: str, wanted: DeadLetterFilter, after: tuple[int, int] | None = None) -> DeadLetterPage:
    """Those of one group."""
    seen = _group(group)
    found = of_dead_letters.dead_letters(group, wanted, after)
    return replace(found, rows=masks().rows(seen.rows(found.rows, lambda row: row.topic)))


def timers(zoom: str = "", at_ms: int | None = None) -> TimersPage:
    """The wheel and what stands around it."""
    found, seen = of_timers.timers(zoom, at_ms), eyes()
    found = replace(found, first=_timers_seen(found.first, seen))
    if seen.see_all:
        return found
    forecast = found.forecast and replace(
        found.forecast,
        herds=tuple(
            replace(herd, topics=tuple(pair for pair in herd.topics if seen.topic(pair[0])))
            for herd in found.forecast.herds
        ),
    )
    return replace(
        found,
        topics=seen.rows(found.topics, lambda row: row.topic),
        topics_left=0,
        lateness=found.lateness and replace(found.lateness, topic=""),
        forecast=forecast,
    )


def timer_list(wanted: TimerFilter, cursor: str | None = None, count: int = of_timers.PAGE_COUNT) -> TimerList:
    """Pending timers."""
    return _timers_seen(of_timers.timer_list(wanted, cursor, count), eyes())


def timer_life(position: int) -> TimerLife:
    """One timer; what is not known of a timer that is gone is not seen either."""
    found, seen = of_timers.timer_life(position), eyes()
    if not seen.see_all and not found.evidence.stale and not (found.timer and seen.topic(found.timer.topic)):
        raise Http404(_("There is no such timer."))
    return replace(found, timer=found.timer and masks().row(found.timer, found.timer.topic))


def transactions() -> TransactionsPage:
    """The board and the first of each list; groups and addresses name producers, whose topics nobody tells."""
    found, seen, hide = of_transactions.transactions(), eyes(), masks()
    board = found.board and replace(found.board, halves=hide.rows(found.board.halves))
    found = replace(
        found,
        board=board,
        open=_transactions_seen(found.open, seen),
        parked=_transactions_seen(found.parked, seen),
        decided=_transactions_seen(found.decided, seen),
    )
    if seen.see_all:
        return found
    board = found.board and replace(
        found.board,
        # op records point at them: those that are not seen stay, without names
        halves=tuple(
            row if seen.topic(row.topic) else TransactionRow(row.offset, row.state) for row in found.board.halves
        ),
    )
    return replace(
        found,
        groups=(),
        addresses=(),
        board=board,
    )


def transaction_list(
    wanted: TransactionFilter, after: int | None = None, count: int = of_transactions.PAGE_COUNT
) -> TransactionList:
    """A page of one state."""
    return _transactions_seen(of_transactions.transaction_list(wanted, after, count), eyes())


def transaction_life(position: int) -> TransactionLife:
    """One transaction."""
    found, seen = of_transactions.transaction_life(position), eyes()
    if not seen.see_all and found.row is not None and not seen.topic(found.row.topic):
        raise Http404(_("There is no such transaction."))
    return replace(found, row=found.row and masks().row(found.row, found.row.topic))


def delayed_queues(search: str = "", offset: int = 0) -> QueuesPage:
    """Redisson's queues."""
    return of_delayed_queues.delayed_queues(search, offset, eyes())


def delayed_queue(name: str, **asked: Any) -> QueuePage:
    """One of them; the topic that it is handed to may be one that is not seen."""
    seen = eyes()
    if not seen.queue(name):
        raise Http404(_("There is no such queue."))
    found, hide = of_delayed_queues.delayed_queue(name, **asked), masks()
    found = replace(found, values=hide.rows(found.values, name), upcoming=hide.rows(found.upcoming, name))
    if found.handing is None or seen.topic(found.handing.topic):
        return found
    return replace(found, handing=replace(found.handing, topic="…"))


def _topic(name: str) -> Eyes:
    seen = eyes()
    if not seen.topic(name):
        raise Http404(_("There is no such topic."))
    return seen


def _group(name: str) -> Eyes:
    seen = eyes()
    if not seen.group(name):
        raise Http404(_("There is no such consumer group."))
    return seen


def _timers_seen(found: TimerList, seen: Eyes) -> TimerList:
    rows = seen.rows(found.rows, lambda row: row.topic)
    return replace(found, rows=masks().rows(rows), left_out=len(found.rows) - len(rows))


def _transactions_seen(found: TransactionList, seen: Eyes) -> TransactionList:
    rows = seen.rows(found.rows, lambda row: row.topic)
    return replace(found, rows=masks().rows(rows), left_out=len(found.rows) - len(rows))


def _hits_masked(found: MessageSearch) -> MessageSearch:
    return replace(found, hits=masks().rows(found.hits))


def _message_masked(found: MessagePage, hide: Masks) -> MessagePage:
    masked = hide.of(found.topic)
    if not masked:
        return found
    body = found.body
    if body is not None and BODY in masked:
        body = Body(BodyForm.MASKED, masked[BODY], "", body.stored_bytes, None, 0, False, body.compression)
    properties = tuple((name, masked.get(name, text)) for name, text in found.properties)
    names = {name for name, _text in found.properties}
    shown = hide.row(found, found.topic)
    is_masked = BODY in masked or bool(names & masked.keys())
    return replace(shown, body=body, properties=properties, is_masked=is_masked)
