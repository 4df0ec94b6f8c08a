"""Options of the data source ``rocketmq``: what they mean, what else they are called, what is refused."""

from __future__ import annotations

import pytest

from broker.rocketmq.topics import TOOLS_GROUP
from spark.cluster_options import parse_cluster_options, parse_edge
from spark.offsets import Queue
from spark.options import OptionInvalid

LEAST = {"namesrv": "one:9876", "topics": "orders"}


def test_what_counts_without_a_word() -> None:
    found = parse_cluster_options(LEAST)
    assert (found.namesrv, found.topics, found.start, found.end) == (("one:9876",), ("orders",), "earliest", "latest")
    assert (found.wish.group, found.wish.is_filtered, found.wish.is_strict) == (TOOLS_GROUP, False, True)
    assert (found.most_per_trigger, found.split_messages, found.selection.inflate) == (0, 100_000, True)
    assert {"broker", "queue_offset", "tag", "properties", "body"} <= set(found.selection.schema.names)


@pytest.mark.parametrize(
    ("given", "usual"),
    [
        ({"max_offsets_per_trigger": "7"}, {"maxOffsetsPerTrigger": "7"}),
        ({"start": "latest"}, {"startingOffsets": "latest"}),
        ({"start": "1700000000000"}, {"startingTimestamp": "1700000000000"}),
        ({"end": "12"}, {"endingOffsets": "12"}),
        ({"fail_on_data_loss": "false"}, {"failOnDataLoss": "false"}),
        ({"group": "readers"}, {"groupId": "readers"}),
        ({"access_key": "a", "secret_key": "b"}, {"accessKey": "a", "secretKey": "b"}),
        ({"columns": "topic,body"}, {"COLUMNS": "topic,body"}),
    ],
)
def test_names_that_users_of_spark_know(given: dict[str, str], usual: dict[str, str]) -> None:
    assert parse_cluster_options(LEAST | given) == parse_cluster_options(LEAST | usual)
    assert parse_cluster_options(LEAST | given) != parse_cluster_options(LEAST)


def test_topics_by_load_or_by_subscribe() -> None:
    for name in ("path", "subscribe", "topic"):
        assert parse_cluster_options({"namesrv": "a:1", name: "x, y-*,x"}).topics == ("x", "y-*")


def test_several_name_servers() -> None:
    for text in ("a:1;[::1]:2", "a:1,[::1]:2", " a:1 ; [::1]:2"):
        assert parse_cluster_options(LEAST | {"namesrv": text}).namesrv == ("a:1", "[::1]:2")


@pytest.mark.parametrize(
    ("text", "edge"),
    [
        ("Earliest", "earliest"),
        ("latest", "latest"),
        ("1700000000000", 1_700_000_000_000),
        ("2023-11-14T22:13:20Z", 1_700_000_000_000),
        ("2023-11-14T22:13:20", 1_700_000_000_000),
        ("2023-11-15T00:13:20+02:00", 1_700_000_000_000),
        (
            '{"orders": {"broker-a": {"0": 12, "3": 0}}}',
            {Queue("orders", "broker-a", 0): 12, Queue("orders", "broker-a", 3): 0},
        ),
    ],
)
def test_where_reading_begins(text: str, edge: object) -> None:
    assert parse_edge("start", text) == edge


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"namesrv": ""}, "Say which cluster"),
        ({"namesrv": "localhost"}, "no address"),
        ({"namesrv": "http://localhost:9876"}, "no address"),
        ({"topics": ""}, "Say which topics"),
        ({"topics": "or ders"}, "not valid"),
        ({"topics": "a*b"}, "not valid"),
        ({"group": "my group"}, "not valid"),
        ({"start": "tomorrow"}, "it is earliest, latest"),
        ({"start": '{"orders": 5}'}, "should be an object"),
        ({"start": '{"orders": {"broker-a": {"0": -1}}}'}, "no queue and offset"),
        ({"start": '{"orders": {"broker-a": {"zero": 1}}}'}, "no queue and offset"),
        ({"tag": "a", "sql": "x = 1"}, "one"),
        ({"tag": "||"}, "names no tag"),
        ({"access_key": "a"}, "come together"),
        ({"columns": "wings"}, "no column"),
        ({"split": "many"}, "no whole number"),
        ({"maxOffsetsPerTriger": "5"}, "is no option"),
        ({"max_offsets_per_trigger": "5", "maxOffsetsPerTrigger": "6"}, "given twice"),
        ({"inflate": "maybe"}, "'true' or 'false'"),
    ],
)
def test_an_option_that_cannot_be_is_refused(options: dict[str, str], said: str) -> None:
    with pytest.raises(OptionInvalid, match=said):
        parse_cluster_options(LEAST | options)


def test_the_secret_is_not_shown() -> None:
    assert "hush" not in repr(parse_cluster_options(LEAST | {"access_key": "a", "secret_key": "hush"}))
