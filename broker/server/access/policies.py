"""Policies of a user, and the rule that decides.

Of the entries that cover the resource, one of the wanted actions and the client's address, the one with the most exact
resource decides: a name beats a prefix, a longer prefix a shorter one, any prefix "all of the kind", that "everything".
Where two are equally exact, Deny wins. Entries of type Default count only where no Custom one applies. Nothing that
applies is Deny.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any

from .errors import InvalidAccess
from .resources import Kind, Resource, parse_resource

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

RETRY_PREFIX = "%RETRY%"


class Action(StrEnum):
    """What may be done with a resource."""

    ALL = "All"
    PUB = "Pub"
    SUB = "Sub"
    CREATE = "Create"
    UPDATE = "Update"
    DELETE = "Delete"
    GET = "Get"
    LIST = "List"


class PolicyType(StrEnum):
    """The two lists of entries that a user may have."""

    CUSTOM = "Custom"
    DEFAULT = "Default"


_ACTIONS = {action.lower(): action for action in Action}
_TYPES = {each.lower(): each for each in PolicyType}


@dataclass(frozen=True, slots=True)
class Demand:
    """What a request needs: one of the actions on a resource."""

    kind: Kind
    name: str
    actions: tuple[Action, ...]

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


def demand_on(kind: Kind, name: str, actions: tuple[Action, ...]) -> Demand:
    """A retry topic is its group's: who may consume with the group may read and fill it."""
    if name.startswith(RETRY_PREFIX):
        own = tuple(Action.SUB if action is Action.PUB else action for action in actions)
        return Demand(Kind.GROUP, name[len(RETRY_PREFIX) :], own)
    return Demand(kind, name, actions)


@dataclass(frozen=True, slots=True)
class Entry:
    """Allows or denies actions on a resource to clients at some addresses (none given: anywhere)."""

    resource: Resource
    actions: frozenset[Action]
    is_allowed: bool
    sources: tuple[str, ...] = ()
    networks: tuple[Network, ...] = field(default=(), compare=False)

    def applies(self, demand: Demand, source: Address | None) -> bool:
        """Tell whether this entry says something about the demand."""
        if not self.resource.covers(demand.kind, demand.name):
            return False
        if Action.ALL not in self.actions and self.actions.isdisjoint(demand.actions):
            return False
        return not self.sources or (source is not None and any(source in network for network in self.networks))

    def to_json(self) -> dict[str, Any]:
        """RocketMQ's form (AclInfo.PolicyEntryInfo)."""
        said = {
            "actions": [str(action) for action in Action if action in self.actions],
            "decision": "Allow" if self.is_allowed else "Deny",
            "resource": str(self.resource),
        }
        return said | ({"sourceIps": list(self.sources)} if self.sources else {})


#: The entries of one user by type.
Policies = Mapping[PolicyType, tuple[Entry, ...]]


def entry(resource: str, actions: Iterable[str], decision: str, sources: Iterable[str] = ()) -> Entry:
    """An entry from RocketMQ's words; raises InvalidAccess."""
    chosen = frozenset(_action(word) for word in actions)
    if not chosen:
        raise InvalidAccess("The actions are empty; write Pub, Sub, Create, Update, Delete, Get, List or All.")
    said = decision.strip().lower()
    if said not in ("allow", "deny"):
        raise InvalidAccess(f"The decision {decision[:40]!r} is neither Allow nor Deny.")
    given = tuple(sources)
    return Entry(parse_resource(resource), chosen, said == "allow", given, tuple(_network(each) for each in given))


def policy_type(word: str | None) -> PolicyType:
    """The type of that name, Custom by default; raises InvalidAccess."""
    if not word:
        return PolicyType.CUSTOM
    found = _TYPES.get(word.lower())
    if found is None:
        raise InvalidAccess(f"The policy type {word[:40]!r} is neither Custom nor Default.")
    return found


def _action(word: str) -> Action:
    found = _ACTIONS.get(word.strip().lower())
    if found is None:
        raise InvalidAccess(f"{word[:40]!r} is no action; write Pub, Sub, Create, Update, Delete, Get, List or All.")
    return found


def _network(text: str) -> Network:
    try:
        return ip_network(text, strict=False)
    except ValueError:
        raise InvalidAccess(f"{text[:60]!r} is neither an IP address nor a network such as 10.0.0.0/8.") from None


def address_of(text: str) -> Address | None:
    """The IP address in `text`, an IPv4 one also where it comes mapped into IPv6; None if it is none."""
    try:
        address = ip_address(text.strip("[]").partition("%")[0])
    except ValueError:
        return None
    return (address.ipv4_mapped if isinstance(address, IPv6Address) else None) or address


def decide(policies: Policies, demand: Demand, source: Address | None) -> bool | None:
    """True: allowed, False: denied, None: nothing is said about it, which is a refusal too."""
    for type_ in PolicyType:
        found = [each for each in policies.get(type_, ()) if each.applies(demand, source)]
        if found:
            return min(found, key=_order).is_allowed
    return None


def _order(each: Entry) -> tuple[tuple[bool, int, int], bool]:
    return each.resource.rank, each.is_allowed


def merged(known: Sequence[Entry], added: Iterable[Entry]) -> tuple[Entry, ...]:
    """Entries after a change: an entry replaces the one of the same resource."""
    by_resource = {each.resource: each for each in known}
    for each in added:
        by_resource[each.resource] = each
    return tuple(by_resource.values())
