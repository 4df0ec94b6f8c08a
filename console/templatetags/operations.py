"""Operations, and what became of each thing that they touched, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import template
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from console.operations.models import AuditEntry, Operation, OperationItem
from console.templatetags.alerts import alert_words
from console.templatetags.spans import span

register = template.Library()


@register.filter
def kind_title(name: str) -> str:
    """The title of a kind's page."""
    words = {
        "messages.unmask": _("See what is masked"),
        "timers.cancel": _("Cancel timers"),
        "timers.reschedule": _("Move timers to another moment"),
        "timers.deliver_now": _("Deliver timers now"),
        "timers.take_back": _("Take timers back"),
        "timers.pause": _("Pause all timers"),
        "timers.resume": _("Resume all timers"),
        "redisson.remove": _("Remove waiting values"),
        "redisson.deliver_now": _("Deliver values now"),
        "redisson.reschedule": _("Move values to another moment"),
        "redisson.move": _("Move values to another queue"),
        "redisson.set_aside": _("Set poison aside"),
        "redisson.put_back": _("Put back what was set aside"),
        "redisson.clear": _("Clear a delayed queue"),
        "redisson.offer": _("Offer a value"),
        "redisson.repair": _("Repair a delayed queue"),
        "redisson.make_reliable": _("Send due values to a topic"),
        "redisson.import": _("Import a delayed queue into timers"),
        "redisson.make_plain": _("Back to the plain list"),
        "transactions.commit": _("Commit transactions"),
        "transactions.rollback": _("Roll transactions back"),
        "transactions.check": _("Have producers asked now"),
        "transactions.resume": _("Resume checking"),
        "messages.resend": _("Send a message again"),
        "dead_letters.send_back": _("Send dead letters back to their group"),
        "dead_letters.send_as_new": _("Send dead letters as new messages"),
        "groups.reset_offsets": _("Move a group"),
        "topics.change": _("Change a topic"),
        "topics.create": _("Make a topic"),
        "topics.delete": _("Delete a topic"),
        "groups.change": _("Change a group"),
        "groups.create": _("Make a group"),
        "groups.delete": _("Delete a group"),
        "alerts.create": _("Make an alert rule"),
        "alerts.change": _("Change an alert rule"),
        "alerts.delete": _("Delete an alert rule"),
        "alerts.silence": _("Silence alerts"),
        "alerts.end_silence": _("End a silence"),
    }
    return words.get(name, name)


@register.filter
def kind_verb(name: str) -> str:
    """The word on its button."""
    words = {
        "timers.cancel": _("Cancel them"),
        "timers.reschedule": _("Move them"),
        "timers.deliver_now": _("Deliver them now"),
        "timers.take_back": _("Take them back"),
        "timers.pause": _("Pause"),
        "timers.resume": _("Resume"),
        "redisson.remove": _("Remove them"),
        "redisson.deliver_now": _("Deliver them now"),
        "redisson.reschedule": _("Move them"),
        "redisson.move": _("Move them"),
        "redisson.set_aside": _("Set them aside"),
        "redisson.put_back": _("Put them back"),
        "redisson.clear": _("Clear it"),
        "redisson.offer": _("Offer it"),
        "redisson.repair": _("Repair it"),
        "redisson.make_reliable": _("Make it reliable"),
        "redisson.import": _("Import it"),
        "redisson.make_plain": _("Back to the plain list"),
        "transactions.commit": _("Commit them"),
        "transactions.rollback": _("Roll them back"),
        "transactions.check": _("Have them asked about"),
        "transactions.resume": _("Resume checking"),
        "messages.resend": _("Send it again"),
        "dead_letters.send_back": _("Send them back"),
        "dead_letters.send_as_new": _("Send them as new"),
        "groups.reset_offsets": _("Move it"),
        "topics.change": _("Change it"),
        "topics.create": _("Make it"),
        "topics.delete": _("Delete it"),
        "groups.change": _("Change it"),
        "groups.create": _("Make it"),
        "groups.delete": _("Delete it"),
        "alerts.create": _("Make it"),
        "alerts.change": _("Change it"),
        "alerts.delete": _("Delete it"),
        "alerts.silence": _("Silence"),
        "alerts.end_silence": _("End it"),
    }
    return words.get(name, name)


