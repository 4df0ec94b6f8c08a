"""Settings that an administrator sees and changes while the broker runs."""

from __future__ import annotations

import json

import pytest

from broker.client.remoting import RemotingClient
from broker.engine.config import EngineConfig
from broker.rocketmq.codes import Answer, Request
from broker.rocketmq.frame import Command
from broker.server.broker import BrokerService
from broker.server.processors.settings import CHANGEABLE, BadSetting, all_settings, changed
from tests.server.peer import Peer


async def settings(peer: Peer) -> dict[str, str]:
    answer = await peer.ask(Request.GET_BROKER_CONFIG)
    return dict(line.split("=", 1) for line in answer.body.decode().splitlines())


async def change(peer: Peer, text: str) -> Command:
    return await peer.ask(Request.UPDATE_BROKER_CONFIG, body=text.encode())


async def test_a_change_is_shown_and_acted_upon(service: BrokerService, peer: Peer) -> None:
    assert (await change(peer, "# a comment\nautoCreateTopicEnable = false\n\nfileReservedTime=1.5\n")).code == 0
    shown = await settings(peer)
    assert (shown["autoCreateTopicEnable"], shown["fileReservedTime"]) == ("false", "1.5")
    assert (await peer.send("New")).code == Answer.TOPIC_NOT_EXIST
    assert service.engine.config.retention_hours == 1.5
    await change(peer, "autoCreateTopicEnable=true\ndefaultTopicQueueNums=2")
    assert (await peer.send("New", d="9")).code == 0
    made = service.engine.topics.get("New")
    assert made is not None
    assert made.write_queues == 2


async def test_transactions_follow_their_settings(service: BrokerService, peer: Peer) -> None:
    await change(peer, "transactionTimeOut=1\ntransactionCheckInterval=2\ntransactionCheckMax=3")
    table = service.engine.transactions.table
    assert (table.timeout_ms, table.interval_ms, table.most_checks) == (1, 2, 3)


BAD = {
    "unknown name": ("storePathRootDir=/tmp", "'storePathRootDir' cannot be changed while the broker runs"),
    "no number": ("fileReservedTime=soon", "fileReservedTime is hours, above 0, not 'soon'."),
    "no hours": ("fileReservedTime=nan", "fileReservedTime is hours"),
    "negative": ("transactionCheckMax=-1", "transactionCheckMax is 1 to 255"),
    "too many": ("transactionCheckMax=256", "transactionCheckMax is 1 to 255"),
    "digits of another script": ("transactionCheckMax=\u0663", "transactionCheckMax is 1 to 255"),
    "no truth": ("autoCreateTopicEnable=maybe", "autoCreateTopicEnable is true or false"),
    "no value": ("fileReservedTime", "'fileReservedTime' is not of the form name=value."),
    "nothing": ("\n# nothing\n", "The body names no setting"),
    "much": ("a=b\n" * 100_000, "The body names no setting"),
}


@pytest.mark.parametrize(("text", "remark"), BAD.values(), ids=BAD.keys())
async def test_what_cannot_be_set_is_refused_and_changes_nothing(
    service: BrokerService, peer: Peer, text: str, remark: str
) -> None:
    before = service.engine.config
    answer = await change(peer, f"diskMaxUsedSpaceRatio=50\n{text}" if len(text) < 100 and "=" in text else text)
    assert answer.code == Answer.INVALID_PARAMETER
    assert (answer.remark or "").startswith(remark)
    assert service.engine.config == before


async def test_bytes_that_are_no_text_change_nothing(peer: Peer) -> None:
    answer = await peer.ask(Request.UPDATE_BROKER_CONFIG, body=b"fileReservedTime=\xff")
    assert answer.code == Answer.INVALID_PARAMETER


async def after_restart(config: EngineConfig, *changes: str) -> tuple[dict[str, str], EngineConfig]:
    """What a broker that is stopped and started after each change shows, and acts upon."""
    client = RemotingClient()
    for text in (*changes, ""):
        service = BrokerService(config, broker_port=0, namesrv_port=0)
        await service.start()
        try:
            peer = Peer(client, service.address)
            if text:
                assert (await change(peer, text)).code == 0
            shown, acted_upon = await settings(peer), service.engine.config
        finally:
            await service.stop()
    await client.close()
    return shown, acted_upon


async def test_a_change_outlives_the_broker(config: EngineConfig) -> None:
    shown, acted_upon = await after_restart(config, "fileReservedTime=50\ntransactionCheckMax=9")
    assert (shown["fileReservedTime"], acted_upon.retention_hours, acted_upon.transaction_checks) == ("50", 50, 9)


