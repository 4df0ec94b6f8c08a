"""The data source in a real Spark session."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
)
from pyspark.sql.streaming.datasource import ReadAllAvailable

from broker.engine.disk import OsFiles
from broker.engine.testing import open_engine
from spark.options import CLOCK_SLACK_MS, LEAST, MOST, OptionInvalid, Wanted, parse_options, parse_stores, split
from spark.segment import WINDOW_BYTES
from spark.source import LogReader, StoresStreamReader
from spark.store import LogStore, StoreUnreadable, stretches
from tests.crash.golden import folders
from tests.spark import plain
from tests.spark.logs import log_of, record

Write = Callable[[dict[int, bytes]], Path]
SIZE = 4096


def load(session: SparkSession, path: Path | str, **options: str) -> DataFrame:
    return session.read.format("rocketmq_log").options(**options).load(str(path))


def rows_of(frame: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict(recursive=True) for row in frame.orderBy("position").collect()]


def several(count: int, start: int = 0, **more: Any) -> bytes:
    parts = [
        {"topic": f"t{n % 3}", "store_ms": (start // SIZE * 20 + n) * CLOCK_SLACK_MS, "queue_offset": n, **more}
        for n in range(count)
    ]
    return log_of(*parts, size=SIZE, start=start)


@pytest.mark.parametrize("name", ["plain", "delay_levels"])
def test_all_columns_of_a_store_of_apache_rocketmq(
    session: SparkSession, golden: Callable[[str], Path], name: str
) -> None:
    path = golden(name)
    segments = {int(file.name): file.read_bytes() for file in (path / "commitlog").iterdir()}
    expected = [plain.row(message) for message in plain.messages(segments)]
    for row in expected:
        row["properties"] = dict(row["properties"])
        row["body"] = bytearray(row["body"])
    assert name in folders()
    assert rows_of(load(session, path, columns="hosts,names,properties,body")) == expected


def test_topic_time_and_position_are_filtered_by_the_reader(session: SparkSession, store: Write) -> None:
    path = store({0: several(20), SIZE: several(20, SIZE), 2 * SIZE: several(20, 2 * SIZE), 3 * SIZE: bytes(SIZE)})
    rows = load(session, path).collect()
    middle = rows[30]
    condition = f"topic in ('t1', 't2') and position >= {middle.position} and store_ms < {rows[50].store_ms}"
    found = load(session, path, pushdown="true").where(condition)
    assert found.orderBy("position").collect() == [row for row in rows[30:50] if row.topic in ("t1", "t2")]
    plan = found._jdf.queryExecution().executedPlan().toString().partition("Filter")[2].partition("\n")[0]
    assert "isnotnull" in plan and "<" not in plan


@pytest.mark.parametrize(
    ("one", "taken"),
    [
        (EqualTo(("topic",), "a"), Wanted(topics=frozenset("a"))),
        (In(("topic",), ("a", "b")), Wanted(topics=frozenset("ab"))),
        (EqualTo(("position",), 7), Wanted(positions=(7, 7))),
        (GreaterThan(("position",), 7), Wanted(positions=(8, MOST))),
        (GreaterThanOrEqual(("store_ms",), 7), Wanted(times_ms=(7, MOST))),
        (LessThan(("store_ms",), 7), Wanted(times_ms=(LEAST, 6))),
        (LessThanOrEqual(("position",), 7), Wanted(positions=(LEAST, 7))),
        (GreaterThan(("queue_offset",), 7), None),
        (StringContains(("topic",), "a"), None),
        (Not(EqualTo(("topic",), "a")), None),
        (In(("topic",), ("a", None)), None),
    ],
)
def test_which_filters_the_reader_takes(one: Filter, taken: Wanted | None) -> None:
    assert split(Wanted(), [one]) == ((Wanted(), [one]) if taken is None else (taken, []))


def test_segments_that_cannot_hold_a_wanted_row_are_not_opened(session: SparkSession, store: Write) -> None:
    path = store({0: several(20), SIZE: several(20, SIZE), 2 * SIZE: several(20, 2 * SIZE)})
    assert load(session, path).rdd.getNumPartitions() == 3
    middle = load(session, path, pushdown="true").where(f"position >= {SIZE} and position < {2 * SIZE}")
    assert middle.rdd.getNumPartitions() == 1
    late = load(session, path, since_ms=str(45 * CLOCK_SLACK_MS))
    assert late.rdd.getNumPartitions() == 1
    assert late.count() == 15


def test_a_frame_asked_again_answers_in_full(session: SparkSession, store: Write) -> None:
    # Spark 4.3 would use the reader of the first question, with its filters, for the second
    frame = load(session, store({0: several(20)}))
    assert frame.where("topic = 't1'").count() == 7
    assert frame.count() == 20


def test_options_choose_rows_as_filters_do(session: SparkSession, store: Write) -> None:
    path = store({0: several(20), SIZE: several(20, SIZE)})
    hour = CLOCK_SLACK_MS
    found = load(session, path, topics="t1,t2", since_ms=str(10 * hour), until_ms=str(25 * hour), start_position="500")
    assert {(row["topic"], row["store_ms"]) for row in rows_of(found)} == {
        (f"t{n % 20 % 3}", n * hour) for n in range(10, 26) if n % 20 % 3
    }


def test_single_columns_are_all_there_is(session: SparkSession, store: Write) -> None:
    path = store({0: several(20), SIZE: several(20, SIZE)})
    found = load(session, path, columns="unique_key,topic", extract="KEYS", topics="t1", start_position=str(SIZE))
    assert found.columns == ["topic", "unique_key", "property_keys"]
    assert [tuple(row) for row in found.collect()] == [("t1", None, None)] * 7
    hosts = load(session, path, columns="hosts,size", until_ms="0").collect()
    assert [tuple(row) for row in hosts] == [(len(record(0, topic="t0")), "127.0.0.1:10911", "127.0.0.1:10911")]


def test_a_scan_is_divided_at_records(store: Write) -> None:
    parts = [{"body": bytes(50 + n % 90)} for n in range(300)]
    data = log_of(*parts, size=1 << 16)
    path = store({0: data})
    log = LogStore(str(path))
    found = list(stretches(log, log.segments(), 0, None, 5_000))
    starts = {message.position for message in plain.messages({0: data})}
    assert len(found) > 5
    assert [stretch.begin for stretch in found[1:]] == [stretch.end for stretch in found[:-1]]
    assert {stretch.begin for stretch in found} <= starts


def test_damage_is_rows_and_never_a_crash(session: SparkSession, store: Write) -> None:
    data = bytearray(several(20))
    length = len(record(0, topic="t0"))
    data[length * 3 + 50] ^= 1
    data[length * 7 : length * 9] = b"\x00" * (length * 2)
    rows = rows_of(load(session, store({0: bytes(data)})))
    damaged = [(row["position"], row["size"]) for row in rows if row["corrupt"]]
    assert damaged == [(length * 3, length), (length * 7, length * 2)]
    assert len(rows) == 20 - 3 + 2


def test_the_end_is_the_checkpoint_of_the_broker(session: SparkSession, tmp_path: Path) -> None:
    driver = open_engine(OsFiles(), root=str(tmp_path / "store"))
    driver.engine.topics.ensure("orders", 1)
    for n in range(5):
        driver.send("orders", b"%d" % n)
    driver.clock.now_ms += 60_000
    driver.upkeep()
    vouched = rows_of(load(session, tmp_path / "store"))
    driver.send("orders", b"later")
    assert [row["queue_offset"] for row in vouched] == list(range(5))
    assert rows_of(load(session, tmp_path / "store")) == vouched
    assert len(rows_of(load(session, tmp_path / "store", end="log"))) == 6
    end = LogStore(str(tmp_path / "store")).checkpoint_position()
    assert end is not None and end == vouched[-1]["position"] + vouched[-1]["size"]
    driver.close()
    assert len(rows_of(load(session, tmp_path / "store"))) == 6


def test_a_segment_deleted_after_planning_is_a_row_that_says_so(session: SparkSession, store: Write) -> None:
    path = store({0: several(5), SIZE: several(5, SIZE)})
    frame = load(session, path)
    frame.rdd.getNumPartitions()  # planned
    (path / "commitlog" / f"{0:020d}").unlink()
    rows = rows_of(frame)
    assert [row["corrupt"] for row in rows if row["position"] == 0] in (
        [],
        ["the segment was deleted before it was read"],
    )
    assert sum(row["corrupt"] is None for row in rows) == 5


def test_a_segment_deleted_while_it_is_read_is_read_to_its_end(store: Write) -> None:
    size = 3 * WINDOW_BYTES
    path = store({0: log_of(*[{"queue_offset": n, "body": bytes(1 << 16)} for n in range(80)], size=size)})
    reader = LogReader(parse_options({"path": str(path)}))
    [partition] = reader.partitions()
    batches = reader.read(partition)
    first = next(batches)
    (path / "commitlog" / f"{0:020d}").unlink()
    rows = [*first.to_pylist(), *(row for batch in batches for row in batch.to_pylist())]
    assert len(first) < 80
    assert [(row["queue_offset"], row["corrupt"]) for row in rows] == [(n, None) for n in range(80)]


def test_a_folder_by_its_address(session: SparkSession, store: Write) -> None:
    path = store({0: several(3)})
    assert load(session, path.as_uri()).count() == 3


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"columns": "names,wings"}, "wings"),
        ({"levels": "1x"}, "no list of delays"),
        ({"end": "sometime"}, "end_position"),
        ({"end_position": "x"}, "no whole number"),
        ({"since_ms": "-5"}, "from 0 on"),
        ({"inflate": "yes"}, "it is 'true' or 'false'"),
        ({"pushdown": "1"}, "it is 'true' or 'false'"),
        ({"levels": "1s -5s"}, "no list of delays"),
        ({"levels": "99999999999999999d"}, "no list of delays"),
        ({"extract": "Buyer,buyer"}, "would be the column property_buyer"),
        ({"extract": "ABCDEFGHx12345678,ABCDEFGHy12345678"}, "choose columns=properties"),
        ({"extract": ",".join(f"p{n}" for n in range(300))}, "choose columns=properties"),
    ],
)
def test_an_option_that_cannot_be_is_refused(
    session: SparkSession, store: Write, options: dict[str, str], said: str
) -> None:
    with pytest.raises(AnalysisException, match=said):
        load(session, store({0: several(1)}), **options)


def test_a_directory_without_a_log_says_so(session: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="holds no commit log"):
        load(session, tmp_path).collect()


def test_where_nothing_has_to_be_read_there_are_no_rows(session: SparkSession, store: Write, tmp_path: Path) -> None:
    path = store({0: several(5)})
    (tmp_path / "fresh" / "commitlog").mkdir(parents=True)
    assert load(session, tmp_path / "fresh").collect() == []
    assert load(session, path, start_position=str(SIZE)).count() == 0
    assert load(session, path, pushdown="true").where("position > 9223372036854775807L").collect() == []
    assert load(session, path, since_ms=str(1 << 62)).collect() == []


def test_a_schema_beside_the_options_is_refused_with_the_option_to_use(session: SparkSession, store: Write) -> None:
    reader = session.read.format("rocketmq_log").schema("topic string, position bigint")
    with pytest.raises(AnalysisException, match=r"option\(\"columns\", \"topic,position\"\)"):
        reader.load(str(store({0: several(1)}))).collect()
    exact = (
        session.read.format("rocketmq_log").schema("position bigint, topic string").option("columns", "topic,position")
    )
    assert exact.load(str(store({0: several(1)}))).count() == 1


def test_the_stream_follows_the_log_and_goes_on_where_it_was(
    session: SparkSession, store: Write, tmp_path: Path
) -> None:
    seen: list[tuple[int, list[int]]] = []

    def run() -> None:
        frame = session.readStream.format("rocketmq_log").option("columns", "").load(str(tmp_path / "store"))
        query = (
            frame.writeStream.foreachBatch(
                lambda batch, number: seen.append(
                    (number, [row.position for row in batch.select("position").collect()])
                )
            )
            .option("checkpointLocation", str(tmp_path / "followed"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    store({0: several(5)})
    run()
    store({0: several(9), SIZE: bytes(SIZE)})
    run()
    run()
    store({0: several(9)[: len(record(0, topic="t0")) * 9] + closing(9), SIZE: several(4, SIZE)})
    run()
    positions = [position for _, batch in seen for position in sorted(batch)]
    length = len(record(0, topic="t0"))
    assert positions == [n * length for n in range(9)] + [SIZE + n * length for n in range(4)]


def closing(records: int) -> bytes:
    left = SIZE - len(record(0, topic="t0")) * records
    return (left.to_bytes(4, "big") + b"\xcb\xd4\x31\x94").ljust(left, b"\0")


def test_sums_over_the_log_equal_those_of_a_plain_loop(session: SparkSession, store: Write) -> None:
    segments = {0: several(20, body=b"four"), SIZE: several(7, SIZE)}
    frame = load(session, store(segments)).groupBy("topic").agg(F.count("*"), F.sum("body_size"))
    expected: dict[str, tuple[int, int]] = {}
    for message in plain.messages(segments):
        count, size = expected.get(message.topic, (0, 0))
        expected[message.topic] = (count + 1, size + len(message.body))
    assert {row[0]: (row[1], row[2]) for row in frame.collect()} == expected


def test_several_stores_are_one_scan_and_each_row_says_whose_it_is(
    session: SparkSession, store: Write, tmp_path: Path
) -> None:
    one = store({0: several(5)}).rename(tmp_path / "one")
    other = store({0: several(3)}).rename(tmp_path / "other")
    expected = {("broker-a", row["position"]) for row in rows_of(load(session, one))}
    expected |= {("broker-b", row["position"]) for row in rows_of(load(session, other))}
    several_stores = session.read.format("rocketmq_log")
    for frame in (
        several_stores.load(f"broker-a={one};broker-b={other}"),
        several_stores.load(f"broker-a={one}, broker-b={other.as_uri()}"),
        several_stores.load([f"broker-a={one}", f"broker-b={other}"]),
    ):
        assert {(row.broker, row.position) for row in frame.collect()} == expected
    assert {row.broker for row in several_stores.load(f"shop={one}").collect()} == {"shop"}
    assert {row.broker for row in several_stores.load(str(one)).collect()} == {None}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"paths": '["/one", "/other"]'}, "a name each"),
        ({"path": "a=/one;a=/other"}, "a name each"),
        ({"path": "a=/one;b=/other", "start_position": "7"}, "a place in one log"),
        ({}, "Say which store"),
    ],
)
def test_stores_that_cannot_be_read_together_are_refused(options: dict[str, str], said: str) -> None:
    with pytest.raises(OptionInvalid, match=said):
        parse_stores(options)


def test_a_path_with_commas_is_one_store_and_brokers_are_asked_by_name() -> None:
    assert [one.path for one in parse_stores({"path": "/a,b;c"})] == ["/a,b;c"]
    found = parse_stores({"path": "a=/one;b=/other", "broker": "b=127.0.0.1:10911"})
    assert [(one.broker_name, one.path, one.broker) for one in found] == [
        ("a", "/one", ""),
        ("b", "/other", "127.0.0.1:10911"),
    ]


def test_a_stream_of_several_stores_goes_on_in_each(session: SparkSession, store: Write, tmp_path: Path) -> None:
    seen: list[tuple[str, int]] = []
    one, other = tmp_path / "one", tmp_path / "other"

    def run(path: str) -> None:
        frame = session.readStream.format("rocketmq_log").option("columns", "").load(path)
        writer = frame.writeStream.foreachBatch(
            lambda batch, _: seen.extend((row.broker, row.queue_offset) for row in batch.collect())
        )
        writer = writer.option("checkpointLocation", str(tmp_path / "followed"))
        writer.trigger(availableNow=True).start().awaitTermination()

    both = f"a={one};b={other}"
    store({0: several(5)}).rename(one)
    store({0: several(2)}).rename(other)
    run(f"a={one}")
    assert sorted(seen) == [("a", offset) for offset in range(5)]
    run(both)
    (one / "commitlog" / f"{0:020d}").write_bytes(several(7))
    run(both)
    store({0: several(3)}).rename(tmp_path / "third")
    run(f"{both};c={tmp_path / 'third'}")
    wanted = [("a", offset) for offset in range(7)] + [("b", 0), ("b", 1)] + [("c", offset) for offset in range(3)]
    assert sorted(seen) == wanted


def test_a_checkpoint_of_one_store_without_a_name_is_not_that_of_several(store: Write) -> None:
    path = store({0: several(3)})
    reader = StoresStreamReader(parse_stores({"path": f"a={path}"}))
    with pytest.raises(StoreUnreadable, match="another checkpointLocation"):
        reader.latestOffset({"position": 0}, ReadAllAvailable())
