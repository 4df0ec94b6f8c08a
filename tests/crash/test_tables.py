"""The small tables: a damaged one is noticed, and the version before it is taken."""

from __future__ import annotations

import pytest

from broker.engine.errors import StoreUnsupported
from broker.engine.tables import json_file
from broker.engine.testing import PowerLoss, SimulatedFiles, open_engine

GROUP = "readers"


def stopped_store() -> SimulatedFiles:
    """A store with a committed offset of 7 (6 in the version before) after a clean stop."""
    files = SimulatedFiles()
    driver = open_engine(files)
    driver.engine.topics.ensure("orders", 1)
    for number in range(8):
        driver.send("orders", b"%d" % number)
    for offset in (6, 7):
        driver.engine.offsets.commit(GROUP, "orders", 0, offset)
        driver.clock.advance(2_000)
        driver.upkeep()
    driver.close()
    return files


def test_a_flipped_digit_in_an_offset_repeats_messages_and_loses_none():
    files = stopped_store()
    path = "/store/config/consumerOffset.json"
    content = files.contents()[path]
    files.replace(path, content.replace(b'"0": 7', b'"0": 8'))
    assert files.contents()[path] != content
    assert open_engine(files).engine.offsets.get(GROUP, "orders", 0) == 6


@pytest.mark.parametrize("name", ["topics", "consumerOffset", "delayOffset", "subscriptionGroup"])
def test_no_single_flipped_bit_of_a_table_keeps_a_store_from_opening(name):
    files = stopped_store()
    path = f"/store/config/{name}.json"
    if path not in files.contents():
        files.load({path: b"{}"})
    for bit in range(0, 8 * len(files.contents()[path]), 53):
        disk = files.crash(PowerLoss("kill"))
        disk.flip(path, bit)
        driver = open_engine(disk)
        assert driver.bodies("orders") == [b"%d" % number for number in range(8)]
        assert driver.engine.offsets.get(GROUP, "orders", 0) in (6, 7)


def test_what_the_version_before_saved_is_put_back_at_once():
    """Else the next save would keep the unreadable version as the one before."""
    files = stopped_store()
    path = "/store/config/consumerOffset.json"
    files.replace(path, b"{rot")
    open_engine(files)
    assert json_file.parse(files.contents()[path]) == json_file.parse(files.contents()[f"{path}.bak"])


def test_a_table_that_rocketmq_wrote_has_no_checksum_and_is_read():
    content = b'{"offsetTable":{"orders@readers":{0:5,1:7}}}'
    assert json_file.parse(content) == {"offsetTable": {"orders@readers": {"0": 5, "1": 7}}}
    with pytest.raises(ValueError, match="checksum"):
        json_file.parse(json_file.dump({"offset": 5}).replace(b"5", b"6", 1))


def test_a_log_that_ends_before_the_checkpoint_is_refused_and_left_alone():
    files = stopped_store()
    last = max(path for path in files.contents() if path.startswith("/store/commitlog/"))
    files.remove(last)
    before = files.contents()
    with pytest.raises(StoreUnsupported, match="segment is missing"):
        open_engine(files)
    after = files.contents()
    assert {path: after.get(path) for path in before if path != "/store/abort"} == before
