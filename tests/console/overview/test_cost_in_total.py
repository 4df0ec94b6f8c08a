"""What a page of eight brokers in total costs: a thousand topics and two hundred groups at each, of the same names."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.db import connection

from console.features.dead_letters import pages as dead_letters_pages
from console.features.groups import read as groups_read
from console.features.topics import pages as topics_pages
from console.palette import topics_named
from tests.console.overview.test_cost import dear, fill

BROKERS = 8

PAGES: list[tuple[str, Callable[[], object], int]] = [
    ("topics", topics_pages.read_topics, 4 + BROKERS),
    ("topics by rate", lambda: topics_pages.read_topics(order="-rate"), 5 + 2 * BROKERS),
    ("topics by held", lambda: topics_pages.read_topics(order="-messages"), 4 + BROKERS),
    ("topic", lambda: topics_pages.read_topic("topic-0500"), 6 + 2 * BROKERS),
    ("groups", groups_read.groups, 5 + 2 * BROKERS),
    ("dead letters", dead_letters_pages.dead_letter_groups, 3),
    ("palette", lambda: topics_named("topic-05", 8), 2),
]


@pytest.fixture
def big_mirrors(db: None) -> None:
    for number in range(BROKERS):
        fill(f"broker-{number}")
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")


def test_every_page_is_cheap_in_total(big_mirrors: None) -> None:
    assert dear(PAGES) == {}
