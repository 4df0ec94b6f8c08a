"""transactional() with PostgreSQL and our broker as a process: whatever dies, database and topic agree.

tests/interop does the same with Apache RocketMQ, and at every statement.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.servers import EscapementServer, Server
from tests.interop.transactional_project import (
    QUICK,
    Project,
    die_before_anybody_answers,
    kill_at_statements,
    new_project,
    outlast_many_checks,
)

TOPIC = "orders"
#: One statement of so many: together the three outcomes still meet most of them.
STRIDE = 10


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Our broker; it asks every second."""
    base = tmp_path_factory.mktemp("broker")
    one = EscapementServer(base / "store", base / "work", QUICK)
    one.start()
    yield one
    one.kill()


@pytest.fixture
def project(server: Server, postgres: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Project]:
    """A Django project on a new database."""
    with new_project(server, postgres, "shop", tmp_path) as one:
        yield one


@pytest.mark.parametrize("outcome", ["commit", "rollback", "savepoint"])
def test_database_and_topic_agree_after_kills(project: Project, outcome: str) -> None:
    assert kill_at_statements(project, f"{TOPIC}-{outcome}", outcome, STRIDE) > 200
    assert bool(project.orders()) is (outcome != "rollback")


def test_checks_are_answered_when_all_web_processes_are_dead(project: Project) -> None:
    die_before_anybody_answers(project, f"{TOPIC}-dead")


def test_a_transaction_that_outlasts_many_checks_is_shown_once(project: Project) -> None:
    outlast_many_checks(project, f"{TOPIC}-slow")
