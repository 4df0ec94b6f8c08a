"""The websocket behind every page that changes in place: signed-in sessions only, the server speaks, the page listens.

A frame is HTML: `<hx-partial>` elements for htmx. The first frame is a snapshot, later ones hold the parts that
changed. Close codes of our own: 4401 the session has ended, 4404 no such page, 1008 the page talked too much.

Sockets are woken by one listener a process to the mirror's announcements, and outlive a lost layer.

Whether those who have a page open may still see it is one look at the database for all of them, again and again. A look
reads for each session what its rights come from: the session, the account, its groups, what those may and what topics
they see. It does not judge; where something of that has changed, the rights are worked out anew."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from time import monotonic, time
from typing import Any
from urllib.parse import urlsplit

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer
from channels.layers import get_channel_layer
from django.conf import settings
from django.contrib.auth import HASH_SESSION_KEY, SESSION_KEY, get_user_model
from django.contrib.auth.models import Group
from django.contrib.sessions.models import Session
from django.db import DatabaseError
from django.http import Http404
from django.template import TemplateDoesNotExist
from django.template.loader import get_template
from django.utils import timezone
from django.utils.translation import get_supported_language_variant
from django.utils.translation.trans_real import parse_accept_lang_header

from broker.mirror.announcer import GROUP
from console.security import owed, see_as
from console.security.gate import VIEW
from console.security.models import TopicPermission
from console.security.presence import is_idle
from console.security.sessions import signed_in
from console.security.topic_scope import VisibleTopics, visible_topics
from console.ui.live import LivePage, fragments, page_of
from console.ui.preferences import ZONE_COOKIE, zone_named

logger = logging.getLogger(__name__)

#: pause after the layer was lost
LAYER_RETRY_S = 1.0
#: patience with a layer that does not let go
LEAVE_S = 1.0
#: the layer forgets members of a group after a day (channels-redis' group_expiry): join again in time
REJOIN_S = 3_600.0

#: called in the event loop with the sequence and the kinds that changed
Listener = Callable[[int, frozenset[str]], None]


class Announcements:
    """`join` and `leave` from the event loop; listens while anybody has joined."""

    def __init__(self) -> None:
        self._listeners: set[Listener] = set()
        self._task: asyncio.Task[None] | None = None
        #: the last sequence heard
        self.sequence = 0

    def __len__(self) -> int:
        return len(self._listeners)

    def join(self, listener: Listener) -> None:
        """Call `listener` with each announcement from now on."""
        self._listeners.add(listener)
        loop = asyncio.get_running_loop()
        if self._task is None or self._task.done() or self._task.get_loop() is not loop:
            self._task = loop.create_task(self._listen())

    async def leave(self, listener: Listener) -> None:
        """End the calls; the last one to leave ends the listening."""
        self._listeners.discard(listener)
        if not self._listeners and self._task is not None:
            task, self._task = self._task, None
            task.cancel()
            await asyncio.wait([task], timeout=LEAVE_S)

    async def _listen(self) -> None:
        is_lost = False
        # the client of the layer may turn a cancellation into an error of its own
        while self._listeners:
            try:
                await self._follow()
            except Exception as error:  # whatever the client of the layer raises, sockets live on
                if not self._listeners:
                    return
                if not is_lost:
                    logger.warning("The Channels layer is lost, open pages are read every few seconds: %s", error)
                is_lost = True
                await asyncio.sleep(LAYER_RETRY_S)
            else:
                is_lost = False

    async def _follow(self) -> None:
        """Listen for REJOIN_S seconds. Raises what the layer raises."""
        layer = get_channel_layer()
        if layer is None:
            await asyncio.sleep(REJOIN_S)
            return
        channel = await layer.new_channel("live")
        await layer.group_add(GROUP, channel)
        try:
            async with asyncio.timeout(REJOIN_S):
                while True:
                    self._tell(await layer.receive(channel))
        except TimeoutError:
            return
        finally:
            with contextlib.suppress(Exception):
                await layer.group_discard(GROUP, channel)

    def _tell(self, event: dict[str, Any]) -> None:
        self.sequence = int(event["sequence"])
        kinds = frozenset(event["kinds"])
        for listener in tuple(self._listeners):
            listener(self.sequence, kinds)


announcements = Announcements()


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
    """An open page of a session; `on_change` is called in the event loop when the mark is not this any more."""

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
    user = signed_in(key)
    return visible_topics(user) if user is not None and user.is_active and user.has_perm(VIEW) else None


def marks_of(keys: Collection[str]) -> dict[str, Mark]:
    """Return the marks of these sessions, by six queries however many there are.

    Who sees as somebody else has that one's mark beside the own.
    """
    rows = Session.objects.filter(session_key__in=keys, expire_date__gt=timezone.now())
    sessions = {row.session_key: row.get_decoded() for row in rows}
    seen_as = {key: tuple(said[see_as.KEY]) for key, said in sessions.items() if said.get(see_as.KEY)}
    numbers = {said.get(SESSION_KEY) for said in sessions.values()} - {None}
    numbers |= {number for kind, number in seen_as.values() if kind == see_as.USER}
    users, roles = _users(numbers, {number for kind, number in seen_as.values() if kind == see_as.ROLE})
    marks: dict[str, Mark] = dict.fromkeys(keys)
    now_s = time()
    for key, said in sessions.items():
        user = users.get(str(said.get(SESSION_KEY)))
        if user is not None and not is_idle(said, now_s) and not owed.is_due(said):
            kind, number = seen_as.get(key, ("", 0))
            other = roles.get(number) if kind == see_as.ROLE else users.get(str(number))
            marks[key] = (said.get(SESSION_KEY), said.get(HASH_SESSION_KEY), *user, kind, number, other)
    return marks


def _users(
    numbers: Collection[Any], roles: Collection[int]
) -> tuple[dict[str, tuple[Any, ...]], dict[int, tuple[Any, ...]]]:
    """Return the active accounts with their flags and the permissions of them and their groups; and those of roles."""
    model = get_user_model()
    asked = model._default_manager.filter(pk__in=numbers, is_active=True)
    accounts = {pk: facts for pk, *facts in asked.values_list("pk", "is_superuser", "password")}
    app, _, codename = VIEW.partition(".")
    given = {"content_type__app_label": app, "codename": codename}
    directly = _pairs(model.user_permissions.through.objects.filter(user__in=accounts), given, "user_id")
    groups: dict[int, set[int]] = defaultdict(set)
    for user, group in model.groups.through.objects.filter(user__in=accounts).values_list("user_id", "group_id"):
        groups[user].add(group)
    named = set(roles).union(*groups.values())
    by_group = _pairs(Group.permissions.through.objects.filter(group__in=named), given, "group_id")
    topics: dict[int, set[str]] = defaultdict(set)
    for group, pattern in TopicPermission.objects.filter(group__in=named).values_list("group_id", "pattern"):
        topics[group].add(pattern)
    of_group = {group: (group, group in by_group, tuple(sorted(topics[group]))) for group in named}
    told = {
        str(pk): (*facts, pk in directly, tuple(of_group[group] for group in sorted(groups[pk])))
        for pk, facts in accounts.items()
    }
    return told, {number: of_group[number] for number in roles}


def _pairs(rows: Any, given: Mapping[str, str], whose: str) -> set[int]:
    """Return which of these users have the permission."""
    wanted = {f"permission__{name}": value for name, value in given.items()}
    return set(rows.filter(**wanted).values_list(whose, flat=True))


SESSION_ENDED = 4401
NO_SUCH_PAGE = 4404
TOO_MUCH = 1008
TRY_LATER = 1013

#: announcements that arrive within this time are one frame; the mirror itself merges those of a tenth of a second
COALESCE_S = 0.02
#: a page that could not be rendered is tried again after this time at the earliest
RETRY_S = 0.3
#: without any announcement the page is read again: ages, and that the mirror stands still, must show
HEARTBEAT_S = 3.0
#: frames that a page may send in its life, and their length: it has nothing to say
INBOUND_FRAMES = 20
INBOUND_BYTES = 1_024
#: sockets of one process
MAX_SOCKETS = 1_000


class LiveConsumer(AsyncWebsocketConsumer):
    """The websocket of one open page."""

    # the announcements have one listener a process (console.ui.sockets), not a layer channel a socket
    channel_layer_alias = "none"

    async def connect(self) -> None:
        """Refuse strangers and other origins in the handshake; then send a snapshot, and later what changes."""
        self._serving: asyncio.Task[None] | None = None
        self._judging: asyncio.Task[None] | None = None
        self._watch: Watch | None = None
        self._heard = 0
        self._is_ended = False
        key = self.scope["session"].session_key if "session" in self.scope else None
        if not key or not same_origin(self.scope):
            await self.close()
            return
        # watched first: what changes while the rights are worked out is seen to have changed
        self._watch = watch = standings.join(key, self._judge)
        visible = None
        try:
            watch.mark = await standings.mark_of(watch)
            visible = await seen(key) if watch.mark is not None else None
        finally:
            if visible is None:
                standings.leave(watch)
        if visible is None:
            await self.close()
            return
        await self.accept()
        page = page_of(self.scope["url_route"]["kwargs"]["page"], self.scope["query_string"].decode("latin-1"))
        if page is None or not await asyncio.to_thread(_has_template, page):
            await self.close(NO_SUCH_PAGE)
        elif len(announcements) >= MAX_SOCKETS:
            await self.close(TRY_LATER)
        else:
            self._page = replace(page, visible=visible, zone=zone_named(self.scope.get("cookies", {}).get(ZONE_COOKIE)))
            self._serving = asyncio.create_task(self._serve(self._page, language_of(self.scope)))

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Ignore a few short frames, as a page has nothing to say; more end the connection."""
        self._heard += 1
        if self._heard > INBOUND_FRAMES or len(text_data or bytes_data or "") > INBOUND_BYTES:
            await self.close(TOO_MUCH)

    async def disconnect(self, code: int) -> None:
        """Stop the work for a page that is gone."""
        if self._watch is not None:
            standings.leave(self._watch)
        for task in (self._judging, self._serving):
            if task is not None:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task

    async def _serve(self, page: LivePage, language: str) -> None:
        wake = asyncio.Event()
        sequence = announcements.sequence

        def note(told: int, kinds: frozenset[str]) -> None:
            nonlocal sequence
            if kinds & page.kinds:
                sequence = told
                wake.set()

        announcements.join(note)
        try:
            sent: dict[str, str] = {}
            wanted: int | None = sequence
            while not self._is_ended:
                is_shown = await self._show(page, language, wanted, sent)
                if is_shown and fragments.shown(page, language) < sequence:
                    wake.set()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(wake.wait(), HEARTBEAT_S)
                rest_s = fragments.due_s(page, language) - monotonic() if is_shown else RETRY_S
                await asyncio.sleep(max(COALESCE_S, rest_s))
                wake.clear()
                # if somebody else has it made meanwhile, that is shown now, and what is newer when it has rested
                wanted = sequence if fragments.is_due(page, language) else None
        finally:
            await announcements.leave(note)

    async def _show(self, page: LivePage, language: str, sequence: int | None, sent: dict[str, str]) -> bool:
        """Send the parts that differ from what was sent last; sequence None: as others have the page made. False: it
        could not be rendered."""
        try:
            if sequence is None:
                parts = await fragments.shared(page, language)
            else:
                parts = await fragments.parts(page, language, sequence)
            changed = [html for target, html in parts.items() if sent.get(target) != html]
            # nothing new is shown to somebody whose rights have changed meanwhile
            if changed and not await self._may_still_see(page):
                await self._end(SESSION_ENDED)
                return False
        except Http404:
            await self._end(NO_SUCH_PAGE)
            return False
        except Exception:
            # the page stays as it is and says that it is stale; the next announcement tries again
            logger.exception("the live page %s could not be rendered", page.name)
            return False
        if changed and not self._is_ended:
            await self.send(text_data="".join(changed))
            sent.update(parts)
        return True

    async def _may_still_see(self, page: LivePage) -> bool:
        """Tell whether the user still sees what the page was opened with. Raises DatabaseError."""
        watch = self._watch
        if watch is None:
            return False
        mark = await standings.mark_of(watch)
        if mark == watch.mark:
            return True
        if mark is None or await seen(watch.key) != page.visible:
            return False
        watch.mark = mark
        return True

    def _judge(self) -> None:
        """Close the page if the user's rights have changed with what they come from."""
        if self._serving is not None and (self._judging is None or self._judging.done()):
            self._judging = asyncio.create_task(self._close_if_lost())

    async def _close_if_lost(self) -> None:
        try:
            may_see = await self._may_still_see(self._page)
        except DatabaseError:
            return  # the next look tells again
        if not may_see:
            await self._end(SESSION_ENDED)

    async def _end(self, code: int) -> None:
        """Close the page, at most once."""
        if not self._is_ended:
            self._is_ended = True
            await self.close(code)


def same_origin(scope: dict[str, Any]) -> bool:
    """Tell whether the page that opens the socket comes from the host that it asks; a browser always says."""
    headers = {name.lower(): text.decode("latin-1") for name, text in scope["headers"]}
    origin, host = headers.get(b"origin"), headers.get(b"host")
    return bool(origin and host and urlsplit(origin).netloc.lower() == host.lower())


def language_of(scope: dict[str, Any]) -> str:
    """Return the language of the page: the cookie that the language form sets, else what the browser asks for."""
    headers = {name.lower(): text.decode("latin-1") for name, text in scope["headers"]}
    wanted = [scope.get("cookies", {}).get(settings.LANGUAGE_COOKIE_NAME, "")]
    wanted += [tag for tag, _ in parse_accept_lang_header(headers.get(b"accept-language", ""))]
    for tag in filter(None, wanted):
        with contextlib.suppress(LookupError):
            return get_supported_language_variant(tag)
    return settings.LANGUAGE_CODE


def _has_template(page: LivePage) -> bool:
    try:
        get_template(page.template)
    except TemplateDoesNotExist:
        return False
    return True
