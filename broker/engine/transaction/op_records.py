"""Op records: which halves were decided, how, and by whom.

    topic RMQ_SYS_TRANS_OP_HALF_TOPIC, queue 0, tag "d"
    body             12,15,13,          half offsets in order of arrival, each followed by a comma (RocketMQ's form)
    ESC_DECISIONS    c0r1c0             ours: for each offset c (commit) or r (rollback), and who: a number in
    ESC_DECIDERS     [["producer 10.0.0.7:50112", ""], ["ann", "stuck since noon"]]    ours: [who, reason], JSON

RocketMQ says only that an offset was decided; a record without our properties is read so.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ...rocketmq.properties import TAGS, WAIT

DECISIONS = "ESC_DECISIONS"
DECIDERS = "ESC_DECIDERS"
#: TransactionalMessageUtil.REMOVE_TAG
OP_TAG = "d"
#: Bytes of offsets in one op record (BrokerConfig.transactionOpMsgMaxSize).
OP_BODY_BYTES = 4096
#: Bytes of ESC_DECIDERS in one op record: properties have 32 KiB in all.
_DECIDERS_BYTES = 16_384
#: Who and why are cut to this many characters.
_NAME_LENGTH = 200

_PAIR = re.compile(r"([cr])(\d+)")


class Decision(NamedTuple):
    """What became of one half. ``commit`` is None where an op record of Apache RocketMQ does not say."""

    offset: int
    commit: bool | None
    by: str
    reason: str = ""

    @property
    def word(self) -> str:
        """How it is called in texts."""
        return "decided" if self.commit is None else "committed" if self.commit else "rolled back"


class OpRecord(NamedTuple):
    """Body and properties of an op record, and what it says."""

    body: bytes
    properties: dict[str, str]
    decisions: Sequence[Decision]


def op_records(decisions: Sequence[Decision]) -> Iterator[OpRecord]:
    """Yield the records that say these decisions, each as large as RocketMQ's may be."""
    whole = _record(decisions)
    if len(whole.body) <= OP_BODY_BYTES and len(whole.properties[DECIDERS]) <= _DECIDERS_BYTES:
        yield whole
        return
    waiting: list[Decision] = []
    deciders: set[tuple[str, str]] = set()
    size = deciders_size = 0
    for decision in decisions:
        named = len(str(decision.offset)) + 1
        decider = (decision.by[:_NAME_LENGTH], decision.reason[:_NAME_LENGTH])
        # a character takes at most twelve bytes of JSON
        most = 16 + 12 * (len(decider[0]) + len(decider[1]))
        more = 0 if decider in deciders else most
        if waiting and (size + named > OP_BODY_BYTES or deciders_size + more > _DECIDERS_BYTES):
            yield _record(waiting)
            waiting, size, deciders_size, more = [], 0, 0, most
            deciders.clear()
        waiting.append(decision)
        deciders.add(decider)
        size += named
        deciders_size += more
    yield _record(waiting)


def _record(decisions: Sequence[Decision]) -> OpRecord:
    deciders: dict[tuple[str, str], int] = {}
    body, said = "", ""
    for offset, commit, by, reason in decisions:
        number = deciders.setdefault((by[:_NAME_LENGTH], reason[:_NAME_LENGTH]), len(deciders))
        body += f"{offset},"
        said += f"{'c' if commit else 'r'}{number}"
    properties = {WAIT: "true", TAGS: OP_TAG, DECISIONS: said, DECIDERS: json.dumps([list(key) for key in deciders])}
    return OpRecord(body.encode(), properties, decisions)


def read_op(body: bytes, properties: dict[str, str]) -> list[Decision]:
    """Return what an op record says; one whose tag is not RocketMQ's says nothing."""
    if properties.get(TAGS) != OP_TAG:
        return []
    offsets = [int(word) for word in body.split(b",") if word.isdigit() and len(word) < 19]
    said = _PAIR.findall(properties.get(DECISIONS, ""))
    try:
        deciders = [(str(who), str(why)) for who, why in json.loads(properties.get(DECIDERS, "[]"))]
    except (ValueError, TypeError):
        deciders = []
    if len(said) != len(offsets):
        return [Decision(offset, None, "") for offset in offsets]
    return [
        Decision(offset, letter == "c", *(deciders[int(number)] if int(number) < len(deciders) else ("", "")))
        for offset, (letter, number) in zip(offsets, said, strict=True)
    ]
