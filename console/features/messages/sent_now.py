"""What has become of a message that was sent from here: asked of its broker when somebody looks.

Each answer leads to the page of what there is now: the timer, the message that it became, or the half.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from broker.client import TimerTarget
from broker.rocketmq.codes import Request
from console.features.messages import read
from console.features.messages.as_timer import life_at
from console.features.messages.shapes import MessagePage, ReaderState
from console.operations.kind import ItemNow
from console.site.broker import address_at, ask, at, if_several


def message_now(result: Mapping[str, Any]) -> ItemNow:
    """Return where the stored message is: who has received it, or on which lane it waits."""
    broker = if_several(result["broker"])
    address = address_at(broker, "message", result["message_id"])
    with at(broker):
        return _of_page(read.message(result["message_id"]), address, result.get("due_ms"))


def timer_now(result: Mapping[str, Any]) -> ItemNow:
    """Return where the timer is: what waits, was moved or cancelled has its own page, what fired is a message."""
    broker = if_several(result["broker"])
    with at(broker):
        # of one that was moved the broker tells the record that waits now
        life, _evidence = ask(
            lambda admin: life_at(admin, TimerTarget(position=result["position"])),
            source=result["broker"], requests=(Request.GET_TIMER,),
        )  # fmt: skip
        timer = life.timer if life is not None else None
        address = address_at(broker, "timer", timer.position if timer is not None else result["position"])
        due_ms = timer.due_ms if timer is not None else result.get("due_ms")
        if life is not None and life.state == "released":
            topic, unique_key = result["topic"], result["unique_key"]
            address = address_at(broker, "message", unique_key, topic=topic)
            return _of_page(read.message(unique_key, topic), address, due_ms)
        words = {"pending": _("pending"), "cancelled": _("cancelled")}
        state = life.state if life is not None else ""
        return ItemNow(due_ms, _("Open timer"), address, words.get(state, ""), is_final=state not in ("", "pending"))


def half_now(result: Mapping[str, Any]) -> ItemNow:
    """Return whether the half was decided, and how."""
    position, broker = result["position"], if_several(result["broker"])
    with at(broker):
        found, _evidence = ask(
            lambda admin: admin.transaction(position=position).state,
            source=result["broker"], requests=(Request.GET_TRANSACTION,),
        )  # fmt: skip
    words = {
        "open": _("undecided"), "due": _("undecided"), "parked": _("parked"), "committed": _("committed"),
        "rolled back": _("rolled back"),
    }  # fmt: skip
    address = address_at(broker, "transaction", position)
    is_final = found in ("committed", "rolled back")
    return ItemNow(None, _("Open half message"), address, words.get(found or "", ""), is_final=is_final)


def _of_page(page: MessagePage, address: str, due_ms: int | None) -> ItemNow:
    if page.pending:
        return ItemNow(page.due_ms, _("Open message"), address, _("pending"), is_final=False)
    if not page.found:
        return ItemNow(due_ms, _("Open message"), address, "")
    received = sum(each.state is ReaderState.HAD for each in page.readers)
    count = len(page.readers)
    said = ngettext(
        "received by %(received)s of %(count)s group", "received by %(received)s of %(count)s groups", count
    )
    state = said % {"received": received, "count": count} if count else _("stored; no group that you see subscribes")
    return ItemNow(page.due_ms or due_ms, _("Open message"), address, state, is_final=received == count)
