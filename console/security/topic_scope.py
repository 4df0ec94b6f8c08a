"""The one place that decides which topics, groups of consumers and Redisson queues a user sees and acts on.

A user whose roles name topics (name_patterns.py) sees these, queues of such names, and groups that read such a topic:
of one that reads others, too, what is of the topics that are seen (docs/decisions/0030).
Topics of tries and dead letters are their group's. Whatever is not known to be seen is not (docs/decisions/0012).

What pages and live parts read is `authorised`: such a read is given the scope of whoever looks, and is masked by
`console.security.masking`. What is not seen is not there: Http404, as for what does not exist. Figures of the whole
broker (how much waits, how late) are everybody's; names, keys, ids and contents are not.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import reduce, update_wrapper
from operator import or_
from typing import Concatenate, Generic, ParamSpec, TypeVar

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db.models import Q
from django.http import Http404
from django.utils.translation import gettext as _

from broker.mirror.models import ConsumerOffset
from broker.rocketmq.topics import GROUP_PREFIXES, POP_SEPARATORS
from console.security.models import TopicPermission
from console.security.name_patterns import EVERY, beginning, is_beginning

Row = TypeVar("Row")
Asked = ParamSpec("Asked")
Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class VisibleTopics:
    """Topics that begin with one of ``prefixes``, and those of exactly these ``names``; without prefixes (None): all of
    them, and what is about no topic."""

    prefixes: tuple[str, ...] | None = None
    names: frozenset[str] = frozenset()

    @classmethod
    def of(cls, patterns: Iterable[str]) -> VisibleTopics:
        """Return what these patterns mean together; none of them means nothing."""
        given = set(patterns)
        if EVERY in given:
            return ALL
        begin = tuple(sorted(beginning(each) for each in given if is_beginning(each)))
        return cls(begin, frozenset(each for each in given if each and not is_beginning(each)))

    @property
    def is_all(self) -> bool:
        """Tell whether nothing is kept from this user."""
        return self.prefixes is None

    def among(self, field: str) -> Q:
        """Return the condition on a field with a topic's name; what is about none is left out unless all are seen."""
        if self.prefixes is None:
            return Q()
        begins = (Q(**{f"{field}__startswith": prefix}) for prefix in self.prefixes)
        named = Q(**{f"{field}__in": sorted(self.names)}) if self.names else Q(pk__in=())
        return reduce(or_, begins, named) & ~Q(**{field: ""})

    def has(self, name: str | None) -> bool:
        """Tell whether a topic of this name is meant, also one that is not there yet."""
        if self.prefixes is None:
            return True
        return bool(name) and (name in self.names or str(name).startswith(self.prefixes))


#: everything, and nothing
ALL, NOTHING = VisibleTopics(), VisibleTopics(())


def visible_topics(user: AbstractBaseUser | AnonymousUser) -> VisibleTopics:
    """Return which topics a user sees: those that the groups of the user name, all if none names any."""
    if not user.is_active:
        return NOTHING
    as_others_see: VisibleTopics | None = getattr(user, "seen_topics", None)
    if as_others_see is not None:
        return as_others_see
    if getattr(user, "is_superuser", False):
        return ALL
    patterns = set(TopicPermission.objects.filter(group__user=user.pk).values_list("pattern", flat=True))
    return VisibleTopics.of(patterns) if patterns else ALL


