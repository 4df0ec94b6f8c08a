"""The permissions that a route declares, and the checks that hold a request's token to them.

A route names an action and what it is on. Places that the address names are checked before the handler runs; for what
is known only after reading (a message by its id, names in a body, rows of a list) the handler has to ask, and
`console.rest.route` lets no answer leave before it did.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from broker.client.names import check_topic
from console.rest.errors import PolicyDenies, ScopeMissing
from console.rest.person import PersonGrant
from console.security.tokens import PUBLISH, READ, Grant
from console.security.topic_scope import ALL, TopicScope, VisibleTopics

#: stands for the question whether the token itself began an operation
OWNER = "owner"
#: raises ScopeMissing or PolicyDenies; is given the topics that are touched, None: not bounded
Allow = Callable[[frozenset[str] | None], None]


@dataclass(frozen=True, slots=True)
class Place(ABC):
    """Something that an action is on. `action`: another one than the route's, for a route that needs several."""

    action: str | None = None

    @abstractmethod
    def check(self, grant: Grant, action: str, named: Mapping[str, str]) -> None:
        """Raise ScopeMissing or PolicyDenies unless the action is allowed; `named` has the names of the address."""

    @property
    @abstractmethod
    def words(self) -> str:
        """Return the end of the sentence "The token needs `action` ..."."""


@dataclass(frozen=True, slots=True)
class Named(Place):
    """A name that stands in the address, as its parameter of the same word."""

    parameter: ClassVar[str]
    kind: ClassVar[str]

    def check(self, grant: Grant, action: str, named: Mapping[str, str]) -> None:
        """Raise ScopeMissing or PolicyDenies unless the action is allowed on the name."""
        require(grant, action, named[self.parameter], self.kind)

    @property
    def words(self) -> str:
        """Return the kind of the name and its parameter."""
        return f"on the {self.kind} `{self.parameter}`"


@dataclass(frozen=True, slots=True)
class Topic(Named):
    """The topic that the address names."""

    parameter: ClassVar[str] = "topic"
    kind: ClassVar[str] = "topic"


@dataclass(frozen=True, slots=True)
class Queue(Named):
    """The delayed queue that the address names: its name is compared as if it were a topic's."""

    parameter: ClassVar[str] = "queue"
    kind: ClassVar[str] = "topic"


@dataclass(frozen=True, slots=True)
class Group(Named):
    """The consumer group that the address names."""

    parameter: ClassVar[str] = "group"
    kind: ClassVar[str] = "group"


@dataclass(frozen=True, slots=True)
class ProducerGroup(Named):
    """The producer group that the address names."""

    parameter: ClassVar[str] = "group"
    kind: ClassVar[str] = "producer group"


@dataclass(frozen=True, slots=True)
class Everywhere(Place):
    """Every name there is, or will be."""

    def check(self, grant: Grant, action: str, named: Mapping[str, str]) -> None:
        """Raise ScopeMissing or PolicyDenies unless the action is allowed on every topic."""
        require_everywhere(grant, action)

    @property
    def words(self) -> str:
        """Return words for every name there is."""
        return "on every name"


@dataclass(frozen=True, slots=True)
class Overview(Place):
    """Figures of the whole cluster, which name no topic."""

    def check(self, grant: Grant, action: str, named: Mapping[str, str]) -> None:
        """Raise ScopeMissing unless the action is allowed on some topic, PolicyDenies unless policies allow figures."""
        require_somewhere(grant, action)
        if grant.policies is not None and not grant.policies.allows_overview():
            raise PolicyDenies(grant.policies.refusal("figures of the whole cluster (Get on it)"))

    @property
    def words(self) -> str:
        """Return words for both, the token's scopes and the policies."""
        return "on some topic, and policies Get on the cluster"


@dataclass(frozen=True, slots=True)
class AfterReading(Place):
    """A place known only after reading: the handler has to ask before it answers (`Call.require` and its kind).

    Before it runs, the token has to allow the action on some name.
    """

    def check(self, grant: Grant, action: str, named: Mapping[str, str]) -> None:
        """Raise ScopeMissing unless the action is allowed on some name."""
        require_somewhere(grant, action)


@dataclass(frozen=True, slots=True)
class InRecord(AfterReading):
    """The topic of the message or transaction that the address names by an id."""

    @property
    def words(self) -> str:
        """Return words for the topic of a record."""
        return "on the topic of what is named"


