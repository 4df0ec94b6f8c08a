"""The operations on a whole delayed queue: offer to it, repair it, and choose where its due values go."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any
from urllib.parse import quote

from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from broker.client import InvalidArgument
from broker.client.names import check_writable_topic
from broker.redisson import Codec, RedissonError, codec_named
from broker.redisson.errors import ValueUnreadable
from broker.redisson.repair import begin_import, pause_import, plan_repair, preview_import, repair
from broker.redisson.survey import survey
from broker.redisson.to_topic import make_reliable, read_mode, stop
from broker.redisson.values import Damaged
from console.features.redisson.operations import CODECS, QueueKind, ValuesPreview, checked_queue, in_redis
from console.features.redisson.read import queue_named
from console.operations.errors import InvalidParameter
from console.operations.kind import Call, ItemResult, Outcome, Target
from console.operations.models import OperationItem
from console.operations.registry import register
from console.site.broker import ask
from console.site.clock import now_ms

MOST_VALUE_CHARACTERS = 65_536
MOST_DELAY_MS = 10 * 366 * 86_400_000
#: damaged members that one repair looks for, of each kind
MOST_DAMAGED = 1_000


@register
class OfferValue(QueueKind):
    """The operation that adds a value to those that wait, written with a codec that Java reads too."""

    name = "redisson.offer"
    title, verb = _("Offer a value"), _("Offer value")
    effect = _("Adds one pending value, readable by Java.")
    outcomes = {"offered": Outcome(_("offered"))}
    asked = "delay"

    def rest_call(self, parameters: Mapping[str, Any]) -> Call:
        """Return the call that offers one value to the queue."""
        path = f"redisson/queues/{quote(parameters['queue'], safe='')}/values"
        return "POST", path, {name: parameters[name] for name in ("value", "codec", "delay_ms")}

    def checked(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return queue, value, codec and delay."""
        text, codec, delay_ms = parameters.get("value"), parameters.get("codec"), parameters.get("delay_ms")
        if not isinstance(text, str) or len(text) > MOST_VALUE_CHARACTERS:
            raise InvalidParameter("value", f"A value is a text of at most {MOST_VALUE_CHARACTERS:,} characters.")
        if not isinstance(delay_ms, int) or isinstance(delay_ms, bool) or not 0 <= delay_ms <= MOST_DELAY_MS:
            raise InvalidParameter("delay", "A delay is 0 ms to ten years.")
        checked_value(str(codec), text)
        return {"queue": checked_queue(parameters), "value": text, "codec": codec, "delay_ms": delay_ms}

    def preview(self, parameters: Mapping[str, Any]) -> ValuesPreview:
        """Return the value as it would wait."""
        at_ms = in_redis(lambda: queue_named(parameters["queue"]).server.now_ms()[0])
        label = {"topic": parameters["queue"], "name": parameters["value"][:200], "due_ms": None}
        return ValuesPreview(at_ms=at_ms, count=1, examples=[label], delay_ms=parameters["delay_ms"])

    def page_of(self, item: OperationItem) -> tuple[str, str] | None:
        """Return the page of the queue."""
        return gettext("Open queue"), self.leave_address({"queue": item.topic})

    def targets(self, parameters: Mapping[str, Any], preview: ValuesPreview) -> Sequence[Target]:
        """Return the value as the one target."""
        return [Target({"queue": parameters["queue"]}, preview.examples[0])]

    def act(self, parameters: Mapping[str, Any], reason: str, targets: Sequence[Mapping[str, Any]]) -> list[ItemResult]:
        """Offer it with one script."""
        queue = queue_named(parameters["queue"], codec=parameters["codec"], to_write=True)
        value = checked_value(parameters["codec"], parameters["value"])
        receipt = in_redis(lambda: queue.offer(value, parameters["delay_ms"]))
        return [ItemResult("offered", {"due_ms": receipt.due_ms, "packing": receipt.packing.value})]


@register
class RepairQueue(QueueKind):
    """The repair of list and set: what is in the list only is due now, what is in the set only is listed again."""

    name = "redisson.repair"
    title, verb = _("Repair a delayed queue"), _("Repair queue")
    effect = _("Values in the list only become due now; values in the set only are listed again.")
    outcomes = {"repaired": Outcome(_("repaired"))}

    def preview(self, parameters: Mapping[str, Any]) -> ValuesPreview:
        """Compare all of list and set."""
        plan = in_redis(lambda: plan_repair(self.queue(parameters), limit=MOST_DAMAGED))
        found = [*plan.list_only, *plan.set_only]
        return ValuesPreview(
            at_ms=now_ms(),
            count=len(found),
            examples=[_label(parameters["queue"], each) for each in found[:10]],
            topics=[["in_list", len(plan.list_only)], ["in_set", len(plan.set_only)]],
            missing=[] if plan.is_complete else ["count"],
        )

    def targets(self, parameters: Mapping[str, Any], preview: ValuesPreview) -> Sequence[Target]:
        """Return what is damaged now."""
        plan = in_redis(lambda: plan_repair(self.queue(parameters), limit=MOST_DAMAGED))
        return [
            Target(
                {
                    "kind": each.kind,
                    "place": each.place,
                    "score": each.score,
                    "identity": each.identity.hex(),
                    "size_bytes": each.size_bytes,
                },
                _label(parameters["queue"], each),
            )
            for each in (*plan.list_only, *plan.set_only)
        ]

    def act(self, parameters: Mapping[str, Any], reason: str, targets: Sequence[Mapping[str, Any]]) -> list[ItemResult]:
        """Run one script for each, which looks again before it writes."""
        queue = self.queue(parameters)
        counts = [in_redis(partial(repair, queue, [_damaged(target)])) for target in targets]
        return [ItemResult("repaired" if count else "gone") for count in counts]


