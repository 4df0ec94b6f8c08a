"""What people do to values of a delayed queue of Redisson, chosen ones or all that match, and clearing it."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, ClassVar

from redis.exceptions import RedisError

from broker.redisson import DelayedQueue, Packing, RedissonError
from broker.redisson import steer as members
from broker.redisson.pages import find_packed, find_poison, page
from broker.redisson.survey import survey
from broker.redisson.values import Handle, Waiting
from console.features.redisson.read import value_row
from console.features.redisson.selection import checked_queue, checked_values, in_redis, values_between, values_named
from console.features.redisson.server import queue_named
from console.operations.actor import STEER_DELAYED_QUEUES
from console.operations.errors import InvalidParameter, NotPossible, TooMany
from console.operations.kind import LIMIT, ItemResult, Kind, Target
from console.operations.preview import Preview
from console.operations.typed_moments import checked_move

EXAMPLES = 5


class QueueKind(Kind):
    """What all of them have in common: a queue that may be changed here."""

    permission = STEER_DELAYED_QUEUES
    page = "delayed_queues"

    def checked(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """The queue alone."""
        return {"queue": checked_queue(parameters)}

    def queue(self, parameters: Mapping[str, Any]) -> DelayedQueue:
        """The queue, to be written."""
        return queue_named(parameters["queue"], to_write=True)


class SteerValues(QueueKind):
    """The same done to one value after another."""

    #: which values an empty choice means
    aside: ClassVar[bool] = False

    def checked(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """The queue and which of its values."""
        return {"queue": checked_queue(parameters), **checked_values(parameters)}

    def preview(self, parameters: Mapping[str, Any]) -> Preview:
        """How many, and some of them."""
        found = in_redis(lambda: list(islice(self.find(parameters), LIMIT + 1)))
        if len(found) > LIMIT:
            raise TooMany(LIMIT)
        count = len(parameters["handles"]) if "handles" in parameters else len(found)
        moments = [int(each.due_ms) for each in found if math.isfinite(each.due_ms)]
        return Preview(
            at_ms=in_redis(lambda: queue_named(parameters["queue"]).server.now_ms()[0]),
            count=count,
            examples=[self._label(parameters, each) for each in found[:EXAMPLES]],
            first_due_ms=min(moments, default=None),
            last_due_ms=max(moments, default=None),
        )

    def targets(self, parameters: Mapping[str, Any], preview: Preview) -> Sequence[Target]:
        """What matches now; a chosen one stays, whatever became of it."""
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
        """One script a value; one that fails does not stop the others, an absent server does."""
        queue = self.queue(parameters)
        return [self._one(queue, parameters, str(target["handle"])) for target in targets]

    def find(self, parameters: Mapping[str, Any]) -> Iterator[Waiting]:
        """The values that are meant, in the order in which they are due."""
        if "handles" in parameters:
            yield from values_named(parameters["queue"], parameters["handles"], aside=self.aside)
            return
        bounds = parameters["filter"]
        yield from values_between(parameters["queue"], bounds["from_ms"], bounds["to_ms"], aside=self.aside)

    @abstractmethod
    def do(self, queue: DelayedQueue, parameters: Mapping[str, Any], handle: Handle) -> str:
        """Do it to one; the outcome."""

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


class RemoveValues(SteerValues):
    """They are never delivered."""

    name = "redisson.remove"
    is_final = True

    def do(self, queue: DelayedQueue, parameters: Mapping[str, Any], handle: Handle) -> str:
        """Out of list and set."""
        return "removed" if members.remove_member(queue, handle) else "gone"


class DeliverValuesNow(SteerValues):
    """They go to the end of the plain list at once."""

    name = "redisson.deliver_now"
    is_final = True

    def do(self, queue: DelayedQueue, parameters: Mapping[str, Any], handle: Handle) -> str:
        """To the target."""
        return "delivered_now" if members.deliver_now(queue, handle) else "gone"


class MoveValues(SteerValues):
    """They wait in another queue, due as before."""

    name = "redisson.move"

    def checked(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """The values and the other queue, which may be changed too."""
        to = checked_queue({"queue": parameters.get("to")}, "to")
        if to == parameters.get("queue"):
            raise InvalidParameter("to", "That is the queue in which they wait already.")
        return {**super().checked(parameters), "to": to}

    def do(self, queue: DelayedQueue, parameters: Mapping[str, Any], handle: Handle) -> str:
        """Into the other one, in its packing."""
        other = queue_named(parameters["to"], to_write=True)
        return "moved" if members.move_to(queue, handle, other) else "gone"


class RescheduleValues(SteerValues):
    """They are due at another moment: `due_ms` for all, or `shift_ms` later (earlier if negative) each."""

    name = "redisson.reschedule"
    needs_moment = True

    def checked(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """The values and one of the two."""
        given = checked_move(parameters)
        return {**super().checked(parameters), **given}

    def preview(self, parameters: Mapping[str, Any]) -> Preview:
        """As long as the moment is not known, the number of them is not asked to be confirmed."""
        shown = super().preview(parameters)
        if "due_ms" in parameters or "shift_ms" in parameters:
            return shown
        return Preview.of_row({**shown.as_row(), "count": None, "met_count": shown.count})

    def do(self, queue: DelayedQueue, parameters: Mapping[str, Any], handle: Handle) -> str:
        """The same member with another score."""
        due_ms = parameters.get("due_ms")
        if due_ms is None:
            due_ms = max(1, int(float(handle.score)) + parameters["shift_ms"])
        return "rescheduled" if members.reschedule(queue, handle, due_ms) else "gone"


class SetAside(SteerValues):
    """Poison goes out of the way of Java's transfer, into a set of ours; without a choice, all of it.

    With a `packing`, all members that have it: they are poison for clients that write the other one.
    """

    name = "redisson.set_aside"

    def checked(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """The queue, and which of its values or which packing."""
        packing = parameters.get("packing") or None
        if packing is not None and packing not in set(Packing):
            raise InvalidParameter("packing", f"A packing is one of {', '.join(Packing)}.")
        found = super().checked(parameters)
        return found if packing is None or "handles" in found else {**found, "packing": packing}

    def find(self, parameters: Mapping[str, Any]) -> Iterator[Waiting]:
        """The chosen ones, every member in that packing, or every one that has neither."""
        queue = queue_named(parameters["queue"])
        if "handles" in parameters:
            yield from super().find(parameters)
        elif "packing" in parameters:
            yield from find_packed(queue, Packing(parameters["packing"]))
        else:
            yield from find_poison(queue)

    def do(self, queue: DelayedQueue, parameters: Mapping[str, Any], handle: Handle) -> str:
        """Kept, not dropped."""
        return "set_aside" if members.set_aside(queue, handle) else "gone"


class PutBack(SteerValues):
    """What was set aside waits again as it was."""

    name = "redisson.put_back"
    aside = True

    def do(self, queue: DelayedQueue, parameters: Mapping[str, Any], handle: Handle) -> str:
        """Into list and set."""
        return "put_back" if members.put_back(queue, handle) else "gone"


class ClearQueue(QueueKind):
    """Nothing waits any more; what is due already stays in the plain list."""

    name = "redisson.clear"
    is_final = True

    def preview(self, parameters: Mapping[str, Any]) -> Preview:
        """How many would be gone."""
        queue = queue_named(parameters["queue"])
        found = in_redis(lambda: survey(queue))
        first = in_redis(lambda: page(queue, limit=EXAMPLES))
        labels = [value_row(each) for each in first.items]
        return Preview(
            at_ms=found.now_ms,
            count=max(found.list_size, found.set_size),
            examples=[{"topic": queue.name, "name": row.text[:200], "due_ms": row.due_ms} for row in labels],
            first_due_ms=labels[0].due_ms if labels else None,
        )

    def targets(self, parameters: Mapping[str, Any], preview: Preview) -> Sequence[Target]:
        """The queue."""
        return [Target({"queue": parameters["queue"]}, {"topic": parameters["queue"]})]

    def act(self, parameters: Mapping[str, Any], reason: str, targets: Sequence[Mapping[str, Any]]) -> list[ItemResult]:
        """One command."""
        return [ItemResult("cleared" if in_redis(self.queue(parameters).clear) else "gone")]
