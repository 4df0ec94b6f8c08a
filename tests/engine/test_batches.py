"""A batch leaves the same bytes behind as its messages one by one."""

from __future__ import annotations

import pytest

from broker.engine.admission import MOST_KEYS
from broker.engine.errors import TooManyKeys
from broker.engine.message_header import facts_of, plain_facts, plain_keys
from broker.engine.testing import SimulatedFiles, open_engine
from broker.rocketmq.properties import format_properties

KINDS = [{}, {"TAGS": "paid"}, {"KEYS": "4711 4712"}, {"TAGS": "späte", "KEYS": "k", "amount": "12"}, {"WAIT": "true"}]


def parts(count: int, begin: int, length: int) -> list[tuple[bytes, bytes, int]]:
    return [
        (
            bytes([65 + n % 26]) * (length + n),
            format_properties({"UNIQ_KEY": f"{begin + n:032X}", **KINDS[n % 5]}),
            n % 3,
        )
        for n in range(count)
    ]


def stored(*, together: bool, length: int) -> dict[str, bytes]:
    """What is on disk when nine batches have been stored, as batches or one by one."""
    disk = SimulatedFiles()
    driver = open_engine(disk)
    driver.engine.topics.ensure("orders", 2)
    now_ms = driver.clock.now_ms
    shared = {"sys_flag": 0, "born_ms": 7, "born_host": bytes(8), "now_ms": now_ms}
    for number in range(9):
        batch = parts(7, number * 100, length)
        if together:
            driver.engine.append_batch("orders", number % 2, batch, **shared)
        else:
            for body, properties, flag in batch:
                driver.engine.append("orders", number % 2, body, properties, flag=flag, **shared)
        driver.flush()
    driver.close()
    # room for a whole batch is made before it is taken, which may be a segment that nothing came into yet
    return {path: data for path, data in disk.contents().items() if "/commitlog/" not in path or any(data)}


@pytest.mark.parametrize("length", [10, 90, 300])
def test_a_batch_is_its_messages(length: int) -> None:
    one_by_one, together = stored(together=False, length=length), stored(together=True, length=length)
    assert len([path for path in together if "/commitlog/" in path]) > 1
    assert together == one_by_one


@pytest.mark.parametrize("between", [" ", "\t", " \u2003", "\n\n"])
def test_a_batch_has_so_many_keys_and_no_more(between: str) -> None:
    driver = open_engine(SimulatedFiles(), segment_size_bytes=4 << 20, max_properties_bytes=32_767)
    driver.engine.topics.ensure("orders", 1)
    shared = {"sys_flag": 0, "born_ms": 7, "born_host": bytes(8), "now_ms": driver.clock.now_ms}

    def batch(words: int) -> list[tuple[bytes, bytes, int]]:
        each, rest = divmod(words, 20)
        counts = [each] * 20 + [rest]
        return [(b"x", format_properties({"KEYS": between.join("k" * count)}), 0) for count in counts]

    with pytest.raises(TooManyKeys):
        driver.engine.append_batch("orders", 0, batch(MOST_KEYS + 1), **shared)
    assert driver.engine.queue_bounds("orders", 0) == (0, 0)
    driver.engine.append_batch("orders", 0, batch(MOST_KEYS), **shared)
    driver.settle()
    assert driver.engine.queue_bounds("orders", 0) == (0, 21)