@register.filter
def kind_effect(name: str) -> str:
    """What it does and what it leaves."""
    words = {
        "timers.cancel": _("They are not delivered. This can be taken back while their moments are still ahead."),
        "timers.reschedule": _("They stay the same messages and fire at another moment, and can be moved back."),
        "timers.deliver_now": _("They fire at once. This cannot be taken back."),
        "timers.take_back": _(
            "What was cancelled waits again with the same content; what was moved has its former moment again."
        ),
        "timers.pause": _("New timers are taken; none fires until they are resumed."),
        "timers.resume": _("What is overdue fires at once, oldest first; then all goes on."),
        "redisson.remove": _("They are never delivered. This cannot be taken back."),
        "redisson.deliver_now": _("They go to the end of the plain list at once. This cannot be taken back."),
        "redisson.reschedule": _("They wait as they are and are due at another moment."),
        "redisson.move": _("They wait in another queue, due as before, in its packing."),
        "redisson.set_aside": _("They are kept out of the way of a transfer and can be put back."),
        "redisson.put_back": _("They wait again as they did."),
        "redisson.clear": _("Nothing waits in it any more; what is due already stays. This cannot be taken back."),
        "redisson.offer": _("One value more waits, readable for Java."),
        "redisson.repair": _("What is in the list only is due now, what is in the set only is listed again."),
        "redisson.make_reliable": _("Due values go to a topic instead of the plain list: ack, retry, dead letters."),
        "redisson.import": _("Every waiting value becomes a timer of a topic, and what Java offers meanwhile too."),
        "redisson.make_plain": _("Due values go to the plain list again; what was taken already is still sent."),
        "transactions.commit": _(
            "Their messages go into their topics, whatever their databases say. This cannot be taken back."
        ),
        "transactions.rollback": _("Nobody ever sees their messages. This cannot be taken back."),
        "transactions.check": _("A connected producer of each group is asked at once; a check that is sent counts."),
        "transactions.resume": _(
            "Parked ones are undecided again and asked about; the checks of open ones begin anew."
        ),
    }
    words |= {
        "messages.resend": _("Who gets it gets it once more. This cannot be taken back."),
        "dead_letters.send_back": _(
            "Their group alone gets each of them once more; what fails again is a dead letter again."
        ),
        "dead_letters.send_as_new": _("Every group that reads their topics gets a copy. This cannot be taken back."),
        "groups.reset_offsets": _("It goes on elsewhere in its queues, at once, and can be put back where it was."),
        "topics.change": _("Clients learn it within half a minute. It can be put back while nobody else changes it."),
        "topics.create": _("It is there for producers and consumers at once."),
        "topics.delete": _("Its messages can be read no more. This cannot be taken back."),
        "groups.change": _("The broker does as it says at once. It can be put back while nobody else changes it."),
        "groups.create": _("Its consumers may come."),
        "groups.delete": _("How far it has read is forgotten. This cannot be taken back."),
        "alerts.create": _("It is looked at from now on, and tells whom it names."),
        "alerts.change": _("It counts from the next look. It can be put back while nobody else changes it."),
        "alerts.delete": _(
            "What it raised goes with it. It can be made again, without that; switching it off keeps it."
        ),
        "alerts.silence": _("Alerts are raised and kept all the same; nobody is told."),
        "alerts.end_silence": _("What is raised from now on is told again."),
    }
    return words.get(name, "")


def outcome_words(code: str) -> str:
    """What became of one."""
    words = {
        "": _("not touched"),
        "cancelled": _("cancelled"),
        "rescheduled": _("moved"),
        "delivered_now": _("delivered now"),
        "already_delivered": _("already delivered"),
        "already_cancelled": _("already cancelled"),
        "taken_back": _("waits again"),
        "parked_again": _("waits again, beside a recall that was only noted"),
        "moved_back": _("at its former moment again"),
        "too_late": _("its moment is past"),
        "key_taken": _("another message has its schedule key"),
        "changed_since": _("changed since"),
        "already_taken_back": _("taken back before"),
        "unknown": _("unknown"),
        "refused": _("refused"),
        "recall_noted": _("recall noted"),
        "paused": _("paused"),
        "resumed": _("resumed"),
        "removed": _("removed"),
        "gone": _("not there any more"),
        "moved": _("moved"),
        "set_aside": _("set aside"),
        "put_back": _("put back"),
        "cleared": _("cleared"),
        "offered": _("offered"),
        "repaired": _("repaired"),
        "made_reliable": _("goes to the topic"),
        "import_begun": _("import begun"),
        "made_plain": _("goes to the plain list"),
        "committed": _("committed"),
        "rolled_back": _("rolled back"),
        "already_committed": _("committed before"),
        "already_rolled_back": _("rolled back before"),
        "already_decided": _("decided before"),
        "check_planned": _("to be asked about"),
        "checks_resumed": _("checks resumed"),
        "sent_back": _("sent back to its group"),
        "sent_as_new": _("sent as a new message"),
        "offset_moved": _("goes on there"),
        "made": _("made"),
        "changed": _("changed"),
        "deleted": _("deleted"),
        "silenced": _("silenced"),
        "silence_ended": _("told again"),
    }
    return words.get(code, code)


register.filter(outcome_words)


def outcome_mark(code: str) -> str:
    """The shape beside it."""
    if code in ("refused", "unknown", "too_late", "key_taken", "changed_since"):
        return "look"
    return "idle" if code in ("", "gone") or code.startswith("already_") else "ok"


register.filter(outcome_mark)


@register.filter
def error_words(text: str) -> str:
    """The broker's own words, or ours for a code of ours."""
    return _("this broker does not know the request") if text == "not-supported" else text