class _Handing(QueueKind):
    """An operation that says where the due values go."""

    def preview(self, parameters: Mapping[str, Any]) -> ValuesPreview:
        """Count what waits, and say whether a client in Java listens."""
        queue = queue_named(parameters["queue"])
        found = in_redis(lambda: survey(queue))
        return ValuesPreview(
            at_ms=found.now_ms,
            count=1,
            first_due_ms=found.next_due_ms,
            met_count=found.set_size,
            missing=["listeners"] if found.listeners else [],
        )

    def targets(self, parameters: Mapping[str, Any], preview: ValuesPreview) -> Sequence[Target]:
        """Return the queue as the one target."""
        return [Target({"queue": parameters["queue"]}, {"topic": parameters["queue"]})]


class _ToTopic(_Handing):
    """An operation that sends due values to a topic."""

    asked = "topic"

    def checked(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return queue and topic."""
        topic = parameters.get("topic")
        try:
            check_writable_topic(str(topic or ""))
        except InvalidArgument as error:
            raise InvalidParameter("topic", str(error)) from None
        return {"queue": checked_queue(parameters), "topic": topic}


@register
class MakeReliable(_ToTopic):
    """The operation that sends due values to a topic: with acknowledgement, retries, dead letters and a trace."""

    name = "redisson.make_reliable"
    title, verb = _("Send due values to a topic"), _("Use reliable mode")
    effect = _("Due values go to a topic instead of the destination queue: ack, retry, dead letters.")
    outcomes = {"made_reliable": Outcome(_("delivers to the topic"))}

    def act(self, parameters: Mapping[str, Any], reason: str, targets: Sequence[Mapping[str, Any]]) -> list[ItemResult]:
        """Note it beside the queue; the transfer service does the rest."""
        in_redis(lambda: make_reliable(self.queue(parameters), parameters["topic"]))
        return [ItemResult("made_reliable")]


@register
class ImportQueue(_ToTopic):
    """The operation that makes waiting values timers of a topic, and what Java offers meanwhile; resumed if stopped."""

    name = "redisson.import"
    title, verb = _("Import a delayed queue into timers"), _("Import queue")
    effect = _("Every pending value becomes a timer of a topic, including values that Java offers meanwhile.")
    outcomes = {"import_begun": Outcome(_("import started"))}

    def preview(self, parameters: Mapping[str, Any]) -> ValuesPreview:
        """Count what would be moved, and what is particular about it."""
        shown = super().preview(parameters)
        furthest_ms = _furthest_ms()
        found = in_redis(lambda: preview_import(queue_named(parameters["queue"]), max_delay_ms=furthest_ms))
        counts = {"overdue": found.overdue, "never_due": found.never_due, "too_far": found.too_far}
        counts["unreadable"] = found.sampled_poison
        return replace(
            shown,
            met_count=found.waiting,
            last_due_ms=found.last_due_ms,
            topics=[[code, count] for code, count in counts.items() if count],
            missing=[*shown.missing, *(["too_far"] if furthest_ms is None else [])],
        )

    def act(self, parameters: Mapping[str, Any], reason: str, targets: Sequence[Mapping[str, Any]]) -> list[ItemResult]:
        """Note it beside the queue; the transfer service does the rest."""
        in_redis(lambda: begin_import(self.queue(parameters), parameters["topic"]))
        return [ItemResult("import_begun")]


@register
class MakePlain(_Handing):
    """The operation that sends due values to the plain list again; what was taken already is still sent."""

    name = "redisson.make_plain"
    title, verb = _("Deliver to the destination queue"), _("Deliver to the destination queue")
    effect = _("Due values go to the destination queue again; values already taken are still sent.")
    outcomes = {"made_plain": Outcome(_("delivers to the destination queue"))}

    def act(self, parameters: Mapping[str, Any], reason: str, targets: Sequence[Mapping[str, Any]]) -> list[ItemResult]:
        """End reliable mode, or stop the import where it is."""
        queue = self.queue(parameters)
        mode = in_redis(lambda: read_mode(queue))
        in_redis(lambda: pause_import(queue) if mode.kind == "import" else stop(queue))
        return [ItemResult("made_plain")]


def _furthest_ms() -> int | None:
    """Return how far ahead the broker takes timers, ms; None: it does not say."""
    status, _evidence = ask(lambda admin: admin.timer_status(), source="", requests=())
    return status.limits.max_delay_ms if status is not None and status.limits is not None else None


def checked_value(codec: str, text: str) -> object:
    """Return the value of a text, of JSON as its Java types say, where there are any; raises InvalidParameter."""
    if codec not in CODECS:
        raise InvalidParameter("codec", f"Codecs that can be written here: {', '.join(CODECS)}.")
    writer = codec_named(codec)
    try:
        value = text if codec == "StringCodec" else _of_json(writer, text)
        writer.encode(value)
    except (ValueError, RecursionError) as error:
        raise InvalidParameter("value", f"This is not JSON: {error}.") from None
    except RedissonError as error:
        raise InvalidParameter("value", str(error)) from None
    return value


def _of_json(codec: Codec, text: str) -> object:
    try:
        return codec.decode(text.encode())
    except ValueUnreadable:
        return json.loads(text)


def _label(queue: str, damaged: Damaged) -> dict[str, Any]:
    name = f"{damaged.kind} only: {damaged.first_bytes[:40].hex()}"
    score = float(damaged.score or 0)
    return {"topic": queue, "name": name, "due_ms": int(score) if damaged.kind == "set" and score > 0 else None}


def _damaged(target: Mapping[str, Any]) -> Damaged:
    return Damaged(
        target["kind"], target["place"], target["score"], bytes.fromhex(target["identity"]), target["size_bytes"], b""
    )
