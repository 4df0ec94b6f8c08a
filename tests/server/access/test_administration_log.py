"""The administration log: whoever changes something by remoting is in it, sends are not, and restarts keep it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker.client import AsyncAdmin
from broker.engine.config import EngineConfig
from broker.engine.disk import OsFiles
from broker.rocketmq.codes import Answer, Request
from broker.rocketmq.frame import Command
from broker.server.administration import CODES, FILE_NAME, AdministrationLog
from broker.server.broker import BrokerService, Protection
from tests.server.access.clients import ACCESS, ROOT, People, policy
from tests.server.peer import send_ext


async def told(people: People, **fields: str) -> dict[str, Any]:
    answer = await people.root.ask(Request.GET_ADMINISTRATION, fields)
    assert answer.code == 0, answer.remark
    found: dict[str, Any] = json.loads(bytes(answer.body))
    return found


async def test_who_changed_what_from_where_and_how_it_was_answered(people: People) -> None:
    alice = await people.normal("alice", policy("Topic:a-*", "All"))
    assert (await alice.create_topic("a-orders")).code == 0
    assert (await alice.create_topic("b-orders")).code == Answer.NO_PERMISSION
    assert (await alice.ask(Request.SEND_MESSAGE, send_ext("a-orders", ""), b"x")).code == 0
    bad = await alice.ask(Request.UPDATE_AND_CREATE_TOPIC, {"topic": "a-bad", "defaultTopic": "", "readQueueNums": "x"})
    assert bad.code != 0
    found = await told(people)
    assert [(each["user"], each["request"], each["answer"]) for each in found["requests"]] == [
        ("root", "AUTH_CREATE_USER", 0),
        ("root", "AUTH_CREATE_ACL", 0),
        ("alice", "UPDATE_AND_CREATE_TOPIC", 0),
        ("alice", "UPDATE_AND_CREATE_TOPIC", bad.code),
    ]
    assert [each["number"] for each in found["requests"]] == [1, 2, 3, 4]
    assert found["requests"][2]["fields"]["topic"] == "a-orders"
    assert found["requests"][3]["remark"] == bad.remark[:200]
    assert all(each["from"].startswith("127.0.0.1:") for each in found["requests"])


async def test_what_is_answered_later_stands_there_with_its_answer(people: People) -> None:
    """A topic is deleted when what waits for it is counted: it may be refused then."""
    assert (await people.root.create_topic("orders")).code == 0
    timer = send_ext("orders", "TIMER_DELAY_SEC\x013600\x02")
    assert (await people.root.ask(Request.SEND_MESSAGE_V2, timer, b"x")).code == 0
    refused = await people.root.ask(Request.DELETE_TOPIC_IN_BROKER, {"topic": "orders"})
    assert refused.code == Answer.ILLEGAL_OPERATION
    done = await people.root.ask(Request.DELETE_TOPIC_IN_BROKER, {"topic": "orders", "escPending": "cancel"})
    assert done.code == 0
    found = (await told(people))["requests"][-2:]
    assert [(each["request"], each["answer"]) for each in found] == [
        ("DELETE_TOPIC_IN_BROKER", Answer.ILLEGAL_OPERATION),
        ("DELETE_TOPIC_IN_BROKER", 0),
    ]
    assert found[0]["remark"] == str(refused.remark)[:200]


async def test_no_secret_is_in_it(people: People, config: EngineConfig) -> None:
    await people.create("alice", userType="Normal")
    await people.update("alice", password="another-secret")
    await people.root.ask(Request.AUTH_CREATE_USER, {"username": "eve", "password": "in-a-field"}, b"{broken-secret")
    text = (Path(config.root) / "config" / FILE_NAME).read_text()
    assert "Normal" in text
    for secret in ("alice-secret", "another-secret", "in-a-field", "broken-secret", ROOT[1], "Signature"):
        assert secret not in text


async def test_only_who_may_change_the_cluster_reads_it(people: People) -> None:
    alice = await people.normal("alice", policy("Topic:*", "All"), policy("Group:*", "All"))
    assert (await alice.ask(Request.GET_ADMINISTRATION)).code == Answer.NO_PERMISSION
    assert (await people.nobody().ask(Request.GET_ADMINISTRATION)).code == Answer.NO_PERMISSION


async def test_it_is_read_in_parts_and_from_the_beginning_of_another_numbering(people: People) -> None:
    for number in range(5):
        await people.root.create_topic(f"t-{number}")
    found = await told(people, limit="2")
    assert ([each["number"] for each in found["requests"]], found["first"], found["last"]) == ([1, 2], 1, 5)
    found = await told(people, log=found["log"], after="2")
    assert [each["number"] for each in found["requests"]] == [3, 4, 5]
    assert (await told(people, log=found["log"], after="5"))["requests"] == []
    assert len((await told(people, log="another", after="5"))["requests"]) == 5
    assert (await people.root.ask(Request.GET_ADMINISTRATION, {"after": "-1"})).code == Answer.INVALID_PARAMETER


async def test_what_the_name_service_is_told_is_in_it_too(people: People) -> None:
    fields = {"namespace": "ORDER_TOPIC_CONFIG", "key": "t", "value": "broker-a:4"}
    answer = await people.ask_namesrv(people.root, Request.PUT_KV_CONFIG, fields)
    found = await told(people)
    assert [(each["request"], each["answer"]) for each in found["requests"]] == [("PUT_KV_CONFIG", answer.code)]


async def test_the_client_reads_it(people: People) -> None:
    await people.root.create_topic("orders")
    async with AsyncAdmin(people.namesrv, access_key=ROOT[0], secret_key=ROOT[1]) as admin:
        found = await admin.administration()
        (asked,) = found.requests
        assert (asked.user, asked.request, asked.answer, asked.fields["topic"]) == (
            "root", "UPDATE_AND_CREATE_TOPIC", 0, "orders",
        )  # fmt: skip
        assert (await admin.administration(found.log, found.last)).requests == []


async def test_it_goes_on_after_a_restart(config: EngineConfig) -> None:
    logs = []
    for start in range(2):
        service = BrokerService(config, broker_port=0, namesrv_port=0, protection=Protection(access=ACCESS))
        await service.start()
        people = People(service.address, service.namesrv_address)
        await people.root.create_topic(f"t-{start}")
        logs.append(await told(people))
        await people.close()
        await service.stop()
    assert logs[0]["log"] == logs[1]["log"]
    assert [each["fields"]["topic"] for each in logs[1]["requests"]] == ["t-0", "t-1"]


class Asker:
    """As much of a connection as is told of."""

    user = "ann"
    address = "10.0.0.7:50112"


def log_at(root: Path, most_kept: int = 3) -> tuple[AdministrationLog, Callable[[str], None]]:
    """A log and a way to ask; what it keeps is few, so that its file is soon written anew."""
    log = AdministrationLog(OsFiles(), str(root), lambda: 7, most_kept=most_kept)
    log.load()
    code = int(Request.UPDATE_AND_CREATE_TOPIC)
    handler: Any = log.noted({code: lambda connection, request: request.answer()})[code]
    return log, lambda topic: handler(Asker(), Command(code, {"topic": topic}))


def topics(log: AdministrationLog) -> list[str]:
    asker: Any = Asker()
    body = bytes(log._tell(asker, Command(int(Request.GET_ADMINISTRATION), {})).body)
    return [each["fields"]["topic"] for each in json.loads(body)["requests"]]


def test_the_newest_are_kept_and_the_file_stays_small(tmp_path: Path) -> None:
    log, ask = log_at(tmp_path)
    file = tmp_path / "config" / FILE_NAME
    for number in range(20):
        ask(f"t-{number}")
        assert len(file.read_bytes().splitlines()) <= 1 + 6
    assert topics(log) == ["t-17", "t-18", "t-19"]
    again, _ = log_at(tmp_path)
    assert (topics(again), again.last, again.log) == (topics(log), 20, log.log)


@pytest.mark.parametrize("left", range(1, 40, 3))
def test_half_a_line_is_cut_off(tmp_path: Path, left: int) -> None:
    _, ask = log_at(tmp_path)
    ask("one")
    ask("two")
    file = tmp_path / "config" / FILE_NAME
    whole = file.read_bytes()
    file.write_bytes(whole + whole.splitlines()[-1][:left])
    log, ask = log_at(tmp_path)
    assert topics(log) == ["one", "two"]
    ask("three")
    assert topics(log_at(tmp_path)[0]) == ["one", "two", "three"]


@pytest.mark.parametrize("damage", [b"{}\n", b"no json\n", b'{"log": "a"}\n{"number": 1}\n{"number": 3}\n', b"\xff\n"])
def test_one_that_cannot_be_read_is_put_aside(tmp_path: Path, damage: bytes) -> None:
    (tmp_path / "config").mkdir()
    file = tmp_path / "config" / FILE_NAME
    file.write_bytes(damage)
    log, ask = log_at(tmp_path)
    ask("one")
    assert topics(log_at(tmp_path)[0]) == ["one"]
    assert file.with_name(f"{FILE_NAME}.damaged").read_bytes() == damage
    assert log.log != "a"


def test_a_disk_that_takes_nothing_undoes_nothing(tmp_path: Path) -> None:
    log, ask = log_at(tmp_path)
    ask("one")
    file = tmp_path / "config" / FILE_NAME
    file.unlink()
    file.mkdir()
    ask("two")
    assert topics(log) == ["one", "two"]
    file.rmdir()
    ask("three")
    assert topics(log_at(tmp_path)[0]) == ["one", "two", "three"]


def test_sends_and_reads_are_none_of_its_business() -> None:
    assert not CODES & {
        Request.SEND_MESSAGE, Request.SEND_MESSAGE_V2, Request.SEND_BATCH_MESSAGE, Request.PULL_MESSAGE,
        Request.UPDATE_CONSUMER_OFFSET, Request.HEART_BEAT, Request.END_TRANSACTION, Request.STEER_TIMERS,
        Request.GET_ADMINISTRATION,
    }  # fmt: skip