@register.simple_tag
def selection_words(row: Operation) -> str:
    """Which ones were chosen."""
    if row.kind.startswith("alerts."):
        return alert_words(row.kind, row.parameters)
    if "queue" in row.parameters:
        return _values_words(row.parameters)
    if row.kind.startswith("transactions."):
        return _halves_words(row.parameters)
    if row.kind == "groups.reset_offsets":
        return _("%(group)s in %(topic)s") % {name: row.parameters[name] for name in ("group", "topic")}
    if "name" in row.parameters:
        return str(row.parameters["name"])
    if row.kind == "messages.resend":
        to_group = _("%(topic)s, to the group %(group)s alone") if row.parameters["group"] else "%(topic)s"
        return to_group % {name: row.parameters[name] for name in ("topic", "group")}
    if row.kind.startswith("dead_letters."):
        return _letters_words(row.parameters)
    if "operation" in row.parameters:
        return _("what an operation did: %(title)s") % {"title": kind_title(row.parameters["of"])}
    if "targets" in row.parameters:
        count = len(row.parameters["targets"])
        return ngettext("%(count)s chosen timer", "%(count)s chosen timers", count) % {"count": f"{count:,}"}
    if "filter" not in row.parameters:
        return _("all timers of the broker")
    wanted: dict[str, Any] = row.parameters["filter"]
    if not any(wanted.values()):
        return _("every timer that waits")
    parts = [f"{name} {wanted[name]}" for name in ("topic", "key") if wanted[name]]
    return _("all that match: %(filter)s") % {"filter": ", ".join(parts) or _("a range of time")}


def _halves_words(parameters: dict[str, Any]) -> str:
    """Which transactions."""
    if "targets" in parameters:
        count = len(parameters["targets"])
        words = ngettext("%(count)s chosen transaction", "%(count)s chosen transactions", count)
        return words % {"count": f"{count:,}"}
    wanted: dict[str, Any] = parameters["filter"]
    parts = [f"{name} {wanted[name]}" for name in ("group", "topic") if wanted[name]]
    if wanted["before_ms"] is not None:
        parts.append(_("a range of time"))
    if parts:
        return _("all that match: %(filter)s") % {"filter": ", ".join(parts)}
    return _("every parked transaction") if wanted["state"] == "parked" else _("every undecided transaction")


def _letters_words(parameters: dict[str, Any]) -> str:
    """Which dead letters."""
    group: str = parameters["group"]
    if "targets" in parameters:
        count = len(parameters["targets"])
        words = ngettext(
            "%(count)s chosen dead letter of %(group)s", "%(count)s chosen dead letters of %(group)s", count
        )
        return words % {"count": f"{count:,}", "group": group}
    wanted: dict[str, Any] = parameters["filter"]
    parts = [wanted[name] for name in ("topic", "key") if wanted[name]]
    if wanted["from_ms"] is not None or wanted["to_ms"] is not None:
        parts.append(_("a range of time"))
    if parts:
        return _("all of %(group)s that match: %(filter)s") % {"group": group, "filter": ", ".join(parts)}
    return _("every dead letter of %(group)s that was not sent again yet") % {"group": group}


def _values_words(parameters: dict[str, Any]) -> str:
    """Which values of a delayed queue."""
    queue: str = parameters["queue"]
    if "handles" in parameters:
        count = len(parameters["handles"])
        words = ngettext("%(count)s chosen value of %(queue)s", "%(count)s chosen values of %(queue)s", count)
        return words % {"count": f"{count:,}", "queue": queue}
    if any((parameters.get("filter") or {}).values()):
        return _("a range of time in %(queue)s") % {"queue": queue}
    return queue


@register.simple_tag
def shift_words(shift_ms: int) -> str:
    """A span with its sign."""
    return f"{'+' if shift_ms >= 0 else '-'}{span(abs(shift_ms))}"


@register.simple_tag
def moved_ms(parameters: Mapping[str, Any], due_ms: int | None) -> int | None:
    """When one is due that is due at `due_ms` and is moved: to one moment, or by a span; None if it is not moved."""
    if parameters.get("due_ms") is not None:
        return int(parameters["due_ms"])
    shift_ms = parameters.get("shift_ms")
    return None if shift_ms is None or due_ms is None else due_ms + int(shift_ms)


@register.simple_tag
def what_took_back(back: Mapping[int, OperationItem], number: int) -> OperationItem | None:
    """The item of another operation that took back the one with this number."""
    return back.get(number)


@register.simple_tag
def audit_words(entry: AuditEntry) -> str:
    """What came of it."""
    result = entry.result
    if entry.what == AuditEntry.What.FINISHED:
        counts = ", ".join(f"{outcome_words(code)} {count:,}" for code, count in result.get("outcomes", {}).items())
        state = Operation.State(result["state"]).label if result.get("state") in Operation.State.values else ""
        return " · ".join(filter(None, [str(state), counts, result.get("error", "")]))
    if entry.kind == "messages.unmask":
        return " · ".join(filter(None, [result.get("topic", ""), result.get("message", "")]))
    if entry.what == AuditEntry.What.CONFIRMED:
        return _("%(count)s previewed") % {"count": f"{result.get('count') or 0:,}"}
    if result.get("total") is not None:
        return _("%(done)s of %(total)s done") % {"done": f"{result['done']:,}", "total": f"{result['total']:,}"}
    return ""
