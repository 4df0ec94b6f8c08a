"""What is compiled says the same as what stands in Python, of anything."""

from __future__ import annotations

from array import array
from types import ModuleType
from typing import Any

import escapement_mq_fast
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from broker.engine.log.ticket import Ticket
from broker.engine.message_header import read_facts
from broker.engine.queues.index import ENTRY, Index
from broker.engine.testing import SimulatedFiles, open_engine
from broker.engine.testing.driver import START_MS
from broker.engine.timer import parking
from broker.engine.timer.state import Timer
from broker.rocketmq import sends
from broker.rocketmq.codes import Request
from broker.rocketmq.compiled import IN_PYTHON, INTERFACE
from broker.rocketmq.end_transaction import EndShortcut
from broker.rocketmq.errors import RequestRefused
from broker.rocketmq.frame import BINARY, JSON, Command, decode, encode
from broker.rocketmq.layout import MOST_IN_BATCH
from broker.rocketmq.message import Message, record_size, string_hash
from broker.rocketmq.message import decode as decode_record
from broker.rocketmq.message import encode as encode_record
from broker.rocketmq.sends import SendShortcut, SignedSend, SignedSendShortcut, read_send_header, split_batch
from broker.server import send_reply
from broker.server.processors import send
from tests.server.signing import assert_as_the_long_way, doubled, signed, signed_frame
from tests.server.test_endheader import long_way

FAST: ModuleType = escapement_mq_fast
INT = st.integers(-(1 << 31), (1 << 31) - 1)
LONG = st.integers(-(1 << 63), (1 << 63) - 1)
PLACE = st.integers(0, (1 << 63) - 1)
HOST = st.one_of(st.binary(min_size=8, max_size=8), st.binary(min_size=20, max_size=20))
IPV4 = b"\x7f\0\0\1\0\0\x2a\x9f"


def test_the_twins_are_of_this_version_and_each_is_known():
    assert FAST.INTERFACE == INTERFACE
    assert IN_PYTHON.keys() <= vars(FAST).keys()
    assert IN_PYTHON["stored_form"].__module__ == send.__name__


@given(
    st.binary(max_size=300), INT, PLACE, PLACE, st.binary(max_size=700), st.binary(max_size=300), INT, INT, LONG, HOST,
    LONG, HOST, INT, LONG,
)  # fmt: skip
def test_a_record(
    topic, queue_id, offset, position, body, properties, flag, sys_flag, born, host, stored, own, times, at
):
    size = record_size(topic, body, properties, host, own)
    said = (
        topic,
        queue_id,
        offset,
        position,
        body,
        properties,
        flag,
        sys_flag,
        born,
        host,
        stored,
        own,
        times,
        at,
        size,
    )
    assert FAST.record(*said) == IN_PYTHON["record"](*said)


@pytest.mark.parametrize("lengths", [range(300), range(4_000, 4_070), [100_000, 4 << 20]])
def test_checksums_of_any_length(lengths):
    letters = bytes(number * number % 251 for number in range(1 << 16)) * 65
    for length in lengths:
        body = letters[length % 7 : length % 7 + length]
        size = record_size(b"T", body, b"", IPV4, IPV4)
        said = (b"T", 1, 2, 3, body, b"", 0, 0, 4, IPV4, 5, IPV4, 0, 0, size)
        assert FAST.record(*said) == IN_PYTHON["record"](*said)


@given(
    st.text(max_size=140), INT, PLACE, PLACE, st.binary(max_size=99),
    st.lists(st.tuples(st.text(max_size=4), st.text(max_size=4))), INT, LONG, HOST, st.integers(0, 1 << 40),
)  # fmt: skip
def test_what_a_record_says(topic, queue_id, offset, position, body, pairs, flag, born_ms, host, cut):
    raw = "".join(f"{name}\x01{value}\x02" for name, value in pairs).encode()
    name = topic.encode()[:255]
    size = record_size(name, body, raw, host, IPV4)
    record = encode_record(name, queue_id, offset, position, body, raw, flag, 0, born_ms, host, 5, IPV4, 1, 2, size)
    check_record(record)
    at = cut % len(record)
    check_record(record[:at])
    check_record(record[:at] + bytes((record[at] ^ 1 << cut % 8,)) + record[at + 1 :])


def check_record(record: bytes) -> None:
    found = FAST.usual_record(record)
    if found is not None:
        assert Message(*found) == decode_record(record)


def test_a_usual_record_is_read():
    raw = "UNIQ_KEY\x01A1\x02KEYS\x01ü\x01a\x02KEYS\x01o-1\x02\x02".encode()
    size = record_size(b"T", b"body", raw, IPV4, IPV4)
    record = encode_record(b"T", 3, 4, 5, b"body", raw, -1, 1, 6, IPV4, 7, IPV4, 8, 9, size)
    message = Message(*FAST.usual_record(record))
    assert message == decode_record(record)
    assert message.properties == {"UNIQ_KEY": "A1", "KEYS": "o-1"}


