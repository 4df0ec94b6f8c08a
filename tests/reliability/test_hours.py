"""Some minutes of everything at once in some seconds, every message accounted for; the hours are `make soak`."""

from __future__ import annotations

from pathlib import Path

from tests.reliability.history import body_of
from tests.reliability.hours import (
    CANCELLED,
    DELIVERED,
    PLAIN,
    POISON,
    POPPED,
    PUSHED,
    TIMER,
    Hours,
    Ledger,
    Run,
    Sample,
)


async def test_every_message_of_some_minutes_is_accounted_for(tmp_path: Path) -> None:
    result = await Run(hours=1 / 6, speed=120, seed=3, work=tmp_path).live()
    assert result.wrong == [], result.line()
    fates = result.fates
    assert fates["accepted"] > 500, result.line()
    ended = ("delivered", "dead", "cancelled", "rolled back", "cancelled or rolled back, not answered")
    assert fates["accepted"] == sum(fates[name] for name in ended), result.line()
    assert all(fates[name] for name in ended[:4]), result.line()
    assert [sample.life for sample in result.samples] == [1]


def test_a_ledger_says_what_is_not_as_it_was_promised() -> None:
    ledger = Ledger()
    for kind in (PLAIN, PLAIN, TIMER, POISON):
        ledger.sent(kind, ledger.begin(kind), "ok")
    ledger.due[TIMER][0] = CANCELLED
    ledger.hand(PUSHED, body_of(f"{TIMER}-0", 50))
    for group in (PUSHED, POPPED):
        ledger.hand(group, body_of(f"{PLAIN}-0", 50))
    ledger.hand(PUSHED, body_of(f"{PLAIN}-1", 50))
    ledger.hand(PUSHED, body_of(f"{PLAIN}-1", 50)[:-1])
    assert ledger.missing() == 3
    assert ledger.wrong() == [
        "1 bodies were damaged",
        "plain: 1 accepted and not had",
        "timer: 1 taken back and shown",
        "poison: 1 accepted and not had",
        "poison: 1 accepted, failed, and no dead letter",
    ]
    ledger.hand(POPPED, body_of(f"{PLAIN}-1", 50))
    ledger.due[TIMER][0] = DELIVERED
    ledger.hand(POPPED, body_of(f"{TIMER}-0", 50))
    ledger.hand("hours-failing", body_of(f"{POISON}-0", 50))
    ledger.letters[0] = 1
    assert ledger.missing() == 0
    assert ledger.shown(PLAIN) == 2


def test_a_process_that_grows_is_named_once_it_is_no_longer_young() -> None:
    def lived(*memory_bytes: int) -> list[str]:
        samples = [Sample(number / 6, 1, memory, 30, 1, 2) for number, memory in enumerate(memory_bytes)]
        return list(Hours(2, 16, samples).grown())

    assert lived(*range(30, 37), 40, 40, 40, 40, 40) == []
    assert lived(*range(30, 37), 40, 40, 40, 41, 41) == ["life 1: memory from 40 to 41"]
