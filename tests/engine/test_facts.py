"""What routing and indexing need of properties, against a table of them; and when senders hear of what is stored."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from broker.engine.errors import InvalidProperties, TimerIllegal
from broker.engine.log.ticket import Ticket
from broker.engine.message_header import facts_of
from broker.engine.testing.driver import open_engine
from broker.engine.timer.parking import due_ms_asked, moment_ms
from broker.rocketmq.properties import RESERVED

NOW_MS = 1_700_000_000_000
NAMES = (
    "UNIQ_KEY", "TAGS", "KEYS", "XTAGS", "KEYSX", "TIMER_DELAY_MS", "TIMER_DELAY_SEC", "TIMER_DELIVER_MS",
    "TIMER_DEL_UNIQKEY", "XTIMER_DELAY_MS", "TIMER_DELAY_MSX", "ESC_DUE_MS", "ESC_SCHEDULE_KEY", "__CRC32#", "WAIT",
    "POP_CK", "POP_CKS", "XPOP_CK", "1ST_POP_TIME",
)  # fmt: skip
MOMENTS = {"TIMER_DELAY_MS", "TIMER_DELAY_SEC", "TIMER_DELIVER_MS", "TIMER_DEL_UNIQKEY"}
values = st.one_of(st.integers(0, 10**16).map(str), st.text("aé \x01-0_", max_size=4))
pairs = st.lists(st.tuples(st.one_of(st.sampled_from(NAMES), st.text("aT_#", min_size=1, max_size=3)), values))


@given(pairs)
@example([("TIMER_DELAY_MS", "1"), ("TIMER_DELAY_MS", "2")])
@example([("TIMER_DELIVER_MS", "5"), ("TIMER_DELAY_SEC", "2")])
def test_what_is_read_in_one_go_is_what_a_table_says(said: list[tuple[str, str]]) -> None:
    facts = facts_of("".join(f"{name}\x01{value}\x02" for name, value in said).encode())
    table = {name: value for name, value in said if name not in RESERVED and name != "__CRC32#"}
    assert (facts.unique_key, facts.tags, facts.keys) == (table.get("UNIQ_KEY"), table.get("TAGS"), table.get("KEYS"))
    assert bool(facts.timer) == bool(MOMENTS & table.keys())
    if len(table) == len(said):
        assert facts.stored == "".join(f"{name}\x01{value}\x02" for name, value in said).encode()
    if facts.moment is not None:
        assert moment_ms(facts.moment, NOW_MS) == due_ms_asked(facts.timer, NOW_MS)


@pytest.mark.parametrize(
    "value", ["", "x", "1x", "-1", "+1", "1 ", "1.0", "\N{ARABIC-INDIC DIGIT ONE}", "9" * 16, "1\x01"]
)
def test_a_moment_that_is_no_plain_number_is_looked_at_closely(value: str) -> None:
    facts = facts_of(f"TIMER_DELAY_MS\x01{value}\x02".encode())
    assert facts.timer
    assert facts.moment is None
    if value not in ("-1", "+1", "9" * 16):
        with pytest.raises(TimerIllegal):
            due_ms_asked(facts.timer, NOW_MS)


@pytest.mark.parametrize("raw", [b"a\x02", b"\x01a\x02", b"a\x01b\x02\x02", b"UNIQ_KEY\x02", b"TIMER_DELAY_MS\x02"])
def test_what_is_not_well_formed_is_refused(raw: bytes) -> None:
    with pytest.raises(InvalidProperties):
        facts_of(raw)


def test_senders_are_answered_before_timers_are_put_into_the_wheel() -> None:
    driver = open_engine()
    driver.engine.topics.ensure("orders", 1)
    sent = driver.append("orders", b"later", TIMER_DELAY_MS="5000")
    answered: list[tuple[list[Ticket], int]] = []

    def answer(tickets: list[Ticket]) -> None:
        answered.append((tickets, driver.engine.timers.states.pending))

    job = driver.engine.take_sync(driver.clock.now_ms)
    assert job is not None
    job.run()
    assert driver.engine.synced(job, None, driver.clock.now_ms, answer) == [sent]
    assert answered == [([sent], 0)]
    assert driver.engine.timers.states.pending == 1
