"""Our Java programs from Python: one JSON line in their output is one event here."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from tests.interop import jars
from tests.interop.process import Child, ChildFailed

ANSWER_TIMEOUT_S = 30
START_TIMEOUT_S = 60
SEND_TIMEOUT_S = 60
FAST_START = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dfile.encoding=UTF-8"]
Event = dict[str, Any]
#: Where figures are taken, the JVM compiles as it does in production.
MEASURED = ["-Xms512m", "-Xmx512m", "-Dfile.encoding=UTF-8"]


class Program:
    """One of `tests/interop/java/src` in a JVM of its own, on the jars of one client version."""

    numbers = itertools.count(1)

    def __init__(
        self,
        main: str,
        arguments: Sequence[str],
        *,
        version: str,
        work: Path,
        properties: Sequence[str] = (),
        fast_start: bool = True,
    ) -> None:
        label = f"{main.lower()}-{next(Program.numbers)}"
        home = [f"-Duser.home={work / label}", *(f"-D{value}" for value in properties)]
        command = [
            jars.tool("java"),
            *(FAST_START if fast_start else MEASURED),
            *home,
            "-cp",
            jars.classpath(version),
            main,
            *arguments,
        ]
        self._start(command, label, work=work, cwd=work)

    def _start(
        self,
        command: list[str],
        label: str,
        *,
        work: Path,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        """Start the process and wait until it says that it is there; one that does not is killed."""
        self.child = Child(command, log=work / f"{label}.err", cwd=cwd, env=env)
        try:
            self.await_event("started", timeout_s=START_TIMEOUT_S)
        except ChildFailed:
            self.child.kill()
            raise

    def count(self) -> int:
        """Number of lines printed so far."""
        return len(self.child.lines)

    def events(self, kind: str, since: int = 0) -> list[Event]:
        """All events of one kind so far."""
        return [event for event in self._parsed(since) if event["event"] == kind]

    def await_event(self, kind: str, *, timeout_s: float = ANSWER_TIMEOUT_S, since: int = 0) -> Event:
        """The first event of a kind; a failure that the program reports instead is raised."""
        return self.await_events(kind, 1, timeout_s=timeout_s, since=since)[0]

    def await_events(
        self, kind: str, count: int, *, timeout_s: float = ANSWER_TIMEOUT_S, since: int = 0
    ) -> list[Event]:
        """At least `count` events of a kind."""

        def look(_: list[str]) -> list[Event] | None:
            failures = self.events("failure", since)
            if failures and kind != "failure":
                raise ChildFailed(f"{failures[0]['error']} {failures[0]['code']}: {failures[0]['remark']}")
            found = self.events(kind, since)
            return found if len(found) >= count else None

        return self.child.wait_for(look, timeout_s, f"{count} x {kind}")

    def ask(self, *fields: object, until: str, timeout_s: float = ANSWER_TIMEOUT_S) -> list[Event]:
        """Say one request and return the events of its answer, the last being the `until` one."""
        since = self.count()
        self.child.say("\t".join(map(str, fields)))
        self.await_event(until, timeout_s=timeout_s, since=since)
        return self._parsed(since)

    def close(self) -> None:
        """End the program by the end of its input."""
        self.child.hang_up()

    def _parsed(self, since: int) -> list[Event]:
        return [json.loads(line) for line in self.child.lines[since:] if line.startswith('{"event"')]


class Sender(Program):
    """A program whose requests are messages to send."""

    #: whether a request has a field for properties
    says_properties: ClassVar[bool]

    def send(
        self,
        topic: str,
        body: str,
        *,
        kind: str = "sync",
        tag: str = "",
        keys: str = "",
        delay_level: int = 0,
        queue_id: int = -1,
        count: int = 1,
        **properties: object,
    ) -> Event:
        """Send `count` messages and return what the client says of the last (of a batch: of all)."""
        fields: list[object] = [kind, topic, tag, keys, delay_level, queue_id, count]
        assert self.says_properties or not properties, "this program has no field for properties"
        if self.says_properties:
            fields.append(",".join(f"{name}={value}" for name, value in properties.items()))
        return self.ask(*fields, body, until="sent", timeout_s=SEND_TIMEOUT_S)[-1]


class JavaProducer(Sender):
    """DefaultMQProducer."""

    says_properties = False

    def __init__(self, namesrv: str, group: str, *, version: str, work: Path, binary_headers: bool = False) -> None:
        serialisation = "ROCKETMQ" if binary_headers else "JSON"
        properties = [f"rocketmq.serialize.type={serialisation}"]
        super().__init__("Produce", [namesrv, group], version=version, work=work, properties=properties)


class JavaScheduler(Program):
    """DefaultMQProducer of 5.5.0 with what older ones do not know: timers and recall."""

    def __init__(self, namesrv: str, group: str, *, work: Path) -> None:
        super().__init__("Schedule", [namesrv, group], version="5.5.0", work=work)

    def send(self, topic: str, body: str, *, keys: str = "", count: int = 1, **timing: object) -> Event:
        """Send `count` timers; `timing`: sec, ms, at (Message's own setters), level, or property names."""
        said = ",".join(f"{name}={value}" for name, value in timing.items())
        return self.ask("send", topic, body, keys, said, count, until="sent", timeout_s=60)[-1]

    def recall(self, topic: str, handle: str) -> str:
        """Take a timer back; its unique id."""
        return str(self.ask("recall", topic, handle, until="recalled")[-1]["msgId"])

    def delete(self, topic: str, key: str, due_ms: int) -> Event:
        """Send a delete message (TIMER_DEL_UNIQKEY) into the victim's slot."""
        return self.ask("delete", topic, key, due_ms, until="sent")[-1]


class JavaTransactor(Program):
    """TransactionMQProducer; what its listener says is asked for with each half."""

    def __init__(self, namesrv: str, group: str, *, version: str, work: Path, binary_headers: bool = False) -> None:
        properties = [f"rocketmq.serialize.type={'ROCKETMQ' if binary_headers else 'JSON'}"]
        super().__init__("Transact", [namesrv, group], version=version, work=work, properties=properties)

    def begin(
        self, topic: str, key: str, *, local: str = "UNKNOW", checks: str = "UNKNOW", tag: str = "", immunity: str = ""
    ) -> Event:
        """Send a half with its key as body; `local` and `checks` (joined by commas) are what the listener says."""
        return self.ask("half", topic, key, key, tag, immunity, local, checks, until="sent", timeout_s=60)[-1]

    def checks(self, key: str) -> list[Event]:
        """The checks of one half so far."""
        return [event for event in self.events("check") if event["key"] == key]


class JavaConsumer(Program):
    """DefaultMQPushConsumer in clustering mode; it shares out queues every `rebalance_ms` (by default 20 s)."""

    def __init__(
        self,
        namesrv: str,
        group: str,
        topic: str,
        *,
        version: str,
        work: Path,
        expression: str = "*",
        mode: str = "concurrent",
        instance: str = "one",
        rebalance_ms: int = 1_000,
    ) -> None:
        properties = [f"rocketmq.client.rebalance.waitInterval={rebalance_ms}"]
        arguments = [namesrv, group, topic, expression, mode, instance]
        super().__init__("Consume", arguments, version=version, work=work, properties=properties)

    def receive(self, count: int, timeout_s: float = 30) -> list[Event]:
        """The messages so far, once there are `count`."""
        return self.await_events("message", count, timeout_s=timeout_s)

    def await_bodies(self, wanted: set[str], timeout_s: float) -> None:
        """Return once every one of these bodies has arrived at least once."""
        self._await_all("body", wanted, timeout_s)

    def await_identities(self, wanted: set[str], timeout_s: float) -> None:
        """Return once every one of these unique ids has arrived at least once."""
        self._await_all("msgId", wanted, timeout_s)

    def _await_all(self, field: str, wanted: set[str], timeout_s: float) -> None:
        def look(_: list[str]) -> bool | None:
            return wanted <= {event[field] for event in self.events("message")} or None

        self.child.wait_for(look, timeout_s, f"all of {len(wanted)} {field} values")

    def await_queues(self, wanted: int, timeout_s: float = 30) -> list[int]:
        """The assigned queues, once there are `wanted`."""

        def look(_: list[str]) -> list[int] | None:
            changes = self.events("queues")
            return changes[-1]["queues"] if changes and len(changes[-1]["queues"]) == wanted else None

        return self.child.wait_for(look, timeout_s, f"{wanted} queues")


def read_all(namesrv: str, topics: Sequence[str], *, work: Path, version: str = "5.5.0") -> dict[str, list[Event]]:
    """Every message of each topic, pulled by the official client from the first offset to the last."""
    program = Program("Read", [namesrv, f"reader-{next(Program.numbers)}"], version=version, work=work)
    try:
        return {
            topic: [event for event in program.ask(topic, until="end", timeout_s=90) if event["event"] == "message"]
            for topic in topics
        }
    finally:
        program.close()
