"""The broker is asked where its log ends; who cannot be asked is no reason to read nothing."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from broker.client import Producer
from spark.options import OptionInvalid, parse_options
from spark.source import LogReader, acknowledged_end, known_end
from spark.store import LogStore
from tests.mirror.running import running_broker


def test_the_end_is_what_was_acknowledged_although_the_checkpoint_is_older(tmp_path: Path) -> None:
    with running_broker(tmp_path / "store", checkpoint_interval_ms=3_600_000) as broker:
        with Producer("writers", broker.namesrv) as producer:
            for number in range(5):
                producer.send("orders", f"{number}")
        store, asked = str(tmp_path / "store"), {"path": str(tmp_path / "store"), "broker": broker.address}
        end = acknowledged_end(broker.address)
        assert end is not None and end > (LogStore(store).checkpoint_position() or 0)
        reader = LogReader(parse_options(asked))
        rows = [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]
        assert rows[-1]["position"] + rows[-1]["size"] == end
        assert [row["queue_offset"] is not None and row["corrupt"] for row in rows] == [None] * 5
    assert acknowledged_end(broker.address) is None
    assert known_end(LogStore(store), parse_options(asked)) == LogStore(store).checkpoint_position()


@contextmanager
def answering(answer: bytes) -> Iterator[str]:
    """Somebody at an address who says this and hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        thread.join(10)


def frame(header: object, body: bytes = b"") -> bytes:
    text = json.dumps(header).encode()
    return struct.pack(">II", 4 + len(text) + len(body), len(text)) + text + body


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"\x00\x00",
        b"\xff\xff\xff\xff",
        b"\x00\x00\x00\x04\x00\x00\x00\x00",
        frame({"code": 16}, b'{"table":{"commitLogMaxOffset":"7"}}'),
        frame({"code": 0}, b"no JSON"),
        frame({"code": 0}, b'{"table":{}}'),
        frame(["code"]),
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
    ],
)
def test_who_does_not_tell_is_nobody(answer: bytes) -> None:
    with answering(answer) as address:
        assert acknowledged_end(address) is None


def test_what_is_no_address_is_said() -> None:
    with pytest.raises(OptionInvalid, match="no address"):
        acknowledged_end("somewhere")
