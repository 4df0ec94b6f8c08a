"""Making, checking and revoking API tokens, and what access control lets the user do to whom one is bound.

    esc_<prefix, 10 characters>_<secret, 43 characters = 256 random bits>

The prefix finds the row, the SHA-256 of the whole token proves it. A token has 256 random bits, so that a plain hash
cannot be searched through; a database dump holds nothing that can be used.

A user of the brokers' access control may do by REST, in the words of policies:

| action    | on               | needs                | as the broker asks for                                       |
|-----------|------------------|----------------------|--------------------------------------------------------------|
| publish   | a topic          | Pub                  | a send, the end of a transaction, a change of its timers     |
| read      | a topic, a group | Sub or Get           | a message by its id or position                              |
| consume   | a topic, a group | Sub                  | pop, ack, change of the invisible time                       |
| admin     | a producer group | Update on the group  |                                                              |
| settings  | a topic          | Create               | 17, which makes and changes                                  |
| settings  | a group          | Create or Update     | 200, which makes and changes                                 |
| delete    | a topic, a group | Delete               | 215, 207                                                     |
| overview  | the cluster      | Get                  | its groups, delay levels, and figures of all timers          |
| everything| the cluster      | Update               | what names no topic                                          |

What decides is the broker's own rule (broker.client.admin.UserAccess). Of several brokers each has to allow.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from broker.client.admin import UserAccess
from broker.client.names import check_user
from broker.rocketmq.acl import Action, Kind
from console.security.models import ApiToken
from console.security.name_patterns import EVERY, matches

PUBLISH = "publish"
READ = "read"
#: of producer groups: to set where they are asked what became of a half
ADMIN = "admin"
#: to receive messages, and so to keep them from others: of topics and of consumer groups
CONSUME = "consume"
#: to make topics and consumer groups and to change their settings; of both
SETTINGS = "settings"
#: to delete one: the same to a token, another action to policies
DELETE = "settings.delete"
#: to read what rules of masks hide: of topics; needs `read`, too
UNMASK = "unmask"
#: to make, change and delete users of the brokers' access control: on every name only, and by a token's own scopes
ACCESS = "access"
#: to make and change people, their roles, and tokens, in the name of whom it was made for: the same
PEOPLE = "people"
ACTIONS = (PUBLISH, READ, ADMIN, CONSUME, SETTINGS, UNMASK, ACCESS, PEOPLE)
#: what is never on some names only, and never follows from policies
_WHOLE = frozenset({ACCESS, PEOPLE})
#: How often the time of last use is written.
USED_INTERVAL = timedelta(minutes=1)

_NEEDS: Mapping[str, tuple[Action, ...]] = {
    PUBLISH: (Action.PUB,),
    READ: (Action.SUB, Action.GET),
    CONSUME: (Action.SUB,),
    ADMIN: (Action.UPDATE,),
    SETTINGS: (Action.CREATE,),
    DELETE: (Action.DELETE,),
}
_GROUP_SETTINGS = (Action.CREATE, Action.UPDATE)
_KINDS: Mapping[str, Kind] = {"topic": Kind.TOPIC, "group": Kind.GROUP, "producer group": Kind.GROUP}
_ALPHABET = "abcdefghijkmnpqrstuvwxyz23456789"
_FORM = re.compile(r"esc_([a-z2-9]{10})_([A-Za-z0-9_-]{43})\Z")
_PATTERN = re.compile(r"[A-Za-z0-9_|-]{1,127}\*?\Z|\*\Z")


@dataclass(frozen=True, slots=True)
class Scope:
    """Actions allowed on the topics that `pattern` means (name_patterns.py).

    For `admin` it means producer groups; for `consume` and `settings` it counts for topics and for consumer groups.
    """

    pattern: str
    actions: frozenset[str]

    def covers(self, action: str, name: str) -> bool:
        """Tell whether the action is allowed on the name; "" stands for every name."""
        return action in self.actions and matches(self.pattern, name)


class Policies(Protocol):
    """What bounds a grant beside its own scopes."""

    def allows(self, action: str, name: str, kind: str = "topic") -> bool:
        """Tell whether the action is allowed on a topic, a group or a producer group."""
        ...

    def allows_overview(self) -> bool:
        """Tell whether the figures of the whole cluster may be seen."""
        ...

    def allows_everything(self) -> bool:
        """Tell whether the whole cluster may be changed."""
        ...

    def refusal(self, what: str) -> str:
        """Return a sentence that says who is not allowed to do what."""
        ...


@dataclass(frozen=True, slots=True)
class PoliciesOfUser:
    """A user's rights by each broker's access control, when asking from `source`, an IP address (None: not known)."""

    user: str
    of_brokers: tuple[UserAccess, ...]
    source: str | None

    def allows(self, action: str, name: str, kind: str = "topic") -> bool:
        """Tell whether the action is allowed on a topic, a group or a producer group."""
        needed, kind_of = _NEEDS[action], _KINDS[kind]
        if action == SETTINGS and kind_of is Kind.GROUP:
            needed = _GROUP_SETTINGS
        return all(each.allows(kind_of, name, needed, self.source) for each in self.of_brokers)

    def allows_overview(self) -> bool:
        """Tell whether the figures of the whole cluster may be seen."""
        return self._on_cluster(Action.GET)

    def allows_everything(self) -> bool:
        """Tell whether the whole cluster may be changed."""
        return self._on_cluster(Action.UPDATE)

    def refusal(self, what: str) -> str:
        """Return a sentence that says who is not allowed to do what."""
        for each in self.of_brokers:
            if not each.is_known:
                return f"Access control of {each.broker} has no user {self.user!r}, to whom the token is bound."
            if not each.is_enabled:
                return f"The user {self.user!r}, to whom the token is bound, is disabled at {each.broker}."
        return f"The policies of the user {self.user!r} do not allow {what} from {self.source or 'an unknown address'}."

    def _on_cluster(self, action: Action) -> bool:
        return all(each.allows(Kind.CLUSTER, each.cluster, (action,), self.source) for each in self.of_brokers)


@dataclass(frozen=True, slots=True)
class Grant:
    """The rights of a valid token's bearer: what its own scopes and the policies of its user both allow.

    `policies` are those of the user that the token is bound to; None: it is bound to none, or no broker has access
    control. A bound token without scopes is allowed what the policies allow, and nothing where there are none.
    """

    name: str
    scopes: tuple[Scope, ...]
    expires_at: datetime | None
    access_user: str = ""
    policies: Policies | None = None
    #: whom the token was made for
    user_id: int | None = None
    #: by which the token is named; it opens nothing
    prefix: str = ""
    #: requests a second that are answered; 0: any number
    requests_per_s: int = 0

    @property
    def who(self) -> str:
        """Who asks, as logs and the audit have it."""
        return f"token {self.name}"

    def allows(self, action: str, name: str, kind: str = "topic") -> bool:
        """Tell whether the action is allowed on the topic, or on what else `kind` says."""
        return self.scopes_allow(action, name) and (self.policies is None or self.policies.allows(action, name, kind))

    def scopes_allow(self, action: str, name: str) -> bool:
        """Tell whether the token's own scopes leave this to the policies, if there are any."""
        if not self.scopes:
            return self._policies_decide(action)
        own = action.partition(".")[0]
        return any(scope.covers(own, name) for scope in self.scopes)

    def _policies_decide(self, action: str) -> bool:
        """Tell whether a token without scopes is allowed what the policies allow.

        Never users of access control: the console makes them as the brokers' own user, who may do more than this one;
        and never people, of whom policies know nothing.
        """
        return self.policies is not None and action not in _WHOLE

    def unmasks(self, topic: str) -> bool:
        """Tell whether masked contents of the topic are shown, by the token's own scopes: policies know no masks."""
        return any(scope.covers(UNMASK, topic) for scope in self.scopes)

    def scopes_allow_somewhere(self, action: str) -> bool:
        """Tell whether the token's own scopes allow the action on any name."""
        if not self.scopes:
            return self._policies_decide(action)
        return any(action in scope.actions for scope in self.scopes)


