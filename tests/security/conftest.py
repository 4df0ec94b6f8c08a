"""What the tests of every door share: a broker with the same of two teams, and everybody who may come to it."""

from __future__ import annotations

from tests.console.conftest import actor, clients, operator, server, stage  # noqa: F401 - fixtures
from tests.console.security.test_limited import filled  # noqa: F401 - a fixture