@pytest.mark.parametrize(
    "raw",
    [
        b"UNIQ_KEY\x01AB\x02",
        b"UNIQ_KEY\x01AB\x02WAIT\x01true\x02",
        b"WAIT\x01true\x02UNIQ_KEY\x01AB\x02",
        b"",
        b"UNIQ_KEY\x01\x02",
        b"UNIQ_KEY\x01AB",
        b"UNIQ_KEY\x01A\xc3\xa4\x02",
        b"UNIQ_KEY\x01AB\x02WAIT\x01false\x02",
        b"UNIQ_KEY\x01AB\x02UNIQ_KEY\x01CD\x02",
        b"UNIQ_KEY\x01AB\x02TAGS\x01t\x02",
        b"UNIQ_KEY\x01AB\x02ESC_SOURCE\x011\x02",
        b"UNIQ_KEY\x01AB\x02WAIT\x01true\x02\x02",
        b"a\x01b c\x02UNIQ_KEY\x01AB\x02TRACE_ON\x01true\x02CLUSTER\x01\x02",
        b"UNIQ_KEY\x01AB\x02TRAN_MSG\x01true\x02",
        b"UNIQ_KEY\x01AB\x02DELAY\x012\x02",
        b"UNIQ_KEY\x01AB\x02KEYS\x01k\x02",
        b"UNIQ_KEY\x01AB\x02TIMER_DELAY_SEC\x012\x02",
        b"UNIQ_KEY\x01AB\x02POP_CK\x012\x02",
        b"UNIQ_KEY\x01AB\x02__CRC32#\x012\x02",
        b"UNIQ_KEY\x01AB\x02a\x01\xff\x02",
        b"UNIQ_KEY\x01AB\x02a\x01\x01\x02",
        b"UNIQ_KEY\x01AB\x02\x01a\x02",
        b"UNIQ_KEY\x01AB\x02a\x02",
    ],
)
def test_the_short_way_to_facts_says_the_same_or_nothing(raw: bytes) -> None:
    found = plain_facts(raw)
    assert found is None or found == facts_of(raw)
    assert (found is not None) == (
        raw
        in {
            b"UNIQ_KEY\x01AB\x02",
            b"UNIQ_KEY\x01AB\x02WAIT\x01true\x02",
            b"WAIT\x01true\x02UNIQ_KEY\x01AB\x02",
            b"UNIQ_KEY\x01AB\x02WAIT\x01false\x02",
            b"a\x01b c\x02UNIQ_KEY\x01AB\x02TRACE_ON\x01true\x02CLUSTER\x01\x02",
        }
    )


PLAIN = [b"UNIQ_KEY\x01%032X\x02WAIT\x01true\x02" % n for n in range(4)]


@pytest.mark.parametrize(
    "other",
    [b"UNIQ_KEY\x01%032X\x02WAIT\x01truE\x02" % 7, b"UNIQ_KEX\x01%032X\x02WAIT\x01true\x02" % 7,
     b"UNIQ_KEY\x01%031X\xc3\x02WAIT\x01true\x02" % 7, b"UNIQ_KEY\x01%030X\x02\x01\x02WAIT\x01true\x02" % 7,
     b"TAGS\x01%040X\x02WAIT\x01t\x02" % 7, b"UNIQ_KEY\x01%031X\x02WAIT\x01true\x02" % 7, b""],
)  # fmt: skip
def test_ids_are_read_together_only_where_nothing_else_is_said(other: bytes) -> None:
    assert plain_keys(PLAIN) == [facts_of(raw).unique_key for raw in PLAIN]
    for place in (0, 2, 4):
        assert plain_keys([*PLAIN[:place], other, *PLAIN[place:]]) is None


@pytest.mark.parametrize("length", [10, 90, 300])
@pytest.mark.parametrize("host", [bytes(8), bytes(20)])
def test_a_plain_batch_is_its_messages(length: int, host: bytes) -> None:
    def disk_after(*, together: bool) -> dict[str, bytes]:
        disk = SimulatedFiles()
        driver = open_engine(disk, index_slots=5)
        driver.engine.topics.ensure("orders", 1)
        shared = {"sys_flag": 0, "born_ms": 7, "born_host": host, "now_ms": driver.clock.now_ms}
        for number in range(9):
            batch = [(b"x" * (length + n), b"UNIQ_KEY\x01%032X\x02" % (number + n), n % 2) for n in range(7)]
            if together:
                driver.engine.append_batch("orders", 0, batch, **shared)
            else:
                for body, properties, flag in batch:
                    driver.engine.append("orders", 0, body, properties, flag=flag, **shared)
            driver.flush()
        driver.close()
        return {path: data for path, data in disk.contents().items() if "/commitlog/" not in path or any(data)}

    assert disk_after(together=True) == disk_after(together=False)