def scope_rows(
    publish: Iterable[str],
    read: Iterable[str],
    admin: Iterable[str] = (),
    consume: Iterable[str] = (),
    settings: Iterable[str] = (),
    unmask: Iterable[str] = (),
    access: Iterable[str] = (),
    people: Iterable[str] = (),
) -> list[dict[str, Any]]:
    """Return scopes as they are stored, from patterns of topics, for `admin` of producer groups (name_patterns.py).

    For `consume` and `settings` they are of topics and of consumer groups; for `access` and `people` it is `*`.

    Raises ValueError.
    """
    allowed: dict[str, list[str]] = {}
    given_of = {
        PUBLISH: publish,
        READ: read,
        ADMIN: admin,
        CONSUME: consume,
        SETTINGS: settings,
        UNMASK: unmask,
        ACCESS: access,
        PEOPLE: people,
    }
    for action, patterns in given_of.items():
        for pattern in patterns:
            if not _PATTERN.match(pattern):
                raise ValueError(
                    f"{pattern!r} is neither a name nor the beginning of names with * behind it; use A-Z a-z 0-9 _ - |."
                )
            if action in _WHOLE and pattern != EVERY:
                whom = "broker users" if action == ACCESS else "users and tokens"
                raise ValueError(f"The right to administer {whom} is never on some names only: write *.")
            allowed.setdefault(pattern, []).append(action)
    return [{"pattern": pattern, "actions": actions} for pattern, actions in allowed.items()]