@given(st.binary(max_size=127), st.lists(st.tuples(
    INT, PLACE, PLACE, st.binary(max_size=300), st.binary(max_size=90), INT, st.binary(min_size=48, max_size=48)
), max_size=12))  # fmt: skip
def test_records(name, rows):
    sizes = [record_size(name, body, raw, IPV4, IPV4) for _, _, _, body, raw, _, _ in rows]
    queue_ids, offsets, positions, bodies, properties, flags, sames = zip(*rows, strict=True) if rows else [()] * 7
    said = (name, queue_ids, offsets, list(positions), sizes, bodies, properties, flags, sames)
    assert FAST.records(*said) == IN_PYTHON["records"](*said)


@given(
    st.lists(st.binary(max_size=40), min_size=1, max_size=5), st.integers(0, (1 << 31) - 1), st.integers(0, 1 << 40),
    st.integers(0, 1 << 50), st.integers(0, 1 << 30), st.data(),
)  # fmt: skip
def test_records_that_stand_where_they_should(bodies, queue_id, offset, position, cut, data):
    records, positions = [], []
    for number, body in enumerate(bodies):
        size = record_size(b"T", body, b"a\x01b\x02", IPV4, IPV4)
        said = (b"T", queue_id, offset + number, position, body, b"a\x01b\x02", 0, 0, 1, IPV4, 2, IPV4, 0, 0, size)
        records.append(encode_record(*said))
        positions.append(position)
        position += size + cut % 9
    sizes = tuple(map(len, records))
    assert FAST.all_stand_here(records, tuple(positions), sizes, queue_id, offset) is True
    number, record = cut % len(records), records[cut % len(records)]
    at, wrong = cut % len(record), data.draw(st.sampled_from(["bit", "end", "size", "position", "offset", "queue"]))
    if wrong == "bit":
        records[number] = record[:at] + bytes((record[at] ^ 1 << cut % 8,)) + record[at + 1 :]
    elif wrong == "end":
        records[number] = record[:at]
        sizes = data.draw(st.sampled_from([sizes, tuple(map(len, records))]))
    elif wrong == "size":
        sizes = (*sizes[:number], data.draw(INT), *sizes[number + 1 :])
    elif wrong == "position":
        positions[number] = data.draw(LONG)
    asked = (records, positions, sizes, queue_id + (wrong == "queue" and queue_id < 9), offset + (wrong == "offset"))
    assert FAST.all_stand_here(*asked) is IN_PYTHON["all_stand_here"](*asked)


@given(st.lists(st.tuples(PLACE, INT, LONG), max_size=40), st.booleans())
def test_entries_of_a_queue(rows, has_tags):
    positions, sizes, codes = zip(*rows, strict=True) if rows else ((), (), ())
    said = (positions, sizes, list(codes) if has_tags else None)
    assert FAST.entries(*said) == IN_PYTHON["entries"](*said)


def in_64_bits(numbers: list[int]) -> memoryview:
    """A column as the twin of batches makes it."""
    return memoryview(array("q", numbers))


@given(st.integers(1, 40), st.lists(st.tuples(st.integers(0, 0x7FFFFFFF), PLACE), max_size=60), INT.map(abs), st.data())
def test_entries_of_the_index(slots, rows, number, data):
    number, seconds, page = number % (1 << 30), data.draw(st.integers(0, 0x7FFFFFFF)), data.draw(st.integers(1, 5))
    held = array("i", data.draw(st.lists(INT, min_size=slots, max_size=slots)))
    hashes, positions = [row[0] for row in rows], [row[1] for row in rows]
    left, right = array("i", held), array("i", held)
    dirty, noted = bytearray(slots), bytearray(slots)
    ours = IN_PYTHON["put_entries"](left, hashes, positions, seconds, number, dirty, page)
    said = (in_64_bits(hashes), in_64_bits(positions)) if data.draw(st.booleans()) else (hashes, positions)
    assert FAST.put_entries(right, *said, seconds, number, noted, page) == ours
    assert left == right and dirty == noted and len(ours[0]) == len(rows) * ENTRY.size


@given(HOST, st.lists(LONG, max_size=60))
def test_ids_of_a_batch(host, positions):
    ids = IN_PYTHON["offset_message_ids"](host, positions)
    assert FAST.offset_message_ids(host, positions) == FAST.offset_message_ids(host, in_64_bits(positions)) == ids


@given(st.text(max_size=30), st.lists(st.one_of(st.text(max_size=40), st.text("AB09", min_size=20)), max_size=20))
def test_hashes(beginning, keys):
    index = Index(SimulatedFiles(), "/index", 8, 8)
    texts = [beginning + key for key in keys]
    expected = [abs(string_hash(text)) & 0x7FFFFFFF for text in texts]
    assert FAST.hashes(beginning, keys) == FAST.hashes("", texts) == expected == index.hashes(texts)
    assert [FAST.index_hash(text) for text in texts] == expected


