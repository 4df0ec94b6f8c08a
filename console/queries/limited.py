"""What pages are given: every read, limited to what the one who looks may see (console.security.topic_scope), and
masked by the rules (console.security.masking).

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

from broker.rocketmq.properties import TAGS
from console.features.clients import read as of_clients
from console.features.clients.read import ClientPage, Clients, Running
from console.features.dead_letters import read as of_dead_letters
from console.features.dead_letters.shapes import DeadLetterFilter, DeadLetterGroups, DeadLetterPage
from console.features.groups import read as groups_read
from console.features.groups.shapes import GroupPage, Groups
from console.features.messages import read as messages_read
from console.features.messages import search
from console.features.messages.readers import readers_of
from console.features.messages.shapes import Body, BodyForm, MessageFilter, MessagePage, MessageSearch, StepKind
from console.features.overview import read as overview_read
from console.features.overview.shapes import Overview
from console.features.topics import queue
from console.features.topics import read as topics_read
from console.features.topics import tail as topics_tail
from console.features.topics.shapes import QueueMessages, TopicPage, Topics
from console.features.topics.tail import Tail
from console.security.masking import BODY, Masks, masks
from console.security.topic_scope import Eyes, eyes
from console.site.mirrored import mirrored


def overview() -> Overview:
    """The first page."""
    return overview_read.overview(eyes())


def topics(**asked: Any) -> Topics:
    """As catalogue.topics."""
    return topics_read.topics(**asked, eyes=eyes())


def topic(name: str) -> TopicPage:
    """One topic with the readers that are seen."""
    seen = _topic(name)
    found = topics_read.topic(name)
    return replace(found, readers=tuple(row for row in found.readers if seen.group(row.group)))


def tail(name: str) -> Tail:
    """The newest messages."""
    _topic(name)
    found, hide = topics_tail.tail(name), masks()
    return replace(found, rows=tuple((queue_id, hide.row(row, name)) for queue_id, row in found.rows))


def queue_messages(topic: str, queue_id: int, offset: int | None = None, count: int = 32) -> QueueMessages:
    """Messages of one queue."""
    _topic(topic)
    found = queue.queue_messages(topic, queue_id, offset, count)
    return replace(found, messages=masks().rows(found.messages, topic))


def groups(**asked: Any) -> Groups:
    """As progress.groups."""
    return groups_read.groups(**asked, eyes=eyes())


def group(name: str) -> GroupPage:
    """One group; it may subscribe to what it has not read yet."""
    seen = _group(name)
    found = groups_read.group(name)
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


def messages(topic: str, key: str, limit: int = 64) -> MessageSearch:
    """By key or unique id."""
    _topic(topic)
    return _hits_masked(messages_read.messages(topic, key, limit))


def messages_everywhere(key: str, limit: int = 64) -> MessageSearch:
    """The same in topics that are seen."""
    return _hits_masked(messages_read.messages_everywhere(key, limit, eyes()))


def messages_through(topic: str, wanted: MessageFilter) -> MessageSearch:
    """The newest of a topic."""
    _topic(topic)
    masked = masks().of(topic)
    if wanted.name in masked or (wanted.tag and TAGS in masked):
        # who may ask whether a value is there has read it soon
        raise PermissionDenied(masked.get(wanted.name) or masked[TAGS])
    return _hits_masked(search.messages_through(topic, wanted))


def message(message_id: str, topic: str | None = None) -> MessagePage:
    """One message; of groups that are not seen neither tries nor what they told."""
    seen = eyes()
    found = messages_read.message(message_id, topic, seen)
    if not found.found:
        return found
    if not seen.topic(found.topic):
        raise Http404(_("There is no such message."))
    found = _message_masked(found, masks())
    found = replace(found, readers=readers_of(mirrored(), found, seen))
    if seen.see_all:
        return found
    hops = tuple(hop for hop in found.hops if seen.topic(hop.real_topic))
    kept = (step for step in found.steps if step.hop is None or step.hop in hops)
    steps = tuple(
        step if seen.group(step.group) else replace(step, group=None, client=None)
        for step in kept
        if step.kind is not StepKind.CONSUMED or seen.group(step.group)
    )
    return replace(found, hops=hops, steps=steps)


def raw_body(message_id: str, topic: str | None = None) -> tuple[str, bytes] | None:
    """Real topic and bytes of a message; raises PermissionDenied if they are masked."""
    found = messages_read.raw_body(message_id, topic)
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
    found = of_dead_letters.dead_letters(group, wanted, after, seen.topic)
    return replace(found, rows=masks().rows(found.rows))


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
