"""What was given back to a group (36) reaches those of it who pop, and those who pull."""

from __future__ import annotations

import pytest

from broker.engine.errors import InvalidTopicName
from broker.engine.pop.take import Wanted
from broker.engine.tables.groups import Group
from broker.engine.testing import Driver, PowerLoss, SimulatedFiles
from tests.engine.pop.popping import (
    DLQ,
    GROUP,
    INVISIBLE_MS,
    KILLED,
    RETRY,
    TOPIC,
    Held,
    ack,
    ask,
    bodies,
    change,
    crashed,
    held_of,
    offset_of,
    pop,
    popping,
    reopened,
)

GIVEN_BACK = f"%RETRY%{GROUP}"
OTHER = "invoices"


def take(driver: Driver, **wanted: object) -> list[Held]:
    """A pop of a group of which nobody pulls; the copies it has made are popped by the next."""
    held = held_of(ask(driver, given_back=True, **wanted))
    driver.settle()
    return held


def taken(driver: Driver, **wanted: object) -> list[Held]:
    """What two pops get."""
    return take(driver, **wanted) + take(driver, **wanted)


def give_back(driver: Driver, position: int, level: int = 1) -> None:
    driver.engine.send_back(position, GROUP, level, 100, driver.clock.now_ms, None)
    driver.settle()
    driver.advance(2_000)


def tells(driver: Driver) -> bool:
    """What a notification says."""
    asked = Wanted(GROUP, TOPIC, -1, 1, 1 << 20, 0, given_back=True)
    return driver.engine.pops.has_messages(asked, 1, driver.clock.now_ms)[0]


def dead(driver: Driver, topic: str = TOPIC) -> int:
    """The position of a dead letter of a message that was popped as often as it may be."""
    driver.engine.groups.put(Group(GROUP, retry_max_times=1))
    held = pop(driver, topic=topic)
    for _ in range(2):
        driver.advance(INVISIBLE_MS)
        held = pop(driver, topic=topic) or held
    return max(message.position for message in driver.readable(DLQ).values())


def test_a_dead_letter_goes_the_whole_road_again() -> None:
    driver = popping(messages=1)
    give_back(driver, dead(driver))
    (again,) = taken(driver)
    assert again.handle.key == (GROUP, RETRY, 0)
    assert (again.body, again.message.reconsume_times) == (b"m0", 3)
    assert again.message.properties["UNIQ_KEY"] == "U0"
    assert offset_of(driver, topic=GIVEN_BACK) == 1, "nothing waits there any more"
    assert offset_of(driver, topic=RETRY) == 1
    longer = change(driver, again, 5 * INVISIBLE_MS)
    assert longer is not None
    driver.advance(INVISIBLE_MS)
    assert taken(driver) == []
    assert ack(driver, longer)
    driver.advance(5 * INVISIBLE_MS)
    assert taken(driver) == []
    assert len(driver.readable(DLQ)) == 1


def test_what_fails_again_is_a_dead_letter_again() -> None:
    driver = popping(messages=1)
    give_back(driver, dead(driver))
    assert len(taken(driver)) == 1
    driver.advance(INVISIBLE_MS)
    letters = list(driver.readable(DLQ).values())
    assert [letter.body for letter in letters] == [b"m0", b"m0"]
    assert {letter.properties["DLQ_ORIGIN_TOPIC"] for letter in letters} == {TOPIC}
    give_back(driver, letters[-1].position)
    assert bodies(taken(driver)) == [b"m0"]


def test_what_a_consumer_that_pulls_gave_back_reaches_those_who_pop() -> None:
    driver = popping(messages=2)
    first, _ = driver.readable(TOPIC).values()
    give_back(driver, first.position)
    held = taken(driver)
    assert sorted(bodies(held)) == [b"m0", b"m0", b"m1"]
    (again,) = [each for each in held if each.message.reconsume_times]
    assert (again.body, again.message.reconsume_times) == (b"m0", 1)


def test_it_is_left_to_those_who_pull() -> None:
    driver = popping(messages=1)
    give_back(driver, dead(driver))
    assert pop(driver) == []
    assert pop(driver) == []
    assert offset_of(driver, topic=GIVEN_BACK) is None
    driver.engine.offsets.commit(GROUP, GIVEN_BACK, 0, 1)
    assert taken(driver) == [], "they have it"


