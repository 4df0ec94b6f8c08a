"""An open page asks the broker again for what moved, and for nothing else."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from broker.client import Decision, TransactionProducer, prepare
from console.site.clock import now_ms
from console.ui import live
from console.ui.live import FRESH_S, page_of
from tests.console.stage import Stage
from tests.watching import Calls

HOUR_MS = 3_600_000


def test_a_page_is_made_again_when_its_mark_moved_or_it_is_old(stage: Stage) -> None:
    page, unmarked = page_of("timers"), page_of("overview")
    assert page is not None and unmarked is not None and unmarked.mark() is None
    with Calls(live._render) as made:
        first = live._made(page, "en", 1, None)
        same = live._made(page, "en", 2, replace(first, made_s=time.monotonic()))
        assert (same.parts, same.sequence, made.count) == (first.parts, 2, 1)
        stage.producer.send("orders", b"later", deliver_at_ms=now_ms() + HOUR_MS)
        moved = live._made(page, "en", 3, same)
        assert made.count == 2
        live._made(page, "en", 4, replace(moved, made_s=moved.made_s - FRESH_S))
        assert made.count == 3
        unknown = live._made(unmarked, "en", 5, None)
        live._made(unmarked, "en", 6, unknown)
        assert made.count == 5


def test_what_the_broker_gets_moves_the_mark_of_its_pages_alone(stage: Stage) -> None:
    def all_marks() -> dict[str, object]:
        stage.mirror.run_once()
        pages = {name: page_of(name) for name in ("tail/orders", "timers", "transactions", "overview")}
        return {name: page.mark() for name, page in pages.items() if page is not None}

    def moved_by_now() -> set[str]:
        nonlocal before
        before, last = all_marks(), before
        return {name for name in last if last[name] != before[name]}

    before = all_marks()
    assert before["overview"] is None
    assert None not in (before["tail/orders"], before["timers"], before["transactions"])
    assert moved_by_now() == set()
    stage.producer.send("orders", b"x")
    assert moved_by_now() == {"tail/orders"}
    stage.producer.send("orders", b"later", deliver_at_ms=now_ms() + HOUR_MS)
    assert moved_by_now() == {"timers"}
    with TransactionProducer("payers", stage.broker.namesrv, check=lambda _: Decision.UNKNOWN) as payers:
        payers.send_half("orders", prepare(b"half"))
        assert moved_by_now() == {"transactions"}


def test_a_page_rests_longer_the_more_pages_are_open() -> None:
    pages = [replace(page, argument=str(number)) for number in range(50) if (page := page_of("topic/x")) is not None]
    fragments = live.Fragments()
    now_s = time.monotonic()
    for page in pages[:2]:
        fragments._kept[page, "en"] = live._Kept(1, now_s, 0.1, {}, None)
    alone_s = fragments.due_s(pages[0], "en") - now_s
    assert fragments.due_s(pages[9], "en") == 0
    for page in pages:
        fragments._kept[page, "en"] = live._Kept(1, now_s, 0.1, {}, None)
    among_s = [fragments.due_s(page, "en") - now_s for page in pages]
    assert 0 < alone_s < among_s[0]
    assert sum(0.1 / rest_s for rest_s in among_s) <= live.LIVE_SHARE * 1.001


def test_a_page_whose_mark_stands_in_the_mirror_is_looked_at_more_often() -> None:
    fragments, now_s = live.Fragments(), time.monotonic()
    rests_s = {}
    for name in ("tail/orders", "timers"):
        page = page_of(name)
        assert page is not None
        made = live._Kept(1, now_s - 1, 0.001, {}, 1, looked_s=now_s, look_took_s=0.0001)
        fragments._kept[page, "en"] = made
        rests_s[name] = fragments.due_s(page, "en") - now_s
        # what was made is not made anew before it has rested
        fragments._kept[page, "en"] = replace(made, made_s=now_s)
        assert fragments.due_s(page, "en") - now_s == pytest.approx(live.SPACING_S)
        fragments.forget()
    assert rests_s == pytest.approx({"tail/orders": live.LOOK_S, "timers": live.SPACING_S})
