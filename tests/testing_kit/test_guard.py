"""With the guard up no client is made for a broker that is not the tests' own."""

from __future__ import annotations

import unittest
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from broker.client import (
    Admin,
    AsyncProducer,
    Consumer,
    Decision,
    LitePullConsumer,
    Producer,
    SimpleConsumer,
    TransactionProducer,
)
from broker.testing import BrokerThread, Escapement, EscapementTestCase, NamesrvThread, OutsideRefused
from broker.testing.guard import guard

ELSEWHERE = "192.0.2.1:9876"
CLIENTS: dict[str, Callable[[str], Any]] = {
    "producer": lambda address: Producer("shop", address),
    "producer in a loop": lambda address: AsyncProducer("shop", address),
    "consumer": lambda address: Consumer("shop", address),
    "simple consumer": lambda address: SimpleConsumer("shop", address),
    "consumer that pulls": lambda address: LitePullConsumer("shop", address),
    "transactions": lambda address: TransactionProducer("shop", address, check=lambda _: Decision.COMMIT),
    "traces": lambda address: Producer("shop", address, trace=True),
    "admin": lambda address: Admin(address),
}


@pytest.fixture
def is_up() -> Iterator[None]:
    with guard.refusing():
        yield


@pytest.mark.usefixtures("is_up")
@pytest.mark.parametrize("kind", CLIENTS)
def test_a_client_for_elsewhere_is_refused_when_it_is_made(kind: str) -> None:
    with pytest.raises(OutsideRefused) as refusal:
        CLIENTS[kind](ELSEWHERE)
    said = str(refusal.value)
    assert f"name server {ELSEWHERE}, which is outside of the tests" in said
    assert f'@pytest.mark.escapement_allow("{ELSEWHERE}")' in said
    assert refusal.value.address == ELSEWHERE


@pytest.mark.usefixtures("is_up")
def test_one_address_of_several_is_enough_to_refuse(escapement: Escapement) -> None:
    with pytest.raises(OutsideRefused, match=ELSEWHERE):
        Producer("shop", f"{escapement.namesrv};{ELSEWHERE}")


@pytest.mark.usefixtures("is_up")
def test_the_tests_own_brokers_are_reached() -> None:
    with NamesrvThread() as names, BrokerThread(register_at=names.namesrv) as broker:
        for address in (broker.namesrv, names.namesrv):
            Admin(address).close()
        with Producer("shop", broker.namesrv) as producer:
            producer.send("orders", "4711")


@pytest.mark.usefixtures("is_up")
def test_the_broker_of_a_test_is_reached_while_it_runs() -> None:
    with Escapement() as escapement:
        address = escapement.namesrv
        Admin(address).close()
        Admin(address.replace("127.0.0.1", "localhost")).close()
        with pytest.raises(OutsideRefused, match=f"Here are .*{address}"):
            Admin(ELSEWHERE)
    with pytest.raises(OutsideRefused):
        Admin(address)


@pytest.mark.usefixtures("is_up")
def test_what_is_allowed_is_allowed_as_long_as_somebody_allows_it() -> None:
    with guard.allowing([ELSEWHERE]):
        with guard.allowing([f"192.0.2.2:1;{ELSEWHERE}"]):
            Admin(ELSEWHERE).close()
            Admin("192.0.2.2:1").close()
        Admin(ELSEWHERE).close()
        with pytest.raises(OutsideRefused):
            Admin("192.0.2.2:1")
    with pytest.raises(OutsideRefused):
        Admin(ELSEWHERE)


def test_nothing_is_refused_before_it_is_up_and_behind_it() -> None:
    Admin(ELSEWHERE).close()
    with guard.refusing(), guard.refusing():
        pass
    Admin(ELSEWHERE).close()


# unittest.


def outcome(case: type[unittest.TestCase]) -> unittest.TestResult:
    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(case).run(result)
    return result


def test_a_test_case_has_a_broker_for_each_test_and_a_guard() -> None:
    addresses: list[str] = []

    class Case(EscapementTestCase):
        escapement_allow = ("192.0.2.2:9876",)
        escapement_delay_levels = "1m"

        def setUp(self) -> None:
            self.escapement.send("orders", "4711", delay_level=1)

        def test_one(self) -> None:
            addresses.append(self.escapement.namesrv)
            self.escapement.forward(minutes=1)
            self.escapement.assert_sent("orders", times=1)
            Admin("192.0.2.2:9876").close()

        def test_two(self) -> None:
            self.escapement.forward(seconds=59)
            self.escapement.assert_nothing_sent()
            with self.assertRaises(OutsideRefused):  # noqa: PT027 - it is a test case of unittest
                Admin(ELSEWHERE)

    assert (outcome(Case).errors, outcome(Case).failures) == ([], [])
    assert len(set(addresses)) == 1
    Admin(ELSEWHERE).close()


def test_what_a_test_case_leaves_running_is_its_error() -> None:
    left: list[Consumer] = []

    class Case(EscapementTestCase):
        def test_it(self) -> None:
            consumer = Consumer("billing", self.escapement.namesrv)
            consumer.subscribe("orders", "*", print)
            self.escapement.send("orders", "4711")
            consumer.start()
            left.append(consumer)

        def test_that_fails(self) -> None:
            self.escapement.assert_sent("orders")

    result = outcome(Case)
    left[0].stop()
    assert result.errors == []
    # the next test says so as well where the consumer has found its broker by the end of it
    said: defaultdict[str, str] = defaultdict(str)
    for test, text in result.failures:
        said[test.id().rpartition(".")[2]] += text
    assert "Consumers of billing still run at the end of the test" in said["test_it"]
    assert "Expected 1 message to orders" in said["test_that_fails"]
    with Escapement() as escapement:
        escapement.assert_nothing_sent()
