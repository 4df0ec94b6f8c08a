"""No descriptor is left, in the process or on the machine: whatever opens something then is done later, nothing is lost
and nothing is final."""

from __future__ import annotations

import errno
from collections import Counter
from itertools import count

import pytest

from broker.engine.disk import Handles
from broker.engine.testing import Fault, PowerLoss, SimulatedFiles, open_engine

from .test_io_errors import Script

#: What takes a descriptor for itself.
KINDS = ("open", "list", "sync_directory", "make_directory")


@pytest.mark.parametrize("forever", [False, True], ids=["once", "for a while"])
@pytest.mark.parametrize("error", [errno.EMFILE, errno.ENFILE], ids=["EMFILE", "ENFILE"])
def test_every_call_may_want_a_descriptor_and_the_store_goes_on(error, forever, say):
    runs, outcomes = 0, Counter()
    for kind in KINDS:
        for nth in count(1):
            files = SimulatedFiles()
            script = Script(files)
            before = files.calls[kind]
            files.fail(Fault(kind, nth, error, forever))
            script.run()
            reached = files.calls[kind] - before
            assert script.engine.health().state == "OK", f"{kind} {nth}"
            files.fail()
            script.clock.advance(10_000)
            script.driver.upkeep()
            script.driver.tick()
            script.send(0)
            assert script.oracle.acknowledged, "what is sent then is taken"
            for loss in (PowerLoss("all"), PowerLoss("kill"), PowerLoss("random", nth)):
                try:
                    script.oracle.check(files.crash(loss), script.clock.now_ms)
                except Exception as broken:
                    raise AssertionError(f"{kind} {nth}, {loss}: {type(broken).__name__}: {broken}") from broken
            script.driver.close()
            assert not files.exists("/store/abort"), "stopped cleanly: what was put off was done"
            runs += 1
            outcomes.update(script.outcomes)
            if reached < nth:
                break
    say(f"R8 ({errno.errorcode[error]}): {runs} calls had no descriptor, 0 violations, {dict(outcomes)}")


def test_a_checkpoint_without_a_descriptor_is_made_later():
    files = SimulatedFiles()
    driver = open_engine(files)
    driver.engine.topics.ensure("orders", 1)
    driver.send("orders", b"kept")
    files.fail(Fault("open", error=errno.EMFILE, forever=True))
    for _ in range(5):
        driver.clock.advance(10_000)
        driver.upkeep()
    assert driver.engine.health().state == "OK"
    driver.send("orders", b"taken")
    files.fail()
    driver.clock.advance(10_000)
    driver.upkeep()
    after = open_engine(files.crash(PowerLoss("all")))
    assert after.bodies("orders") == [b"kept", b"taken"]


def test_a_stop_without_a_descriptor_leaves_a_store_that_opens():
    files = SimulatedFiles()
    driver = open_engine(files)
    driver.engine.topics.ensure("orders", 1)
    driver.send("orders", b"kept")
    files.fail(Fault("open", error=errno.ENFILE, forever=True))
    driver.close()
    files.fail()
    assert files.exists("/store/abort")
    assert open_engine(files.crash(PowerLoss("all"))).bodies("orders") == [b"kept"]


def test_a_segment_that_could_not_be_opened_is_there_when_it_is_needed():
    files = SimulatedFiles()
    driver = open_engine(files, segment_size_bytes=16 << 20, max_body_bytes=4 << 20)
    driver.engine.topics.ensure("orders", 1)
    driver.send("orders", b"first")
    files.fail(Fault("open", error=errno.EMFILE, path_part="/commitlog/", forever=True))
    driver.clock.advance(10_000)
    driver.upkeep()
    assert driver.engine.health().state == "OK"
    files.fail()
    for number in range(5):
        driver.send("orders", b"%d" % number + b"x" * (3 << 20))
    assert [body[:1] for body in driver.bodies("orders")] == [b"f", b"0", b"1", b"2", b"3", b"4"]


def test_readers_of_many_files_do_without_those_they_used_before():
    files = SimulatedFiles()
    files.load({f"/store/{name}": name.encode() for name in "abcd"})
    handles = Handles(files)
    for name in "abc":
        assert handles.get(f"/store/{name}").read(9, 0) == name.encode()
    files.fail(Fault("open", error=errno.EMFILE), Fault("open", error=errno.ENFILE))
    assert handles.get("/store/d").read(9, 0) == b"d"
    assert list(handles._open) == ["/store/c", "/store/d"]
    files.fail(Fault("open", error=errno.EMFILE, forever=True))
    with pytest.raises(OSError, match="EMFILE"):
        handles.get("/store/a")
    files.fail()
    assert handles.get("/store/a").read(9, 0) == b"a"


def test_retention_without_a_descriptor_goes_on_where_it_was():
    files = SimulatedFiles()
    driver = open_engine(files, retention_hours=1, keep_unconsumed=False)
    driver.engine.topics.ensure("orders", 1)
    for number in range(60):
        driver.send("orders", b"%03d" % number + b"x" * 500)
    driver.clock.advance(10_000)
    driver.upkeep()
    driver.clock.advance(2 * 3_600_000)
    driver.send("orders", b"new")
    segments = len(files.list("/store/commitlog"))
    files.fail(Fault("sync_directory", error=errno.EMFILE, path_part="commitlog", forever=True))
    for _ in range(3):
        driver.clock.advance(11_000)
        driver.upkeep()
    files.fail()
    for _ in range(10):
        driver.clock.advance(11_000)
        driver.upkeep()
    assert driver.engine.health().state == "OK"
    assert len(files.list("/store/commitlog")) < segments - 3
    assert driver.bodies("orders")[-1] == b"new"
