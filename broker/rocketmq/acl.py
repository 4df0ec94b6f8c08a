"""Users, their policies, the rule that decides what a user may do, and the signature that says who asks.

A user has a name (the access key) and a secret that signs, is Super or Normal, enabled or not.

A policy is about a resource: a topic, a group, the cluster; one by its name, many by its beginning, or all:

    *            everything          Topic:*        every topic
    Topic:order  one topic           Topic:order*   the topics that begin with "order"

Of the entries that cover the resource, one of the wanted actions and the client's address, the one with the most exact
resource decides: a name beats a prefix, a longer prefix a shorter one, any prefix "all of the kind", that "everything".
Where two are equally exact, Deny wins. Entries of type Default count only where no Custom one applies. Nothing that
applies is Deny.

`AccessConfig` is how access control is set up. Errors say what is wrong with users and policies; their message is what
an administrator reads.

Clients of RocketMQ 4.x and 5.x sign every request:

    content   = the values of all header fields but Signature, in the order of their names, then the body
    Signature = base64(HmacSHA1(secret, content))

The fields include AccessKey (the user's name) and, if there is one, SecurityToken. Neither the request's code nor its
number (opaque) nor a time is part of it: that a request was not heard and said again by somebody else, TLS sees to.
"""

from __future__ import annotations

import hashlib
import hmac
from binascii import b2a_base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any

from .topics import RETRY_PREFIX

SUBJECT_PREFIX = "User:"
_TYPES = {"super": True, "normal": False}
_STATUSES = {"enable": True, "disable": False}
PREVIOUS_UNTIL = "previousUntilMs"
"""Field of request 3002 and of a user's description: until when the secret before the present one counts as well."""
_PREVIOUS = "previousPassword"


@dataclass(frozen=True, slots=True)
class User:
    """A user of the broker. The secret is kept as it is: without it a signature cannot be checked.

    While secrets rotate, the one before counts as well until a moment (0: there is none); RocketMQ knows no such thing.
    """

    name: str
    secret: str = field(repr=False)
    is_super: bool = False
    is_enabled: bool = True
    previous: str = field(default="", repr=False)
    previous_until_ms: int = 0

    def older(self, now_ms: int) -> str:
        """Return the secret before, if it still counts; else ""."""
        return self.previous if now_ms < self.previous_until_ms else ""

    def to_json(self, *, with_secret: bool) -> dict[str, Any]:
        """Return the user in RocketMQ's form (UserInfo)."""
        info = {
            "userStatus": "enable" if self.is_enabled else "disable",
            "userType": "Super" if self.is_super else "Normal",
            "username": self.name,
        }
        told = {PREVIOUS_UNTIL: self.previous_until_ms} if self.previous else {}
        return info | told | ({"password": self.secret} if with_secret else {})

    def to_row(self) -> dict[str, Any]:
        """Return all that is kept of the user."""
        return self.to_json(with_secret=True) | ({_PREVIOUS: self.previous} if self.previous else {})

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> User:
        """Read RocketMQ's form; raises InvalidAccess, KeyError."""
        check_name(value["username"])
        secret = value["password"]
        if not isinstance(secret, str) or not secret:
            raise InvalidAccess("The user has no password.")
        return cls(
            value["username"],
            secret,
            is_super=user_type(value.get("userType")) or False,
            is_enabled=user_status(value.get("userStatus")) is not False,
            previous=str(value.get(_PREVIOUS) or ""),
            previous_until_ms=int(value.get(PREVIOUS_UNTIL) or 0),
        )


def check_name(name: object) -> None:
    """Raise InvalidAccess unless a user may be called so."""
    if not isinstance(name, str) or not 1 <= len(name) <= 128 or not name.isprintable() or set(name) & set(" :*#,"):
        raise InvalidAccess("A user's name has 1 to 128 printable characters, none of them a blank or one of : * # ,")


def user_type(word: str | None) -> bool | None:
    """Return True for Super, False for Normal, None if nothing is said; raises InvalidAccess."""
    return _said(_TYPES, "user type", word)


def user_status(word: str | None) -> bool | None:
    """Return True for enable, False for disable, None if nothing is said; raises InvalidAccess."""
    return _said(_STATUSES, "user status", word)


def _said(words: Mapping[str, bool], what: str, word: str | None) -> bool | None:
    if not word:
        return None
    found = words.get(word.lower())
    if found is None:
        raise InvalidAccess(f"The {what} {word[:40]!r} is neither {' nor '.join(words)}.")
    return found


def subject_of(name: str) -> str:
    """Return the name of a user in policies."""
    return SUBJECT_PREFIX + name


def user_of(subject: str) -> str:
    """Return the user's name in a subject such as ``User:alice``; raises InvalidAccess."""
    kind, _, name = subject.partition(":")
    if kind.lower() != "user" or not name:
        raise InvalidAccess(f"{subject[:80]!r} is no subject; write User:name.")
    return name


