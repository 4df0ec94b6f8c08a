"""R12 on the real thing: random transactions with PostgreSQL, everything killed (10,000 of them in tests/soak)."""

from __future__ import annotations

from pathlib import Path

from tests.outbox.random_transactions import gamble


def test_some_hundred_random_transactions_keep_every_promise(tmp_path: Path, postgres: str) -> None:
    verdict = gamble(tmp_path, postgres, 200, 7, broker_kills=1)
    assert verdict.faults() == {}
    assert verdict.parked > 0
    assert {"commit", "late", "gone", "nobody", "silence"} <= set(verdict.tried)
