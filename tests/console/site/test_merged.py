"""Lists of several brokers as one: in order, each row once, whatever the sizes of pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hypothesis import given
from hypothesis import strategies as st

from console.site.merged import Part, Place, Places, merged, read_cursor, write_cursor

#: a row: its moment, its broker, its offset there
Row = tuple[int, str, int]

lists = st.dictionaries(
    st.sampled_from(["broker-a", "broker-b", "c c,"]), st.lists(st.integers(0, 9), max_size=12).map(sorted)
)


def rows_of(moments: Mapping[str, Sequence[int]]) -> dict[str, list[Row]]:
    return {broker: [(ms, broker, at) for at, ms in enumerate(each)] for broker, each in moments.items()}


def part_of(rows: Sequence[Row], broker: str, places: Places, count: int) -> Part[Row]:
    """A page as a broker gives it: at most `count` rows behind its place, and where it goes on."""
    if broker in places and places[broker] is None:
        return Part(broker, (), None)
    start = int(places.get(broker) or 0)
    page = rows[start : start + count]
    return Part(broker, page, start + len(page) if start + len(page) < len(rows) else None)


def place_of(row: Row) -> Place:
    return row[2] + 1


@given(lists, st.integers(1, 5), st.integers(1, 5))
def test_all_pages_together_are_the_whole_list_in_order(
    moments: dict[str, list[int]], count: int, most_at_once: int
) -> None:
    by_broker, shown, cursor = rows_of(moments), list[Row](), None
    for _page in range(100):
        places = read_cursor(cursor)
        assert places is not None
        parts = [part_of(rows, broker, places, min(count, most_at_once)) for broker, rows in by_broker.items()]
        whole = merged(parts, before=places, key=lambda row: row[0], place=place_of, count=count)
        assert len(whole.rows) <= count
        shown += whole.rows
        cursor = whole.cursor
        if cursor is None:
            break
    assert shown == sorted(row for rows in by_broker.values() for row in rows)


def test_a_page_ends_where_nobody_knows_what_a_broker_has_next() -> None:
    parts = [Part("a", [(1, "a", 0), (5, "a", 1)], 2), Part("b", [(3, "b", 0), (7, "b", 1)], None)]
    whole = merged(parts, before={}, key=lambda row: row[0], place=place_of, count=10)
    assert [row[0] for row in whole.rows] == [1, 3, 5]
    assert whole.places == {"a": 2, "b": 1}


def test_a_broker_that_is_away_keeps_its_place() -> None:
    whole = merged(
        [Part("a", [(1, "a", 4)], 5)], before={"b": 7, "a": 4}, key=lambda row: row[0], place=place_of, count=9
    )
    assert whole.places == {"b": 7, "a": 5}


def test_what_is_no_cursor_is_said_to_be_none() -> None:
    for text in ("40", "c1", "c1$$", "c1W10", "c1" + "A" * 5_000, write_cursor({"a": 1})[:-3]):
        assert read_cursor(text) is None, text
    assert read_cursor("") == {}
    assert read_cursor(write_cursor({"ä b": "1-2", "c": None})) == {"ä b": "1-2", "c": None}
