"""The commands of docs/ACCESS.md print what it says."""

from __future__ import annotations

import re
import shlex

from tests.console.access.test_broker_users import command, guarded  # noqa: F401 - a fixture
from tests.house.sources import ROOT
from tests.mirror.running import RunningBroker


def test_the_commands_print_what_the_page_says(guarded: RunningBroker) -> None:  # noqa: F811 - as above
    (block,) = re.findall(r"<!-- run -->\n```console\n(.*?)```", (ROOT / "docs/ACCESS.md").read_text(), re.DOTALL)
    steps = re.findall(r"^\$ manage\.py access (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)
    assert len(steps) == 8
    for words, expected in steps:
        out, error = command(*shlex.split(words))
        assert re.sub(r"^[\w-]{43}$", "SECRET", error + out, flags=re.MULTILINE) == expected, words
