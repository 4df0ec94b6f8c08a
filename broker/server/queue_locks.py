"""Queues of orderly consumers: one client of a group at a time holds a queue, for 60 seconds from its last asking."""

from __future__ import annotations

LOCK_LIFE_MS = 60_000
"""REBALANCE_LOCK_MAX_LIVE_TIME of RocketMQ; clients ask again every 20 s."""

QueueKey = tuple[str, int]


class QueueLocks:
    """Who holds which queue: (topic, queue id) by group."""

    def __init__(self) -> None:
        self._held: dict[str, dict[QueueKey, tuple[str, int]]] = {}

    def lock(self, group: str, client_id: str, queues: list[QueueKey], now_ms: int) -> list[QueueKey]:
        """Takes (or keeps) what is free or expired; the queues that this client holds now."""
        if not queues:
            return []
        held = self._held.setdefault(group, {})
        granted = []
        for queue in queues:
            owner, since_ms = held.get(queue, (client_id, now_ms))
            if owner == client_id or now_ms - since_ms > LOCK_LIFE_MS:
                held[queue] = (client_id, now_ms)
                granted.append(queue)
        return granted

    def unlock(self, group: str, client_id: str, queues: list[QueueKey]) -> None:
        """Gives back those of the queues that this client holds."""
        held = self._held.get(group, {})
        for queue in queues:
            if queue in held and held[queue][0] == client_id:
                del held[queue]
        if not held:
            self._held.pop(group, None)

    def has_live_locks(self, group: str, now_ms: int) -> bool:
        """True if any queue is held by a consumer of the group: it consumes in order."""
        return any(now_ms - since_ms <= LOCK_LIFE_MS for _, since_ms in self._held.get(group, {}).values())

    def held(self, group: str, now_ms: int) -> list[tuple[QueueKey, str]]:
        """The queues of the group that are held now, and by whom."""
        return sorted(
            (queue, owner)
            for queue, (owner, since_ms) in self._held.get(group, {}).items()
            if now_ms - since_ms <= LOCK_LIFE_MS
        )
