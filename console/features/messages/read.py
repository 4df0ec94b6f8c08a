"""A message with all its physical records, and searches by key; all of it read from the brokers.

Records and what clients told are joined to one line of time, each told step with its record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from django.core.exceptions import PermissionDenied
from django.db.models import Max
from django.http import Http404
from django.utils.translation import gettext as _

from broker.client import Admin, BrokerRefused, ClientError, InvalidArgument, Message, RouteNotFound
from broker.mirror.models import ConsumerOffset, Queue, Topic
from broker.rocketmq.codes import Answer, Request
from broker.rocketmq.properties import REAL_QUEUE_ID, REAL_TOPIC, SOURCE
from broker.rocketmq.topics import GROUP_PREFIXES, HALF_TOPIC, RETRY_PREFIX, SCHEDULE_TOPIC, TIMER_TOPIC
from console.features.messages.across import home_of, hops_elsewhere, in_time
from console.features.messages.as_timer import earlier_of, parked_record, timer_of
from console.features.messages.bodies import body_of
from console.features.messages.decoders import BodyType
from console.features.messages.hops import (
    TOLD_LIMIT,
    Told,
    Trail,
    hops_of,
    readers_of,
    readers_of_each,
    real_topic_of,
    told_of,
    topic_sent_to,
    topics_of_group,
)
from console.features.messages.models import types_of
from console.features.messages.shapes import (
    Became,
    Body,
    BodyForm,
    Found,
    Hop,
    HopKind,
    LifeStep,
    MessagePage,
    MessageSearch,
    StepKind,
)
from console.features.messages.through import found_of
from console.security.masking import BODY, Masks, masks
from console.security.topic_scope import TopicScope, authorised
from console.site.broker import ask, ask_each, at
from console.site.evidence import Evidence, StaleReason
from console.site.mirrored import Cluster, Mirrored, cluster, mirrored

MESSAGE_REQUESTS = (
    Request.VIEW_MESSAGE_BY_ID,
    Request.QUERY_MESSAGE,
    Request.QUERY_CONSUME_QUEUE,
    Request.GET_ALL_DELAY_OFFSET,
)
HALF_REQUESTS = (Request.VIEW_MESSAGE_BY_ID,)
SEARCH_REQUESTS = (Request.QUERY_MESSAGE, Request.GET_ALL_DELAY_OFFSET)
#: records of one message that are looked for: far more than retries make
RECORDS_LIMIT = 32
#: groups whose tries and dead letters are looked through for one message
GROUPS_LIMIT = 64
#: records on lanes with a key that are looked through for those of the topics that are sought
LOOKED = 256
#: of those found, so many are asked when they are due
DUES = 16
#: topics that one search without a topic asks
EVERYWHERE = 64
#: codes that mean "no such record", not "no": the first where a record is asked for by its id
ABSENT_CODES = frozenset({Answer.SYSTEM_ERROR, Answer.TOPIC_NOT_EXIST, Answer.QUERY_NOT_FOUND})


@authorised
def message(scope: TopicScope, message_id: str, topic: str | None = None, decoder: str = "") -> MessagePage:
    """Return one message, its body opened by a decoder; of groups that are not seen neither tries nor what they told.

    With a topic, `message_id` is the message id; without, the offset id (both have 32 hex digits). Raises Http404 for
    one of a topic that is not seen.
    """
    here = cluster()
    home = home_of(here, message_id.strip(), topic) if here.has_several else None
    with at(home.name if home is not None else ""):
        found = _message(scope, message_id, topic, Cluster(here.now_ms, _others(here, home)), decoder)
        if not found.found:
            return found
        if not scope.record(found.topic, found.sent_to):
            raise Http404(_("There is no such message."))
        hops = tuple(hop for hop in found.hops if scope.record(hop.real_topic, hop.sent_to))
        found = replace(_masked(found, masks()), hops=hops)
        found = replace(found, readers=readers_of(mirrored(), found, scope))
    if scope.see_all:
        return found
    kept = (step for step in found.steps if step.hop is None or step.hop in hops)
    # what a group consumed that reads what is not seen, too, may have been of that: no line of a trace says its topic
    steps = tuple(
        _seen_step(step, scope) for step in kept
        if step.kind is not StepKind.CONSUMED or scope.whole_group(step.group)
    )  # fmt: skip
    return replace(found, steps=steps)


def _seen_step(step: LifeStep, scope: TopicScope) -> LifeStep:
    if scope.whole_group(step.group):
        return step
    return replace(step, group=step.group if scope.group(step.group) else None, client=None)


def _masked(found: MessagePage, hide: Masks) -> MessagePage:
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


def _others(here: Cluster, home: Mirrored | None) -> tuple[Mirrored, ...]:
    """Return the brokers that may have records of the message beside its own; those that are away are not asked."""
    if home is None:
        return ()
    return tuple(each for each in here.brokers if each.name != home.name and not each.evidence(polled_by=()).stale)


def _message(scope: TopicScope, message_id: str, topic: str | None, others: Cluster, decoder: str = "") -> MessagePage:
    """Return the message with nothing masked.

    A message id is what its producer says: records and lines of a trace that have the same one belong here as far as it
    is seen whose they are.
    """
    here = mirrored()
    trail, evidence = ask(
        lambda admin: _trail(admin, message_id.strip(), topic, scope, _Known()),
        source=here.name, requests=MESSAGE_REQUESTS,
    )  # fmt: skip
    if trail is None:
        return _absent(evidence, here.now_ms, message_id, here.name, topic)
    opened = trail.opened
    hops = hops_of(trail)
    elsewhere = hops_elsewhere(others, opened, trail.topics)
    if elsewhere:
        hops = in_time((*(replace(hop, broker=here.name) for hop in hops), *elsewhere))
    sent_to = topic_sent_to(opened)
    body_type = types_of(scope, [sent_to]).get(sent_to)
    shown = _shown(evidence, here, opened, (trail.real_topic, trail.real_queue_id), decoder, body_type)
    return _with_trail(replace(shown, message_id=message_id), trail, hops)


def _with_trail(page: MessagePage, trail: Trail, hops: tuple[Hop, ...]) -> MessagePage:
    """Return the page with what the trail says; `hops`: with those of other brokers."""
    return replace(
        page,
        due_ms=trail.due_ms,
        pending=trail.pending,
        delay_level=trail.delay_level,
        hops=hops,
        steps=steps_of(trail.opened, hops, (trail.told or ())[:TOLD_LIMIT]),
        told=None if trail.told is None else len(trail.told),
        timer=trail.timer,
        sent_to=topic_sent_to(trail.opened),
    )


@authorised
def what_became(scope: TopicScope, ids: Sequence[str]) -> dict[str, Became]:
    """Return by offset id what became of messages of the broker that is chosen, as the page of each says it; nothing of
    those that are gone or not seen, or where the broker does not answer."""
    here, known = mirrored(), _Known()
    found, evidence = ask(
        lambda admin: [_trail(admin, each, None, scope, known) for each in ids],
        source=here.name, requests=MESSAGE_REQUESTS,
    )  # fmt: skip
    pages = []
    for each, trail in zip(ids, found or (), strict=False):
        if trail is None or not scope.record(trail.real_topic, topic_sent_to(trail.opened)):
            continue
        hops = tuple(hop for hop in hops_of(trail) if scope.record(hop.real_topic, hop.sent_to))
        empty = replace(_without_content(evidence, here.now_ms, each, here.name, trail.real_topic), found=True)
        pages.append(_with_trail(empty, trail, hops))
    judged = [
        replace(page, readers=rows) for page, rows in zip(pages, readers_of_each(here, pages, scope), strict=True)
    ]
    return {page.message_id: Became(page.verdict, page.received) for page in judged if page.verdict is not None}


@authorised
def half(scope: TopicScope, position: int, decoder: str = "") -> MessagePage | None:
    """Return what a half holds, by the position of its record, as a message of the topic that it is to be in; None
    where the record is gone, the broker is away, or its topic is not seen."""
    here = mirrored()
    record, evidence = ask(lambda admin: _half_at(admin, position), source=here.name, requests=HALF_REQUESTS)
    topic = topic_sent_to(record) if record is not None else None
    if record is None or topic is None or not scope.topic(topic):
        return None
    body_type = types_of(scope, [topic]).get(topic)
    number = record.properties.get(REAL_QUEUE_ID, "")
    queue_id = int(number) if number.isdigit() else None
    return _masked(_shown(evidence, here, record, (topic, queue_id), decoder, body_type), masks())


def _half_at(admin: Admin, position: int) -> Message | None:
    try:
        record = admin.message_at(position, topic=HALF_TOPIC)
    except BrokerRefused as refusal:
        if refusal.code not in ABSENT_CODES:
            raise
        return None
    return record if record.topic == HALF_TOPIC else None


def _shown(
    evidence: Evidence,
    here: Mirrored,
    opened: Message,
    place: tuple[str | None, int | None],
    decoder: str,
    body_type: BodyType | None,
) -> MessagePage:
    """Return what a record says of itself; `place`: the topic and the queue that its consumers see."""
    host, port = opened.born_host
    return MessagePage(
        evidence=evidence, now_ms=here.now_ms, message_id=opened.offset_message_id, broker=here.name, found=True,
        topic=place[0], queue_id=place[1], unique_key=opened.unique_key, tag=opened.tags, keys=tuple(opened.keys),
        born_ms=opened.born_ms, born_host=f"{host}:{port}", store_host=":".join(map(str, opened.store_host)),
        reconsume_times=opened.reconsume_times, flag=opened.flag, sys_flag=opened.sys_flag, due_ms=None, pending=False,
        delay_level=None, hops=(), properties=tuple(sorted(opened.properties.items())),
        properties_bytes=sum(len(name.encode()) + len(text.encode()) + 2 for name, text in opened.properties.items()),
        body=body_of(opened.body, opened.sys_flag, opened.properties, decoder, body_type),
        has_descriptor=body_type is not None,
    )  # fmt: skip


@authorised
def raw_body(scope: TopicScope, message_id: str, topic: str | None = None) -> tuple[str, bytes] | None:
    """Return real topic and body as stored, None when there is no such message or the broker does not answer.

    Raises PermissionDenied for a body that is masked.
    """
    found = _stored(scope, message_id, topic)
    if found is None:
        return None
    real_topic, opened = found
    masked = masks().of(real_topic)
    if BODY in masked:
        raise PermissionDenied(masked[BODY])
    return real_topic, opened.body


@authorised
def stored(
    scope: TopicScope, message_id: str, topic: str | None = None
) -> tuple[str, Message, Mapping[str, str]] | None:
    """Return real topic and record, and what of it a rule masks, by name of the property (`BODY` for the body).

    Who is given the record shows nothing of what is masked. None as with `raw_body`.
    """
    found = _stored(scope, message_id, topic)
    return None if found is None else (*found, masks().of(found[0]))


def _stored(scope: TopicScope, message_id: str, topic: str | None) -> tuple[str, Message] | None:
    here = cluster()
    home = home_of(here, message_id.strip(), topic) if here.has_several else None
    with at(home.name if home is not None else ""):
        opened, _evidence = ask(
            lambda admin: _open(admin, message_id.strip(), topic), source=here.source, requests=MESSAGE_REQUESTS
        )
    real_topic = None if opened is None else _real_topic_of(opened)
    if opened is None or real_topic is None or not scope.record(real_topic, topic_sent_to(opened)):
        return None
    return real_topic, opened


def _real_topic_of(record: Message) -> str:
    """Return the topic that consumers see; of a half the one that it is to be in."""
    return topic_sent_to(record) if record.topic == HALF_TOPIC else real_topic_of(record)


@authorised
def messages(scope: TopicScope, topic: str, key: str, limit: int = 64) -> MessageSearch:
    """Return messages of `topic` with this key or message id, newest first; parked ones of that topic too."""
    scope.require_topic(topic)
    here = cluster()
    found, evidence = ask_each(lambda admin: _search(admin, topic, key, limit), here, requests=SEARCH_REQUESTS)
    return _searched(here, evidence, found, MessageSearch(evidence, here.now_ms, topic, key, (), limit))


def _searched(
    here: Cluster, evidence: Evidence, found: Sequence[tuple[Mirrored, list[Found]]], shown: MessageSearch
) -> MessageSearch:
    """Return the page with the hits of all brokers, newest first."""
    hits = [replace(hit, broker=broker.name) for broker, several in found for hit in several]
    hits.sort(key=lambda hit: hit.store_ms, reverse=True)
    return replace(shown, hits=masks().rows(hits[: shown.limit]), has_several=here.has_several)


@authorised
def messages_everywhere(scope: TopicScope, key: str, limit: int = 64) -> MessageSearch:
    """Return messages with this key or message id in the EVERYWHERE topics that were written to last and are seen."""
    here = cluster()
    names = _written_last(here, scope, EVERYWHERE)

    def search(admin: Admin) -> list[Found]:
        waiting = _waiting(admin, key, limit, scope.topic)
        hits = _parked_hits(admin, waiting)
        for name in names:
            try:
                hits += [found_of(record, name) for record in admin.messages_by_key(name, key, limit)]
            except RouteNotFound:
                # deleted since the mirror looked, or another broker's
                continue
        return sorted(hits, key=lambda hit: hit.store_ms, reverse=True)[:limit]

    found, evidence = ask_each(search, here, requests=SEARCH_REQUESTS)
    return _searched(here, evidence, found, MessageSearch(evidence, here.now_ms, "", key, (), limit, len(names)))


@authorised
def topics_offered(scope: TopicScope, count: int) -> list[str]:
    """Return names of at most so many topics, to choose one from; those of tries and dead letters come last."""
    names = _topics(cluster(), scope)
    return sorted(names, key=lambda name: (name.startswith(GROUP_PREFIXES), name.lower(), name))[:count]


def _written_last(here: Cluster, scope: TopicScope, count: int) -> list[str]:
    queues = Queue.objects.filter(broker__in=here.names).order_by()
    last = dict(queues.values_list("topic").annotate(last=Max("last_ms")))
    return sorted(_topics(here, scope), key=lambda name: (last.get(name) or 0, name), reverse=True)[:count]


def _topics(here: Cluster, scope: TopicScope) -> list[str]:
    """Return the topics that are seen, without RocketMQ's own."""
    found = Topic.objects.filter(broker__in=here.names).values_list("name", "is_system").order_by()
    names = dict.fromkeys(name for name, is_system in found if not is_system or name.startswith(GROUP_PREFIXES))
    return [name for name in names if scope.topic(name)]


