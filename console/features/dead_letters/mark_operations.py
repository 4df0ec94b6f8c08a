"""What became of dead letters: handled (and not handled again), or hidden for good.

They are chosen as those that are sent again are, and besides by the operation that marked them:

    {"group": "billing", "operation": "3f8b5b1e-..."}

RocketMQ's log is written at its end only: no broker can delete one record, which leaves when its segment does. So a
letter is hidden from what the console and its REST list, and nothing is called deleted that is still there.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from django.http import QueryDict
from django.utils.translation import gettext, ngettext_lazy
from django.utils.translation import gettext_lazy as _

from broker.client import ClientError
from broker.mirror.models import Queue
from broker.rocketmq.topics import DLQ_PREFIX
from console.features.dead_letters.models import LetterMark
from console.features.dead_letters.operations import OfLetters, message_at
from console.features.dead_letters.pages import letter_of, one_name
from console.operations.copies import SentAgainPreview
from console.operations.errors import InvalidParameter, NotPossible
from console.operations.kind import ItemResult, Outcome, Target, Undo
from console.operations.models import Operation
from console.operations.registry import register
from console.operations.selection import EXAMPLES, topics_of
from console.site import broker as site_broker
from console.site.broker import at
from console.site.clock import now_ms
from console.site.mirrored import cluster

State = LetterMark.State


class MarkLetters(OfLetters):
    """An operation that changes what became of letters, and sends nothing."""

    is_repeatable = True
    with_resent = True
    #: the state afterwards; "": none
    state: ClassVar[str]
    #: the outcome of one that it changed
    done: ClassVar[str]

    def act(self, parameters: Mapping[str, Any], reason: str, targets: Sequence[Mapping[str, Any]]) -> list[ItemResult]:
        """Mark them in nobody's name."""
        return self.act_as("", parameters, reason, targets)

    def act_as(
        self, who: str, parameters: Mapping[str, Any], reason: str, targets: Sequence[Mapping[str, Any]]
    ) -> list[ItemResult]:
        """Mark one after the other; each can be marked as long as its record is there."""
        group, here = parameters["group"], cluster()
        self._forget_the_gone(group, here.names)
        results = []
        for target in targets:
            broker = target.get("broker") or one_name(here)
            place = {"broker": broker, "group": group, "queue_id": target["queueId"], "offset": target["offset"]}
            with at(target.get("broker", "")):
                results.append(self._act_at(place, who, reason))
        return results

    def _act_at(self, place: Mapping[str, Any], who: str, reason: str) -> ItemResult:
        try:
            message = message_at(site_broker.admin(), place["group"], place["queue_id"], place["offset"])
        except ClientError as error:
            return ItemResult("unknown", {"error": str(error)})
        if message is None:
            return ItemResult("gone")
        position = letter_of(message).position
        known = LetterMark.objects.filter(**place, position=position).first()
        was = known.state if known is not None else ""
        if was == State.HIDDEN and self.state != State.HIDDEN:
            return ItemResult("already_hidden")
        if was == self.state:
            return ItemResult("already")
        if self.state:
            told = {"position": position, "state": self.state, "actor": who[:150], "reason": reason}
            LetterMark.objects.update_or_create(**place, defaults=told)
        elif known is not None:
            known.delete()
        return ItemResult(self.done)

    @staticmethod
    def _forget_the_gone(group: str, brokers: Sequence[str]) -> None:
        """Forget marks on records that are not in their queues any more: as many are kept as letters are held."""
        queues = Queue.objects.filter(topic=DLQ_PREFIX + group, broker__in=brokers)
        for broker, queue_id, low in queues.values_list("broker", "queue_id", "min_offset"):
            LetterMark.objects.filter(group=group, broker=broker, queue_id=queue_id, offset__lt=low).delete()


_LEFT = {
    "already": Outcome(_("already so"), "idle"),
    "already_hidden": Outcome(_("hidden; it stays hidden"), "idle"),
}


