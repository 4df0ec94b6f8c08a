"""What was decided is asked about no more, by Apache RocketMQ and by our broker.

Apache RocketMQ asks about whatever has no op message when it turns old enough, and writes op messages in bundles. So
the time after which it asks is much longer here than a decision and its op message take on a slow machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.conftest import running
from tests.interop.programs import JavaTransactor, read_all
from tests.interop.servers import Server, StoreShape
from tests.interop.waiting import wait_until

SHAPE = StoreShape(transaction_timeout_ms=15_000, transaction_interval_ms=1_500, transaction_checks=3)
#: Until the last half was old enough to be asked about in two rounds at least.
SILENCE_S = (SHAPE.transaction_timeout_ms + 3 * SHAPE.transaction_interval_ms) / 1_000
CLIENTS = {"4.9.8": False, "5.5.0": False, "5.5.0 binary": True}


@pytest.fixture(scope="module", params=["apache", "escapement"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Each of the two, asking late and often."""
    with running(request.param, tmp_path_factory.mktemp(request.param), SHAPE) as one:
        yield one


@pytest.fixture
def transactors(server: Server, group: str, tmp_path: Path) -> Iterator[list[JavaTransactor]]:
    """A transaction producer of each client, each in a group of its own."""
    started: list[JavaTransactor] = []
    for number, (name, binary) in enumerate(CLIENTS.items()):
        version = name.partition(" ")[0]
        own = f"{group}-{number}"
        started.append(JavaTransactor(server.namesrv, own, version=version, work=tmp_path, binary_headers=binary))
    yield started
    for one in started:
        one.child.kill()


def test_what_was_decided_is_asked_about_no_more(
    server: Server, transactors: list[JavaTransactor], topic: str, tmp_path: Path
) -> None:
    for number, transactor in enumerate(transactors):
        for local in ("COMMIT", "ROLLBACK"):
            transactor.begin(topic, f"{number} {local}", local=local)
    assert not wait_until(lambda: any(one.events("check") for one in transactors), SILENCE_S)
    stored = [event["body"] for event in read_all(server.namesrv, [topic], work=tmp_path)[topic]]
    assert sorted(stored) == [f"{number} COMMIT" for number in range(len(transactors))]