@dataclass(frozen=True, slots=True)
class InBody(AfterReading):
    """The topics, groups or queues that the body names or chooses, every one of them."""

    @property
    def words(self) -> str:
        """Return words for the names in a body."""
        return "on all that the body names"


@dataclass(frozen=True, slots=True)
class InRows(AfterReading):
    """The name of each row of the answer: rows that the token does not allow are left out."""

    @property
    def words(self) -> str:
        """Return words for the rows of a list."""
        return "on some name; rows that it does not allow are left out"


@dataclass(frozen=True, slots=True)
class OwnOperation(AfterReading):
    """The operation that the address names: it has to have been begun with the same token."""

    @property
    def words(self) -> str:
        """Return words for an operation of the token's own."""
        return "on some name, and has to have begun it"


def require(grant: Grant, action: str, name: str, kind: str = "topic") -> None:
    """Raise ScopeMissing or PolicyDenies unless the action is allowed on the topic (or what else `kind` says)."""
    require_scope(grant, action, name, kind)
    if grant.policies is not None and not grant.policies.allows(action, name, kind):
        raise PolicyDenies(grant.policies.refusal(f"{action!r} on {kind} {name!r}"))


def require_scope(grant: Grant, action: str, name: str, kind: str) -> None:
    """Raise ScopeMissing unless the token's own scopes allow the action on the name, or leave it to policies."""
    if not grant.scopes_allow(action, name):
        raise ScopeMissing(f"The token {grant.name!r} does not allow {action!r} on {kind} {name!r}.")


def require_somewhere(grant: Grant, action: str) -> None:
    """Raise ScopeMissing unless the action is allowed on some topic; for lists of which each row is asked for."""
    if not grant.scopes_allow_somewhere(action):
        raise ScopeMissing(f"The token {grant.name!r} does not allow {action!r} on any topic.")


def require_everywhere(grant: Grant, action: str = PUBLISH) -> None:
    """Raise ScopeMissing or PolicyDenies unless the token allows the action on every topic."""
    if not grant.scopes_allow(action, ""):
        raise ScopeMissing(f"The token {grant.name!r} does not allow {action!r} on every topic.")
    if grant.policies is not None and not grant.policies.allows_everything():
        raise PolicyDenies(grant.policies.refusal("what concerns every topic (Update on the cluster)"))


def is_everywhere(grant: Grant, action: str) -> bool:
    """Tell whether the token allows the action on every topic."""
    try:
        require_everywhere(grant, action)
    except (ScopeMissing, PolicyDenies):
        return False
    return True


def require_where(grant: Grant, action: str, topic: str | None) -> None:
    """Raise ScopeMissing or PolicyDenies unless the token may act on this topic, on every one if none is named; raises
    InvalidArgument for what is no topic's name."""
    if topic is None:
        require_everywhere(grant, action)
    else:
        check_topic(topic)
        require(grant, action, topic)


def allowed(grant: Grant, *actions: str) -> Allow:
    """Return a check that a token allows the actions on every topic touched, or on all where that is not known."""

    def allow(topics: frozenset[str] | None) -> None:
        for action in actions or (PUBLISH,):
            try:
                if not topics:
                    require_everywhere(grant, action)
                for topic in topics or ():
                    require(grant, action, topic)
            except (ScopeMissing, PolicyDenies) as error:
                # a record that is named by its place must not tell which topic it is of, nor whether it is there
                raise type(error)(
                    f"The token {grant.name!r} does not allow {action!r} on all that is named; what is not known to be "
                    "of topics that it allows needs one for every topic."
                ) from None

    return allow


def visible_to(grant: Grant, action: str = READ) -> TopicScope:
    """Return what the token's own scopes see, as the console's pages do; for a token without any, policies decide."""
    if isinstance(grant, PersonGrant):
        return grant.seen
    if not grant.scopes and grant.policies is not None:
        return TopicScope(ALL)
    return TopicScope(VisibleTopics.of(scope.pattern for scope in grant.scopes if action in scope.actions))


def visible_groups(grant: Grant, names: Iterable[str]) -> frozenset[str]:
    """Return those of the groups that the token may read: by their own names, or because they read such a topic, and by
    its policies. Asks the database."""
    visible = visible_to(grant)
    return frozenset(
        name
        for name in names
        if (grant.scopes_allow(READ, name) or visible.group(name))
        and (grant.policies is None or grant.policies.allows(READ, name, "group"))
    )