def _real_topic(parked: Message) -> str:
    return parked.properties.get(REAL_TOPIC, SCHEDULE_TOPIC)


def _waiting(admin: Admin, key: str, limit: int, is_wanted: Callable[[str], bool]) -> list[Message]:
    """Return wanted records parked on lanes and not released yet; others' come first, too, in the same index."""
    found = admin.messages_by_key(SCHEDULE_TOPIC, key, max(limit, LOOKED))
    parked = [record for record in found if is_wanted(_real_topic(record))]
    released = admin.delay_offsets() if parked else {}
    return [record for record in parked if record.queue_offset >= released.get(record.queue_id + 1, 0)][:limit]


def _search(admin: Admin, topic: str, key: str, limit: int) -> list[Found]:
    waiting = _waiting(admin, key, limit, topic.__eq__)
    try:
        stored = admin.messages_by_key(topic, key, limit)
    except RouteNotFound:
        if not waiting:
            raise
        stored = []
    hits = _parked_hits(admin, waiting)
    hits += [found_of(record, topic) for record in stored]
    return sorted(hits, key=lambda hit: hit.store_ms, reverse=True)[:limit]


def _parked_hits(admin: Admin, parked: Sequence[Message]) -> list[Found]:
    """Return what waits on lanes, the first of them with the moment when it is due, for which each is asked alone."""
    hits = [found_of(record, _real_topic(record), pending=True) for record in parked]
    dues = [_due_ms(admin, record) for record in parked[:DUES]]
    return [replace(hit, due_ms=due) for hit, due in zip(hits, dues, strict=False)] + hits[DUES:]


