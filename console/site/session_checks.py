"""Whether those who have a page open may still see it: one look at the database for all of them, again and again.

A look reads for each session what its rights come from: the session, the account, its groups, what those may and what
topics they see. It does not judge; where something of that has changed, the rights are worked out anew.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from time import monotonic
from typing import Any

from channels.db import database_sync_to_async
from django.conf import settings
from django.contrib.auth import HASH_SESSION_KEY, SESSION_KEY, get_user, get_user_model
from django.contrib.auth.models import Group
from django.contrib.sessions.models import Session
from django.http import HttpRequest
from django.utils import timezone

from console.security.models import TopicPermission
from console.security.roles import VIEW
from console.security.topic_scope import VisibleTopics, visible_topics

logger = logging.getLogger(__name__)

#: between two looks, in seconds: who may not see a page any more loses it after this time and the time of a look
LOOK_S = 2.0
#: so old a look may be before something new is shown to somebody
FRESH_S = 0.25

#: what the rights of a session come from, to be compared only; None: it has ended, or its account is not active
Mark = tuple[Any, ...] | None
#: a thread of its own: pages that take long to render must not delay what closes them
_pool = ThreadPoolExecutor(1, thread_name_prefix="standing")


@dataclass(eq=False, slots=True)
class Watch:
    """One open page of a session; `on_change` is called in the event loop when the mark is not this any more."""

    key: str
    on_change: Callable[[], None]
    mark: Mark = None


class Standings:
    """`join` and `leave` from the event loop; looks every LOOK_S while anybody has joined."""

    def __init__(self) -> None:
        self._watches: set[Watch] = set()
        self._marks: Mapping[str, Mark] = {}
        self._began_s = float("-inf")
        self._looking: asyncio.Task[None] | None = None
        self._task: asyncio.Task[None] | None = None

    def join(self, key: str, on_change: Callable[[], None]) -> Watch:
        """Watch this session from now on; its mark is not set yet, and nothing is told before it is."""
        watch = Watch(key, on_change)
        self._watches.add(watch)
        loop = asyncio.get_running_loop()
        if self._task is None or self._task.done() or self._task.get_loop() is not loop:
            self._task = loop.create_task(self._look_often())
        return watch

    def leave(self, watch: Watch) -> None:
        """End the watch; the last one to leave ends the looking."""
        self._watches.discard(watch)
        if not self._watches and self._task is not None:
            self._task.cancel()
            self._task = None

    async def mark_of(self, watch: Watch) -> Mark:
        """Return the mark of its session now, from a look that began at most FRESH_S seconds ago. Raises
        DatabaseError."""
        oldest_s = monotonic() - FRESH_S
        while self._began_s < oldest_s or watch.key not in self._marks:
            await self._look()
        return self._marks[watch.key]

    async def _look(self) -> None:
        """Wait for the look that is under way, or take one."""
        loop = asyncio.get_running_loop()
        if self._looking is None or self._looking.done() or self._looking.get_loop() is not loop:
            self._looking = loop.create_task(self._read())
        await asyncio.shield(self._looking)

    async def _read(self) -> None:
        began_s = monotonic()
        keys = {watch.key for watch in self._watches}
        self._marks = await database_sync_to_async(marks_of, thread_sensitive=False, executor=_pool)(keys)
        self._began_s = began_s

    async def _look_often(self) -> None:
        is_lost = False
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                await self._look()
            except Exception as error:  # whatever the database raises: nothing new is shown meanwhile, see mark_of
                if not is_lost:
                    logger.warning("The rights of those who have pages open cannot be read: %s", error)
                is_lost = True
                continue
            is_lost = False
            for watch in tuple(self._watches):
                if watch.mark is not None and self._marks.get(watch.key, watch.mark) != watch.mark:
                    watch.on_change()


standings = Standings()


async def seen(key: str) -> VisibleTopics | None:
    """Return what the user of this session sees; None if it has ended, or its user is inactive or may not see the
    console."""
    return await database_sync_to_async(_seen, thread_sensitive=False, executor=_pool)(key)


def _seen(key: str) -> VisibleTopics | None:
    request: Any = HttpRequest()
    request.session = import_module(settings.SESSION_ENGINE).SessionStore(key)
    user: Any = get_user(request)
    if not user.is_authenticated or not user.is_active or not user.has_perm(VIEW):
        return None
    return visible_topics(user)


def marks_of(keys: Collection[str]) -> dict[str, Mark]:
    """Return the marks of these sessions, by six queries however many there are."""
    rows = Session.objects.filter(session_key__in=keys, expire_date__gt=timezone.now())
    sessions = {row.session_key: row.get_decoded() for row in rows}
    users = _users({said.get(SESSION_KEY) for said in sessions.values()} - {None})
    marks: dict[str, Mark] = dict.fromkeys(keys)
    for key, said in sessions.items():
        user = users.get(str(said.get(SESSION_KEY)))
        if user is not None:
            marks[key] = (said.get(SESSION_KEY), said.get(HASH_SESSION_KEY), *user)
    return marks


def _users(numbers: Collection[Any]) -> dict[str, tuple[Any, ...]]:
    """Return the active accounts with their flags and the permissions of them and their groups."""
    model = get_user_model()
    asked = model._default_manager.filter(pk__in=numbers, is_active=True)
    accounts = {pk: facts for pk, *facts in asked.values_list("pk", "is_superuser", "password")}
    app, _, codename = VIEW.partition(".")
    given = {"content_type__app_label": app, "codename": codename}
    directly = _pairs(model.user_permissions.through.objects.filter(user__in=accounts), given, "user_id")
    groups: dict[int, set[int]] = defaultdict(set)
    for user, group in model.groups.through.objects.filter(user__in=accounts).values_list("user_id", "group_id"):
        groups[user].add(group)
    named = set().union(*groups.values())
    by_group = _pairs(Group.permissions.through.objects.filter(group__in=named), given, "group_id")
    topics: dict[int, set[str]] = defaultdict(set)
    for group, prefix in TopicPermission.objects.filter(group__in=named).values_list("group_id", "prefix"):
        topics[group].add(prefix)
    return {
        str(pk): (
            *facts,
            pk in directly,
            tuple((group, group in by_group, tuple(sorted(topics[group]))) for group in sorted(groups[pk])),
        )
        for pk, facts in accounts.items()
    }


def _pairs(rows: Any, given: Mapping[str, str], whose: str) -> set[int]:
    """Return which of these users have the permission."""
    wanted = {f"permission__{name}": value for name, value in given.items()}
    return set(rows.filter(**wanted).values_list(whose, flat=True))