def test_only_what_is_popped_is_taken_and_the_rest_waits_for_its_own() -> None:
    driver = popping(messages=2)
    driver.engine.topics.ensure(OTHER, 1)
    for number in range(3):
        give_back(driver, driver.send(OTHER, b"i%d" % number).position)
    give_back(driver, next(iter(driver.readable(TOPIC).values())).position)
    give_back(driver, driver.send(OTHER, b"i3").position)
    held = taken(driver)
    assert sorted(bodies(held)) == [b"m0", b"m0", b"m1"]
    assert offset_of(driver, topic=GIVEN_BACK) == 0, "a consumer that pulls begins with the first that is not over"
    other = taken(driver, topic=OTHER)
    assert sorted(each.body for each in other if each.message.reconsume_times) == [b"i0", b"i1", b"i2", b"i3"]
    assert offset_of(driver, topic=GIVEN_BACK) == 5
    assert ack(driver, *held, *other)
    assert taken(driver) + taken(driver, topic=OTHER) == []


def test_what_waits_for_another_topic_is_found_after_a_start() -> None:
    files = SimulatedFiles()
    driver = popping(files, messages=1)
    driver.engine.topics.ensure(OTHER, 1)
    give_back(driver, driver.send(OTHER, b"i0").position)
    assert bodies(taken(driver)) == [b"m0"]
    driver = crashed(files, driver)
    again = [each for each in taken(driver, topic=OTHER) if each.message.reconsume_times]
    assert bodies(again) == [b"i0"]
    assert offset_of(driver, topic=GIVEN_BACK) == 1


def test_a_consumer_that_pulls_takes_over_what_was_looked_at() -> None:
    driver = popping(messages=1)
    driver.engine.topics.ensure(OTHER, 1)
    give_back(driver, driver.send(OTHER, b"i0").position)
    assert bodies(taken(driver)) == [b"m0"]
    driver.engine.offsets.commit(GROUP, GIVEN_BACK, 0, 1)
    driver.settle()
    assert [each.message.reconsume_times for each in taken(driver, topic=OTHER)] == [0]
    assert offset_of(driver, topic=GIVEN_BACK) == 1


def test_in_order_it_comes_in_order() -> None:
    driver = popping(messages=2)
    held = pop(driver, in_order=True)
    for each in held:
        give_back(driver, each.message.position)
    assert ack(driver, *held)
    again = taken(driver, in_order=True)
    assert bodies(again) == [b"m0", b"m1"]
    assert take(driver, in_order=True) == []
    assert ack(driver, *again)
    assert offset_of(driver, topic=RETRY) == 2


def test_a_popped_try_that_is_given_back_is_of_its_topic() -> None:
    driver = popping(messages=1)
    pop(driver)
    driver.advance(INVISIBLE_MS)
    (again,) = pop(driver)
    give_back(driver, again.message.position)
    give_back(driver, again.message.position, level=-1)
    assert driver.readable(DLQ)[0].properties["DLQ_ORIGIN_TOPIC"] == TOPIC
    assert ack(driver, again)
    assert [(each.body, each.message.reconsume_times) for each in taken(driver)] == [(b"m0", 2)]


def test_a_notification_tells_of_it() -> None:
    driver = popping(messages=1)
    give_back(driver, dead(driver))
    assert pop(driver) == []
    assert tells(driver)
    assert len(taken(driver)) == 1
    assert not tells(driver)


def test_many_of_another_topic_do_not_hide_one() -> None:
    driver = popping(messages=1, segment_size_bytes=1 << 20)
    driver.engine.topics.ensure(OTHER, 1)
    position = driver.send(OTHER, b"i").position
    for _ in range(600):
        driver.engine.send_back(position, GROUP, 1, 100, driver.clock.now_ms, None)
    driver.settle()
    driver.advance(2_000)
    for _ in range(5):
        driver.advance(1)
    give_back(driver, next(iter(driver.readable(TOPIC).values())).position)
    first = ask(driver, given_back=True)
    driver.settle()
    assert first.again_ms == driver.clock.now_ms, "it looks on at once"
    held = taken(driver)
    assert [(each.body, each.message.reconsume_times) for each in held] == [(b"m0", 1)]


#: With this topic no name of a retry topic is left.
LONG_GROUP, LONG_TOPIC = "g" * 180, "t" * 100
LONG_GIVEN_BACK = f"%RETRY%{LONG_GROUP}"


