"""What the tests of every door share: a broker with the same of two teams, and everybody who may come to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.console.conftest import actor, clients, operator, server  # noqa: F401 - fixtures
from tests.console.security.test_limited import filled  # noqa: F401 - a fixture
from tests.console.stage import Stage
from tests.security.scene import guarded_stage


@pytest.fixture
def stage(tmp_path: Path, transactional_db: None, settings: Any) -> Iterator[Stage]:
    """A broker with access control, so that its users are there to be looked at; the console is its own user."""
    with guarded_stage(tmp_path / "store", settings) as made:
        yield made