def _due_ms(admin: Admin, parked: Message) -> int | None:
    entries = admin.queue_entries(SCHEDULE_TOPIC, parked.queue_id, parked.queue_offset, 1).entries
    return entries[0].tags_code if entries and entries[0].offset == parked.queue_offset else None


@dataclass(slots=True)
class _Known:
    """What the trails of several messages share: how far lanes have released, and topics of groups by the message."""

    delay_offsets: dict[int, int] | None = None
    topics_of_groups: dict[tuple[str, tuple[str, ...], tuple[str, ...]], list[str]] = field(default_factory=dict)


def _trail(admin: Admin, message_id: str, topic: str | None, seen: TopicScope, known: _Known) -> Trail | None:
    opened = _open(admin, message_id, topic)
    if opened is None:
        return None
    told = _told(admin, opened.unique_key)
    trail = Trail(opened, told=None if told is None else tuple(line for line in told if _is_seen(line, seen)))
    for record in _kin(admin, trail, seen, known):
        if seen.record(real_topic_of(record), topic_sent_to(record)):
            trail.add(record)
    if trail.parked and known.delay_offsets is None:
        known.delay_offsets = admin.delay_offsets()
    for parked in trail.parked:
        if (due_ms := _due_ms(admin, parked)) is not None:
            trail.dues_ms[parked.position] = due_ms
    trail.delay_offsets = known.delay_offsets or {}
    trail.timer = timer_of(admin, opened)
    for record in trail.records.values():
        if (earlier := earlier_of(admin, record)) is not None:
            trail.earlier[record.position] = earlier
    return trail


