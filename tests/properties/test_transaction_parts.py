"""What transactions are made of, against plain dicts: tables, calendar, records, snapshot."""

from __future__ import annotations

from array import array

from hypothesis import given
from hypothesis import strategies as st

from broker.engine.testing import SimulatedFiles
from broker.engine.transaction import recovery
from broker.engine.transaction.halves import Calendar, OpenHalves, Parked, ParkedHalves, equal
from broker.engine.transaction.records import (
    OP_BODY_BYTES,
    Decision,
    check_records,
    op_records,
    read_checks,
    read_decider,
    read_op,
    read_resumed,
    resume_record,
)

offsets = st.integers(0, 40)
numbers = st.integers(0, 10**18 - 1)
names = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(st.lists(st.tuples(st.sampled_from("+-"), offsets, st.sampled_from(["a", "b", "c"])), max_size=80))
def test_open_halves_are_a_sorted_dict(steps):
    halves, model = OpenHalves(), {}
    for kind, offset, group in steps:
        if kind == "+":
            halves.add(offset, offset * 10, 1, 2, group)
            model.setdefault(offset, group)
        else:
            assert halves.remove(offset) is (model.pop(offset, None) is not None)
        assert [(half.offset, half.group) for half in halves.since(0)] == sorted(model.items())
        assert len(halves) == len(model)
        for wanted in range(42):
            found, at = halves.get(wanted), halves.at_position(wanted * 10)
            assert found == at
            assert (found is None) == (wanted not in model)
    groups = list(model.values())
    assert halves.groups.counts() == {group: groups.count(group) for group in set(groups)}


def test_many_halves_stand_in_chunks():
    halves = OpenHalves()
    for offset in range(0, 10_000, 2):
        halves.add(offset, offset, 0, 0, "g")
    for offset in range(4_001, 0, -2):  # opened again in the middle
        halves.add(offset, offset, 0, 0, "g")
    expected = sorted([*range(0, 10_000, 2), *range(1, 4_002, 2)])
    assert [half.offset for half in halves.since(0)] == expected
    assert [half.offset for half in halves.since(7_001)] == [offset for offset in expected if offset >= 7_001]
    for offset in expected:
        assert halves.at_position(offset) == halves.get(offset)
        assert halves.remove(offset)
    assert (len(halves), halves.first()) == (0, None)


@given(st.lists(st.tuples(offsets, st.integers(-3_000, 3_000), st.integers(0, 2_000)), max_size=60))
def test_a_calendar_gives_nothing_early_and_everything_within_a_tenth_of_a_second(steps):
    calendar, now_ms, passed_ms = Calendar(), 1_000_000, 0
    waiting = []
    for offset, moved_ms, wait_ms in steps:
        now_ms += moved_ms
        passed_ms += max(moved_ms, 0)
        for taken in calendar.take(now_ms, 1_000):
            due = min(entry for entry in waiting if entry[1] == taken)
            waiting.remove(due)
            assert due[0] <= passed_ms, "early"
        assert all(due_ms > passed_ms - 100 for due_ms, _ in waiting), "late"
        calendar.put(offset, calendar.planned(now_ms + wait_ms))
        waiting.append((passed_ms + wait_ms, offset))
    while (next_ms := calendar.next_ms()) is not None:
        for taken in calendar.take(next_ms, 3):
            waiting.remove(min(entry for entry in waiting if entry[1] == taken))
    assert waiting == []


decisions = st.builds(Decision, numbers, st.booleans(), names, names)


@given(st.lists(decisions, max_size=300))
def test_op_records_say_what_was_decided(said):
    records = list(op_records(said))
    assert all(len(record.body) <= OP_BODY_BYTES for record in records)
    assert [decision for record in records for decision in read_op(record.body, record.properties)] == said
    assert [decision for record in records for decision in record.decisions] == said
    plain = [read_op(record.body, {"TAGS": "d"}) for record in records]
    assert [decision.offset for decided in plain for decision in decided] == [decision.offset for decision in said]


@given(st.binary(max_size=60), st.dictionaries(st.sampled_from(["TAGS", "ESC_DECISIONS", "ESC_DECIDERS"]), names))
def test_anything_can_be_read_as_an_op_record(body, properties):
    for decision in read_op(body, properties | {"TAGS": "d"}):
        assert decision.offset >= 0
    assert read_op(body, properties | {"TAGS": "x"}) == []


@given(
    st.lists(st.tuples(st.lists(numbers, max_size=9), st.integers(0, 300)), max_size=50),
    numbers,
    names,
    names,
    st.binary(max_size=40),
)
def test_note_records_say_what_happened(counts, offset, who, why, garbage):
    said = [(each, count) for offsets, count in counts for each in offsets]
    assert [pair for record in check_records(counts) for pair in zip(*read_checks(record.body), strict=True)] == said
    record = resume_record(offset, who, why)
    assert read_resumed(record.body) == [offset]
    assert read_decider(record.properties) == (who, why)
    offsets_of, counts_of = read_checks(b"12:3," + garbage + b",13:4,")
    assert {(12, 3), (13, 4)} <= {*zip(offsets_of, counts_of, strict=True)}
    read_resumed(garbage)


