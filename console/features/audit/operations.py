"""What the audit keeps of doors that know no operation: signing in, accounts and roles, tokens, remoting.

Changes of accounts, groups, topic permissions, masks and tokens are noted where their rows are saved, with what was
before and what is now; nothing secret is. A change by a query that sends no signals (`update()`) is not seen here, nor
is what the program does by itself.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Hashable, Mapping
from typing import Any

from django.conf import settings
from django.utils.translation import gettext_lazy as _

from console.operations.kind import Act, Words
from console.operations.models import AuditEntry
from console.operations.registry import register
from console.security.door import door

#: names and addresses that are remembered as told of
_MOST_TOLD = 1_000
_HOUR_S = 3_600.0
_NAME_LENGTH = 150
#: how long something is not told of again
ONCE_S = 900.0
_told_s: dict[Hashable, float] = {}
#: when entries of strangers were written in the last hour: whoever may try names must not fill the audit
_strangers: deque[float] = deque()


class Plain(Act):
    """An act whose entry says all in its result: name, then what is told of it."""

    def audited(self, result: Mapping[str, Any]) -> str:
        """Return the name of what it was done to, and what changed."""
        changes = result.get("changes") or {}
        told = [f"{field}: {_shown(was)} → {_shown(now)}" for field, (was, now) in changes.items()]
        facts = [str(result[name]) for name in ("name", "why", "address", "answer") if result.get(name)]
        return " · ".join([*facts, *told])


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "-"
    return "-" if value in ("", None) else str(value)


def _act(name: str, title: Words) -> None:
    members: dict[str, Any] = {"__doc__": f"{name}, as in the audit log.", "name": name, "title": title}
    register(type("Act_" + name.replace(".", "_"), (Plain,), members))


SIGN_IN, SIGN_OUT, LOCKED_OUT = "people.sign_in", "people.sign_out", "people.locked_out"
_act(SIGN_IN, _("Sign in"))
_act(SIGN_OUT, _("Sign out"))
_act(LOCKED_OUT, _("Lock out after wrong passwords"))
_act("people.see_as", _("See the console as somebody else"))
_act("people.see_as_end", _("Stop seeing the console as somebody else"))
_act("accounts.create", _("Create an account"))
_act("accounts.change", _("Change an account"))
_act("accounts.delete", _("Delete an account"))
_act("second_factors.set_up", _("Set up a second factor"))
_act("second_factors.take_away", _("Remove a second factor"))
_act("second_factors.reset", _("Reset a second factor"))
_act("second_factors.renew_codes", _("Create new recovery codes"))
_act("second_factors.use_code", _("Sign in by a recovery code"))
_act("roles.create", _("Create a role"))
_act("roles.change", _("Change a role"))
_act("roles.delete", _("Delete a role"))
_act("topic_permissions.create", _("Limit a role to topics"))
_act("topic_permissions.change", _("Change the topics of a role"))
_act("topic_permissions.delete", _("Lift a limit to topics"))
_act("masks.create", _("Create a masking rule"))
_act("masks.change", _("Change a masking rule"))
_act("masks.delete", _("Delete a masking rule"))
_act("tokens.create", _("Create a token"))
_act("tokens.change", _("Change a token"))
_act("tokens.rotate", _("Rotate a token"))
_act("tokens.revoke", _("Revoke a token"))
_act("tokens.delete", _("Delete a token"))
LOG_LEVELS = "settings.log_levels"
_act(LOG_LEVELS, _("Change log levels by a signal"))
_act("rest.as_me", _("Run a REST operation"))


@register
class Remoting(Plain):
    """An administrative request to a broker or its name service, by remoting."""

    name = "remoting.request"
    title = _("Administer by remoting")


@register
class Lost(Plain):
    """Requests that a broker kept no longer when they were to be read."""

    name = "remoting.lost"
    title = _("Administrative requests that are not known")


def note(kind: str, result: Mapping[str, Any], *, account: Any = None, reason: str = "") -> None:
    """Write an entry of whoever acts here and now, or of this account; nothing where the program acts by itself."""
    opened = door()
    if opened is None:
        return
    name, number = opened.who if account is None else (account.get_username(), account.pk)
    if opened.address:
        result = {**result, "address": opened.address}
    AuditEntry.objects.create(
        user_id=number,
        actor=name[:_NAME_LENGTH],
        what=AuditEntry.What.DONE,
        kind=kind,
        reason=reason,
        result=dict(result),
    )


def note_signal(kind: str, result: Mapping[str, Any]) -> None:
    """Write an entry of what a signal did; whose it was the system does not say."""
    AuditEntry.objects.create(actor="SIGUSR2", what=AuditEntry.What.DONE, kind=kind, result=dict(result))


def note_stranger(kind: str, account: Any, result: Mapping[str, Any], *, once: Hashable = None) -> None:
    """Write an entry of somebody who is not signed in; `account`: whose name was given, None: nobody's.

    A name that nobody has is not kept: it may be a password in the wrong field. `once`: what is told of once in a
    while only, however often it comes.
    """
    opened = door()
    if opened is None or _is_told(once) or not _has_room():
        return
    AuditEntry.objects.create(
        user_id=getattr(account, "pk", None),
        actor="" if account is None else account.get_username()[:_NAME_LENGTH],
        what=AuditEntry.What.DENIED,
        kind=kind,
        result={**result, "address": opened.address},
    )


def _is_told(once: Hashable) -> bool:
    if once is None:
        return False
    now_s = time.monotonic()
    is_told = now_s - _told_s.get(once, -ONCE_S) < ONCE_S
    if not is_told:
        _told_s.pop(once, None)
        _told_s[once] = now_s
        if len(_told_s) > _MOST_TOLD:
            del _told_s[next(iter(_told_s))]
    return is_told


def _has_room() -> bool:
    now_s = time.monotonic()
    while _strangers and now_s - _strangers[0] >= _HOUR_S:
        _strangers.popleft()
    if len(_strangers) >= settings.AUDIT_STRANGERS_AN_HOUR:
        return False
    _strangers.append(now_s)
    return True