async def test_a_change_taken_back_is_forgotten(config: EngineConfig) -> None:
    shown, acted_upon = await after_restart(config, "fileReservedTime=50", "fileReservedTime=72")
    assert (shown["fileReservedTime"], acted_upon.retention_hours) == ("72", 72)


async def test_nobody_touches_what_is_kept_as_a_named_value(service: BrokerService, peer: Peer) -> None:
    await change(peer, "fileReservedTime=50")
    names = Peer(peer.client, service.namesrv_address)
    kept = {"namespace": "ESCAPEMENT_BROKER", "key": "fileReservedTime"}
    assert (await names.ask(Request.GET_KV_CONFIG, kept)).code == Answer.QUERY_NOT_FOUND
    assert (await names.ask(Request.GET_KVLIST_BY_NAMESPACE, kept)).code == Answer.QUERY_NOT_FOUND
    assert (await names.ask(Request.DELETE_KV_CONFIG, kept)).code == Answer.INVALID_PARAMETER
    assert (await names.ask(Request.PUT_KV_CONFIG, kept | {"value": "1"})).code == Answer.INVALID_PARAMETER
    assert service.engine.key_values.get("ESCAPEMENT_BROKER", "fileReservedTime") == "50"


@pytest.mark.parametrize("name", CHANGEABLE)
def test_what_is_shown_can_be_set(name: str) -> None:
    config = EngineConfig(root="/store")
    shown = CHANGEABLE[name].show(config)
    again = changed(config, {name: str(shown).lower() if isinstance(shown, bool) else str(shown)})
    assert again == config
    assert name.startswith("esc") or all_settings(config)[name] == shown


def test_all_of_several_changes_are_made_or_none() -> None:
    with pytest.raises(BadSetting):
        changed(EngineConfig(root="/store"), {"fileReservedTime": "9", "transactionCheckMax": "0"})


async def details(peer: Peer) -> dict[str, dict[str, str]]:
    answer = await peer.ask(Request.GET_BROKER_CONFIG, {"escDetails": "true"})
    told: dict[str, dict[str, str]] = json.loads(answer.ext["escSettings"])
    return told


async def test_who_asks_for_details_is_told_defaults_and_what_can_be_changed(peer: Peer) -> None:
    await change(peer, "fileReservedTime=50\nescKeepUnconsumed=false")
    told, named = await details(peer), await settings(peer)
    assert {name: about["value"] for name, about in told.items() if not name.startswith("esc")} == named
    assert told["fileReservedTime"] == {"value": "50", "started": "72", "default": "72", "allowed": "hours, above 0"}
    assert told["escKeepUnconsumed"]["value"] == "false"
    assert "allowed" not in told["storePathRootDir"]
    assert {name for name, about in told.items() if "allowed" in about} == set(CHANGEABLE)
    assert told["escAccessControl"]["value"] == told["escTls"]["value"] == "false"


async def test_larger_messages_are_refused_from_then_on(peer: Peer) -> None:
    assert (await peer.send("T", b"x" * 100)).code == 0
    await change(peer, "maxMessageSize=99")
    assert (await peer.send("T", b"x" * 100)).code != 0
    assert (await peer.send("T", b"x" * 99)).code == 0


async def test_limits_of_timers_hold_from_then_on(service: BrokerService, peer: Peer) -> None:
    second_ms = (service.engine.health().started_ms // 1_000 + 3_600) * 1_000
    later = f"TIMER_DELIVER_MS\x01{second_ms}\x02"
    await change(peer, "escTimerMaxPending=1\ntimerCongestNumEachSlot=2147483647")
    assert (await peer.send("T", b"1", later)).code == 0
    assert (await peer.send("T", b"2", later)).code != 0
    await change(peer, "escTimerMaxPending=9\ntimerCongestNumEachSlot=1")
    assert (await peer.send("T", b"2", later)).code != 0
    await change(peer, "timerCongestNumEachSlot=2")
    assert (await peer.send("T", b"2", later)).code == 0


async def test_the_runtime_tells_what_is_used_of_what_there_is(peer: Peer) -> None:
    table = json.loads((await peer.ask(Request.GET_BROKER_RUNTIME_INFO)).body)["table"]
    used = {name: int(table[name]) for name in ("connections", "descriptors", "diskFreeBytes", "memoryBytes")}
    assert used["connections"] >= 1
    assert used["connections"] < int(table["connectionsMax"]) < int(table["descriptorsMax"])
    assert used["connections"] < used["descriptors"] < int(table["descriptorsMax"])
    assert 0 < used["diskFreeBytes"] <= int(table["diskMaxBytes"])
    assert 0 < used["memoryBytes"] < int(table["memoryMaxBytes"])
