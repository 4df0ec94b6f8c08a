"""Popping against a small model of it: where each message is, whatever is asked in whatever order, across crashes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from broker.engine.tables.groups import Group
from broker.engine.testing import Driver, ManualClock, PowerLoss, SimulatedFiles, open_engine
from broker.rocketmq.message import Message
from tests.engine.pop.popping import DLQ, GROUP, RETRY, TOPIC, Held, ask, held_of

QUEUES = 2
MOST_TRIES = 3
TIMES_MS = (50, 1_000, 20_000)
CONFIG = {"segment_size_bytes": 32_768}


class Where(NamedTuple):
    """Where a message is: it ``waits`` to be popped, is ``out`` until ``due_ms``, ``done`` or ``dead``."""

    state: str
    tries: int = 0
    due_ms: int = 0


@dataclass(slots=True)
class Known:
    """One message: where the model says it is, where it may be if what is not durable is lost, who holds it."""

    where: Where = field(default_factory=lambda: Where("waits"))
    perhaps: set[Where] = field(default_factory=set)
    held: Held | None = None

    def move(self, where: Where) -> None:
        """It is somewhere else now, but not durably so."""
        self.perhaps.add(self.where)
        self.where = where


class PopMachine(RuleBasedStateMachine):
    """Rules for consumers, the clock, and what may happen to a broker."""

    def __init__(self) -> None:
        super().__init__()
        self.files = SimulatedFiles()
        self.clock = ManualClock()
        self.messages: dict[bytes, Known] = {}
        self.driver: Driver

    @initialize()
    def open(self) -> None:
        self.driver = open_engine(self.files, clock=self.clock, **CONFIG)
        self.driver.engine.topics.ensure(TOPIC, QUEUES)
        self.driver.engine.groups.put(Group(GROUP, retry_max_times=MOST_TRIES - 1))

    # what clients do

    @rule(count=st.integers(1, 6), queue_id=st.integers(0, QUEUES - 1))
    def send(self, count: int, queue_id: int) -> None:
        for _ in range(count):
            body = b"m%d" % len(self.messages)
            self.driver.append(TOPIC, body, queue_id=queue_id)
            self.messages[body] = Known()
        self.settle()

    @rule(count=st.integers(1, 9), invisible_ms=st.sampled_from(TIMES_MS), settles=st.booleans())
    def pop(self, count: int, invisible_ms: int, settles: bool) -> None:
        self.turn()
        waiting = {body for body, known in self.messages.items() if known.where.state == "waits"}
        held = held_of(ask(self.driver, most_messages=count, invisible_ms=invisible_ms), invisible_ms=invisible_ms)
        assert len(held) == min(count, len(waiting)), "it gets what there is"
        assert len({each.body for each in held}) == len(held)
        for each in held:
            assert each.body in waiting, f"{each.body!r} is {self.messages[each.body].where}"
            known = self.messages[each.body]
            assert each.message.reconsume_times == known.where.tries
            known.move(Where("out", known.where.tries, self.clock.now_ms + invisible_ms))
            known.held = each
        self.settle(settles)

    @rule(data=st.data(), settles=st.booleans())
    def ack(self, data: st.DataObject, settles: bool) -> None:
        out = self.out()
        chosen = data.draw(st.lists(st.sampled_from(out), unique=True, max_size=5)) if out else []
        for body in chosen:
            known = self.messages[body]
            held = known.held
            assert held is not None
            acked = self.driver.engine.pops.ack(held.handle, held.bit, self.clock.now_ms)
            assert acked.refused == 0, f"{body!r} is held"
            known.move(Where("done"))
        self.settle(settles)

    @precondition(lambda self: self.out())
    @rule(data=st.data(), invisible_ms=st.sampled_from((0, *TIMES_MS)), settles=st.booleans())
    def change(self, data: st.DataObject, invisible_ms: int, settles: bool) -> None:
        known = self.messages[data.draw(st.sampled_from(self.out()))]
        held, now_ms = known.held, self.clock.now_ms
        assert held is not None
        pop_ms, span_ms = self.driver.engine.pops.change(held.handle, held.offset, invisible_ms, now_ms)
        known.held = held._replace(handle=held.handle._replace(start=held.offset, pop_ms=pop_ms, invisible_ms=span_ms))
        known.move(Where("out", known.where.tries, now_ms + invisible_ms))
        assert self.driver.engine.pops.ack(held.handle, held.bit, now_ms).refused, "the older handle is void"
        self.settle(settles)

    @precondition(lambda self: any(known.where.state in ("done", "dead") for known in self.messages.values()))
    @rule(data=st.data())
    def ack_what_is_over(self, data: st.DataObject) -> None:
        over = sorted(body for body, known in self.messages.items() if known.where.state in ("done", "dead"))
        known = self.messages[data.draw(st.sampled_from(over))]
        if known.held is not None:
            before = self.where_all()
            self.driver.engine.pops.ack(known.held.handle, known.held.bit, self.clock.now_ms)
            assert self.where_all() == before, "nothing is changed by it"
            self.settle()

    # what time and the broker do

    @rule(delta_ms=st.sampled_from((1, 49, 50, 999, 20_000, 60_000)))
    def let_time_pass(self, delta_ms: int) -> None:
        self.settle()
        self.driver.advance(delta_ms)
        self.turn()

    @rule()
    def checkpoint(self) -> None:
        self.clock.advance(6_000)
        self.driver.upkeep()

    @rule()
    def restart(self) -> None:
        self.driver.close()
        self.settled()
        self.driver = open_engine(self.files, clock=self.clock, **CONFIG)
        self.turn()

    @rule(kind=st.sampled_from(("kill", "all", "random")), seed=st.integers(0, 1 << 20))
    def crash(self, kind: str, seed: int) -> None:
        self.reopen(self.files.crash(PowerLoss(kind, seed)))

    @rule(delta_ms=st.sampled_from((0, 1_000, 60_000)), seed=st.integers(0, 1 << 20), at=st.integers(1, 4))
    def crash_while_it_gives_out_again(self, delta_ms: int, seed: int, at: int) -> None:
        self.settle()
        self.clock.advance(delta_ms)
        self.driver.engine.tick(self.clock.now_ms)
        caught: list[SimulatedFiles] = []
        changes = 0

        def cut() -> None:
            nonlocal changes
            changes += 1
            if changes == at:
                caught.append(self.files.crash(PowerLoss("random", seed)))

        self.files.on_change = cut
        self.driver.settle()
        self.files.on_change = None
        self.reopen(caught[0] if caught else self.files.crash(PowerLoss("kill", 0)))

    # the model

    def out(self) -> list[bytes]:
        """Bodies of what somebody holds, by this start's handles or by those of before."""
        self.turn()
        return sorted(
            body for body, known in self.messages.items() if known.where.state == "out" and known.held is not None
        )

    def settle(self, settles: bool = True) -> None:
        """Have everything durable."""
        if settles:
            self.driver.settle()
            self.settled()

    def settled(self) -> None:
        for known in self.messages.values():
            known.perhaps.clear()

    def turn(self) -> None:
        """Give out again what is due, in the broker and in the model."""
        now_ms = self.clock.now_ms
        due = [known for known in self.messages.values() if known.where.state == "out" and known.where.due_ms <= now_ms]
        if due:
            self.driver.tick()
            self.settled()
        for known in due:
            tries = known.where.tries + 1
            known.where = Where("waits", tries) if tries < MOST_TRIES else Where("dead")

    def reopen(self, disk: SimulatedFiles) -> None:
        """Open what a crash left, and see that nothing but what was not durable is another way."""
        self.files = disk
        self.driver = open_engine(disk, clock=self.clock, **CONFIG)
        for body, where in self.where_all().items():
            known = self.messages[body]
            if where in known.perhaps:
                known.where = where
                # what was asked last is lost, so it cannot be said who holds it
                known.held = None
        self.settled()
        self.turn()

    def where_all(self) -> dict[bytes, Where]:
        """Where the broker has every message."""
        found: dict[bytes, Where] = {}
        queues = self.driver.engine.pops.table.queues
        dead = {message.body for message in self.readable(DLQ)}
        places = [(TOPIC, queue_id) for queue_id in range(QUEUES)] + [(RETRY, 0)]
        for topic, queue_id in places:
            for message in self.readable(topic, queue_id):
                offset = message.queue_offset
                queue = queues.get((GROUP, topic, queue_id))
                tries = message.reconsume_times
                if message.body in dead:
                    where = Where("dead")
                elif queue is None or offset >= queue.next_offset:
                    where = Where("waits", tries)
                else:
                    due = [point.due_ms for point in queue.points.values() if offset in point.offsets()]
                    assert len(due) <= 1, f"{message.body!r} is held twice"
                    where = Where("out", tries, due[0]) if due else Where("done")
                before = found.get(message.body, Where("done"))
                assert before == Where("done") or where == Where("dead"), f"{message.body!r} is in two places"
                found[message.body] = where
        return found

    @invariant()
    def each_message_is_where_it_should_be(self) -> None:
        if hasattr(self, "driver"):
            self.turn()
            found = self.where_all()
            assert found == {body: known.where for body, known in self.messages.items()}

    @invariant()
    def nothing_is_committed_that_is_not_over(self) -> None:
        for queue_id in range(QUEUES if hasattr(self, "driver") else 0):
            offset = self.driver.engine.offsets.get(GROUP, TOPIC, queue_id) or 0
            for message in self.readable(TOPIC, queue_id):
                known = self.messages[message.body]
                first = known.where.tries == 0 and known.where.state in ("waits", "out")
                assert message.queue_offset >= offset or not first, f"{message.body!r} is below {offset}"

    def readable(self, topic: str, queue_id: int = 0) -> list[Message]:
        """All messages of a queue of a topic, if there is one."""
        if self.driver.engine.topics.get(topic) is None:
            return []
        return list(self.driver.readable(topic, queue_id).values())

    def teardown(self) -> None:
        """In the end everything comes to somebody who acknowledges it, or is a dead letter, once."""
        if not hasattr(self, "driver"):
            return
        self.settle()
        delivered: list[bytes] = []
        expected = sorted(body for body, known in self.messages.items() if known.where.state in ("waits", "out"))
        for _ in range(2 + len(self.messages)):
            self.driver.advance(120_000)
            held = held_of(ask(self.driver))
            for each in held:
                assert not self.driver.engine.pops.ack(each.handle, each.bit, self.clock.now_ms).refused
                delivered.append(each.body)
            self.driver.settle()
        dead = [message.body for message in self.readable(DLQ)]
        assert len(set(dead)) == len(dead)
        assert sorted(delivered + [body for body in dead if body in expected]) == expected