def _open(admin: Admin, message_id: str, topic: str | None) -> Message | None:
    """Return the record that the id means; None when the broker has none."""
    if topic:
        found = _by_message_id(admin, topic, message_id) or _by_message_id(admin, SCHEDULE_TOPIC, message_id)
        found = found or parked_record(admin, topic, message_id)
        if found is not None:
            return found
    try:
        return admin.message_by_offset_id(message_id)
    except InvalidArgument:
        if not topic:
            raise
        return None
    except BrokerRefused as refusal:
        if refusal.code not in ABSENT_CODES:
            raise
        return None


def _by_message_id(admin: Admin, topic: str, message_id: str) -> Message | None:
    try:
        return admin.message_by_id(topic, message_id)
    except RouteNotFound:
        return None


def _kin(admin: Admin, trail: Trail, seen: TopicScope, known: _Known) -> list[Message]:
    """Find other records of the same message: by its message id, and by the position that a release came from."""
    found: list[Message] = []
    of = trail.sent_to, trail.groups, trail.topics
    if of not in known.topics_of_groups:
        known.topics_of_groups[of] = _topics_of_groups(trail, seen)
    for topic in (*trail.topics, *known.topics_of_groups[of]):
        if trail.opened.unique_key:
            try:
                found += admin.records_by_id(topic, trail.opened.unique_key, RECORDS_LIMIT)
            except RouteNotFound:
                continue
    if trail.opened.unique_key:
        # a group's policy may let a try wait for any time
        timers = admin.records_by_id(TIMER_TOPIC, trail.opened.unique_key, RECORDS_LIMIT)
        found += [record for record in timers if real_topic_of(record).startswith(RETRY_PREFIX)]
    source = trail.opened.properties.get(SOURCE, "")
    if source.isdigit():
        try:
            found.append(admin.message_at(int(source), topic=SCHEDULE_TOPIC))
        except ClientError:
            # retention may have taken the parked record; the release stands by itself
            return found
    return found


