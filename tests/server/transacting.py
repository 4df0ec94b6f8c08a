"""What transaction producers and operators say, in one line each."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from broker.engine.config import EngineConfig
from broker.rocketmq.codes import Answer, Request
from broker.rocketmq.frame import Command
from tests.server.conftest import MEBIBYTE
from tests.server.peer import Peer, records

GROUP = "payers"
KEY = "C00002024A5C30946E0968C7AD360000"
COMMIT, ROLLBACK, UNKNOWN = "8", "12", "0"


def asking_soon(directory: Path) -> EngineConfig:
    """A small store that asks soon."""
    return EngineConfig(
        root=str(directory / "store"),
        segment_size_bytes=16 * MEBIBYTE,
        queue_file_entries=1000,
        index_slots=1000,
        index_entries=4000,
        delay_levels="1s 1h",
        transaction_timeout_ms=200,
        transaction_interval_ms=300,
        transaction_checks=2,
    )


async def begin(peer: Peer, body: bytes = b"pay", *, key: str = KEY, more: str = "", **changes: str) -> dict[str, str]:
    """Send a half; the fields that decide it."""
    properties = f"TRAN_MSG\x01true\x02PGROUP\x01{GROUP}\x02UNIQ_KEY\x01{key}\x02{more}"
    answer = await peer.send("orders", body, properties, **({"f": "4"} | changes))
    assert answer.code == Answer.SUCCESS, answer.remark
    assert answer.ext["transactionId"] == key
    return {
        "producerGroup": GROUP,
        "tranStateTableOffset": answer.ext["queueOffset"],
        "commitLogOffset": str(int(answer.ext["msgId"][-16:], 16)),
        "transactionId": key,
        "msgId": key,
        "fromTransactionCheck": "false",
    }


async def end(peer: Peer, half: dict[str, str], decision: str, **changes: str) -> Command:
    return await peer.ask(Request.END_TRANSACTION, half | {"commitOrRollback": decision} | changes)


async def bodies(peer: Peer) -> list[bytes]:
    answer = await peer.pull("orders")
    return [message.body for message in records(answer.body)] if answer.code == Answer.SUCCESS else []


def asked(peer: Peer) -> asyncio.Queue[Command]:
    """The questions that the broker puts to this client."""
    heard: asyncio.Queue[Command] = asyncio.Queue()
    peer.client.register(Request.CHECK_TRANSACTION_STATE, lambda _, request: heard.put_nowait(request))
    return heard


async def live(peer: Peer, group: str = GROUP) -> None:
    """Be a producer of the group."""
    body = json.dumps({"clientID": "c1", "producerDataSet": [{"groupName": group}], "consumerDataSet": []}).encode()
    assert (await peer.ask(Request.HEART_BEAT, body=body)).code == Answer.SUCCESS


async def ask_json(peer: Peer, code: int, body: bytes = b"", **ext: str) -> Any:
    answer = await peer.ask(code, ext, body)
    assert answer.code == Answer.SUCCESS, answer.remark
    return json.loads(answer.body)


async def steer(peer: Peer, action: str, *targets: dict[str, str], reason: str = "stuck") -> list[dict[str, Any]]:
    places = [{"offset": int(t["tranStateTableOffset"]), "position": int(t["commitLogOffset"])} for t in targets]
    said = json.dumps({"action": action, "targets": places, "who": "ann", "reason": reason}).encode()
    found = await ask_json(peer, Request.STEER_TRANSACTIONS, said)
    results: list[dict[str, Any]] = found["results"]
    return results
