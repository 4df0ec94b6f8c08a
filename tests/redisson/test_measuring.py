"""What `python -m bench redisson` says of a server is what was measured, and of a target only what it means."""

from __future__ import annotations

from pathlib import Path

import pytest
import redis

from bench.redisson import rate_row
from bench.transfers import Blocks, Transfer, keys, member, passes, probing, settle
from broker.redisson import DelayedQueue
from broker.redisson.queue import BATCH, move_due

BUSY = "local sum = 0 for number = 1, ARGV[1] do sum = sum + number end return sum"
QUIET = Blocks(0.1, 0, "")
CAP_S = 60


def test_what_was_slow_before_the_probe_is_not_its_own(client: redis.Redis, tmp_path: Path) -> None:
    """A million values that were emptied before stood as a command of 147 ms in the row of the removals."""
    client.config_set("slowlog-log-slower-than", 500)
    client.eval(BUSY, 0, 3_000_000)
    assert any(entry["command"].startswith(b"EVAL") for entry in client.slowlog_get(100))
    with probing(client, tmp_path) as probe:
        client.ping()
        first = probe.report()
        client.eval(BUSY, 0, 3_000_000)
        second, third = probe.report(), probe.report()
    assert [each.command == "EVAL" for each in (first, second, third)] == [False, True, False]
    assert second.command_ms > 0.5


@pytest.mark.parametrize(
    ("moved", "seconds", "holds"),
    [(1_000_000, 40.0, True), (670_200, 60.0, True), (290_000, 60.1, False), (670_200, 12.0, False)],
    ids=["all in time", "the rate until the cap", "too slow", "stopped early"],
)
def test_the_target_is_a_rate_over_what_was_measured(moved: int, seconds: float, holds: bool) -> None:
    theirs = Transfer(1_000_000, 8_500, 60.7, QUIET)
    row = rate_row(Transfer(1_000_000, moved, seconds, QUIET), theirs, 5_000, CAP_S)
    assert row.holds is holds
    assert f"{moved:,}" in row.ours and f"{seconds:.1f} s" in row.ours
    assert "8,500 of 1,000,000" in row.theirs


def test_a_script_is_measured_beside_a_pass(client: redis.Redis) -> None:
    found = passes(client, "orders", 8_000, 3)
    assert found.moved == BATCH
    assert found.script_ms > found.pass_ms > 0


def test_nothing_is_measured_before_the_index_is_there(client: redis.Redis) -> None:
    """With the first due value in front of the list nothing was tended, and the batches after it moved nothing."""
    timeouts, offered, _ = keys("orders")
    values = [member(b"value-%05d" % number) for number in range(8_000)]
    client.zadd(timeouts, {value: 8_000 - number for number, value in enumerate(values)} | {values[0]: 0})
    client.rpush(offered, *values)
    queue = DelayedQueue("orders", client)
    settle(queue, BATCH)
    assert [move_due(queue, BATCH).count for _ in range(3)] == [BATCH] * 3