@pytest.mark.parametrize("text", ["\ud800", "a\udfff\ud800", "é", "𝄞", "polygenelubricants", ""])
def test_a_hash_of_what_is_not_usual(text: str):
    """The fifth one's hash is the smallest number, which has no absolute value."""
    assert FAST.index_hash(text) == abs(string_hash(text)) & 0x7FFFFFFF


NAMES = st.sampled_from(
    [
        "UNIQ_KEY",
        "TAGS",
        "KEYS",
        "WAIT",
        "DELAY",
        "TIMER_DELAY_MS",
        "TIMER_DELAY_SEC",
        "TIMER_DELIVER_MS",
        "TIMER_DX",
        "ESC_X",
        "POP_CK",
        "__CRC32#",
        "a",
        "ü",
        "",
    ]
)
VALUES = st.one_of(st.text("aB7 \x01\u20ac\n", max_size=6), st.text("0123456789", max_size=16))
PROPERTIES = st.one_of(
    st.lists(st.tuples(NAMES, VALUES), max_size=6).map(lambda rows: "".join(f"{a}\1{b}\2" for a, b in rows).encode()),
    st.binary(max_size=30),
    st.text("UNIQ_KEYTAGS\x01\x02", max_size=40).map(str.encode),
)


@given(PROPERTIES)
def test_facts(raw):
    found = FAST.usual_facts(raw)
    if found is not None:
        assert found == tuple(read_facts(raw))


def test_facts_of_what_is_usual_are_found():
    raw = b"UNIQ_KEY\x01A1\x02TAGS\x01paid\x02KEYS\x01o-1 o-2\x02WAIT\x01true\x02UNIQ_KEY\x01A2\x02"
    assert FAST.usual_facts(raw) == (raw, "A2", "paid", "o-1 o-2", 0, "", None)
    for moment in (("TIMER_DELAY_SEC", "1800"), ("TIMER_DELAY_MS", "0"), ("TIMER_DELIVER_MS", "1795249116470")):
        timer = raw + "{}\x01{}\x02".format(*moment).encode()
        assert FAST.usual_facts(timer) == (timer, "A2", "paid", "o-1 o-2", 0, timer.decode(), moment)


@given(st.lists(st.binary(min_size=3, max_size=3), min_size=1, max_size=8), st.integers(0, 8), st.integers(0, 8))
def test_keys_that_are_alike(keys, before, after):
    raws = [b"x" * before + key + b"y" * after for key in keys]
    said = (raws, before, before + 3)
    assert FAST.keys_alike(*said) == IN_PYTHON["keys_alike"](*said)
    odd = (*raws, raws[0] + b"z")
    assert FAST.keys_alike(odd, before, before + 3) is None is IN_PYTHON["keys_alike"](odd, before, before + 3)


def item(body: bytes, raw: bytes, flag: int, more: int = 0) -> bytes:
    size = 22 + len(body) + len(raw) + more
    return b"".join((
        size.to_bytes(4, "big", signed=True), bytes(8), flag.to_bytes(4, "big", signed=True),
        len(body).to_bytes(4, "big"), body, len(raw).to_bytes(2, "big"), raw,
    ))  # fmt: skip


ITEMS = st.lists(st.tuples(st.binary(max_size=9), st.binary(max_size=9), INT), max_size=6)


@given(st.one_of(
    ITEMS.map(lambda rows: b"".join(item(*row) for row in rows)),
    st.binary(max_size=60),
    st.tuples(ITEMS, st.integers(-9, 9), st.binary(max_size=3)).map(
        lambda all_: b"".join(item(*row, all_[1]) for row in all_[0]) + all_[2]
    ),
))  # fmt: skip
def test_messages_of_a_batch(body):
    expected: Any
    try:
        expected = split_batch(body)
    except RequestRefused:
        expected = None
    assert FAST.split_batch(body, MOST_IN_BATCH) == expected


def test_a_batch_of_too_many_is_not_split():
    assert FAST.split_batch(item(b"a", b"", 0) * 3, 2) is None


TEXT = st.one_of(st.sampled_from(["", "0", "1", "false", "true", "-1", "1700000000000", "12"]), st.text(max_size=6))
SENT = {
    "a": "g", "b": "T", "c": "TBW102", "d": "4", "e": "3", "f": "0", "g": "1700000000000", "h": "0",
    "i": "UNIQ_KEY\x01A\x02", "j": "0", "k": "false", "m": "false", "n": "broker-a",
}  # fmt: skip
FIELDS = st.builds(
    lambda other, without: {k: v for k, v in {**SENT, **other}.items() if k not in without},
    st.dictionaries(st.sampled_from([*"abcdefghijklmno", "bb"]), TEXT, max_size=3),
    st.sets(st.sampled_from(list("abcdefghijklmn")), max_size=2),
)


