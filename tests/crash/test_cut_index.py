"""What a power loss leaves of index and queues behind the last checkpoint misleads neither the next life nor fsck."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from broker.engine.fsck.store import check_store
from broker.engine.queues.index import HEADER, HEADER_SIZE
from broker.engine.testing import Driver, ManualClock, PowerLoss, SimulatedFiles, open_engine

KILLED = PowerLoss("kill")
LOSSES = (KILLED, PowerLoss("all"), *(PowerLoss("random", seed) for seed in range(12)))
KEPT = [f"kept{number}" for number in range(7)]


def send(driver: Driver, keys: Iterable[str]) -> None:
    for key in keys:
        driver.send("orders", b"x", UNIQ_KEY=key)


def keep_up(driver: Driver) -> None:
    driver.clock.advance(6_000)
    driver.upkeep()


def reopened(disk: SimulatedFiles, driver: Driver) -> Driver:
    return open_engine(disk, clock=ManualClock(driver.clock.now_ms))


def crashes_of(disk: SimulatedFiles, action: Callable[[], object]) -> list[SimulatedFiles]:
    """Return what each power loss at each write boundary of an action leaves."""
    found: list[SimulatedFiles] = []
    disk.on_change = lambda: found.extend(disk.crash(loss) for loss in LOSSES)
    action()
    disk.on_change = None
    return found


def store_with_entries_of_lost_records() -> tuple[SimulatedFiles, Driver]:
    """The disk of a store whose index was written, with entries of eight records that were not; and who wrote it."""
    files = SimulatedFiles()
    driver = open_engine(files)
    driver.engine.topics.ensure("orders", 1)
    send(driver, KEPT[:-1])
    keep_up(driver)
    send(driver, KEPT[-1:])
    for number in range(8):
        driver.append("orders", b"x", UNIQ_KEY=f"lost{number}")
    keep_up(driver)
    return files.crash(KILLED), driver


def assert_found(driver: Driver, keys: Iterable[str], where: str) -> None:
    for key in keys:
        found = driver.engine.find("orders", key, begin_ms=0, end_ms=1 << 60, max_count=4, now_ms=0)
        assert len(found) == 1, f"{where}: {key} is found {len(found)} times"


def of_the_derived(disk: SimulatedFiles) -> list[str]:
    """What fsck calls damaged of index and queues."""
    damages = check_store(disk, "/store").damages
    return [str(damage) for damage in damages if damage.path.startswith(("/store/index", "/store/consumequeue"))]


def test_keys_are_found_after_two_power_losses_between_which_other_entries_took_the_place_of_lost_ones():
    """A slot that still names the place of a lost entry would lead into the chain of the slot that took it."""
    disk, before = store_with_entries_of_lost_records()
    driver = reopened(disk, before)
    keys = [*KEPT, *(f"other{number}" for number in range(8))]
    send(driver, keys[len(KEPT) :])
    for number, crashed in enumerate(crashes_of(disk, lambda: keep_up(driver))):
        again = reopened(crashed, driver)
        assert_found(again, keys, f"crash {number}")
        again.close()
        assert check_store(crashed, "/store").damages == [], f"crash {number}"


def test_keys_are_found_after_a_power_loss_while_what_the_one_before_left_is_cut_off():
    disk, before = store_with_entries_of_lost_records()
    crashes = crashes_of(disk, lambda: reopened(disk, before))
    for number, crashed in enumerate(crashes):
        again = reopened(crashed, before)
        assert_found(again, KEPT, f"crash {number}")
        again.close()
        assert check_store(crashed, "/store").damages == [], f"crash {number}"


def test_an_index_that_was_cut_off_is_the_one_that_the_log_alone_makes():
    disk, before = store_with_entries_of_lost_records()
    reopened(disk, before)
    (path,) = (path for path in disk.contents() if path.startswith("/store/index/"))
    cut = disk.contents()[path]
    bare = disk.crash(KILLED)
    for gone in (path, "/store/escapement.checkpoint"):
        bare.remove(gone)
    reopened(bare, before).close()
    rebuilt = bare.contents()[path]
    number = HEADER.unpack(rebuilt[:HEADER_SIZE])[5]
    assert number == len(KEPT) + 1
    size = HEADER_SIZE + 4 * 16 + 20 * number
    assert cut[:size] == rebuilt[:size]


def test_what_stands_behind_the_checkpoint_is_unfinished_and_no_damage_before_and_after_the_next_start():
    files = SimulatedFiles()
    driver = open_engine(files)
    driver.engine.topics.ensure("orders", 1)
    for number in range(6):
        # four entries a record, 23 a file: the last record's stand in two files
        driver.send("orders", b"x", UNIQ_KEY=f"{number:032X}", KEYS=f"a{number} b{number}", TAGS="t")
        if number in (2, 4):
            keep_up(driver)
    crashes = crashes_of(files, lambda: keep_up(driver))
    assert max(len(disk.list("/store/index")) for disk in crashes) == 2
    for number, disk in enumerate(crashes):
        assert of_the_derived(disk) == [], f"crash {number}"
        reopened(disk, driver)
        assert of_the_derived(disk) == [], f"crash {number}, opened"
        assert of_the_derived(disk.crash(KILLED)) == [], f"crash {number}, opened and killed"


def test_nothing_derived_is_damage_before_the_first_checkpoint():
    files = SimulatedFiles()
    driver = open_engine(files)
    driver.engine.topics.ensure("orders", 1)
    send(driver, KEPT)
    for number, disk in enumerate(crashes_of(files, lambda: keep_up(driver))):
        assert of_the_derived(disk) == [], f"crash {number}"


def test_damage_to_what_the_checkpoint_vouches_for_is_found_in_a_store_in_use():
    disk, _ = store_with_entries_of_lost_records()
    (path,) = (path for path in disk.contents() if path.startswith("/store/index/"))
    assert of_the_derived(disk) == []
    for number in range(1, len(KEPT) + 1):
        broken = disk.crash(KILLED)
        broken.flip(path, 8 * (HEADER_SIZE + 4 * 16 + 20 * number + 3))
        assert of_the_derived(broken), f"entry {number}"
    for number in range(len(KEPT)):
        broken = disk.crash(KILLED)
        broken.flip("/store/consumequeue/orders/0/00000000000000000000", 8 * (20 * number + 7))
        assert of_the_derived(broken), f"queue entry {number}"
    broken = disk.crash(KILLED)
    broken.replace(path, disk.contents()[path][:-1])
    assert of_the_derived(broken)


def without_queue(disk: SimulatedFiles) -> SimulatedFiles:
    """The same disk without its queues: the next start makes queues and index anew from the log."""
    for path in list(disk.contents()):
        if "/consumequeue/orders/" in path:
            disk.remove(path)
            disk.sync_directory(path.rpartition("/")[0])
    return disk


def test_an_index_that_was_being_made_anew_is_not_taken_for_the_one_of_the_last_checkpoint():
    """Its files have the same names and, half written, more entries than the checkpoint knows of, but not all slots."""
    disk, before = store_with_entries_of_lost_records()
    driver = reopened(disk, before)
    keys = [*KEPT, *(f"other{number}" for number in range(40))]
    send(driver, keys[len(KEPT) :])
    keep_up(driver)
    disk = without_queue(disk.crash(KILLED))
    driver = reopened(disk, driver)
    for number, left in enumerate(crashes_of(disk, lambda: keep_up(driver))):
        assert of_the_derived(left) == [], number
        assert_found(reopened(left, driver), keys, f"power loss {number} while it was made anew")
