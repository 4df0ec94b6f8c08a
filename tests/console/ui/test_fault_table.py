"""docs/CONSOLE-FAULTS.md has every fault, each with a test that exists and is run."""

from __future__ import annotations

import re

from tests.house.sources import ROOT
from tests.known_faults.test_table import TESTS, docstrings

PAGE = ROOT / "docs" / "CONSOLE-FAULTS.md"


def test_each_fault_has_a_test_that_is_run() -> None:
    rows = [line.strip("| ").split(" | ") for line in PAGE.read_text().splitlines() if line.startswith("| ")][1:]
    numbers = [int(found[1]) for row in rows if (found := re.match(r"(\d+)\. ", row[0]))]
    assert numbers == [*range(1, 46)]
    for row in rows:
        path, _, name = row[-1].strip("` ").partition("::")
        assert name in docstrings(TESTS / path), row