def without_retry_topic(files: SimulatedFiles | None = None) -> Driver:
    """A message was given back whose topic and group have names that are too long together."""
    driver = popping(files)
    driver.engine.topics.ensure(LONG_TOPIC, 1)
    driver.engine.groups.ensure(LONG_GROUP)
    position = driver.send(LONG_TOPIC, b"long").position
    driver.engine.send_back(position, LONG_GROUP, 1, 100, driver.clock.now_ms, None)
    driver.settle()
    driver.advance(2_000)
    assert [each.body for each in driver.readable(LONG_GIVEN_BACK).values()] == [b"long"]
    return driver


def is_still_given_back(driver: Driver) -> bool:
    """Whether who pulls what was given back to the group gets it, and no copy was made."""
    driver.advance(INVISIBLE_MS)
    return not driver.engine.offsets.get(LONG_GROUP, LONG_GIVEN_BACK, 0) and not any(
        driver.readable(topic.name)
        for topic in driver.engine.topics.all()
        if topic.name.startswith(("%RETRY%", "%DLQ%")) and topic.name != LONG_GIVEN_BACK
    )


def test_a_pop_that_is_refused_takes_nothing_that_was_given_back() -> None:
    driver = without_retry_topic()
    with pytest.raises(InvalidTopicName):
        ask(driver, group=LONG_GROUP, topic=LONG_TOPIC, given_back=True)
    driver.settle()
    assert is_still_given_back(driver)


def test_a_notification_of_a_pop_that_is_refused_is_refused() -> None:
    driver = without_retry_topic()
    asked = Wanted(LONG_GROUP, LONG_TOPIC, -1, 1, 1 << 20, 0, given_back=True)
    with pytest.raises(InvalidTopicName):
        driver.engine.pops.has_messages(asked, 1, driver.clock.now_ms)


def test_a_pop_of_another_topic_leaves_what_cannot_be_popped_to_those_who_pull() -> None:
    driver = without_retry_topic()
    # as if the topic had been popped when nobody asked for names
    driver.engine.pops.taker.begin((LONG_GROUP, LONG_TOPIC, 0), from_end=False)
    driver.settle()
    assert taken(driver, group=LONG_GROUP) == []
    assert is_still_given_back(driver)


def test_a_copy_that_no_topic_can_hold_stays_where_its_message_is() -> None:
    """A store of before: the message was taken out to be copied, and the power failed."""
    files = SimulatedFiles()
    driver = without_retry_topic(files)
    pops = driver.engine.pops
    queue = pops.taker.begin((LONG_GROUP, LONG_GIVEN_BACK, 0), from_end=False)
    point = queue.pop(0, 1, driver.clock.now_ms, driver.clock.now_ms + INVISIBLE_MS, 1)
    assert point is not None
    pops._writer.popped(queue, point)
    pops.table.plan(queue, point)
    driver.settle()
    assert is_still_given_back(driver)
    driver = crashed(files, driver)
    assert is_still_given_back(driver)
    assert driver.engine.pops.table.queues[LONG_GROUP, LONG_GIVEN_BACK, 0].is_open(0)


@pytest.mark.parametrize("at", range(1, 14))
def test_a_crash_while_it_is_taken_loses_and_doubles_nothing(at: int) -> None:
    files = SimulatedFiles()
    driver = popping(files, messages=2)
    for message in list(driver.readable(TOPIC).values()):
        give_back(driver, message.position)
    caught: list[SimulatedFiles] = []
    changes = 0

    def cut() -> None:
        nonlocal changes
        changes += 1
        if changes == at:
            caught.append(files.crash(PowerLoss("random", at)))

    files.on_change = cut
    take(driver)
    files.on_change = None
    ended = caught[0] if caught else files.crash(KILLED)
    driver = reopened(ended, driver.clock)
    driver.tick()
    driver.settle()
    driver.advance(INVISIBLE_MS)
    found = taken(driver) + taken(driver)
    again = [each.body for each in found if each.message.reconsume_times]
    # what was out itself comes again, too, as its own other try
    assert set(again) == {b"m0", b"m1"}
    sources = [message.properties["ESC_POPPED"].split("@") for message in driver.readable(RETRY).values()]
    taken_offsets = [offset for _, topic, _, offset, _, _ in sources if topic == GIVEN_BACK]
    assert sorted(taken_offsets) == ["0", "1"], "each was copied once"
