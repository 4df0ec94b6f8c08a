"""What a role may see and do, in one line that is made of its permissions and topics."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from console.features.people.role_operations import PERMISSIONS
from console.operations.kind import Words
from console.security.gate import VIEW
from console.security.own_role import shared_roles

#: topics that are named
_NAMED = 3
#: what one sees with it, beside the pages that everybody has
_SEES: Mapping[str, Words] = {
    "console.view_alert": _("alerts"),
    "console.view_dashboardrun": _("dashboards"),
    "console.view_auditentry": _("audit log"),
    "console.view_apitoken": _("tokens"),
    "console.view_checkaddress": _("check-back addresses"),
}
#: what one acts on with it; permissions with the same words are one
_ACTS: Mapping[str, Words] = {
    "console.steer_timers": _("timers"),
    "console.pause_timers": _("pause of all timers"),
    "console.steer_transactions": _("half messages"),
    "console.steer_delayed_queues": _("Redisson queues"),
    "console.resend_dead_letters": _("dead letters"),
    "console.send_messages": _("sending messages"),
    "console.reset_offsets": _("offsets of groups"),
    "console.change_settings": _("topics, groups and settings"),
    "console.run_dashboards": _("runs of dashboards"),
    "console.silence_alerts": _("silences"),
    "console.add_alertrule": _("alert rules"),
    "console.change_alertrule": _("alert rules"),
    "console.delete_alertrule": _("alert rules"),
    "console.share_views": _("shared views"),
    "console.unmask": _("masked content"),
    "console.add_apitoken": _("tokens"),
    "console.change_apitoken": _("tokens"),
    "console.change_access": _("broker users"),
    "console.add_checkaddress": _("check-back addresses"),
    "console.change_checkaddress": _("check-back addresses"),
    "console.delete_checkaddress": _("check-back addresses"),
    "auth.add_user": _("users"),
    "auth.change_user": _("users"),
    "auth.add_group": _("roles"),
    "auth.change_group": _("roles"),
}


def roles_in_words() -> list[Any]:
    """Return the roles that any user can have, each with what it may do as `words`; by three queries."""
    found: list[Any] = list(shared_roles().prefetch_related("topic_permissions", "permissions__content_type"))
    for role in found:
        held = {f"{each.content_type.app_label}.{each.codename}" for each in role.permissions.all()}
        role.words = role_words(held, [each.pattern for each in role.topic_permissions.all()])
    return found


def role_words(held: set[str], patterns: list[str]) -> str:
    """Return what is seen and done with these permissions, on these topics."""
    of = {"topics": _topics(patterns), "permission": VIEW}
    if VIEW not in held:
        return gettext("Sees nothing by itself, it lacks %(permission)s; topics: %(topics)s.") % of
    if held >= PERMISSIONS.keys():
        return gettext("Sees and does everything; topics: %(topics)s.") % of
    sees, acts = _listed(_SEES, held), _listed(_ACTS, held)
    first = gettext("Sees the pages, %(sees)s") % {"sees": sees} if sees else gettext("Sees the pages")
    then = gettext("acts on %(acts)s") % {"acts": acts} if acts else gettext("changes nothing")
    return gettext("%(sees)s; %(does)s; topics: %(topics)s.") % {"sees": first, "does": then, **of}


def permissions_in_words(names: Collection[str]) -> str:
    """Return what is seen and acted on with these permissions, each with the permission's name."""
    words = {VIEW: gettext("all pages"), **_SEES, **_ACTS}
    return ", ".join(f"{words[name]} ({name})" if name in words else name for name in names)


def _listed(words: Mapping[str, Words], held: set[str]) -> str:
    return ", ".join(dict.fromkeys(str(each) for name, each in words.items() if name in held))


def _topics(patterns: list[str]) -> str:
    if not patterns:
        return gettext("all")
    named = ", ".join(sorted(patterns)[:_NAMED])
    more = len(patterns) - _NAMED
    if more <= 0:
        return named
    return ngettext("%(names)s and %(n)s more", "%(names)s and %(n)s more", more) % {"names": named, "n": more}