# Resources: what a policy is about.

MOST_NAME_CHARACTERS = 255


class Kind(StrEnum):
    """Kinds of resources (ResourceType)."""

    ANY = "Any"
    CLUSTER = "Cluster"
    NAMESPACE = "Namespace"
    TOPIC = "Topic"
    GROUP = "Group"


class Pattern(StrEnum):
    """The ways to match a resource's name (ResourcePattern)."""

    ANY = "Any"
    LITERAL = "Literal"
    PREFIXED = "Prefixed"


_KINDS = {kind.lower(): kind for kind in Kind}
_RANKS = {Pattern.LITERAL: 0, Pattern.PREFIXED: 1, Pattern.ANY: 2}


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource, or many resources of one kind, by a pattern of names."""

    kind: Kind
    pattern: Pattern
    name: str = ""

    def __str__(self) -> str:
        if self.kind is Kind.ANY:
            return "*"
        return f"{self.kind}:{self.name}{'' if self.pattern is Pattern.LITERAL else '*'}"

    def covers(self, kind: Kind, name: str) -> bool:
        """Tell whether the resource of this kind and name is meant."""
        if self.kind is not kind:
            return self.kind is Kind.ANY
        if self.pattern is Pattern.LITERAL:
            return name == self.name
        return self.pattern is Pattern.ANY or name.startswith(self.name)

    @property
    def rank(self) -> tuple[bool, int, int]:
        """The smaller, the more exact: of several that cover one name, the most exact decides."""
        return self.kind is Kind.ANY, _RANKS[self.pattern], -len(self.name)


def parse_resource(text: str) -> Resource:
    """Return the resource that is written so; raises InvalidAccess."""
    if text == "*":
        return Resource(Kind.ANY, Pattern.ANY)
    word, colon, name = text.partition(":")
    kind = _KINDS.get(word.lower())
    if kind is None or not colon or not name:
        raise InvalidAccess(f"{text[:80]!r} is no resource; write Topic:name, Group:name*, Cluster:* or *.")
    if kind is Kind.ANY:
        raise InvalidAccess("All resources of every kind are written as *.")
    if name == "*":
        return Resource(kind, Pattern.ANY)
    pattern = Pattern.PREFIXED if name.endswith("*") else Pattern.LITERAL
    name = name.removesuffix("*")
    if "*" in name or not name.isprintable() or " " in name or len(name) > MOST_NAME_CHARACTERS:
        raise InvalidAccess(f"{text[:80]!r} is no resource; a star may only end it, and names have no blanks.")
    return Resource(kind, pattern, name)


# Policies, and the rule that decides.

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


class Action(StrEnum):
    """The actions that may be done with a resource."""

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
_POLICY_TYPES = {each.lower(): each for each in PolicyType}


@dataclass(frozen=True, slots=True)
class Demand:
    """A permission that a request needs: one of the actions on a resource."""

    kind: Kind
    name: str
    actions: tuple[Action, ...]

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


def demand_on(kind: Kind, name: str, actions: tuple[Action, ...]) -> Demand:
    """Return a demand on a resource. A retry topic is its group's: who may consume with the group may read and fill
    it."""
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
        """Return the entry in RocketMQ's form (AclInfo.PolicyEntryInfo)."""
        said = {
            "actions": [str(action) for action in Action if action in self.actions],
            "decision": "Allow" if self.is_allowed else "Deny",
            "resource": str(self.resource),
        }
        return said | ({"sourceIps": list(self.sources)} if self.sources else {})


#: The entries of one user by type.
Policies = Mapping[PolicyType, tuple[Entry, ...]]


def entry(resource: str, actions: Iterable[str], decision: str, sources: Iterable[str] = ()) -> Entry:
    """Return an entry from RocketMQ's words; raises InvalidAccess."""
    chosen = frozenset(_action(word) for word in actions)
    if not chosen:
        raise InvalidAccess("The actions are empty; write Pub, Sub, Create, Update, Delete, Get, List or All.")
    said = decision.strip().lower()
    if said not in ("allow", "deny"):
        raise InvalidAccess(f"The decision {decision[:40]!r} is neither Allow nor Deny.")
    given = tuple(sources)
    return Entry(parse_resource(resource), chosen, said == "allow", given, tuple(_network(each) for each in given))


def policy_type(word: str | None) -> PolicyType:
    """Return the type of that name, Custom by default; raises InvalidAccess."""
    if not word:
        return PolicyType.CUSTOM
    found = _POLICY_TYPES.get(word.lower())
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
    """Return the IP address in `text`, an IPv4 one also where it comes mapped into IPv6; None if it is none."""
    try:
        address = ip_address(text.strip("[]").partition("%")[0])
    except ValueError:
        return None
    return (address.ipv4_mapped if isinstance(address, IPv6Address) else None) or address


