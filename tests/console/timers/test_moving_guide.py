"""docs/MOVING.md, live: its commands, word for word and in its order, print what it shows."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.management import call_command

from console.site.clock import now_ms
from tests.console.several import A, B, Several, several
from tests.console.timers.test_operations import ROOT

HOUR = 3_600_000
GUIDE = (ROOT / "docs" / "MOVING.md").read_text().partition("## Live")[2]
COMMAND = re.compile(r"^\$ .venv/bin/python manage\.py (.+)\n((?:[^$`].*\n)*)", re.MULTILINE)
VARYING = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|127\.0\.0\.1:\d+|\d+ topics")


@pytest.fixture
def brokers(transactional_db: None, settings: Any) -> Iterator[Several]:
    with several(settings) as made:
        yield made


def plain(text: str) -> str:
    return VARYING.sub("…", text)


def test_the_commands_of_the_guide_print_what_it_shows(
    brokers: Several, settings: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(3):
        brokers.producers[A].send("orders", f"{number}", deliver_at_ms=now_ms() + HOUR)
    found = COMMAND.findall(GUIDE)
    assert len(found) == 4
    for command, shown in found:
        # the name service of these tests answers what clients ask; what changes it is asked of the broker's own
        settings.ESCAPEMENT_NAMESRV = brokers[A].namesrv if command.startswith("sends") else brokers.cluster.namesrv
        call_command(*shlex.split(command))
        assert plain(capsys.readouterr().out) == plain(shown), command
    assert [brokers.admins[name].timer_status().pending for name in (A, B)] == [0, 3]


@pytest.mark.parametrize("said", ["ESCAPEMENT_MOVE_LEAVES_S", "MOVED_FROM", "at most 50 timers"])
def test_the_guide_names_what_the_code_does(said: str) -> None:
    from console.features.timers import moving

    assert said in GUIDE
    assert moving.MOVED_FROM == "MOVED_FROM"
    assert moving.AT_ONCE == 50