def create(
    name: str,
    scopes: list[dict[str, Any]],
    *,
    created_by: User | None = None,
    lasts: timedelta | None = None,
    access_user: str = "",
    requests_per_s: int = 0,
) -> tuple[ApiToken, str]:
    """Return a new row, and the token itself, which is shown once.

    `access_user`: the user of access control whose policies decide, too. Raises InvalidArgument, NameTaken.
    """
    if access_user:
        check_user(access_user)
    if ApiToken.objects.filter(name=name, revoked_at=None, replaced_by=None).exists():
        raise NameTaken(name)
    prefix = "".join(secrets.choice(_ALPHABET) for _ in range(10))
    token = f"esc_{prefix}_{secrets.token_urlsafe(32)}"
    row = ApiToken.objects.create(
        name=name,
        prefix=prefix,
        digest=digest(token),
        scopes=scopes,
        access_user=access_user,
        created_by=created_by,
        expires_at=timezone.now() + lasts if lasts is not None else None,
        requests_per_s=requests_per_s,
    )
    return row, token


class NameTaken(ValueError):
    """Another token that was not revoked has this name."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"There is a token {name!r} already. `token rotate` makes another one in its place; `token revoke` ends it."
        )


class NotRotatable(ValueError):
    """A token that counts no more cannot be given to its bearer anew."""


def rotate(row: ApiToken, *, overlap: timedelta, lasts: timedelta | None = None) -> tuple[ApiToken, str]:
    """Return another token with the same name and rights, which is shown once; the old one counts for `overlap` more.

    Raises NotRotatable for one that was revoked, has expired or was replaced.
    """
    with transaction.atomic():
        old = ApiToken.objects.select_for_update().get(pk=row.pk)
        now = timezone.now()
        if old.revoked_at is not None or old.replaced_by is not None or (old.expires_at and old.expires_at <= now):
            raise NotRotatable(f"{old} was revoked or replaced, or has expired: make a new one with `token create`.")
        old.expires_at = min(filter(None, (old.expires_at, now + overlap)))
        # the name is free while both rows are written: it is compared when they are there
        ApiToken.objects.filter(pk=old.pk).update(replaced_by=old)
        new, token = create(
            old.name,
            old.scopes,
            created_by=old.created_by,
            lasts=lasts,
            access_user=old.access_user,
            requests_per_s=old.requests_per_s,
        )
        old.replaced_by = new
        old.save(update_fields=["replaced_by", "expires_at"])
    return new, token


def digest(token: str) -> str:
    """Return the SHA-256 of a token in hex."""
    return hashlib.sha256(token.encode()).hexdigest()


def prefix_of(token: str) -> str | None:
    """Return the prefix of a token that has the right form, None for others."""
    match = _FORM.match(token)
    return match.group(1) if match else None


def grant_of(token: str) -> Grant | None:
    """Return what the token allows now, by one query.

    None if it is unknown, expired or revoked, or was made for somebody who is not active any more.
    """
    prefix = prefix_of(token)
    row = ApiToken.objects.select_related("created_by").filter(prefix=prefix).first() if prefix else None
    # compared even when no row was found, so that the time taken does not tell
    is_same = hmac.compare_digest(row.digest if row else "0" * 64, digest(token))
    now = timezone.now()
    if (
        row is None
        or not is_same
        or row.revoked_at is not None
        or (row.expires_at is not None and row.expires_at <= now)
        or (row.created_by is not None and not row.created_by.is_active)
    ):
        return None
    if row.last_used_at is None or now - row.last_used_at >= USED_INTERVAL:
        ApiToken.objects.filter(pk=row.pk).update(last_used_at=now)
    scopes = tuple(Scope(str(each["pattern"]), frozenset(each["actions"])) for each in row.scopes)
    return Grant(
        row.name,
        scopes,
        row.expires_at,
        row.access_user,
        user_id=row.created_by_id,
        prefix=row.prefix,
        requests_per_s=row.requests_per_s or settings.TOKEN_REQUESTS_PER_S,
    )


def revoke(row: ApiToken) -> None:
    """Refuse the token from now on (servers that keep it in memory do within a second)."""
    if row.revoked_at is None:
        row.revoked_at = timezone.now()
        row.save(update_fields=["revoked_at"])


def revoke_all_of(person: Any) -> None:
    """Revoke every token made for this user: once the account is deleted, no row says whose they were."""
    for row in ApiToken.objects.filter(created_by=person, revoked_at=None):
        revoke(row)
