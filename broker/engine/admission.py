"""The checks that refuse a message before anything of it is written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..rocketmq.layout import CRC_SIZE, FLAG_TRANSACTION_MASK, FLAG_TRANSACTION_PREPARED
from ..rocketmq.topics import NOT_FOR_CLIENTS
from .config import EngineConfig
from .errors import (
    BodyTooLarge,
    InvalidMessage,
    InvalidQueue,
    PropertiesTooLarge,
    TooManyKeys,
    TopicNotFound,
    TopicNotWritable,
)
from .store import Store
from .tables.topics import WRITE

#: ``properties length`` is a signed 16-bit number for RocketMQ.
STORED_LIMIT_BYTES = 32_767
#: Words of KEYS in all messages of a batch: nothing else happens while they are indexed. Those of a client, which gives
#: each message a unique id, have three each where they are so small that as many as possible fit.
MOST_KEYS = 100_000
_INT_MIN, _INT_MAX = -0x8000_0000, 0x7FFF_FFFF
_LONG_MAX = 0x7FFF_FFFF_FFFF_FFFF
#: Topics whose turn is remembered.
_TURNS_LIMIT = 10_000


class Admission:
    """Checks messages against the limits of one store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._max_body_bytes = store.config.max_body_bytes
        self._max_properties_bytes = min(store.config.max_properties_bytes, STORED_LIMIT_BYTES - CRC_SIZE)
        #: by topic: how many senders left the choice of the queue to the broker
        self._turns: dict[str, int] = {}

    def reconfigure(self, config: EngineConfig) -> None:
        """Take over a changed limit of sizes."""
        self._max_body_bytes = config.max_body_bytes

    def check(
        self,
        topic: str,
        queue_id: int,
        body_size: int,
        properties_size: int,
        flag: int,
        sys_flag: int,
        born_ms: int,
        born_host: bytes,
        reconsume_times: int,
    ) -> int:
        """Return the queue that a message goes to: that of the id, or one in turn for an id below 0.

        Raises InvalidMessage, TopicNotFound or TopicNotWritable if this may not be stored.
        """
        config = self._store.topics.get(topic)
        if config is None:
            raise TopicNotFound(topic)
        if not config.permission & WRITE or topic in NOT_FOR_CLIENTS:
            raise TopicNotWritable(topic)
        # one that is read, but not written any more, is what a sender has whose route is old
        if queue_id >= config.write_queues and queue_id >= config.read_queues:
            raise InvalidQueue(topic, queue_id, max(config.write_queues, config.read_queues))
        if body_size > self._max_body_bytes:
            raise BodyTooLarge(body_size, self._max_body_bytes)
        if properties_size > self._max_properties_bytes - 1:
            raise PropertiesTooLarge(properties_size, self._max_properties_bytes - 1)
        if sys_flag & FLAG_TRANSACTION_MASK not in (0, FLAG_TRANSACTION_PREPARED):
            raise InvalidMessage(
                "A message cannot be sent as committed or rolled back; send it, or send a half message."
            )
        if not (
            _INT_MIN <= flag <= _INT_MAX
            and 0 <= sys_flag <= _INT_MAX
            and 0 <= reconsume_times <= _INT_MAX
            and 0 <= born_ms <= _LONG_MAX
            and len(born_host) in (8, 20)
        ):
            raise InvalidMessage("Flag, sysFlag, reconsume times, born time or born host are out of range.")
        return queue_id if queue_id >= 0 else self._in_turn(topic, config.write_queues)

    def _in_turn(self, topic: str, queues: int) -> int:
        """Return one of the queues of a topic that are written: each as often as the others."""
        if not queues:
            raise InvalidQueue(topic, -1, queues)
        turn = self._turns.get(topic, 0)
        if turn == 0 and len(self._turns) >= _TURNS_LIMIT:
            self._turns.clear()
        self._turns[topic] = turn + 1
        return turn % queues

    def check_batch(
        self,
        topic: str,
        queue_id: int,
        bodies: Sequence[bytes],
        properties: Sequence[bytes],
        flags: Sequence[int],
        sys_flag: int,
        born_ms: int,
        born_host: bytes,
    ) -> int:
        """Return the queue that all go to; raise as ``check`` if one may not be stored."""
        extremes = max(map(len, bodies)), max(map(len, properties)), min(flags), max(flags)
        return self.check_extremes(topic, queue_id, *extremes, sys_flag, born_ms, born_host)

    def check_extremes(
        self,
        topic: str,
        queue_id: int,
        longest_body: int,
        longest_properties: int,
        lowest_flag: int,
        highest_flag: int,
        sys_flag: int,
        born_ms: int,
        born_host: bytes,
    ) -> int:
        """Return the queue that all messages of a batch go to; raise as ``check`` if one may not be stored."""
        longest = longest_body, longest_properties
        chosen = self.check(topic, queue_id, *longest, lowest_flag, sys_flag, born_ms, born_host, 0)
        if highest_flag != lowest_flag:
            self.check(topic, chosen, *longest, highest_flag, sys_flag, born_ms, born_host, 0)
        return chosen

    def check_keys(self, keys: Iterable[str | None]) -> None:
        """Raise TooManyKeys if the messages of a batch have more of them than are indexed at once."""
        words = 0
        for each in keys:
            if each:
                words += len(each.split())
                if words > MOST_KEYS:
                    raise TooManyKeys(MOST_KEYS)