@given(
    FIELDS, st.binary(max_size=20), st.sampled_from([0, 2, 1, -1]), st.sampled_from([310, 310, 310, 10, 320]),
    st.sampled_from([None, None, "remark"]), st.integers(0, 1 << 30), INT, st.sampled_from([JSON, BINARY]),
    st.sampled_from(["JAVA", "JAVA", "GO"]),
)  # fmt: skip
def test_a_send(fields, body, flag, code, remark, cut, opaque, serialization, language):
    frame = encode(Command(code, fields, body, remark, flag, opaque, language, serialization=serialization))[4:]
    check_send(frame)
    check_send(frame[: cut % (len(frame) + 1)])
    at = cut % len(frame)
    check_send(frame[:at] + bytes((frame[at] ^ 1 << cut % 8,)) + frame[at + 1 :])


SENDS = (Request.SEND_MESSAGE_V2, Request.SEND_BATCH_MESSAGE)


def check_send(frame: bytes) -> None:
    """What is read means the same as what is read in full."""
    read = FAST.read_send(frame)
    if read is None:
        return
    command = decode(frame)
    header = read_send_header(command.ext)
    assert command.code in SENDS and not command.remark and not command.is_response
    assert not header.reconsume_times and header.most_reconsume_times is None
    assert read == (
        command.opaque, command.flag, header.topic, header.queue_id, header.sys_flag, header.born_ms, header.flag,
        header.properties, command.body, header.is_batch or command.code == Request.SEND_BATCH_MESSAGE,
    )  # fmt: skip


JSON_SEND = (
    '{"code":310,"extFields":{"a":"g","b":"T","c":"TBW102","d":"4","e":"3","f":"0","g":"1700000000000","h":"0",'
    '"i":"UNIQ_KEY\\u0001A\\u0002","j":"0","k":"false","m":"false","n":"broker-a"},"flag":0,"language":"JAVA",'
    '"opaque":-7,"serializeTypeCurrentRPC":"JSON","version":511}'
)
#: what may come in the place of a few letters: tokens of JSON, good and bad
TOKENS = st.sampled_from([
    "", " ", '"', "\\", "\\u0041", "\\u00e9", "\\u004", "\\n", "{", "}", ",", ":", "0", "-", "1e3", "null", "00", "ä",
    "\x01", "{}", '"x":"y",',
    '"flag":2,', '"flag":1,', '"opaque":2147483648,', '"remark":null,', '"l":"16",', '"e":"4",', '"m":"true",',
])  # fmt: skip


@given(
    st.lists(st.tuples(st.integers(0, len(JSON_SEND)), st.integers(0, 9), TOKENS), max_size=2), st.binary(max_size=5)
)
@example([(JSON_SEND.index("false"), 1, "-")], b"")
def test_a_send_with_a_header_of_json(changes, body):
    text = JSON_SEND
    for at, count, token in changes:
        text = text[:at] + token + text[at + count :]
    header = text.encode()
    frame = len(header).to_bytes(4, "big") + header + body
    read = FAST.read_send(frame)
    # with a decoder of its own no twin is asked
    assert read is None or read == sends.read_json_send(frame, lambda header: sends._decode(header))
    assert changes or read is not None


def test_what_the_other_way_reads_is_read():
    command = Command(310, SENT, b"body", opaque=7, language="JAVA", serialization=BINARY)
    frame, shortcut = encode(command)[4:], SendShortcut()
    shortcut.learn(frame, decode(frame), read_send_header(command.ext))
    assert FAST.read_send(frame) == shortcut.read(frame) is not None


SIGNERS = st.fixed_dictionaries(
    {"AccessKey": st.sampled_from(["alice", "", "\xfc"]), "Signature": st.sampled_from(["x" * 28, "", "\xfc"])},
    optional={"SecurityToken": st.sampled_from(["t", "", "\xfc"])},
)


@given(
    FIELDS, SIGNERS, st.sets(st.sampled_from(["AccessKey", "Signature"]), max_size=1), st.binary(max_size=20),
    st.sampled_from([0, 2, 1]), st.sampled_from([310, 310, 310, 320]), st.integers(0, 1 << 30),
    st.sampled_from([JSON, BINARY]), st.booleans(),
)  # fmt: skip
# one letter of the signature is none of UTF-8
@example(SENT, {"AccessKey": "alice", "Signature": "x" * 28}, set(), b"\0", 0, 310, 9519, JSON, True)
def test_a_signed_send(fields, signers, without, body, flag, code, cut, serialization, is_doubled):
    ext = fields | {name: value for name, value in signers.items() if name not in without}
    if is_doubled:
        frame = doubled(ext, body, {"e": "4"} if cut % 5 == 0 else None)
    else:
        frame = encode(Command(code, ext, body, None, flag, 7, "JAVA", serialization=serialization))[4:]
    check_signed(frame)
    check_signed(frame[: cut % (len(frame) + 1)])
    at = cut % len(frame)
    check_signed(frame[:at] + bytes((frame[at] ^ 1 << cut % 8,)) + frame[at + 1 :])