def _topics_of_groups(trail: Trail, seen: TopicScope) -> list[str]:
    """Return the existing topics of tries and dead letters of groups that had the message, or read its topic.

    Of readers those that are seen: others' take no place from them.
    """
    broker = mirrored().name
    readers = ConsumerOffset.objects.filter(broker=broker, topic=trail.sent_to).values_list("group", flat=True)
    mine = [name for name in readers.distinct().order_by("group") if seen.group(name)][:GROUPS_LIMIT]
    groups = dict.fromkeys((*mine, *trail.groups))
    names = [name for group in groups for name in topics_of_group(group, trail.sent_to)]
    found = Topic.objects.filter(broker=broker, name__in=names).exclude(name__in=trail.topics)
    return list(found.order_by("name").values_list("name", flat=True))


def _is_seen(line: Told, seen: TopicScope) -> bool:
    """Tell whether a line is seen: consumers name their group, all others the topic; a line with neither is not. What a
    group consumed that reads what is not seen, too, may have been of that."""
    return seen.whole_group(line.group) if line.what == "consumed" else seen.topic(line.topic)


def _told(admin: Admin, message_id: str | None) -> tuple[Told, ...] | None:
    if not message_id:
        return ()
    try:
        return told_of(admin.traces(message_id))
    except ClientError:
        # the page is worth showing without what clients told, and says so
        return None


