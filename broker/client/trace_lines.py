"""What a client with tracing tells of a message, as RocketMQ's 5.5.0 writes it (TraceDataEncoder); traces.py reads it.

A line ends with \\x02, its fields are parted by \\x01. Names of fields are in the order of RocketMQ's TraceContext.
"""

from __future__ import annotations

from dataclasses import dataclass

from .transaction import Decision

#: MixAll.DEFAULT_TRACE_REGION_ID; brokers give the same name unless they are told another one.
REGION = "DefaultRegion"
#: Ordinals of org.apache.rocketmq.common.message.MessageType.
NORMAL, HALF, DECIDED_HALF, DELAYED = 0, 1, 2, 3
#: Ordinals of ConsumeReturnType: a handler returned, or raised.
RETURNED, RAISED = 0, 2

_STATES = {
    Decision.UNKNOWN: "UNKNOW",
    Decision.COMMIT: "COMMIT_MESSAGE",
    Decision.ROLLBACK: "ROLLBACK_MESSAGE",
}


@dataclass(frozen=True, slots=True)
class Subject:
    """The message that is told of; `keys` as its property has them, parted by blanks."""

    unique_id: str
    topic: str = ""
    tag: str = ""
    keys: str = ""
    kind: int = NORMAL

    @property
    def found_by(self) -> tuple[str, ...]:
        """Keys under which what is told can be found."""
        return (self.unique_id, *self.keys.split())


def subject_of(unique_id: str, topic: str, stored: str) -> Subject:
    """Of a message on its way out; `stored` are its properties in RocketMQ's stored form."""
    framed = "\x02" + stored
    if "\x02TRAN_MSG\x01" in framed:
        kind = HALF
    elif "\x02DELAY\x01" in framed or "\x02TIMER_DEL" in framed:
        kind = DELAYED
    else:
        kind = NORMAL
    return Subject(unique_id, topic, _property(framed, "TAGS"), _property(framed, "KEYS"), kind)


def _property(framed: str, name: str) -> str:
    """The value of one property, each of which stands between \x02; empty if there is none."""
    mark = f"\x02{name}\x01"
    begin = framed.find(mark)
    if begin < 0:
        return ""
    begin += len(mark)
    return framed[begin : framed.find("\x02", begin)]


def sent_line(
    subject: Subject, group: str, *, at_ms: int, took_ms: int, body_bytes: int, offset_id: str, host: str,
    succeeded: bool,
) -> str:  # fmt: skip
    """A producer has sent it to `host`: `at_ms` is when it began, `offset_id` names the record."""
    return _line(
        "Pub", at_ms, REGION, group, subject.topic, subject.unique_id, subject.tag, subject.keys, host,
        body_bytes, took_ms, subject.kind, offset_id, _truth(succeeded),
    )  # fmt: skip


def delivered_line(subject: Subject, group: str, *, at_ms: int, request_id: str, retries: int) -> str:
    """A consumer's handler gets it."""
    return _line("SubBefore", at_ms, REGION, group, request_id, subject.unique_id, retries, subject.keys)


def handled_line(subject: Subject, group: str, *, at_ms: int, took_ms: int, request_id: str, succeeded: bool) -> str:
    """The handler has ended, at `at_ms`."""
    code = RETURNED if succeeded else RAISED
    return _line(
        "SubAfter", request_id, subject.unique_id, took_ms, _truth(succeeded), subject.keys, code, at_ms, group
    )


def ended_line(subject: Subject, group: str, decision: Decision, *, at_ms: int, host: str, is_answer: bool) -> str:
    """A transaction was decided; `is_answer`: its broker had asked."""
    return _line(
        "EndTransaction", at_ms, REGION, group, subject.topic, subject.unique_id, subject.tag, subject.keys, host,
        DECIDED_HALF, subject.unique_id, _STATES[decision], _truth(is_answer),
    )  # fmt: skip


def recalled_line(subject: Subject, group: str, *, at_ms: int, succeeded: bool) -> str:
    """A timer was to be taken back."""
    return _line("Recall", at_ms, REGION, group, subject.topic, subject.unique_id, _truth(succeeded))


def _line(*fields: str | int) -> str:
    return "\x01".join(map(str, fields)) + "\x02"


def _truth(is_so: bool) -> str:
    return "true" if is_so else "false"
