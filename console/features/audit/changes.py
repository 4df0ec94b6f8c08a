"""Changes of accounts, roles, topic permissions, masks and tokens, and sign-ins: signals tell the audit of them.

So does SIGUSR2, which changes what a process logs; a broker that runs by itself has that in its administration log.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from axes.signals import user_locked_out
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.contrib.auth.signals import user_logged_in, user_logged_out, user_login_failed
from django.db import DatabaseError, connection
from django.db.models import Model
from django.db.models.signals import m2m_changed, post_delete, post_save, pre_save

from broker import log_lines
from console.features.audit.operations import (
    LOCKED_OUT,
    LOG_LEVELS,
    SIGN_IN,
    SIGN_OUT,
    note,
    note_signal,
    note_stranger,
)
from console.security import second_factor
from console.security.door import door
from console.security.models import ApiToken, MaskRule, TopicPermission

logger = logging.getLogger(__name__)

#: name in the audit, and the fields that are told of, by model
_WATCHED: Mapping[type[Model], tuple[str, tuple[str, ...]]] = {
    get_user_model(): ("accounts", ("username", "is_active", "is_staff", "is_superuser", "password", "email")),
    Group: ("roles", ("name",)),
    TopicPermission: ("topic_permissions", ("group", "pattern")),
    MaskRule: ("masks", ("prefix", "fields", "why", "is_on")),
    ApiToken: (
        "tokens",
        ("name", "scopes", "access_user", "created_by", "expires_at", "revoked_at", "requests_per_s", "replaced_by"),
    ),
}
#: of these it is told that they changed, and not what they are
_SECRET = frozenset({"password"})
_BEFORE = "_audit_before"
#: of the command line of a process; secrets come by the environment
_PROGRAM_LENGTH = 120


def connect() -> None:
    """Begin to listen; twice is once."""
    for model in _WATCHED:
        name = model._meta.label
        pre_save.connect(_before, sender=model, dispatch_uid=f"audit.before.{name}")
        post_save.connect(_saved, sender=model, dispatch_uid=f"audit.saved.{name}")
        post_delete.connect(_deleted, sender=model, dispatch_uid=f"audit.deleted.{name}")
    user: Any = get_user_model()
    for through_model in (user.groups.through, user.user_permissions.through, Group.permissions.through):
        uid = f"audit.{through_model._meta.label}"
        m2m_changed.connect(_members, sender=through_model, dispatch_uid=uid)
    second_factor.changed.connect(_second_factor, dispatch_uid="audit.second_factor")
    user_logged_in.connect(_signed_in, dispatch_uid="audit.signed_in")
    user_logged_out.connect(_signed_out, dispatch_uid="audit.signed_out")
    user_login_failed.connect(_failed, dispatch_uid="audit.failed")
    user_locked_out.connect(_locked, dispatch_uid="audit.locked")
    log_lines.tell_of_levels(_levels_changed)


# --- rows ---


def _before(sender: type[Model], instance: Any, update_fields: Iterable[str] | None, **kwargs: Any) -> None:
    """Remember what is stored; a save of fields that nobody watches needs no look."""
    fields = _WATCHED[sender][1]
    is_watched = update_fields is None or bool(set(update_fields) & set(fields))
    if door() is None or not is_watched or instance.pk is None:
        instance.__dict__.pop(_BEFORE, None)
        return
    stored = sender._default_manager.filter(pk=instance.pk).first()
    instance.__dict__[_BEFORE] = None if stored is None else _facts(stored)


def _saved(sender: type[Model], instance: Any, created: bool, **kwargs: Any) -> None:
    before = instance.__dict__.pop(_BEFORE, None)
    name, _fields = _WATCHED[sender]
    if door() is None:
        return
    facts = _facts(instance)
    if created:
        told = {field: value for field, value in facts.items() if field not in _SECRET and value not in ("", None)}
        note(f"{name}.create", {"name": _called(instance), "facts": told})
        return
    if before is None:
        return
    changes = {
        field: ["…", "…"] if field in _SECRET else [before[field], value]
        for field, value in facts.items()
        if before[field] != value
    }
    if changes:
        is_revoked = sender is ApiToken and "revoked_at" in changes
        is_rotated = sender is ApiToken and "replaced_by" in changes
        verb = "revoke" if is_revoked else "rotate" if is_rotated else "change"
        note(f"{name}.{verb}", {"name": _called(instance), "changes": changes})


def _deleted(sender: type[Model], instance: Any, **kwargs: Any) -> None:
    note(f"{_WATCHED[sender][0]}.delete", {"name": _called(instance)})


def _members(sender: Any, instance: Any, action: str, reverse: bool, pk_set: set[int] | None, **kwargs: Any) -> None:
    """Note who or what was put into a group, or taken out of it; clearing says what was there."""
    if door() is None or action not in ("post_add", "post_remove", "pre_clear"):
        return
    what = "permissions" if "permission" in sender._meta.model_name else "groups"
    model: Any = kwargs["model"]
    if action == "pre_clear":
        related = _related(instance, what, reverse=reverse)
        names = sorted(map(str, related))
    else:
        names = sorted(map(str, model._default_manager.filter(pk__in=pk_set or ())))
    if not names:
        return
    key = what if not reverse else "members"
    name = "roles" if isinstance(instance, Group) else "accounts"
    changes = {key: [[], names] if action == "post_add" else [names, []]}
    note(f"{name}.change", {"name": _called(instance), "changes": changes})


def _related(instance: Any, what: str, *, reverse: bool) -> Iterable[Any]:
    if reverse:
        return instance.user_set.all() if isinstance(instance, Group) else ()
    if isinstance(instance, Group):
        return instance.permissions.all()
    return instance.user_permissions.all() if what == "permissions" else instance.groups.all()


def _facts(row: Any) -> dict[str, Any]:
    """Return what is told of a row, as JSON has it."""
    return {field: _plain(getattr(row, field)) for field in _WATCHED[type(row)][1] if hasattr(row, field)}


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value) if isinstance(value, Model) else value


def _called(row: Any) -> str:
    return row.get_username() if hasattr(row, "get_username") else str(row)


# --- signing in ---


def _second_factor(sender: Any, user: Any, what: str, **kwargs: Any) -> None:
    """Note what became of a second factor; who uses a recovery code is not signed in yet."""
    note(f"second_factors.{what}", {"name": user.get_username()}, account=user if what == "use_code" else None)


def _signed_in(sender: Any, user: Any, **kwargs: Any) -> None:
    note(SIGN_IN, {}, account=user)


def _signed_out(sender: Any, user: Any, **kwargs: Any) -> None:
    if user is not None:
        note(SIGN_OUT, {}, account=user)


def _failed(sender: Any, credentials: Mapping[str, Any], request: Any = None, **kwargs: Any) -> None:
    if getattr(request, "axes_locked_out", False):
        return  # the password was not looked at: the lock itself is told of
    why = credentials.get("why", "wrong name or password")
    note_stranger(SIGN_IN, _account(credentials.get("username")), {"why": why})


def _locked(sender: Any, username: str = "", ip_address: str = "", **kwargs: Any) -> None:
    note_stranger(LOCKED_OUT, _account(username), {}, once=(username, ip_address))


def _account(name: Any) -> Any:
    """Return the account of this name; None if there is none."""
    model: Any = get_user_model()
    return model._default_manager.filter(**{model.USERNAME_FIELD: str(name or "").replace("\0", "")}).first()


# --- what is logged ---


def _levels_changed(levels: str) -> None:
    """Write it in a thread: the signal may have come in the middle of a statement."""
    threading.Thread(target=_note_levels, args=(levels,), name="audit-levels", daemon=True).start()


def _note_levels(levels: str) -> None:
    program = " ".join(sys.orig_argv[1:])[:_PROGRAM_LENGTH]
    try:
        note_signal(LOG_LEVELS, {"name": f"{program} ({os.getpid()})", "why": levels})
    except DatabaseError as error:
        logger.error("the audit has no entry of the changed log levels: %s", error)
    finally:
        connection.close()