@dataclass(slots=True)
class TopicScope:
    """The topics, groups and queues that a user may see. It keeps what it has looked up, so make one for each page."""

    visible: VisibleTopics = ALL
    _read: Mapping[str, Collection[str]] | None = None

    @property
    def see_all(self) -> bool:
        """Tell whether nothing is kept from this user."""
        return self.visible.is_all

    def look_up(self) -> None:
        """Read now what names are compared with, for who asks later where no database may be asked."""
        if not self.see_all:
            self._topics_read()

    def topic(self, name: str | None) -> bool:
        """Tell whether the topic is seen; a name that is not known is not."""
        if self.visible.prefixes is None:
            return True
        for prefix in GROUP_PREFIXES:
            if name and name.startswith(prefix):
                return self._of_group(name.removeprefix(prefix))
        return self._begins(name)

    def record(self, topic: str | None, sent_to: str) -> bool:
        """Tell whether a record in a topic is seen: of tries and dead letters of a group that reads what is not seen,
        too, those are that were sent to a topic that is."""
        if self.topic(topic):
            return True
        rest = next((topic.removeprefix(each) for each in GROUP_PREFIXES if topic and topic.startswith(each)), "")
        named = (rest, *(rest[:at] for at, letter in enumerate(rest) if letter in POP_SEPARATORS))
        return self._begins(sent_to) and any(map(self.group, named))

    def group(self, name: str | None) -> bool:
        """Tell whether the consumer group is seen: it reads a topic that is."""
        return self.see_all or (name is not None and any(map(self._begins, self._topics_read().get(name, ()))))

    def whole_group(self, name: str | None) -> bool:
        """Tell whether all that concerns the group is seen: it reads something, and all that it reads is seen."""
        return self.see_all or (name is not None and self._is_seen(self._topics_read().get(name, ())))

    def groups(self) -> list[str]:
        """Return the consumer groups that are seen, by name; not for who sees all."""
        return sorted(name for name, topics in self._topics_read().items() if any(map(self._begins, topics)))

    def queue(self, name: str | None) -> bool:
        """Tell whether the Redisson queue is seen: its name is measured as a topic's is."""
        return self._begins(name)

    def require_topic(self, name: str | None) -> None:
        """Raise Http404 for a topic that is not seen."""
        if not self.topic(name):
            raise Http404(_("There is no such topic."))

    def require_group(self, name: str | None) -> None:
        """Raise Http404 for a consumer group that is not seen."""
        if not self.group(name):
            raise Http404(_("There is no such consumer group."))

    def require_queue(self, name: str | None) -> None:
        """Raise Http404 for a Redisson queue that is not seen."""
        if not self.queue(name):
            raise Http404(_("There is no such queue."))

    def rows(self, found: Iterable[Row], topic: Callable[[Row], str | None]) -> tuple[Row, ...]:
        """Return the rows whose topic is seen."""
        return tuple(row for row in found if self.topic(topic(row)))

    def _of_group(self, rest: str) -> bool:
        """Tell whether tries or dead letters are seen: of a group if all that it reads is, of a group and a topic that
        it pops (group_topic) if that topic is.

        Where the name can be read in several ways, all that it may be of has to be seen.
        """
        read = self._topics_read()
        cuts = (at for at, letter in enumerate(rest) if letter in POP_SEPARATORS)
        found = [self._begins(rest[at + 1 :]) for at in cuts if rest[at + 1 :] in read.get(rest[:at], ())]
        if rest in read:
            found.append(self._is_seen(read[rest]))
        return bool(found) and all(found)

    def _begins(self, name: str | None) -> bool:
        return self.visible.has(name)

    def _is_seen(self, topics: Collection[str]) -> bool:
        return bool(topics) and all(map(self._begins, topics))

    def _topics_read(self) -> Mapping[str, Collection[str]]:
        """Return the topics that each group reads, but tries and dead letters."""
        if self._read is None:
            read: dict[str, set[str]] = {}
            for group, topic in ConsumerOffset.objects.values_list("group", "topic").distinct().order_by():
                if not topic.startswith(GROUP_PREFIXES):
                    read.setdefault(group, set()).add(topic)
            self._read = read
        return self._read


#: for jobs and snapshots, whoever looks meanwhile
EVERYTHING = TopicScope(ALL)

#: set for the time of a request or of one rendering of a live page; elsewhere (jobs, REST by tokens) everything is seen
_current: ContextVar[VisibleTopics] = ContextVar("topics", default=ALL)


@contextmanager
def scoped(visible: VisibleTopics) -> Iterator[None]:
    """Limit all authorised reads within to these topics."""
    token = _current.set(visible)
    try:
        yield
    finally:
        _current.reset(token)


def set_scope(visible: VisibleTopics) -> None:
    """Limit what is read from here on within `scoped`: who looks is known only when the session has been read."""
    _current.set(visible)


def current_topics() -> VisibleTopics:
    """Return the topics that may be seen here and now."""
    return _current.get()


def current_scope() -> TopicScope:
    """Return the scope of whoever looks here and now, to ask about names."""
    return TopicScope(current_topics())


class AuthorisedRead(Generic[Asked, Found]):
    """A read that is always given a scope: that of whoever looks here and now, or another one that is named."""

    def __init__(self, read: Callable[Concatenate[TopicScope, Asked], Found]) -> None:
        self._read = read
        update_wrapper(self, read)

    def __call__(self, *asked: Asked.args, **named: Asked.kwargs) -> Found:
        """Read what whoever looks may see."""
        return self._read(current_scope(), *asked, **named)

    def within(self, scope: TopicScope, *asked: Asked.args, **named: Asked.kwargs) -> Found:
        """Read what this scope sees."""
        return self._read(scope, *asked, **named)


def authorised(read: Callable[Concatenate[TopicScope, Asked], Found]) -> AuthorisedRead[Asked, Found]:
    """Mark a read of the pages; its first parameter is the scope, which callers do not give."""
    return AuthorisedRead(read)
