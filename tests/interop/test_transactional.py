"""transactional() on real brokers: whatever dies at whichever statement, database and topic agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from broker.client import BrokerRefused, Decision, Message, NotSupported, TransactionProducer, prepare
from tests.interop.conftest import running
from tests.interop.servers import Server
from tests.interop.transactional_project import (
    QUICK,
    Project,
    bodies,
    die_before_anybody_answers,
    kill_at_statements,
    new_project,
    outlast_many_checks,
)
from tests.interop.waiting import wait_until


@pytest.fixture(scope="module", params=["apache", "escapement"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A broker of either kind that asks soon."""
    with running(request.param, tmp_path_factory.mktemp("quick"), QUICK) as one:
        yield one


@pytest.fixture
def project(server: Server, postgres: str, group: str, tmp_path: Path) -> Iterator[Project]:
    """A Django project on a new database."""
    with new_project(server, postgres, group, tmp_path) as one:
        yield one


# each statement in the long form; in the short one each tenth, as a process is made and killed for every one
@pytest.mark.parametrize("stride", [10, pytest.param(1, marks=pytest.mark.soak)])
@pytest.mark.parametrize(("outcome", "least"), [("commit", 200), ("rollback", 200), ("savepoint", 230)])
def test_database_and_topic_agree_after_a_kill_at_every_statement(
    project: Project, topic: str, outcome: str, least: int, stride: int
) -> None:
    assert kill_at_statements(project, topic, outcome, stride) > least
    assert bool(project.orders()) is (outcome != "rollback")


def test_checks_are_answered_when_all_web_processes_are_dead(project: Project, topic: str) -> None:
    die_before_anybody_answers(project, topic)


def test_a_transaction_that_outlasts_many_checks_is_shown_once(project: Project, topic: str) -> None:
    """Apache RocketMQ copies a half for each check; a commit at the first place leaves copies that are asked about."""
    outlast_many_checks(project, topic)


@pytest.mark.parametrize("decision", [Decision.COMMIT, Decision.ROLLBACK])
def test_a_half_is_shown_when_it_is_committed_and_only_then(
    server: Server, topic: str, group: str, decision: Decision
) -> None:
    with TransactionProducer(group, server.namesrv, check=lambda message: Decision.UNKNOWN) as producer:
        producer.send(topic, "plain")
        assert wait_until(lambda: bodies(server, topic) == Counter({"plain": 1}))
        half = producer.send_half(topic, prepare("half", tag="t", keys=["k"]))
        assert bodies(server, topic) == Counter({"plain": 1})
        (producer.commit if decision is Decision.COMMIT else producer.rollback)(half)
        shown = {"plain": 1, "half": 1} if decision is Decision.COMMIT else {"plain": 1}
        assert wait_until(lambda: bodies(server, topic) == Counter(shown))


def test_a_check_asks_what_was_sent_and_its_answer_decides(server: Server, topic: str, group: str) -> None:
    answers = {"yes": Decision.COMMIT, "no": Decision.ROLLBACK}
    asked: list[Message] = []

    def check(message: Message) -> Decision:
        asked.append(message)
        return answers[message.body.decode()]

    with TransactionProducer(group, server.namesrv, check=check) as producer:
        halves = {body: producer.send_half(topic, prepare(body, keys=["k"], properties={"a": "b"})) for body in answers}
        assert wait_until(lambda: bodies(server, topic) == Counter({"yes": 1}))
        assert wait_until(lambda: len({message.unique_key for message in asked}) == 2)
    for message in asked:
        assert (message.topic, message.keys, message.properties["a"]) == (topic, ["k"], "b")
        assert message.unique_key == halves[message.body.decode()].transaction_id


def test_a_delayed_half_is_not_sent_where_it_would_be_lost(server: Server, topic: str, group: str) -> None:
    with TransactionProducer(group, server.namesrv, check=lambda message: Decision.UNKNOWN) as producer:
        if server.name == "apache":
            with pytest.raises(NotSupported, match="loses a half"):
                producer.send_half(topic, prepare("later", delay_level=1))
            return
        producer.commit(producer.send_half(topic, prepare("later", delay_level=1)))
        assert wait_until(lambda: bodies(server, topic) == Counter({"later": 1}))


def test_a_forged_place_is_refused(server: Server, topic: str, group: str) -> None:
    with TransactionProducer(group, server.namesrv, check=lambda message: Decision.UNKNOWN) as producer:
        half = producer.send_half(topic, prepare("half"))
        for forged in (
            replace(half, queue_offset=half.queue_offset + 1),
            replace(half, position=half.position + 1),
            replace(half, group="another"),
        ):
            with pytest.raises(BrokerRefused):
                producer.commit(forged)
        producer.rollback(half)
