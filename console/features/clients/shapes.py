"""Connected clients: the list of all, and one of them with what it says of itself."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import TextChoices
from django.utils.translation import gettext_lazy as _

from broker.client.admin_clients import RunningInfo
from console.site.evidence import Evidence


class ClientRole(TextChoices):
    """What a client is in a group."""

    PRODUCER = "producer", _("producer")
    CONSUMER = "consumer", _("consumer")


@dataclass(frozen=True, slots=True)
class ClientRow:
    """One client in one group; names, address and language are what the client said: hostile."""

    role: ClientRole
    group: str
    client_id: str
    address: str
    language: str
    #: RocketMQ's version number; None when it does not say
    version: int | None
    #: first and last heartbeat; None where the broker does not tell
    since_ms: int | None
    seen_ms: int | None
    consume_type: str
    message_model: str
    #: topic and expression, of the whole group
    subscriptions: tuple[tuple[str, str], ...]
    #: topic and queue that it holds to consume in order
    locked: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Clients:
    """A page of the list. `is_apache`: the broker does not tell when consumers came and were heard last."""

    evidence: Evidence
    now_ms: int
    rows: tuple[ClientRow, ...]
    #: that match, and of all: producers, consumers, different clients
    total: int
    producers: int | None
    consumers: int
    clients: int
    offset: int
    count: int
    search: str
    role: str
    is_apache: bool
    #: groups whose consumers were not asked for: there are too many
    groups_left: int

    @property
    def previous(self) -> int | None:
        """Where the page before begins."""
        return max(0, self.offset - self.count) if self.offset else None

    @property
    def following(self) -> int | None:
        """Where the next page begins."""
        return self.offset + self.count if self.offset + self.count < self.total else None


@dataclass(frozen=True, slots=True)
class ClientPage:
    """One client: a row for each group that it is in; none: it is not connected now."""

    evidence: Evidence
    now_ms: int
    client_id: str
    rows: tuple[ClientRow, ...]
    is_apache: bool

    @property
    def first(self) -> ClientRow | None:
        """Where address, language and version stand."""
        return self.rows[0] if self.rows else None

    @property
    def consuming(self) -> tuple[ClientRow, ...]:
        """The groups that it consumes for."""
        return tuple(row for row in self.rows if row.role is ClientRole.CONSUMER)


@dataclass(frozen=True, slots=True)
class Running:
    """What a consumer says of itself for one group; `info` None: it did not, evidence says why."""

    group: str
    evidence: Evidence
    info: RunningInfo | None
