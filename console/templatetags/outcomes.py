"""What became of one thing that an operation touched: words and shape for a code."""

from __future__ import annotations

from django.utils.translation import gettext as _


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


def outcome_mark(code: str) -> str:
    """The shape beside it."""
    if code in ("refused", "unknown", "too_late", "key_taken", "changed_since"):
        return "look"
    return "idle" if code in ("", "gone") or code.startswith("already_") else "ok"
