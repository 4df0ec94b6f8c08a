"""Unique ids."""

from __future__ import annotations

import os
import re
from concurrent.futures import ThreadPoolExecutor

from broker.rocketmq.ids import UniqueIds


def test_ids_have_rocketmqs_form() -> None:
    assert re.fullmatch("[0-9A-F]{32}", UniqueIds().next_id())


def test_ids_of_one_process_share_their_first_twenty_digits() -> None:
    ids = UniqueIds()
    assert len({ids.next_id()[:20] for _ in range(100)}) == 1


def test_no_id_appears_twice_also_from_many_threads() -> None:
    ids = UniqueIds()
    with ThreadPoolExecutor(8) as threads:
        made = list(threads.map(lambda _: [ids.next_id() for _ in range(2000)], range(8)))
    assert len({one for several in made for one in several}) == 16_000


def test_a_forked_child_makes_other_ids() -> None:
    ids = UniqueIds()
    before = ids.next_id()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, ids.next_id().encode())
        os._exit(0)
    os.waitpid(child, 0)
    made = os.read(reading, 32).decode()
    os.close(reading)
    os.close(writing)
    assert made[:20] != before[:20]
