"""Operations on values of one of Redisson's delayed queues, chosen ones or all that match, and clearing a queue.

{"queue": "orders", "handles": ["1795247527000~3f..~31", ...]}
{"queue": "orders", "filter": {"from_ms": None, "to_ms": None}, "is_all": True}
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, ClassVar
from urllib.parse import quote, urlencode

from django.http import QueryDict
from django.urls import reverse
from django.utils.translation import gettext, ngettext, ngettext_lazy
from django.utils.translation import gettext_lazy as _
from redis.exceptions import RedisError

from broker.redisson import DelayedQueue, Packing, RedissonError
from broker.redisson import repair as members
from broker.redisson.survey import find_packed, find_poison, page, survey
from broker.redisson.values import Handle, Waiting
from console.features.redisson.read import queue_named, value_row, why_locked
from console.operations.actor import STEER_DELAYED_QUEUES, Scope, named
from console.operations.errors import InvalidParameter, NotPossible, TooMany
from console.operations.kind import LIMIT, REASON, Call, Form, ItemResult, Kind, Outcome, Preview, Target, renamed
from console.operations.registry import register
from console.operations.selection import EXAMPLES, all_of, window_words
from console.operations.typed_moments import checked_move, delay_ms
from console.site.parsing import whole_number

#: named at once, as for timers
MOST_HANDLES = 1_000
#: codecs that can be written here
CODECS = ("StringCodec", "JsonJacksonCodec", "TypedJsonJacksonCodec")
_NAME_LENGTH = 255
_RANGE = {"from_ms": "due_from", "to_ms": "due_before"}
_MOVED = {"due_ms": "deliver_at", "shift_ms": "shift_ms"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ValuesPreview(Preview):
    """The values that would be touched; `topics` counts them by what is particular to them, under codes."""

    first_due_ms: int | None = None
    last_due_ms: int | None = None
    #: how many wait, where `count` says something else
    met_count: int | None = None
    #: how long what is offered is kept, counted from when it is
    delay_ms: int | None = None


class QueueKind(Kind[ValuesPreview]):
    """An operation on one delayed queue that may be changed here."""

    permission = STEER_DELAYED_QUEUES
    page = "delayed_queues"
    leave_words = _("Open queue")
    names_messages = True
    preview_type = ValuesPreview
    preview_template = "delayed_queues/operation_preview.html"
    #: the field of its form that somebody types
    asked: ClassVar[str] = ""

    def from_form(self, given: QueryDict) -> dict[str, Any]:
        """Return the fields of any of the forms; raises InvalidParameter."""
        found: dict[str, Any] = {"queue": given.get("queue", "")}
        found |= {name: given.get(name) for name in ("to", "topic", "value", "codec", "packing") if name in given}
        if "delay" in given:
            text = given.get("delay", "").strip()
            found["delay_ms"] = delay_ms(text, "delay")
        if given.get("scope") == "matching":
            found["filter"] = {name: whole_number(given.get(name)) for name in ("from_ms", "to_ms")}
            found["is_all"] = given.get("is_all") == "1"
        elif "scope" in given:
            found["handles"] = given.getlist("handle")
        return found

    def form_again(self, given: QueryDict, faults: Mapping[str, str]) -> Form | None:
        """Return the form of the field that was typed; the rows that were chosen go with it."""
        if not self.asked or self.asked not in given:
            return None
        kept = [
            (name, text)
            for name, texts in given.lists()
            if name not in ("csrfmiddlewaretoken", "operation", self.asked)
            for text in texts
        ]
        text, fault = given.get(self.asked, ""), faults.get(self.asked, "")
        around = {"field": self.asked, "kept": kept, "text": text, "fault": fault, "codecs": CODECS}
        return Form("delayed_queues/again.html", around)

    def scope(self, parameters: Mapping[str, Any], preview: Mapping[str, Any] | None) -> Scope:
        """Return the queue, and the other queue or the topic that its values go to."""
        queues = frozenset({str(parameters.get("queue", ""))}) | named(parameters.get("to"))
        return Scope(named(parameters.get("topic")), queues=queues)

    def selection(self, parameters: Mapping[str, Any]) -> str:
        """Return the name of the queue."""
        return str(parameters["queue"])

    def leave_address(self, parameters: Mapping[str, Any]) -> str:
        """Return the address of the queue."""
        return reverse("delayed_queue") + "?" + urlencode({"name": parameters["queue"]}, quote_via=quote, safe="")

    def rest_call(self, parameters: Mapping[str, Any]) -> Call:
        """Return the call on the queue."""
        body: dict[str, Any] = {
            name: parameters[name] for name in ("handles", "to", "topic", "packing") if name in parameters
        }
        if "filter" in parameters:
            bounds = renamed(parameters["filter"], _RANGE)
            body |= {**({"range": bounds} if bounds else {}), **all_of(parameters)}
        act = self.name.partition(".")[2].replace("_", "-")
        path = f"redisson/queues/{quote(parameters['queue'], safe='')}:{act}"
        return "POST", path, {**body, **renamed(parameters, _MOVED), **REASON}

    def checked(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return the queue alone."""
        return {"queue": checked_queue(parameters)}

    def queue(self, parameters: Mapping[str, Any]) -> DelayedQueue:
        """Return the queue, to be written."""
        return queue_named(parameters["queue"], to_write=True)


