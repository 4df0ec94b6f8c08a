"""The synchronous admin: a thin face of AsyncAdmin, safe for threads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from ..rocketmq.topics import TRACE_TOPIC
from ..rocketmq.traces import Trace
from ._admin import AsyncAdmin
from ._event_loop import Face, event_loop_thread
from ._transaction import Decision
from ._types import Broker, Message, Route
from .admin import (
    ConnectedClient,
    ConsumeStats,
    GroupConfig,
    GroupConnections,
    Pending,
    QueueEntries,
    RunningInfo,
    TopicConfig,
    TopicStats,
    TopicWaiting,
    UserAccess,
)
from .credentials import Access
from .timers import (
    Action,
    SteeredAll,
    TimerCheckpoint,
    TimerForecast,
    TimerLife,
    TimerMetric,
    TimerPage,
    TimersPaused,
    TimerStatus,
    TimerTarget,
    TimerWheel,
)
from .transactions import Action as TransactionAction
from .transactions import (
    State,
    SteeredTransactions,
    TransactionLife,
    TransactionPage,
    TransactionStatus,
    TransactionTarget,
)

_run = event_loop_thread.run


class Admin(Face[AsyncAdmin]):
    """Asks brokers about topics, groups, queues, delay levels and messages; see AsyncAdmin for each answer."""

    def __init__(self, namesrv: str = "127.0.0.1:9876", broker: str | None = None, **access: Unpack[Access]) -> None:
        super().__init__(lambda: AsyncAdmin(namesrv, broker, **access))

    def brokers(self) -> tuple[Broker, ...]:
        """The masters, by name."""
        return _run(self._core.brokers())

    def topics(self) -> tuple[TopicConfig, ...]:
        """Every topic of every broker, system topics included."""
        return _run(self._core.topics())

    def topic_stats(self, topic: str) -> TopicStats:
        """Bounds of all queues of the topic."""
        return _run(self._core.topic_stats(topic))

    def route(self, topic: str) -> Route:
        """Where the topic lives now; raises RouteNotFound."""
        return _run(self._core.route(topic))

    def groups(self) -> tuple[GroupConfig, ...]:
        """Every consumer group of every broker."""
        return _run(self._core.groups())

    def consume_stats(self, group: str) -> ConsumeStats:
        """How far the group is in every queue it consumes."""
        return _run(self._core.consume_stats(group))

    def offset_at(self, topic: str, queue_id: int, at_ms: int) -> int:
        """The offset of the first message of a queue stored at `at_ms` or later; its end if there is none."""
        return _run(self._core.offset_at(topic, queue_id, at_ms))

    def move_group(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Have a group go on at `offset` of a queue, also consumers that are at work."""
        _run(self._core.move_group(group, topic, queue_id, offset))

    def connections(self, group: str) -> GroupConnections:
        """Who consumes for the group now; raises BrokerRefused with code 206 when nobody does."""
        return _run(self._core.connections(group))

    def access_of(self, user: str) -> tuple[UserAccess, ...]:
        """What each broker with access control lets a user do; see AsyncAdmin.access_of."""
        return _run(self._core.access_of(user))

    def producers(self) -> tuple[ConnectedClient, ...]:
        """Every connected producer, by group and client; raises NotSupported where the broker does not know 328."""
        return _run(self._core.producers())

    def consumers(self, groups: Sequence[str]) -> tuple[ConnectedClient, ...]:
        """The connected consumers of these groups, by group and client."""
        return _run(self._core.consumers(groups))

    def running_info(self, group: str, client_id: str, *, with_stack: bool = False) -> RunningInfo:
        """What a consumer says of itself; raises BrokerRefused (it is not there, or cannot say), Timeout."""
        return _run(self._core.running_info(group, client_id, with_stack=with_stack))

    def delay_offsets(self) -> dict[int, int]:
        """Level -> the offset up to which was released."""
        return _run(self._core.delay_offsets())

    def delay_levels(self) -> list[int]:
        """The delays in ms, level 1 first."""
        return _run(self._core.delay_levels())

    def runtime(self) -> dict[str, str]:
        """The broker's figures: name -> text."""
        return _run(self._core.runtime())

    def broker_config(self) -> dict[str, str]:
        """The broker's configuration: name -> text."""
        return _run(self._core.broker_config())

    def queue_entries(self, topic: str, queue_id: int, index: int, count: int) -> QueueEntries:
        """Up to `count` entries of a consume queue from offset `index` on."""
        return _run(self._core.queue_entries(topic, queue_id, index, count))

    def pull(self, topic: str, queue_id: int, offset: int, count: int) -> list[Message]:
        """Up to `count` messages of a queue from `offset` on; commits nothing."""
        return _run(self._core.pull(topic, queue_id, offset, count))

    def send_back(self, group: str, message: Message, *, delay_level: int, max_reconsume_times: int) -> None:
        """Have the broker give the group one more try at a record, after `delay_level`; a dead letter, too."""
        _run(self._core.send_back(group, message, delay_level=delay_level, max_reconsume_times=max_reconsume_times))

    def message_at(self, position: int, *, topic: str = "") -> Message:
        """The message at a byte address of the commit log."""
        return _run(self._core.message_at(position, topic=topic))

    def message_by_offset_id(self, offset_message_id: str) -> Message:
        """The message with RocketMQ's offset id."""
        return _run(self._core.message_by_offset_id(offset_message_id))

    def messages_by_key(
        self, topic: str, key: str, max_count: int = 64, *, begin_ms: int = 0, end_ms: int = 2**62
    ) -> list[Message]:
        """Messages of the topic with this key, newest first."""
        return _run(self._core.messages_by_key(topic, key, max_count, begin_ms=begin_ms, end_ms=end_ms))

    def traces(self, unique_id: str, *, topic: str = TRACE_TOPIC, max_count: int = 64) -> list[Trace]:
        """What clients with tracing told of a message, oldest first; see AsyncAdmin.traces."""
        return _run(self._core.traces(unique_id, topic=topic, max_count=max_count))

    def message_by_unique_id(self, topic: str, unique_id: str) -> Message | None:
        """The newest record of the topic with this unique id, or None."""
        return _run(self._core.message_by_unique_id(topic, unique_id))

    def records_by_unique_id(self, topic: str, unique_id: str, max_count: int = 32) -> list[Message]:
        """Every record of the topic with this unique id, newest first."""
        return _run(self._core.records_by_unique_id(topic, unique_id, max_count))

    def changes(self, token: str) -> dict[str, Any]:
        """What changed since `token` ("" for everything); raises NotSupported."""
        return _run(self._core.changes(token))

    def schedule_status(self) -> list[dict[str, Any]]:
        """All delay levels with their figures; raises NotSupported."""
        return _run(self._core.schedule_status())

    def timers(
        self, from_ms: int, to_ms: int, *, topic: str | None = None, key: str | None = None, limit: int = 100,
        cursor: str | None = None, address: str | None = None,
    ) -> TimerPage:  # fmt: skip
        """Timers due from `from_ms` to before `to_ms`, by due time; raises NotSupported."""
        asked = self._core.timers(from_ms, to_ms, topic=topic, key=key, limit=limit, cursor=cursor, address=address)
        return _run(asked)

    def timer_wheel(self, from_ms: int, to_ms: int, step_ms: int) -> TimerWheel:
        """The wheel from one moment to another; raises NotSupported."""
        return _run(self._core.timer_wheel(from_ms, to_ms, step_ms))

    def timer_forecast(self, from_ms: int, to_ms: int, step_ms: int) -> TimerForecast:
        """How many timers are due when, and which will be late; raises NotSupported."""
        return _run(self._core.timer_forecast(from_ms, to_ms, step_ms))

    def timer_status(self) -> TimerStatus:
        """The timers as a whole; raises NotSupported."""
        return _run(self._core.timer_status())

    def timer(self, target: TimerTarget | Mapping[str, Any], *, address: str | None = None) -> TimerLife:
        """Where one timer is, and what happened to it; raises NotSupported."""
        return _run(self._core.timer(target, address=address))

    def steer_timers(
        self, action: Action, targets: Sequence[TimerTarget | Mapping[str, Any]], *, reason: str = "",
        due_ms: int | None = None, reference: str | None = None, address: str | None = None,
    ) -> SteeredAll:  # fmt: skip
        """Cancel, reschedule or deliver now, up to 1,000 at once; raises NotSupported."""
        return _run(
            self._core.steer_timers(action, targets, reason=reason, due_ms=due_ms, reference=reference, address=address)
        )

    def pause_timers(self, paused: bool) -> TimersPaused:
        """Release no timers any more, or go on; raises NotSupported."""
        return _run(self._core.pause_timers(paused))

    def timer_checkpoint(self) -> TimerCheckpoint:
        """How far the broker's timers are."""
        return _run(self._core.timer_checkpoint())

    def timer_metrics(self) -> tuple[TimerMetric, ...]:
        """Pending timers by real topic."""
        return _run(self._core.timer_metrics())

    def transactions(
        self, state: State = "open", *, after: int | None = None, count: int = 100, group: str = "", topic: str = "",
        older_than_ms: int | None = None, address: str | None = None,
    ) -> TransactionPage:  # fmt: skip
        """A page of open, parked or decided transactions; raises NotSupported."""
        asked = self._core.transactions(
            state, after=after, count=count, group=group, topic=topic, older_than_ms=older_than_ms, address=address
        )
        return _run(asked)

    def transaction(
        self, transaction_id: str = "", *, offset: int | None = None, position: int | None = None,
        address: str | None = None,
    ) -> TransactionLife:  # fmt: skip
        """One transaction and what happened to it; raises NotSupported."""
        return _run(self._core.transaction(transaction_id, offset=offset, position=position, address=address))

    def transaction_status(self, *, address: str | None = None) -> TransactionStatus:
        """The transactions as a whole; raises NotSupported."""
        return _run(self._core.transaction_status(address=address))

    def steer_transactions(
        self, action: TransactionAction, targets: Sequence[TransactionTarget], *, who: str, reason: str = "",
        address: str | None = None,
    ) -> SteeredTransactions:  # fmt: skip
        """Commit, roll back, check now or resume checking; raises NotSupported."""
        return _run(self._core.steer_transactions(action, targets, who=who, reason=reason, address=address))

    def end_transaction(
        self, decision: Decision, *, group: str, offset: int, position: int, transaction_id: str = "", topic: str = "",
        address: str | None = None,
    ) -> None:  # fmt: skip
        """Decide as a producer does, on Apache RocketMQ too."""
        _run(
            self._core.end_transaction(
                decision, group=group, offset=offset, position=position, transaction_id=transaction_id, topic=topic,
                address=address,
            )
        )  # fmt: skip

    def resume_check(self, offset_message_id: str, *, topic: str = "", address: str | None = None) -> None:
        """Resume checking a parked half, on Apache RocketMQ too."""
        _run(self._core.resume_check(offset_message_id, topic=topic, address=address))

    def create_group(self, name: str, *, retry_max_times: int = 16, in_order: bool = False) -> None:
        """Create the consumer group, or change it; see AsyncAdmin.create_group."""
        _run(self._core.create_group(name, retry_max_times=retry_max_times, in_order=in_order))

    def create_topic(
        self, name: str, *, queues: int = 4, permission: int = 6, attributes: Mapping[str, str] | None = None
    ) -> None:
        """Create the topic, or change it."""
        _run(self._core.create_topic(name, queues=queues, permission=permission, attributes=attributes))

    def topic_settings(self, name: str) -> dict[str, Any] | None:
        """A topic's TopicConfig as the (first) broker keeps it; None: there is no such topic."""
        return _run(self._core.topic_settings(name))

    def set_topic(self, name: str, changes: Mapping[str, Any]) -> None:
        """Change these fields of the topic, or make it; `attributes` holds name -> value, None removes."""
        _run(self._core.set_topic(name, changes))

    def group_settings(self, name: str) -> dict[str, Any] | None:
        """A group's SubscriptionGroupConfig as the (first) broker keeps it; None: there is no such group."""
        return _run(self._core.group_settings(name))

    def set_group(self, name: str, changes: Mapping[str, Any]) -> None:
        """Change these fields of the group, or make it."""
        _run(self._core.set_group(name, changes))

    def delete_group(self, name: str) -> None:
        """Delete the group on every broker, with how far it has read."""
        _run(self._core.delete_group(name))

    def topic_waiting(self, name: str) -> TopicWaiting:
        """Return how many timers, delayed messages and halves wait for a topic."""
        return _run(self._core.topic_waiting(name))

    def delete_topic(self, name: str, pending: Pending | None = None) -> TopicWaiting | None:
        """Delete the topic on its brokers and in the name server; ``pending`` says what becomes of that which waits
        for it, and a topic for which something waits is not deleted without. Return what waited, if that is told."""
        return _run(self._core.delete_topic(name, pending))

    def close(self) -> None:
        """End the connections; idempotent."""
        _run(self._core.close())
        self._is_closed = True
