"""Histories are kept line by line and read back as they were; faults are those of their seed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.reliability.faults import KINDS, drawn
from tests.reliability.history import Event, Outcome, Recorder, body_of, read, read_body


def test_what_was_noted_is_read_back(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "history.jsonl")
    recorder.note("plain-1", "send", "plain-1-1", "unknown", call_ms=5, answer_ms=9, topic="t")
    recorder.note("rig", "fault", "kill", call_ms=6, answer_ms=7)
    recorder.close()
    with recorder.path.open() as lines:
        assert list(read(lines)) == recorder.events
    assert recorder.events[0] == Event(5, 9, "plain-1", "send", "plain-1-1", "unknown", {"topic": "t"})


def judge(result: object) -> Outcome:
    if isinstance(result, ValueError):
        return "refused"
    if isinstance(result, Exception):
        raise result
    return "ok"


async def fails(error: Exception) -> None:
    raise error


def test_a_call_is_noted_with_its_outcome(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "history.jsonl")
    asyncio.run(recorder.call("c", "send", "a", fails(ValueError("no")), judge, topic="t"))
    assert [(event.outcome, event.about) for event in recorder.events] == [("refused", {"topic": "t", "error": "no"})]
    with pytest.raises(KeyError):
        asyncio.run(recorder.call("c", "send", "b", fails(KeyError("what nobody knows")), judge))
    recorder.close()


def test_a_body_says_whose_it_is_and_whether_it_is_whole() -> None:
    body = body_of("plain-1-17", 300)
    assert read_body(body) == ("plain-1-17", True)
    assert read_body(body[:-1] + b"?") == ("plain-1-17", False)
    assert read_body(body[:-1]) == ("plain-1-17", False)
    assert read_body(body_of("a", 0)) == ("a", True)


def test_a_seed_has_its_faults_and_all_kinds_come() -> None:
    assert drawn(7, 50) == drawn(7, 50)
    assert drawn(7, 50) != drawn(8, 50)
    assert {fault.kind for fault in drawn(7, 50)} == set(KINDS)
    assert {fault.kind for fault in drawn(7, 50, ("kill", "cut"))} == {"kill", "cut"}