def check_signed(frame: bytes) -> None:
    read = FAST.read_signed_send(frame)
    if read is not None:
        assert_as_the_long_way(frame, SignedSend(*read))
        assert decode(frame).code == Request.SEND_MESSAGE_V2


def test_signed_sends_that_the_other_ways_read_are_read():
    ext = signed("T", "UNIQ_KEY\x01A\x02", b"body")
    of_json = encode(Command(310, ext, b"body", language="JAVA"))[4:]
    assert FAST.read_signed_send(of_json) == sends.read_signed_json_send(of_json) is not None
    for frame in (signed_frame(ext, b"body"), doubled(ext, b"body")):
        shortcut = SignedSendShortcut()
        shortcut.learn(frame, decode(frame), read_send_header(ext))
        assert FAST.read_signed_send(frame) == shortcut.read(frame) is not None


ENDING = {
    "topic": "T", "producerGroup": "payers", "tranStateTableOffset": "3", "commitLogOffset": "1668", "msgId": "A",
    "commitOrRollback": "8", "fromTransactionCheck": "false", "transactionId": "A", "bname": "broker-a",
}  # fmt: skip
ENDINGS = st.builds(
    lambda other, without: {k: v for k, v in {**ENDING, **other}.items() if k not in without},
    st.dictionaries(st.sampled_from([*ENDING, "x", "", "é"]), st.one_of(TEXT, st.sampled_from(["8", "12", "1" * 19]))),
    st.sets(st.sampled_from(list(ENDING)), max_size=1),
)


@given(
    ENDINGS, st.sampled_from([b"", b"", b"b"]), st.sampled_from([0, 2, 2, 1, -1]), st.sampled_from([37, 37, 37, 310]),
    st.sampled_from([None, None, "remark"]), st.integers(0, 1 << 30), INT, st.sampled_from([JSON, BINARY]),
)  # fmt: skip
def test_a_decision(fields, body, flag, code, remark, cut, opaque, serialization):
    frame = encode(Command(code, fields, body, remark, flag, opaque, "JAVA", serialization=serialization))[4:]
    check_decision(frame)
    check_decision(frame[: cut % (len(frame) + 1)])
    at = cut % len(frame)
    check_decision(frame[:at] + bytes((frame[at] ^ 1 << cut % 8,)) + frame[at + 1 :])
    check_decision(frame[:25] + frame[25:] * 2)


def check_decision(frame: bytes) -> None:
    """What is read means the same as what is read in full."""
    read = FAST.read_end(frame)
    if read is None:
        return
    command = decode(frame)
    assert command.code == Request.END_TRANSACTION and not command.remark and not command.is_response
    assert not command.body
    assert read == long_way(frame)


def test_a_decision_that_the_other_way_reads_is_read():
    frame, shortcut = encode(Command(37, ENDING, opaque=7, flag=2, serialization=BINARY))[4:], EndShortcut()
    shortcut.learn(frame, decode(frame))
    assert FAST.read_end(frame) == shortcut.read(frame) == (7, 2, True, 3, 1668, "payers", "A", False)
    frame = encode(Command(37, ENDING, opaque=7, flag=2, language="JAVA", serialization=JSON))[4:]
    assert FAST.read_end(frame) == long_way(frame) == (7, 2, True, 3, 1668, "payers", "A", False)


MARKS = st.sampled_from([
    b"UNIQ_KEY\x01", b"TRA", b"TRACE", b"TRAN_MSG\x01true\x02", b"PGROUP\x01", b"CLUSTER", b"MSG_REGION",
    b"WAIT\x01false", b"DELAY\x01", b"TIMER_", b"DEL_", b"DELIVER", b"ESC_", b"D", b"\x02", b"true", b"U", b"",
])  # fmt: skip


@given(st.lists(MARKS, max_size=7).map(b"".join), st.binary(max_size=9))
def test_the_stored_form_of_properties(properties, added):
    assert FAST.stored_form(properties, added) == IN_PYTHON["stored_form"](properties, added)