class SteerValues(QueueKind):
    """An operation on one value after another: chosen ones, or all that match."""

    #: True: among those that were set aside, else among those that wait
    aside: ClassVar[bool] = False

    def selection(self, parameters: Mapping[str, Any]) -> str:
        """Return of which queue how many were chosen, or that it is a range."""
        queue: str = parameters["queue"]
        if "handles" in parameters:
            count = len(parameters["handles"])
            words = ngettext("%(count)s selected value of %(queue)s", "%(count)s selected values of %(queue)s", count)
            return words % {"count": f"{count:,}", "queue": queue}
        bounds = parameters.get("filter") or {}
        if window := window_words(bounds.get("from_ms"), bounds.get("to_ms")):
            return gettext("all of %(queue)s due %(window)s") % {"queue": queue, "window": window}
        return queue

    def checked(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return the queue and which of its values."""
        return {"queue": checked_queue(parameters), **checked_values(parameters)}

    def preview(self, parameters: Mapping[str, Any]) -> ValuesPreview:
        """Count them, with some of them as examples."""
        found = in_redis(lambda: list(islice(self.find(parameters), LIMIT + 1)))
        if len(found) > LIMIT:
            raise TooMany(LIMIT)
        count = len(parameters["handles"]) if "handles" in parameters else len(found)
        moments = [int(each.due_ms) for each in found if math.isfinite(each.due_ms)]
        return ValuesPreview(
            at_ms=in_redis(lambda: queue_named(parameters["queue"]).server.now_ms()[0]),
            count=count,
            examples=[self._label(parameters, each) for each in found[:EXAMPLES]],
            first_due_ms=min(moments, default=None),
            last_due_ms=max(moments, default=None),
        )

    def targets(self, parameters: Mapping[str, Any], preview: ValuesPreview) -> Sequence[Target]:
        """Return what matches now; a chosen one stays, whatever became of it."""
        found = in_redis(lambda: list(islice(self.find(parameters), LIMIT + 1)))
        if len(found) > LIMIT:
            raise TooMany(LIMIT)
        by_handle = {str(each.handle): each for each in found}
        chosen = parameters.get("handles") or list(by_handle)
        return [
            Target({"handle": handle}, self._label(parameters, by_handle[handle]) if handle in by_handle else {})
            for handle in chosen
        ]

    def act(self, parameters: Mapping[str, Any], reason: str, targets: Sequence[Mapping[str, Any]]) -> list[ItemResult]:
        """Run one script for each value; one that fails does not stop the others, an absent server does."""
        queue = self.queue(parameters)
        return [self._one(queue, parameters, str(target["handle"])) for target in targets]

    def find(self, parameters: Mapping[str, Any]) -> Iterator[Waiting]:
        """Yield the values that are meant, in the order in which they are due."""
        if "handles" in parameters:
            yield from values_named(parameters["queue"], parameters["handles"], aside=self.aside)
            return
        bounds = parameters["filter"]
        yield from values_between(parameters["queue"], bounds["from_ms"], bounds["to_ms"], aside=self.aside)

    @abstractmethod
    def do(self, queue: DelayedQueue, parameters: Mapping[str, Any], handle: Handle) -> str:
        """Do it to one value and return the outcome; raises RedissonError."""

    def _one(self, queue: DelayedQueue, parameters: Mapping[str, Any], text: str) -> ItemResult:
        try:
            return ItemResult(self.do(queue, parameters, Handle.parse(text)))
        except RedissonError as error:
            return ItemResult("refused", {"error": str(error)})
        except (RedisError, OSError) as error:
            raise NotPossible(f"The Redis server did not answer: {error}") from error

    def _label(self, parameters: Mapping[str, Any], waiting: Waiting) -> dict[str, Any]:
        row = value_row(waiting)
        return {"topic": parameters["queue"], "name": row.text[:200], "due_ms": row.due_ms}


@register
class RemoveValues(SteerValues):
    """The operation that removes values: they are never delivered."""

    name = "redisson.remove"
    destroys = True
    title, verb = _("Remove pending values"), ngettext_lazy("Remove value", "Remove values", "count")
    effect = _("They are never delivered. This cannot be undone.")
    outcomes = {"removed": Outcome(_("removed"))}
    is_final = True

    def do(self, queue: DelayedQueue, parameters: Mapping[str, Any], handle: Handle) -> str:
        """Remove it from list and set."""
        return "removed" if members.remove_member(queue, handle) else "gone"


@register
class DeliverValuesNow(SteerValues):
    """The operation that moves values to the end of the plain list at once."""

    name = "redisson.deliver_now"
    title, verb = _("Deliver values now"), ngettext_lazy("Deliver value now", "Deliver values now", "count")
    effect = _("They go to the end of the destination queue immediately. This cannot be undone.")
    outcomes = {"delivered_now": Outcome(_("delivered now"))}
    is_final = True

    def do(self, queue: DelayedQueue, parameters: Mapping[str, Any], handle: Handle) -> str:
        """Move it to the plain list."""
        return "delivered_now" if members.deliver_now(queue, handle) else "gone"


@register
class MoveValues(SteerValues):
    """The operation that moves values to another queue, due as before."""

    name = "redisson.move"
    title, verb = _("Move values to another queue"), ngettext_lazy("Move value", "Move values", "count")
    effect = _("They wait in another queue with the same due times, in its envelope.")
    outcomes = {"moved": Outcome(_("moved"))}
    asked = "to"

    def checked(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values and the other queue, which has to be one that may be changed."""
        to = checked_queue({"queue": parameters.get("to")}, "to")
        if to == parameters.get("queue"):
            raise InvalidParameter("to", gettext("They are in that queue already."))
        return {**super().checked(parameters), "to": to}

    def do(self, queue: DelayedQueue, parameters: Mapping[str, Any], handle: Handle) -> str:
        """Move it into the other queue, in that one's packing."""
        other = queue_named(parameters["to"], to_write=True)
        return "moved" if members.move_to(queue, handle, other) else "gone"


@register
class RescheduleValues(SteerValues):
    """The operation that gives values a new moment: `due_ms` for all, or each `shift_ms` later (negative: earlier)."""

    name = "redisson.reschedule"
    title, verb = _("Reschedule values"), ngettext_lazy("Reschedule value", "Reschedule values", "count")
    effect = _("The values stay the same and are due at another time.")
    outcomes = {"rescheduled": Outcome(_("rescheduled"))}
    needs_moment = True

    def checked(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values, and a moment or a span."""
        given = checked_move(parameters)
        return {**super().checked(parameters), **given}

    def preview(self, parameters: Mapping[str, Any]) -> ValuesPreview:
        """Count them; as long as the moment is not known, there is no number to confirm."""
        shown = super().preview(parameters)
        if "due_ms" in parameters or "shift_ms" in parameters:
            return shown
        return replace(shown, count=None, met_count=shown.count)

    def do(self, queue: DelayedQueue, parameters: Mapping[str, Any], handle: Handle) -> str:
        """Give the member another score."""
        due_ms = parameters.get("due_ms")
        if due_ms is None:
            due_ms = max(1, int(float(handle.score)) + parameters["shift_ms"])
        return "rescheduled" if members.reschedule(queue, handle, due_ms) else "gone"


@register
class SetAside(SteerValues):
    """The operation that puts poison aside, out of the way of Java's transfer; without a choice, all of it.

    With a `packing`, all members that have it: they are poison for clients that write the other one.
    """

    name = "redisson.set_aside"
    title, verb = _("Quarantine poison values"), ngettext_lazy("Quarantine value", "Quarantine values", "count")
    effect = _("They are kept aside from transfers and can be restored.")
    outcomes = {"set_aside": Outcome(_("quarantined"))}

    def checked(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return the queue, and which of its values or which packing."""
        packing = parameters.get("packing") or None
        if packing is not None and packing not in set(Packing):
            raise InvalidParameter("packing", f"The envelope must be one of {', '.join(Packing)}.")
        found = super().checked(parameters)
        return found if packing is None or "handles" in found else {**found, "packing": packing}

    def find(self, parameters: Mapping[str, Any]) -> Iterator[Waiting]:
        """Yield the chosen ones, every member in that packing, or every one that has neither."""
        queue = queue_named(parameters["queue"])
        if "handles" in parameters:
            yield from super().find(parameters)
        elif "packing" in parameters:
            yield from find_packed(queue, Packing(parameters["packing"]))
        else:
            yield from find_poison(queue)

    def do(self, queue: DelayedQueue, parameters: Mapping[str, Any], handle: Handle) -> str:
        """Move it into the set of what is kept aside."""
        return "set_aside" if members.set_aside(queue, handle) else "gone"


@register
class PutBack(SteerValues):
    """The operation that makes values wait again as they were before they were set aside."""

    name = "redisson.put_back"
    title, verb = _("Restore quarantined values"), ngettext_lazy("Restore value", "Restore values", "count")
    effect = _("They wait again as before.")
    outcomes = {"put_back": Outcome(_("restored"))}
    aside = True

    def do(self, queue: DelayedQueue, parameters: Mapping[str, Any], handle: Handle) -> str:
        """Put it back into list and set."""
        return "put_back" if members.put_back(queue, handle) else "gone"


@register
class ClearQueue(QueueKind):
    """The operation that empties a queue: nothing waits any more; what is due already stays in the plain list."""

    name = "redisson.clear"
    destroys = True
    title, verb = _("Clear a delayed queue"), _("Clear queue")
    effect = _("All pending values are removed; due values stay. This cannot be undone.")
    outcomes = {"cleared": Outcome(_("cleared"))}
    is_final = True

    def preview(self, parameters: Mapping[str, Any]) -> ValuesPreview:
        """Count how many would be gone."""
        queue = queue_named(parameters["queue"])
        found = in_redis(lambda: survey(queue))
        first = in_redis(lambda: page(queue, limit=EXAMPLES))
        labels = [value_row(each) for each in first.items]
        return ValuesPreview(
            at_ms=found.now_ms,
            count=max(found.list_size, found.set_size),
            examples=[{"topic": queue.name, "name": row.text[:200], "due_ms": row.due_ms} for row in labels],
            first_due_ms=labels[0].due_ms if labels else None,
        )

    def targets(self, parameters: Mapping[str, Any], preview: ValuesPreview) -> Sequence[Target]:
        """Return the queue as the one target."""
        return [Target({"queue": parameters["queue"]}, {"topic": parameters["queue"]})]

    def act(self, parameters: Mapping[str, Any], reason: str, targets: Sequence[Mapping[str, Any]]) -> list[ItemResult]:
        """Clear it with one command."""
        return [ItemResult("cleared" if in_redis(self.queue(parameters).clear) else "gone")]


def checked_queue(parameters: Mapping[str, Any], field: str = "queue") -> str:
    """Return the name of a queue that may be changed here; raises InvalidParameter, NotPossible."""
    name = parameters.get("queue")
    if not isinstance(name, str) or not 0 < len(name) <= _NAME_LENGTH:
        raise InvalidParameter(field, gettext("A queue name has 1 to %(most)s characters.") % {"most": _NAME_LENGTH})
    reason = why_locked(name)
    if reason == "read-only":
        raise NotPossible("Delayed queues are read-only here (ESCAPEMENT_REDISSON_READ_ONLY).")
    if reason:
        raise NotPossible(f"Queue {name!r} is not among those that may be changed (ESCAPEMENT_REDISSON_QUEUES).")
    return name


def checked_values(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return which values are meant, in one form; raises InvalidParameter."""
    if "handles" in parameters:
        handles = parameters["handles"]
        if not isinstance(handles, list) or not 0 < len(handles) <= MOST_HANDLES:
            raise InvalidParameter("handles", f"Name 1 to {MOST_HANDLES:,} values; for more, use a range.")
        for text in handles:
            try:
                Handle.parse(text)
            except (ValueError, AttributeError):
                raise InvalidParameter("handles", "This is not a handle of a pending value.") from None
        return {"handles": list(dict.fromkeys(handles))}
    given = parameters.get("filter")
    if not isinstance(given, Mapping):
        raise InvalidParameter("filter", "Name values (handles), or give a range.")
    bounds = {name: given.get(name) for name in ("from_ms", "to_ms")}
    for name, bound in bounds.items():
        if bound is not None and (not isinstance(bound, int) or isinstance(bound, bool) or not 0 <= bound < 2**53):
            raise InvalidParameter(name, f"{name} must be a time in epoch milliseconds.")
    if not any(bound is not None for bound in bounds.values()) and not parameters.get("is_all"):
        raise InvalidParameter("filter", "Without a range all values match: use all.")
    return {"filter": bounds, "is_all": bool(parameters.get("is_all"))}


def in_redis(question: Any) -> Any:
    """Return the answer of Redis; raises NotPossible where there is none."""
    try:
        return question()
    except (RedissonError, RedisError, OSError) as error:
        raise NotPossible(f"The Redis server returned an error: {error}") from error


def values_between(name: str, from_ms: int | None, to_ms: int | None, *, aside: bool) -> Iterator[Waiting]:
    """Yield the values due from one moment to before another, in order."""
    queue, cursor = queue_named(name), None
    low, high = (-math.inf if from_ms is None else from_ms), (math.inf if to_ms is None else to_ms - 1)
    while True:
        found = page(queue, from_ms=low, to_ms=high, limit=1_000, cursor=cursor, shown_bytes=200, aside=aside)
        yield from found.items
        cursor = found.cursor
        if cursor is None or not found.items:
            return


def values_named(name: str, handles: Sequence[str], *, aside: bool) -> Iterator[Waiting]:
    """Yield the chosen ones that still wait: they are looked for at their own moments."""
    wanted = set(handles)
    scores = sorted({float(text.partition("~")[0]) for text in handles})
    for score in scores:
        at_ms = int(score) if math.isfinite(score) else None
        queue = queue_named(name)
        found = page(
            queue,
            from_ms=score if at_ms is None else at_ms,
            to_ms=score if at_ms is None else at_ms + 1,
            limit=1_000,
            shown_bytes=200,
            aside=aside,
        )
        yield from (each for each in found.items if str(each.handle) in wanted)
