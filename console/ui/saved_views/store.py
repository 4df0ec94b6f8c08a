"""Saving, renaming, sharing and deleting views, and which of them somebody sees.

ViewRefused
├── NameRefused    no name, too long, not to be shown, or taken on this page
├── TooManyViews   its owner has as many as one may have
└── NotShared      sharing needs a permission
"""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from django.db import transaction
from django.db.models import Q
from django.utils.translation import gettext as _

from console.security.topic_scope import current_topics
from console.ui.saved_views.addresses import NEEDED, Address
from console.ui.saved_views.models import NAME_LENGTH, SavedView

SHARE = "console.share_views"
#: of one person
MOST = 100


class ViewRefused(Exception):
    """The view is not saved or changed."""


class NameRefused(ViewRefused):
    """The name cannot be used."""


class TooManyViews(ViewRefused):
    """There are as many as one person may have."""


class NotShared(ViewRefused):
    """Only who holds the permission shares views."""


def views_for(user: Any, page: str = "") -> list[SavedView]:
    """The user's own and then what is shared, of one page or of all.

    Names and filters of others may name topics: who sees some topics only is not shown them.
    """
    wanted = Q(owner=user.pk) | Q(is_shared=True) if current_topics().is_all else Q(owner=user.pk)
    rows = SavedView.objects.filter(wanted).select_related("owner")
    found = [row for row in (rows.filter(page=page) if page else rows) if may_open(user, row.page)]
    return sorted(found, key=lambda row: row.owner_id != user.pk)


def may_open(user: Any, page: str) -> bool:
    """Whether the user has what the page asks for."""
    return page not in NEEDED or user.has_perm(NEEDED[page])


def default_of(user: Any, path: str) -> SavedView | None:
    """What the user wants to see when this path is opened without filters."""
    return SavedView.objects.filter(owner=user.pk, path=path, is_default=True).first()


def keep(user: Any, address: Address, name: str, *, is_shared: bool = False, is_default: bool = False) -> SavedView:
    """Save it; raises ViewRefused."""
    row = SavedView(owner=user, page=address.page, path=address.path, query=address.query)
    return _stored(user, row, name, is_shared, is_default)


def change(user: Any, row: SavedView, name: str, *, is_shared: bool, is_default: bool) -> SavedView:
    """Rename it, share it or not, let it open with its page or not; raises ViewRefused."""
    return _stored(user, row, name, is_shared, is_default)


def _stored(user: Any, row: SavedView, name: str, is_shared: bool, is_default: bool) -> SavedView:
    if is_shared and not row.is_shared and not user.has_perm(SHARE):
        raise NotShared(_("This needs the permission %(permission)s.") % {"permission": SHARE})
    row.name, row.is_shared, row.is_default = _sound(name), is_shared, is_default
    with transaction.atomic():
        # one after the other for each person: what is counted here is still true when the row is written
        get_user_model().objects.select_for_update().get(pk=row.owner_id)
        others = SavedView.objects.filter(owner=row.owner_id).exclude(pk=row.pk)
        if row._state.adding and others.count() >= MOST:
            raise TooManyViews(_("You have %(most)s views, as many as there may be: delete one.") % {"most": MOST})
        if others.filter(page=row.page, name=row.name).exists():
            raise NameRefused(_("You have a view of this name on this page already."))
        if is_default:
            others.filter(path=row.path, is_default=True).update(is_default=False)
        row.save()
    return row


def _sound(name: str) -> str:
    found = " ".join(name.split())
    if not found:
        raise NameRefused(_("Give it a name."))
    if len(found) > NAME_LENGTH:
        raise NameRefused(_("A name has at most %(most)s characters.") % {"most": NAME_LENGTH})
    if not found.isprintable():
        raise NameRefused(_("This name has characters that cannot be shown."))
    return found