rows = st.tuples(numbers, numbers, numbers, numbers, names, st.integers(0, 300))


@given(st.lists(rows, max_size=30), st.lists(st.builds(Parked, *[numbers] * 6), max_size=10), st.integers(0, 50_000))
def test_a_snapshot_holds_both_tables(opened, stood, back_ms):
    calendar = Calendar()
    calendar.see(100_000)
    calendar.see(100_000 - back_ms)
    halves, parked = OpenHalves(), ParkedHalves()
    for offset, position, store_ms, next_ms, group, checks in opened:
        halves.add(offset, position, store_ms, calendar.planned(next_ms // 2), group, checks)
    for one in stood:
        parked.add(one)
    files = SimulatedFiles()
    files.make_directory("/store")
    recovery.save(files, "/store/halves", 7, recovery.dump(halves, parked, calendar))
    assert recovery.load(files, "/store/halves", 8) is None
    content = recovery.load(files, "/store/halves", 7)
    assert content is not None
    again, stood_again = OpenHalves(), ParkedHalves()
    recovery.parse(content, again, stood_again)
    assert [half._replace(next_ms=0) for half in again.since(0)] == [
        half._replace(next_ms=0) for half in halves.since(0)
    ]
    assert [half.next_ms for half in again.since(0)] == [calendar.wall(half.next_ms) for half in halves.since(0)]
    assert list(stood_again.since(0)) == list(parked.since(0))


@given(st.integers(0, 8 * 60))
def test_a_damaged_snapshot_is_none(bit):
    halves, parked = OpenHalves(), ParkedHalves()
    halves.add(1, 2, 3, 4, "g")
    files = SimulatedFiles()
    files.make_directory("/store")
    recovery.save(files, "/store/halves", 1, recovery.dump(halves, parked, Calendar()))
    files.flip("/store/halves", bit)
    found = recovery.load(files, "/store/halves", 1)
    assert found is None or 8 * 28 <= bit < 8 * 32, "only the four bytes of zero are not covered"


@given(st.lists(st.integers(0, 3_000), min_size=1), st.data())
def test_several_halves_are_taken_out_as_one_by_one(numbers_of, data):
    at_once, one_by_one = OpenHalves(), OpenHalves()
    rows = [(offset, offset * 10, 5, 6, f"g{offset % 3}") for offset in sorted(set(numbers_of))]
    border = data.draw(st.integers(0, len(rows)))
    for part in (rows[:border], rows[border:]):
        if part:
            at_once.extend(*zip(*part, strict=True))
    for row in rows:
        one_by_one.add(*row)
    assert list(at_once.since(0)) == list(one_by_one.since(0))
    gone = data.draw(st.lists(st.sampled_from(numbers_of) | st.integers(0, 3_000)))
    at_once.remove_all(gone)
    for offset in gone:
        one_by_one.remove(offset)
    assert list(at_once.since(0)) == list(one_by_one.since(0))
    assert len(at_once) == len(one_by_one)
    assert at_once.groups.counts() == one_by_one.groups.counts()
    for offset in {*numbers_of, *gone}:
        assert at_once.get(offset) == one_by_one.get(offset)


def test_many_new_halves_make_several_chunks():
    halves = OpenHalves()
    halves.add(0, 0, 1, 2, "g")
    numbers = range(1, 5_000)
    halves.extend(numbers, numbers, [1] * 4_999, [2] * 4_999, ["g"] * 4_999)
    assert [half.offset for half in halves.since(0)] == list(range(5_000))
    assert len(halves.chunks()) > 2
    halves.remove_all(range(10, 4_990))
    assert [half.offset for half in halves.since(0)] == [*range(10), *range(4_990, 5_000)]
    assert halves.get(9) is not None
    assert halves.at_position(4_990) is not None


@given(st.lists(st.integers(0, 1_000), min_size=1, max_size=20), st.integers(0, 500))
def test_several_moments_are_put_down_as_one_by_one(walls_ms, ahead_ms):
    at_once, one_by_one = Calendar(), Calendar()
    for calendar in (at_once, one_by_one):
        calendar.see(5_000)
        calendar.see(5_000 - ahead_ms)
    planned = at_once.put_all(range(len(walls_ms)), walls_ms)
    assert planned == [one_by_one.planned(wall_ms) for wall_ms in walls_ms]
    for offset, planned_ms in enumerate(planned):
        one_by_one.put(offset, planned_ms)
    assert sorted(at_once.take(9_000, 99)) == sorted(one_by_one.take(9_000, 99))


@given(st.sets(st.integers(0, 60)), st.lists(st.integers(-1, 61)), st.lists(st.integers(0, 2), max_size=9))
def test_runs_are_those_that_are_open_in_the_order_asked_for(there, wanted, values):
    halves = OpenHalves()
    for offset in there:
        halves.add(offset, 100 * offset, 0, 0, "payers")
    wanted += sorted(there)
    found = [chunk.offsets[at] for chunk, begin, end in halves.runs(array("q", wanted)) for at in range(begin, end)]
    assert found == [offset for offset in wanted if offset in there]
    parts = list(equal(array("H", values), slice(0, len(values))))
    assert [value for part, value in parts for _ in values[part]] == values
    assert all(set(values[part]) == {value} for part, value in parts)
