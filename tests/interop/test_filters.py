"""SQL92 filters of the official clients, against Apache RocketMQ and against our broker: the same must come."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.interop.filtering import JavaFilter, refused_code
from tests.interop.popping import JavaPopper, bodies
from tests.interop.process import ChildFailed
from tests.interop.servers import Server

#: body: properties of the messages that every expression is asked of
MESSAGES: dict[str, dict[str, str]] = {
    "none": {},
    "five": {"a": "5", "b": "x"},
    "six": {"a": "6", "b": "it's"},
    "text": {"a": "abc", "b": "5"},
    "double": {"a": "5.5", "b": "5.0"},
    "long": {"a": "99999999999", "b": "99999999999"},
    "truth": {"a": "true", "b": "false"},
    "signed": {"a": "+7", "b": "-7"},
    "nan": {"a": "NaN", "b": "NaN"},
    "zero": {"a": "0", "b": "-0.0"},
    "hexadecimal": {"a": "0x1p3", "b": "8"},
    "onlyb": {"b": "x"},
}

EXPRESSIONS = [
    "a > 5", "a > 5.0", "a >= 5 AND a <= 6", "a < b", "a <> b", "a = b", "a = 5", "a = 5.0", "a = '5'", "a <> 5",
    "a = 5 OR b = 'x'", "b = 'x' OR a > 5", "a > 5 OR b = 'x'", "NOT (a = '5')", "NOT a", "a", "a IS NULL",
    "a IS NOT NULL AND b IS NULL", "(a > 5) IS NULL", "a BETWEEN 1 AND 6", "a NOT BETWEEN 1 AND 6", "a BETWEEN b AND 9",
    "a IN ('5', 'abc')", "a NOT IN ('5')", "b = 'it''s'", "a CONTAINS 'b'", "a NOT CONTAINS 'b'", "a STARTSWITH 'ab'",
    "a ENDSWITH 'bc'", "a NOT ENDSWITH 'bc'", "a = TRUE", "a = FALSE", "b = FALSE", "TRUE", "FALSE", "NULL",
    "TRUE OR NULL", "a > 2147483648", "a > -1", "a >= 0.5 AND NOT (b = 'x')", "a > 7 /* seven */ -- and no more",
    "a > 'x'", "a = NULL", "a BETWEEN 3 AND 1", "a IN (5)", "a LIKE 'x%'", "a != 1", "5", "'x'", "a = 1)", "(a = 1",
    "a > 0.0", "a > 9223372036854775808", "a = 007", "- a > 1", "a > b AND b > 1", "(a = 5) = TRUE",
]  # fmt: skip

#: those of them that are refused here
WRONG = [
    "a > 'x'", "a = NULL", "a BETWEEN 3 AND 1", "a IN (5)", "a LIKE 'x%'", "a != 1", "5", "'x'", "a = 1)", "(a = 1",
    "a > 0.0", "a > 9223372036854775808", "a = 007",
]  # fmt: skip
#: SUBSCRIPTION_PARSE_FAILED
REFUSED = ["refused 23"]
VERSIONS = ["4.9.8", "5.5.0"]


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Server, str], JavaFilter]]:
    """A client a server and version, kept for all tests."""
    kept: dict[tuple[str, str], JavaFilter] = {}

    def client(server: Server, version: str) -> JavaFilter:
        key = (server.namesrv, version)
        if key not in kept:
            kept[key] = JavaFilter(server, version, work=tmp_path_factory.mktemp("filter"))
        return kept[key]

    yield client
    for one in kept.values():
        one.child.kill()


Clients = Callable[[Server, str], JavaFilter]


def test_every_expression_gets_the_same_messages(
    apache: Server, escapement: Server, clients: Clients, topic: str
) -> None:
    """To a pull that carries what is refused here Apache RocketMQ gives all messages, or none."""
    got: list[dict[str, list[str]]] = []
    for server in (apache, escapement):
        client = clients(server, "5.5.0")
        for body, properties in MESSAGES.items():
            client.send(topic, body, properties)
        got.append({expression: client.pull(topic, expression) for expression in EXPRESSIONS})
    theirs, ours = got
    taken = {expression: found for expression, found in ours.items() if found != REFUSED}
    assert {expression: theirs[expression] for expression in taken} == taken
    assert set(EXPRESSIONS) - set(taken) == set(WRONG)
    assert {"five", "six"} <= {body for found in taken.values() for body in found}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("how", ["push", "lite"])
def test_consumers_get_what_matches(
    server: Server, clients: Clients, version: str, how: str, topic: str, group: str
) -> None:
    client = clients(server, version)
    for number in range(10):
        client.send(topic, f"early-{number}", {"number": str(number)})
    client.consume(how, group, topic, "number >= 5 AND number <> 7")
    wanted = {f"early-{number}" for number in (5, 6, 8, 9)}
    client.await_bodies(group, wanted)
    for number in (1, 6, 7, 9):
        client.send(topic, f"late-{number}", {"number": str(number)})
    wanted |= {"late-6", "late-9"}
    client.await_bodies(group, wanted)
    assert sorted(client.bodies_of(group)) == sorted(wanted)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_consumer_with_a_wrong_expression_does_not_start(
    server: Server, clients: Clients, version: str, topic: str, group: str
) -> None:
    client = clients(server, version)
    client.send(topic, "one", {"a": "5"})
    with pytest.raises(ChildFailed) as failed:
        client.consume("push", group, topic, "a = 1 AND")
    assert refused_code(failed.value) == 23, "SUBSCRIPTION_PARSE_FAILED"


def test_pops_get_what_matches(server: Server, clients: Clients, topic: str, group: str, tmp_path: Path) -> None:
    client = clients(server, "5.5.0")
    for number in range(6):
        client.send(topic, f"{number}", {"number": str(number)})
    popper = JavaPopper(server, group, topic, work=tmp_path)
    try:
        got = popper.pop_all(3, expression="sql:number >= 3", queue=0)
        assert bodies(got) == ["3", "4", "5"]
        assert popper.ack_many(got) == "OK"
        client.send(topic, "late-1", {"number": "1"})
        client.send(topic, "late-7", {"number": "7"})
        assert bodies(popper.pop_all(1, expression="sql:number >= 3", queue=0)) == ["late-7"]
    finally:
        popper.child.kill()