@given(
    INT,
    PLACE,
    st.integers(0, 1 << 31),
    PLACE,
    st.one_of(st.none(), st.text(max_size=40)),
    st.sampled_from([None, 0, 1 << 50]),
)
def test_an_answer(opaque, position, queue_id, offset, unique_key, due_ms):
    ticket = Ticket(None, "T", queue_id, offset, position, 1, 2, IPV4, due_ms, unique_key)
    more = b"" if due_ms is None else send_reply._waiting(due_ms, None)
    said = (unique_key, more)
    host = IPV4.hex().upper().encode()
    constants = (send_reply._LANGUAGE, send_reply.PROTOCOL_VERSION, send_reply._TAIL, host)
    made = FAST.send_reply(*constants, opaque, position, queue_id, offset, *said)
    if made is not None:
        assert made == send_reply.binary_reply(ticket, opaque)
    more = b"" if due_ms is None else b',"escDueMs":"%d"' % due_ms
    parts = (send_reply._JSON_LAST, send_reply._JSON_BEFORE_OPAQUE, send_reply._JSON_BEHIND_OPAQUE, host)
    made = FAST.json_send_reply(*parts, opaque, position, queue_id, offset, unique_key, more)
    if made is not None:
        assert made == send_reply.json_reply(ticket, opaque)


MOMENT = st.integers(-3, 4_000).map(lambda ms: START_MS + ms) | st.integers(-5_000, 1 << 40)
ROW = st.tuples(st.integers(0, 1 << 44), PLACE, st.integers(0, 1 << 22), MOMENT)


