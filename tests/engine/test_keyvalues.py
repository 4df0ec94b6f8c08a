"""Named values: kept over restarts and power loss, in RocketMQ's shape, bounded."""

from __future__ import annotations

import json

import pytest

from broker.engine.errors import InvalidValue
from broker.engine.tables import key_values
from broker.engine.tables.key_values import KeyValues
from broker.engine.testing.disk import PowerLoss, SimulatedFiles
from broker.engine.testing.driver import open_engine


def test_values_are_there_after_the_power_went_out() -> None:
    files = SimulatedFiles()
    values = open_engine(files).engine.key_values
    values.put("ORDER_TOPIC_CONFIG", "orders", "broker-a:4")
    values.put("ORDER_TOPIC_CONFIG", "bills", "broker-a:2")
    values.put("NS", "k", "v")
    values.delete("NS", "k")
    values.delete("NS", "never there")
    again = open_engine(files.crash(PowerLoss("all"))).engine.key_values
    assert again.all("ORDER_TOPIC_CONFIG") == {"orders": "broker-a:4", "bills": "broker-a:2"}
    assert again.get("ORDER_TOPIC_CONFIG", "orders") == "broker-a:4"
    assert again.all("NS") == {}
    assert again.get("NS", "k") is None


def test_the_file_has_the_shape_of_kvconfig_json() -> None:
    files = SimulatedFiles()
    driver = open_engine(files)
    driver.engine.key_values.put("NS", "k", "v")
    file = files.open(f"{driver.engine.config.root}/config/kvConfig.json")
    assert json.loads(file.read(file.size(), 0))["configTable"] == {"NS": {"k": "v"}}


@pytest.mark.parametrize(
    ("namespace", "key", "value"),
    [
        ("", "k", "v"),
        ("N", "", "v"),
        ("N" * 256, "k", "v"),
        ("N", "k", "v" * 65_537),
        ("N\0", "k", "v"),
        ("N", "k\n", "v"),
        ("N", "k", "\ud800"),
        ("N", "k", "a\0b"),
    ],
)
def test_what_cannot_be_kept_is_refused(namespace: str, key: str, value: str) -> None:
    values = KeyValues(SimulatedFiles(), "/kvConfig.json")
    with pytest.raises(InvalidValue):
        values.put(namespace, key, value)
    assert values.all(namespace) == {}


def test_there_is_room_for_so_many_values_and_known_ones_can_still_be_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_values, "MOST_VALUES", 2)
    values = KeyValues(SimulatedFiles(), "/kvConfig.json")
    values.put("N", "a", "1")
    values.put("M", "b", "1")
    with pytest.raises(InvalidValue, match="2 already"):
        values.put("N", "c", "1")
    values.put("N", "a", "2")
    assert (values.all("N"), values.all("M")) == ({"a": "2"}, {"b": "1"})