@register
class MarkHandled(MarkLetters):
    """The operation by which somebody says that nothing more has to be done about letters."""

    name = "dead_letters.mark_handled"
    title, verb = _("Mark dead letters as handled"), _("Mark as handled")
    effect = _("Nothing is sent. They leave the list and the findings; the filter “handled” still shows them.")
    outcomes = {"handled": Outcome(_("marked as handled")), **_LEFT}
    state, done = State.HANDLED, "handled"
    undone_by = "dead_letters.reopen"

    def undo_of(self, row: Operation) -> Undo | None:
        """Return that its marks can be taken away, if it made any."""
        return Undo(row.is_over and bool(row.results.get(self.done)), row.results.get(self.done, 0))

    def undo_parameters(self, row: Operation, given: QueryDict) -> dict[str, Any]:
        """Return which operation marked them."""
        if not row.results.get(self.done):
            raise NotPossible("It marked nothing.")
        return {"group": row.parameters["group"], "operation": str(row.pk)}


@register
class Reopen(MarkLetters):
    """The operation that takes the mark "handled" away: of chosen letters, or of all that an operation marked."""

    name = "dead_letters.reopen"
    title, verb = _("Mark dead letters as not handled"), _("Mark as not handled")
    effect = _("They return to the list and the findings.")
    outcomes = {"reopened": Outcome(_("not handled any more")), **_LEFT}
    state, done = "", "reopened"
    undone_by = ""

    def selection(self, parameters: Mapping[str, Any]) -> str:
        """Return what was chosen, or that it is all that another operation marked."""
        if "operation" in parameters:
            return gettext("all that the operation marked, of %(group)s") % {"group": parameters["group"]}
        return super().selection(parameters)

    def checked(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return the letters, or the operation that marked them; raises NotPossible while that runs."""
        if "operation" not in parameters:
            return super().checked(parameters)
        row = self._operation(parameters)
        if row is None or row.parameters.get("group") != parameters.get("group"):
            raise InvalidParameter("operation", "operation is the id of one that marked dead letters of this group.")
        if not row.is_over:
            raise NotPossible("It is still running.")
        return {"group": row.parameters["group"], "operation": str(row.pk)}

    def preview(self, parameters: Mapping[str, Any]) -> SentAgainPreview:
        """Count them, with examples and topics."""
        if "operation" not in parameters:
            return super().preview(parameters)
        rows = self._marked(parameters)
        return SentAgainPreview(
            at_ms=now_ms(),
            count=len(rows),
            examples=[dict(each.label) for each in rows[:EXAMPLES]],
            topics=topics_of([str(each.label.get("topic", "")) for each in rows]),
            met_count=0,
        )

    def topics_touched(self, parameters: Mapping[str, Any], preview: Mapping[str, Any]) -> frozenset[str] | None:
        """Return the topics of the letters, if all of them are known."""
        return None if "operation" in parameters else super().topics_touched(parameters, preview)

    def targets(self, parameters: Mapping[str, Any], preview: SentAgainPreview) -> Sequence[Target]:
        """Return those that the operation marked, or those that were chosen and are there."""
        return self._marked(parameters) if "operation" in parameters else super().targets(parameters, preview)

    def rest_call(self, parameters: Mapping[str, Any]) -> Any:
        """Return the call; none undoes a whole operation."""
        return None if "operation" in parameters else super().rest_call(parameters)

    @staticmethod
    def _operation(parameters: Mapping[str, Any]) -> Operation | None:
        try:
            number = uuid.UUID(str(parameters["operation"]))
        except ValueError:
            return None
        return Operation.objects.filter(pk=number, kind=MarkHandled.name).first()

    def _marked(self, parameters: Mapping[str, Any]) -> list[Target]:
        row = self._operation(parameters)
        items = row.items.filter(outcome=MarkHandled.done).order_by("number") if row is not None else ()
        return [Target(item.target, item.label) for item in items]


@register
class Hide(MarkLetters):
    """The operation that hides letters from every list for good."""

    name = "dead_letters.hide"
    title, verb = _("Hide dead letters for good"), ngettext_lazy("Hide dead letter", "Hide dead letters", "count")
    effect = _(
        "No list of dead letters shows them again. The broker cannot delete single messages: the records stay in "
        "its log until their retention ends."
    )
    outcomes = {"hidden": Outcome(_("hidden for good")), "already": _LEFT["already"]}
    state, done = State.HIDDEN, "hidden"
    is_final = True
    destroys = True
