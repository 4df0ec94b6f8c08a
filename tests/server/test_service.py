"""A whole broker: its start, its end, and a disk that fails."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from broker.client.remoting import RemotingClient
from broker.engine.config import EngineConfig
from broker.engine.errors import StoreLocked
from broker.engine.testing import Fault, SimulatedFiles
from broker.rocketmq.codes import Answer, Request
from broker.rocketmq.errors import ConnectFailed, ConnectionLost
from broker.rocketmq.frame import Command
from broker.server.broker import BrokerService
from tests.server.peer import Peer, records
from tests.waiting import until_true

UNIQUE = "UNIQ_KEY\x01C00002024A5C30946E0968C7AD360000\x02"


@asynccontextmanager
async def served(service: BrokerService) -> AsyncIterator[Peer]:
    """A client of a broker that runs meanwhile."""
    await service.start()
    client = RemotingClient(serialization=1)
    try:
        yield Peer(client, service.address)
    finally:
        await client.close()
        await service.stop()


def broker_of(config: EngineConfig, files: SimulatedFiles | None = None) -> BrokerService:
    return BrokerService(config, broker_port=0, namesrv_port=0, files=files)


@pytest.mark.parametrize("flush", ["sync", "async"])
async def test_what_was_answered_is_there_after_a_restart(
    config: EngineConfig, flush: Literal["sync", "async"]
) -> None:
    config = replace(config, flush=flush)
    async with served(broker_of(config)) as peer:
        await peer.create_topic("T")
        answers = await asyncio.gather(*(peer.send("T", b"%d" % n, UNIQUE) for n in range(100)))
        assert {answer.code for answer in answers} == {Answer.SUCCESS}
    async with served(broker_of(config)) as peer:
        stored = await peer.everything("T")
        assert sorted(int(message.body) for message in stored) == list(range(100))


async def test_sends_under_way_when_the_broker_stops_are_answered_truthfully(config: EngineConfig) -> None:
    service = broker_of(config)
    await service.start()
    client = RemotingClient(serialization=1)
    peer = Peer(client, service.address)
    await peer.create_topic("T")
    sends = [asyncio.ensure_future(peer.send("T", b"%d" % n, UNIQUE)) for n in range(500)]
    await sends[0]
    await service.stop()
    answers = await asyncio.gather(*sends, return_exceptions=True)
    await client.close()
    kept = [n for n, answer in enumerate(answers) if isinstance(answer, Command)]
    assert {type(answer) for answer in answers} <= {Command, ConnectionLost, ConnectFailed}
    assert {answer.code for answer in answers if isinstance(answer, Command)} == {Answer.SUCCESS}
    async with served(broker_of(config)) as peer:
        stored = {int(message.body) for message in await peer.everything("T")}
        assert set(kept) <= stored


async def test_stopping_twice_and_stopping_what_never_ran_is_fine(config: EngineConfig) -> None:
    service = broker_of(config)
    await service.stop()
    await service.start()
    await service.stop()
    await service.stop()


async def test_a_port_that_is_taken_is_an_error_that_leaves_nothing_open(config: EngineConfig) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        service = BrokerService(config, broker_port=taken.getsockname()[1], namesrv_port=0)
        with pytest.raises(OSError, match="in use"):
            await service.start()
    async with served(broker_of(config)) as peer:
        assert (await peer.send("T")).code == Answer.SUCCESS


async def test_a_second_broker_on_the_same_store_is_refused(config: EngineConfig, service: BrokerService) -> None:
    with pytest.raises(StoreLocked):
        await broker_of(config).start()
    assert service.engine.health().state == "OK"


async def test_a_disk_that_fails_to_sync_ends_all_promises(config: EngineConfig) -> None:
    files = SimulatedFiles()
    failures: asyncio.Queue[str] = asyncio.Queue()
    service = BrokerService(config, broker_port=0, namesrv_port=0, files=files, on_failed=failures.put_nowait)
    async with served(service) as peer:
        await peer.create_topic("T")
        assert (await peer.send("T", b"kept", UNIQUE)).code == Answer.SUCCESS
        files.fail(Fault("sync", forever=True, path_part="commitlog"))
        lost = await peer.send("T", b"lost", UNIQUE)
        assert lost.code == Answer.SYSTEM_ERROR
        assert "may be lost" in (lost.remark or "")
        assert "sync" in await asyncio.wait_for(failures.get(), 5)
        assert (await peer.send("T", b"refused", UNIQUE)).code == Answer.SERVICE_NOT_AVAILABLE
        assert [message.body for message in records((await peer.pull("T")).body)] == [b"kept"]
        assert failures.empty()


async def test_a_full_disk_refuses_sends_and_lets_consumers_drain(config: EngineConfig) -> None:
    files = SimulatedFiles(capacity_bytes=3 << 20)
    small = replace(config, segment_size_bytes=1 << 20, disk_refuse_ratio=0.99)
    async with served(broker_of(small, files)) as peer:
        await peer.create_topic("T")
        sent = 0
        while (answer := await peer.send("T", b"x" * (1 << 16), UNIQUE)).code == Answer.SUCCESS:
            sent += 1
            assert sent < 100
        assert answer.code == Answer.SERVICE_NOT_AVAILABLE
        assert sent > 0
        drained = 0
        while (pulled := await peer.pull("T", drained)).code == Answer.SUCCESS:
            drained = int(pulled.ext["nextBeginOffset"])
        assert drained == sent


async def test_the_bare_broker_runs_as_a_program_and_stops_on_term(tmp_path: Path) -> None:
    program = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "broker.server", "--root", str(tmp_path / "store"), "--port", "0",
        "--namesrv-port", "0", stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert program.stdout is not None
    line = (await asyncio.wait_for(program.stdout.readline(), 20)).decode().split()
    client = RemotingClient()
    answer = await client.invoke(line[-1], Request.GET_BROKER_CLUSTER_INFO)
    assert line[1].encode() in answer.body
    assert (await Peer(client, line[1]).send("T")).code == Answer.SUCCESS
    program.send_signal(signal.SIGUSR2)

    async def is_in_the_administration_log() -> bool:
        return b'"LOG_LEVELS"' in (await client.invoke(line[1], Request.GET_ADMINISTRATION)).body

    await until_true(is_in_the_administration_log)
    program.send_signal(signal.SIGTERM)
    await asyncio.wait_for(program.communicate(), 10)
    assert program.returncode == 0
    await client.close()
    async with served(broker_of(EngineConfig(root=str(tmp_path / "store")))) as peer:
        assert len(records((await peer.pull("T")).body)) == 1


async def test_a_store_that_cannot_be_opened_is_said_so_by_the_program(service: BrokerService) -> None:
    program = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "broker.server", "--root", service.config.root, "--port", "0", "--namesrv-port", "0",
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    _, errors = await asyncio.wait_for(program.communicate(), 20)
    assert program.returncode == 1
    assert b"Another broker" in errors


@pytest.mark.parametrize(
    ("options", "environment", "refusal"),
    [
        (["--host", "0.0.0.0"], {}, b"without access control"),
        (["--host", "::"], {}, b"--access-key"),
        (["--host", ""], {}, b"without access control"),
        (["--host", "broker.example"], {}, b"--host to a loopback address"),
        (["--host", "0.0.0.0", "--access-key", "root"], {}, b"--advertise"),
        (["--host", "0.0.0.0", "--access-key", "root", "--advertise", "127.0.0.1"], {}, b"ESCAPEMENT_PLAINTEXT=1"),
        (["--access-key", "root"], {"ESCAPEMENT_SECRET_KEY": ""}, b"set ESCAPEMENT_SECRET_KEY"),
        (["--host", "0.0.0.0", "--simulated-clock", "60"], {}, b"or leave --simulated-clock out"),
    ],
    ids=["all", "all of IPv6", "empty", "a name", "none to tell", "plain", "without a secret", "another clock"],
)
async def test_the_bare_broker_refuses_to_be_reached_as_the_hosted_one_does(
    tmp_path: Path, options: list[str], environment: dict[str, str], refusal: bytes
) -> None:
    program = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "broker.server", "--root", str(tmp_path / "store"), "--port", "0",
        "--namesrv-port", "0", *options, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        env=os.environ | {"ESCAPEMENT_SECRET_KEY": "root-secret", "ESCAPEMENT_PLAINTEXT": ""} | environment,
    )  # fmt: skip
    said, errors = await asyncio.wait_for(program.communicate(), 20)
    assert (program.returncode, said) == (1, b"")
    assert refusal in errors
    assert b"Traceback" not in errors
    assert not (tmp_path / "store").exists()


async def test_the_bare_broker_listens_for_others_where_that_is_answered_for(tmp_path: Path) -> None:
    allowed = {"ESCAPEMENT_SECRET_KEY": "root-secret", "ESCAPEMENT_PLAINTEXT": "1"}
    program = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "broker.server", "--root", str(tmp_path / "store"), "--port", "0",
        "--namesrv-port", "0", "--host", "0.0.0.0", "--advertise", "127.0.0.1", "--access-key", "root",
        env=os.environ | allowed,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert program.stdout is not None
    line = (await asyncio.wait_for(program.stdout.readline(), 20)).decode().split()
    assert line[1].startswith("127.0.0.1:")
    program.send_signal(signal.SIGTERM)
    _, errors = await asyncio.wait_for(program.communicate(), 10)
    assert b"WARNING broker.server.listener: The broker would listen on 0.0.0.0 without TLS" in errors


async def test_who_does_not_wait_for_the_disk_is_answered_before_it(config: EngineConfig) -> None:
    files = SimulatedFiles()
    service = BrokerService(config, broker_port=0, namesrv_port=0, files=files, on_failed=lambda reason: None)
    await service.start()
    client = RemotingClient()
    try:
        peer = Peer(client, service.address)
        await peer.send("T", properties="UNIQ_KEY\x01A\x02WAIT\x01true\x02")
        files.fail(Fault("sync", forever=True, path_part="commitlog"))
        answer = await peer.send("T", properties="UNIQ_KEY\x01B\x02WAIT\x01false\x02")
        assert (answer.code, answer.ext["queueOffset"]) == (Answer.SUCCESS, "1")
    finally:
        await client.close()
        await service.stop()
