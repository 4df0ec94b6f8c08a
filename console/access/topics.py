"""The one place that decides which topics a user sees."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import or_

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db.models import Q

from console.access.rows import TopicPermission


@dataclass(frozen=True, slots=True)
class VisibleTopics:
    """Topics that begin with one of ``prefixes``; None: all of them, and what is about no topic."""

    prefixes: tuple[str, ...] | None = None

    def among(self, field: str) -> Q:
        """Return the condition on a field with a topic's name; what is about none is left out unless all are seen."""
        if self.prefixes is None:
            return Q()
        begins = (Q(**{f"{field}__startswith": prefix}) for prefix in self.prefixes)
        return reduce(or_, begins, Q(pk__in=())) & ~Q(**{field: ""})


def visible_topics(user: AbstractBaseUser | AnonymousUser) -> VisibleTopics:
    """Return which topics a user sees: those that the groups of the user name, all if none names any."""
    if not user.is_active:
        return VisibleTopics(())
    if getattr(user, "is_superuser", False):
        return VisibleTopics()
    rows = TopicPermission.objects.filter(group__user=user.pk)
    prefixes = tuple(sorted(set(rows.values_list("prefix", flat=True))))
    return VisibleTopics(prefixes) if prefixes and "" not in prefixes else VisibleTopics()