def decide(policies: Policies, demand: Demand, source: Address | None) -> bool | None:
    """Return True for allowed, False for denied, None where nothing is said about it, which is a refusal too."""
    for type_ in PolicyType:
        found = [each for each in policies.get(type_, ()) if each.applies(demand, source)]
        if found:
            return min(found, key=_order).is_allowed
    return None


def _order(each: Entry) -> tuple[tuple[bool, int, int], bool]:
    return each.resource.rank, each.is_allowed


def merged(known: Sequence[Entry], added: Iterable[Entry]) -> tuple[Entry, ...]:
    """Return the entries after a change: an entry replaces the one of the same resource."""
    by_resource = {each.resource: each for each in known}
    for each in added:
        by_resource[each.resource] = each
    return tuple(by_resource.values())


# How access control is set up, and what can be wrong with it.


@dataclass(frozen=True, slots=True)
class AccessConfig:
    """``inner``: the broker's own user, who may do everything and is in no file.

    ``are_routes_open``: where a topic is (105) is answered to everybody, as Apache RocketMQ's name service does; some
    clients sign nothing that they ask a name service. It tells strangers which topics there are.
    """

    inner: User
    are_routes_open: bool = False


class AccessError(Exception):
    """A change of users or policies is refused; nothing was changed."""


class InvalidAccess(AccessError):
    """A name, resource, action, address or decision is not valid."""


class UserNotFound(AccessError):
    """There is no such user."""


class UserExists(AccessError):
    """There is such a user already."""


class PolicyNotFound(AccessError):
    """The user has no policies."""


class AccessUnreadable(OSError):
    """The file of users and policies cannot be read, nor can the version before."""

    def __init__(self, path: str) -> None:
        super().__init__(
            f"The users and policies in {path} cannot be read, nor can {path}.bak. Put a copy of the file back;"
            " without both files the broker starts with no user but its own."
        )


# Signatures.

ACCESS_KEY = "AccessKey"
SIGNATURE = "Signature"
SECURITY_TOKEN = "SecurityToken"  # noqa: S105 - the name of a field

#: Clients up to V4_9_3 add this field after they have signed (MQVersion ordinal; UNIQUE_MSG_QUERY_FLAG).
UNSIGNED_FIELD = "_UNIQUE_KEY_QUERY"
LAST_VERSION_WITH_UNSIGNED_FIELD = 399


#: RocketMQ signs with SHA-1, which takes so much at a time, and with nothing else.
_BLOCK_BYTES = 64


def _sha1(begin: bytes) -> hashlib._Hash:
    return hashlib.sha1(begin, usedforsecurity=False)


def content(ext: Mapping[str, str], body: bytes, version: int) -> bytes:
    """Return the bytes that are signed of a request."""
    skipped = {SIGNATURE} if version > LAST_VERSION_WITH_UNSIGNED_FIELD else {SIGNATURE, UNSIGNED_FIELD}
    fields = "".join([ext[name] for name in sorted(ext) if name not in skipped])
    return fields.encode("utf-8", "surrogateescape") + body


def sign(secret: bytes, signed: bytes) -> bytes:
    """Return the signature of a content: its HMAC with SHA-1 (RFC 2104), in base64."""
    begun, around = _begun(secret)
    inner, outer = begun.copy(), around.copy()
    inner.update(signed)
    outer.update(inner.digest())
    return b2a_base64(outer.digest(), newline=False)


@lru_cache(maxsize=1_024)
def _begun(secret: bytes) -> tuple[hashlib._Hash, hashlib._Hash]:
    """Return both hashes of an HMAC as far as its key goes. To begin them anew for each content takes longer than all
    else: ``hmac.digest`` takes nearly three times as long."""
    key = secret if len(secret) <= _BLOCK_BYTES else _sha1(secret).digest()
    key = key.ljust(_BLOCK_BYTES, b"\0")
    return _sha1(bytes(each ^ 0x36 for each in key)), _sha1(bytes(each ^ 0x5C for each in key))


def signed_fields(
    ext: Mapping[str, str], body: bytes, *, version: int, access_key: str, secret_key: str, security_token: str | None
) -> dict[str, str]:
    """Return the header fields of a request with its user and signature added."""
    token = {} if security_token is None else {SECURITY_TOKEN: security_token}
    fields = {**ext, ACCESS_KEY: access_key, **token}
    secret = secret_key.encode("utf-8", "surrogateescape")
    return {**fields, SIGNATURE: sign(secret, content(fields, body, version)).decode()}


def is_signed(secret: bytes, signed: bytes, signature: str) -> bool:
    """Tell in constant time whether the signature is that of the content."""
    return hmac.compare_digest(sign(secret, signed), signature.encode("utf-8", "surrogateescape"))