@given(
    st.lists(st.lists(ROW, max_size=8), max_size=3), st.sampled_from([14, 7_000]),
    st.sampled_from([0, START_MS, 1 << 40]), st.booleans(), st.sampled_from([-1, START_MS // 1000]),
)  # fmt: skip
def test_units_of_timers(rounds, slots, write_ms, knows_topic, begin):
    """In a wheel of a few slots, too, where another second stands."""
    theirs, ours = (open_engine(timer_slots=slots).engine.timers.index for _ in range(2))
    wheel, unit = theirs.wheel, 0
    hashes = {"orders": ours.hash_of("orders")} if knows_topic else {}
    for rows in rounds:
        timers = [Timer(*row, "orders") for row in rows]
        before = bytes(wheel.raw)
        end = begin + (1 << 40)
        found = FAST.timer_units(wheel.raw, wheel.written, timers, hashes, unit, write_ms, begin, end)
        if found is None:
            assert bytes(wheel.raw) == before
            return
        assert begin < found[1] <= found[2] < end
        assert found == ours._units_of(timers, unit, write_ms)
        assert (bytes(wheel.raw), wheel.written) == (bytes(ours.wheel.raw), ours.wheel.written)
        unit += len(found[0])


def test_units_of_usual_timers_are_made():
    index = open_engine().engine.timers.index
    timers = [Timer(number, number * 500, 500, START_MS + 1 + number // 4 * 1000, "orders") for number in range(8)]
    now = START_MS // 1000
    said = (timers, {"orders": index.hash_of("orders")}, 52, START_MS)
    assert FAST.timer_units(index.wheel.raw, index.wheel.written, *said, now, now + 2) is None
    assert FAST.timer_units(index.wheel.raw, index.wheel.written, *said, now - 1, now + 1) is None
    units, first, last = FAST.timer_units(index.wheel.raw, index.wheel.written, *said, now - 1, now + 2)
    assert (len(units), first, last) == (8 * 52, START_MS // 1000, START_MS // 1000 + 1)
    assert index.wheel.get(last) == (last, 5 * 52, 8 * 52, 4, 0)


ASKS = st.sampled_from([
    b"TIMER_DELAY_SEC\x015", b"TIMER_DELAY_MS\x011200", b"TIMER_DELIVER_MS\x01%d" % (START_MS + 7),
    b"TIMER_DELAY_SEC\x010", b"TIMER_DELAY_MS\x01999999999999999", b"TIMER_DELIVER_MS\x01x", b"DELAY\x013",
    b"ESC_SCHEDULE_KEY\x01o-1",
])  # fmt: skip
SAYS = st.sampled_from(
    [b"UNIQ_KEY\x01", b"TAGS\x01paid", "TAGS\x01späte".encode(), b"KEYS\x01o-1 o-2", b"a\x01b", b"TRAN_MSG\x01"]
)
TIMER = st.tuples(st.lists(ASKS | SAYS, max_size=3), ASKS, st.lists(SAYS, max_size=2), st.booleans()).map(
    lambda drawn: b"".join(
        each + b"\x02" for each in (*drawn[0], drawn[1], *drawn[2], *[b"UNIQ_KEY\x01A1"][: 1 + drawn[3]])
    )
)


def as_python_parks(raws: list[bytes], tails: list[bytes], now_ms: int, latest_ms: int) -> tuple[object, ...] | None:
    facts = list(map(read_facts, raws))
    if any(each.moment is None or not each.unique_key or b"TRAN_MSG\x01" in each.stored for each in facts):
        return None
    dues_ms = [parking.moment_ms(each.moment, now_ms) for each in facts if each.moment is not None]
    if not all(now_ms < due_ms <= latest_ms for due_ms in dues_ms):
        return None
    stored = list(map(parking._parked, raws, dues_ms, tails))
    others = [(each.tags, each.keys) for each in facts]
    said = others if any(each != (None, None) for each in others) else None
    return stored, dues_ms, [each.unique_key for each in facts], said


@given(st.lists(TIMER, max_size=4), st.sampled_from([0, START_MS]), st.sampled_from([5_000, 1 << 60]))
def test_what_is_stored_of_timers(raws, now_ms, delay_ms):
    tails = [b"\x02TIMER_DUE\x01%d\x01" % number for number in range(len(raws))]
    found = FAST.parked_timers(raws, tails, now_ms, now_ms + delay_ms)
    if found is not None:
        assert found == as_python_parks(raws, tails, now_ms, now_ms + delay_ms)


def test_what_is_stored_of_usual_timers_is_found():
    said = [b"UNIQ_KEY\x01A1\x02%b\x02WAIT\x01true\x02" % each for each in (
        b"TIMER_DELAY_SEC\x015", b"TIMER_DELAY_MS\x015000", b"TIMER_DELIVER_MS\x01%d" % (START_MS + 5_000),
    )]  # fmt: skip
    tails, latest_ms = [b"\x02a\x01"] * 3, START_MS + 5_000
    found = FAST.parked_timers(said, tails, START_MS, latest_ms)
    assert found == as_python_parks(said, tails, START_MS, latest_ms) is not None
    assert found[1:] == ([latest_ms] * 3, ["A1"] * 3, None)
    assert FAST.parked_timers(said, tails, START_MS, latest_ms - 1) is None
    assert FAST.parked_timers(said, tails, latest_ms, 1 << 62) is None
    tagged = [said[0], said[1] + b"TAGS\x01paid\x02KEYS\x01\x02"]
    assert FAST.parked_timers(tagged, tails[:2], START_MS, latest_ms)[3] == [(None, None), ("paid", "")]


@given(st.text(), st.text(), st.integers(), st.text())
@example("T", "broker-a", 1, "\ud800")
def test_the_handle_of_a_timer(topic, broker, moment_ms, unique_key):
    said = (topic, broker, moment_ms, unique_key)
    try:
        wanted = IN_PYTHON["handle"](*said)
    except UnicodeEncodeError:
        with pytest.raises(UnicodeEncodeError):
            FAST.handle(*said)
    else:
        assert FAST.handle(*said) == wanted


WRONG: list[tuple[str, tuple[object, ...], type[Exception]]] = [
    ("record", (b"T",), TypeError),
    ("record", (b"T", 0, 0, 0, b"", b"", 0, 0, 0, b"1234567", 0, IPV4, 0, 0, 111), ValueError),
    ("record", (b"T", 1 << 31, 0, 0, b"", b"", 0, 0, 0, IPV4, 0, IPV4, 0, 0, 112), OverflowError),
    ("record", (b"T", 0, 0, 0, b"", b"x" * 65_516, 0, 0, 0, IPV4, 0, IPV4, 0, 0, 65_628), OverflowError),
    ("records", (b"T", [0], [0], [0], [111], [b""], [b""], [0], [bytes(48)]), ValueError),
    ("records", (b"T", [0], [0], [0], [112], [b""], [b""], [0], [bytes(47)]), ValueError),
    ("records", (b"T", [0], [0, 1], [0], [112], [b""], [b""], [0], [bytes(48)]), ValueError),
    ("records", (b"T" * 128, [], [], [], [], [], [], [], []), ValueError),
    ("entries", ([0], (), None), ValueError),
    ("all_stand_here", ([b""], [0], [], 0, 0), ValueError),
    ("all_stand_here", (["record"], [0], [6], 0, 0), TypeError),
    ("entries", (range(1), [0], None), TypeError),
    ("put_entries", (array("q", [0]), [0], [0], 0, 1, bytearray(1), 1), ValueError),
    ("put_entries", (array("i"), [0], [0], 0, 1, bytearray(1), 1), ValueError),
    ("put_entries", (array("i", [0]), [-1], [0], 0, 1, bytearray(1), 1), ValueError),
    ("put_entries", (array("i", [0]), [0], [0], 0, 1, bytearray(1), 0), ValueError),
    ("put_entries", (array("i", [0, 0, 0]), [0], [0], 0, 1, bytearray(1), 2), ValueError),
    ("put_entries", (array("i", [0]), [0], [0], 0, 1, bytes(1), 1), BufferError),
    ("put_entries", (bytes(4), [0], [0], 0, 1, bytearray(1), 1), BufferError),
    ("hashes", (b"T", []), TypeError),
    ("hashes", ("T", [b"k"]), TypeError),
    ("index_hash", (b"T",), TypeError),
    ("keys_alike", ([b"abc"], 2, 4), ValueError),
    ("keys_alike", ([b"abc", "abc"], 1, 2), TypeError),
    ("usual_facts", ("text",), TypeError),
    ("split_batch", (bytearray(22), 1), TypeError),
    ("read_send", (None,), TypeError),
    ("read_signed_send", (None,), TypeError),
    ("read_end", ("frame",), TypeError),
    ("send_reply", (0, 0, b"", "host", 0, 0, 0, 0, None, b""), TypeError),
    ("json_send_reply", (b"", b"", b"", "host", 0, 0, 0, 0, None, b""), TypeError),
    ("json_send_reply", (b"", b"", b"", b"host", 1 << 31, 0, 0, 0, None, b""), OverflowError),
    ("batch_extremes", ("body", 1, 1), TypeError),
    ("write_durably", ({},), TypeError),
    ("write_durably", ([("/tmp", 0)],), TypeError),  # noqa: S108 - it is refused before
    ("write_durably", ([["/tmp", 0, b""]],), TypeError),  # noqa: S108 - it is refused before
    ("write_durably", ([("/tmp", "0", b"")],), TypeError),  # noqa: S108 - it is refused before
    ("write_durably", ([("/tmp", 0, "text")],), TypeError),  # noqa: S108 - it is refused before
    ("write_durably", ([("/tmp/\0", 0, b"")],), ValueError),  # noqa: S108 - it is refused before
    ("write_durably", ([("/tmp", 0, b"")],), IsADirectoryError),  # noqa: S108 - nothing is written
    ("batch_records", (b"", b"T", 0, 0, 0, bytes(48)), ValueError),
    ("offset_message_ids", (bytes(8), range(1)), TypeError),
    ("offset_message_ids", (bytes(8), memoryview(bytes(8))), ValueError),
    ("offset_message_ids", (bytes(8), memoryview(bytes(32)).cast("q")[::2]), BufferError),
    ("put_entries", (array("i", [0]), array("i", [0]), [0], 0, 1, bytearray(1), 1), ValueError),
    ("put_entries", (array("i", [0]), [0], array("q", [0, 0]), 0, 1, bytearray(1), 1), ValueError),
    ("handle", ("T", "b", "1", "k"), TypeError),
    ("handle", (b"T", "b", 1, "k"), TypeError),
    ("parked_timers", ([b""], [], 0, 0), ValueError),
    ("parked_timers", ([], [], -1, 0), ValueError),
    ("parked_timers", ([], [], (1 << 62) + 1, 0), ValueError),
    ("parked_timers", (["text"], [b""], 0, 0), TypeError),
    ("parked_timers", ([b""], ["text"], 0, 0), TypeError),
    ("timer_units", (bytes(64), bytearray(1), [], {}, 0, 0, 0, 0), BufferError),
    ("timer_units", (bytearray(64), bytearray(0), [], {}, 0, 0, 0, 0), ValueError),
    ("timer_units", (bytearray(31), bytearray(1), [], {}, 0, 0, 0, 0), ValueError),
    ("timer_units", (bytearray(64), bytearray(1), [], [], 0, 0, 0, 0), ValueError),
    ("timer_units", (bytearray(64), bytearray(1), [], {}, -1, 0, 0, 0), ValueError),
    ("timer_units", (bytearray(64), bytearray(1), [(1, 2, 3, 4)], {}, 0, 0, 0, 0), TypeError),
    ("timer_units", (bytearray(64), bytearray(1), [[1, 2, 3, 4, "T"]], {"T": 1}, 0, 0, 0, 0), TypeError),
    ("timer_units", (bytearray(64), bytearray(1), [(1, 2, 1 << 31, 4, "T")], {"T": 1}, 0, 0, 0, 0), OverflowError),
    ("timer_units", (bytearray(64), bytearray(1), [(1, 2, 3, 4, [])], {"T": 1}, 0, 0, 0, 0), TypeError),
]


@pytest.mark.parametrize(("name", "said", "error"), WRONG)
def test_what_is_wrong_is_refused(name: str, said: tuple[object, ...], error: type[Exception]):
    with pytest.raises(error):
        getattr(FAST, name)(*said)


def test_a_queue_id_of_more_than_32_bits_is_refused_for_a_batch():
    read = FAST.batch_extremes(item(b"a", b"UNIQ_KEY\x01K\x02", 0), 1, 1)[-1]
    with pytest.raises(OverflowError):
        FAST.batch_records(read, b"T", 1 << 31, 0, 0, bytes(48))


def test_slots_stay_as_they_are_where_one_entry_is_wrong():
    slots, pages = array("i", [5, 6]), bytearray(2)
    with pytest.raises((ValueError, OverflowError)):
        FAST.put_entries(slots, [0, 1 << 40], [0, 0], 0, 1, pages, 1)
    assert slots == array("i", [5, 6]) and pages == bytes(2)