def _absent(evidence: Evidence, now_ms: int, message_id: str, broker: str, topic: str | None) -> MessagePage:
    if evidence.stale_reason is None:
        evidence = Evidence(
            evidence.source, evidence.as_of_ms, True, StaleReason.NOT_THERE, evidence.requests, evidence.detail
        )
    return _without_content(evidence, now_ms, message_id, broker, topic)


def _without_content(evidence: Evidence, now_ms: int, message_id: str, broker: str, topic: str | None) -> MessagePage:
    return MessagePage(
        evidence=evidence, now_ms=now_ms, message_id=message_id, broker=broker, found=False, topic=topic,
        queue_id=None, unique_key=None, tag=None, keys=(), born_ms=None, born_host=None, store_host=None,
        reconsume_times=None, flag=None, sys_flag=None, due_ms=None, pending=False, delay_level=None, hops=(),
        properties=(), properties_bytes=0, body=None,
    )  # fmt: skip


#: clocks of clients and broker differ: a message may seem to be consumed so long before it was stored
CLOCKS_APART_MS = 2_000
_STORED = (HopKind.STORED, HopKind.RELEASED)


def steps_of(opened: Message, hops: Sequence[Hop], told: Sequence[Told]) -> tuple[LifeStep, ...]:
    """Return the steps, oldest first; of one moment in the order of the log, a record before what was done with it.

    Steps without a moment come last.
    """
    steps = [*_from_records(opened, hops, told), *(_told_step(line, hops) for line in told)]
    numbers = {hop.position: number for number, hop in enumerate(hops)}
    after_all = len(hops)

    def place(step: LifeStep) -> tuple[int, int, bool]:
        number = -1 if step.kind is StepKind.BORN else numbers[step.hop.position] if step.hop else after_all
        return step.ms or 0, number, step.is_told

    placed = sorted((step for step in steps if step.ms is not None), key=place)
    ordered: list[LifeStep] = []
    for step in placed:
        before = ordered[-1].ms if ordered else None
        ordered.append(replace(step, after_ms=None if before is None or step.ms is None else step.ms - before))
    return (*ordered, *(step for step in steps if step.ms is None))


def _from_records(opened: Message, hops: Sequence[Hop], told: Sequence[Told]) -> Iterator[LifeStep]:
    if not any(line.what == "sent" and line.at_ms is not None for line in told):
        host, port = opened.born_host
        yield LifeStep(StepKind.BORN, opened.born_ms, None, None, client=f"{host}:{port}")
    for hop in hops:
        yield LifeStep(StepKind(hop.kind.value), hop.store_ms, None, hop, group=hop.group)


def _told_step(line: Told, hops: Sequence[Hop]) -> LifeStep:
    return LifeStep(
        StepKind(line.what), line.at_ms, None, _record_of(line, hops), True, line.group, line.client, line.took_ms,
        line.succeeded, line.retries, line.state,
    )  # fmt: skip


def _record_of(line: Told, hops: Sequence[Hop]) -> Hop | None:
    if line.what == "sent" and line.succeeded is not False:
        firsts = [hop for hop in hops if hop.kind in (HopKind.STORED, HopKind.PARKED)]
        later = [hop for hop in firsts if line.at_ms is None or hop.store_ms >= line.at_ms - CLOCKS_APART_MS]
        return later[0] if later else None
    if line.what == "consumed":
        given = [hop for hop in hops if _is_given(hop, line)]
        return given[-1] if given else None
    return None


def _is_given(hop: Hop, line: Told) -> bool:
    """Tell whether the consumer may have been given this record."""
    if line.at_ms is not None and hop.store_ms > line.at_ms + CLOCKS_APART_MS:
        return False
    if line.retries:
        return hop.kind is HopKind.RETRY and hop.group == line.group and hop.tries == line.retries
    return hop.kind in _STORED
