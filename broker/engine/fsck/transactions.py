"""Transactions in the log: each commit has its one copy, each copy its op record."""

from __future__ import annotations

from ...rocketmq.layout import FLAG_TRANSACTION_COMMIT, FLAG_TRANSACTION_MASK
from ...rocketmq.message import Message
from ...rocketmq.properties import SOURCE
from ..tables.topics import HALF_TOPIC, OP_TOPIC
from ..transaction.op_records import read_op
from .report import Damage, Report


class TransactionCheck:
    """Is told of each record in log order, and judges at the end.

    Only what Escapement wrote can be judged: an op record of Apache RocketMQ does not say what was decided, and its
    copies may well be two.
    """

    def __init__(self, directory: str, report: Report) -> None:
        self._directory = directory
        self._report = report
        #: position by offset of halves without a decision so far
        self._open: dict[int, int] = {}
        #: position by offset of halves whose op record says "commit", without a copy so far
        self._uncopied: dict[int, int] = {}
        #: offset by position of halves with a copy
        self._copied: dict[int, int] = {}
        self._offsets: dict[int, int] = {}

    def see(self, message: Message) -> None:
        """Look at one record."""
        if message.topic == HALF_TOPIC:
            self._report.counts["half messages"] += 1
            self._open[message.queue_offset] = message.position
            self._offsets[message.position] = message.queue_offset
        elif message.topic == OP_TOPIC:
            for offset, commit, _, _ in read_op(message.body, message.properties):
                self._decided(offset, commit)
        elif message.sys_flag & FLAG_TRANSACTION_MASK == FLAG_TRANSACTION_COMMIT:
            source = message.properties.get(SOURCE, "")
            if source == str(message.prepared_position):
                self._copy(message)

    def _decided(self, offset: int, commit: bool | None) -> None:
        position = self._open.pop(offset, None)
        if position is None:
            return
        self._report.counts["decisions"] += 1
        if commit and position not in self._copied:
            self._uncopied[offset] = position
        elif commit is not True:
            self._offsets.pop(position, None)

    def _copy(self, message: Message) -> None:
        position = message.prepared_position
        offset = self._offsets.get(position)
        if position in self._copied:
            self._damage(message.position, message.size, f"a second copy of the half message at {position:,}")
        elif offset is not None:
            self._copied[position] = offset
            self._uncopied.pop(offset, None)

    def finish(self) -> None:
        """Judge what is without its other half."""
        for offset, position in self._uncopied.items():
            why = f"the half message with offset {offset} is committed, its copy is still to be written"
            self._report.unfinished.append(Damage(self._directory, position, position + 1, why))
        for position, offset in self._copied.items():
            if offset in self._open:
                why = f"the half message with offset {offset} has a copy, its op record is still to be written"
                self._report.unfinished.append(Damage(self._directory, position, position + 1, why))

    def _damage(self, position: int, size: int, why: str) -> None:
        self._report.damages.append(Damage(self._directory, position, position + size, why))
