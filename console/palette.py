"""The palette: what a few letters, a key or a verb may mean, in all features.

Pages, topics, groups and messages are found by a few letters of their names; those that begin so come first. What has a
key is asked for with Enter (console.under_key), never while somebody types, as a key is sought in the broker.

Verbs are `cancel order-4711`, `resend 200 billing`, `move billing -1h`; what follows is the reason. Which there are and
what may follow is said by the kinds of operations. A command leads to the preview of an operation, never further, or to
the form that asks for the rest of it (`send orders`).
Nothing is asked of the broker before it is chosen.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from itertools import islice
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import get_script_prefix, resolve, reverse
from django.utils.functional import Promise
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, override
from django.views.decorators.http import require_safe

from broker.mirror.models import ConsumerGroup, Topic
from broker.rocketmq.topics import DLQ_PREFIX, RETRY_PREFIX
from console.features.messages.across import is_offset_id
from console.operations.actor import Actor
from console.operations.errors import NotAllowed
from console.operations.kind import Command, Kind
from console.operations.pages import drafted
from console.operations.registry import KINDS
from console.security.gate import access_of
from console.security.topic_scope import current_scope, current_topics
from console.site.broker import address_at, at, if_several
from console.site.mirrored import cluster
from console.templatetags.tables import view_address, view_page
from console.ui.addresses import form_of
from console.ui.frame import places_for
from console.ui.saved_views import views_for


def commands(text: str) -> Iterator[Command]:
    """Yield what the text asks for, whoever may do it; nothing if it begins with no verb."""
    verb, _blank, rest = text.partition(" ")
    kind = _kind_of(verb)
    if kind is not None and rest.strip():
        yield from kind.commands(verb, rest.strip())


def _kind_of(verb: str) -> Kind[Any] | None:
    return next((kind for kind in KINDS.values() if verb.lower() in kind.verbs), None)


TEXT_LENGTH = 300
#: of each kind
LISTED = 8


@dataclass(frozen=True, slots=True)
class Jump:
    """A place to go to: `kind` says what it is. With a `command`, the preview of an operation instead."""

    address: str
    label: str | Promise
    kind: str | Promise
    key: str = ""
    command: str = ""
    #: where it is sent, under which name
    form: str = "find_act"
    field: str = "do"


def jumps(text: str, user: Any) -> Iterator[Jump]:
    """Yield operations that a verb asks for, pages, names, and searches by key; without a text, all pages."""
    asked = [command for command in commands(text) if _may_do(KINDS[command.kind], user)]
    yield from map(_to_do, asked)
    for place in places_for(user):
        if _is_named(text, place.label) or text.lower() == place.key:
            yield Jump(place.address, place.label, gettext_lazy("page"), place.key.upper())
    saved = [row for row in views_for(user) if text.lower() in row.name.lower()]
    for row in saved[:LISTED]:
        yield Jump(view_address(row), row.name, _("view of %(page)s") % {"page": view_page(row)})
    if not text:
        return
    yield from islice(_acts(text, user, {command.kind for command in asked}), LISTED)
    is_short = len(text) <= _SHORT
    if is_short:
        # of so few letters half of all names are made: a key stands before them
        yield from islice(_with_key(text), 1)
    if _is_named(text, gettext_lazy("Saved views")):
        yield Jump(reverse("saved_views"), gettext_lazy("Saved views"), gettext_lazy("page"))
    yield from _of_the_account(text)
    topics = [Jump(reverse("topic", args=[name]), name, gettext_lazy("topic")) for name in topics_named(text, LISTED)]
    yield from (jump for jump in topics if not _is_of_a_group(str(jump.label)))
    for name in groups_named(text, LISTED):
        yield Jump(reverse("group", args=[name]), name, gettext_lazy("group"))
    yield from (jump for jump in topics if _is_of_a_group(str(jump.label)))
    if is_offset_id(text):
        yield Jump(reverse("message", args=[text]), text, gettext_lazy("message at this offset id"))
    yield from islice(_with_key(text), 1 if is_short else 0, None)


#: words with which somebody asks for something new, whatever the act itself is called
_NEW = ("new", "create", "add", "make", "新建", "创建", "添加", "新增")
#: words that say nothing of what is meant
_LITTLE = frozenset({"a", "an", "the", "to", "of"})
#: letters of which half of all names are made, rather than acts
_SHORT = 2


def _acts(text: str, user: Any, asked: Set[str]) -> Iterator[Jump]:
    """Yield the acts that the text names, of those that the user may do, on pages that the user may open; those that
    are `asked` for by a verb are there already."""
    words = [word for word in text.lower().split() if word not in _LITTLE]
    if not words or (len(text) <= _SHORT and text.isascii()):
        return
    for kind in KINDS.values():
        if kind.name not in asked and _may_do(kind, user) and _names_act(words, kind.title):
            offered = (each for each in kind.offered() if not each.address or _may_open(each.address, user))
            yield from map(_to_do, offered)


def _may_do(kind: Kind[Any], user: Any) -> bool:
    """Tell whether the user may do it to something; what no name bounds is for those who see all."""
    return user.has_perm(kind.permission) and kind.is_open_to(current_topics())


def _names_act(words: Sequence[str], title: str | Promise) -> bool:
    """Tell whether each word begins one of the title's in English, or stands in it in the reader's language."""
    with override("en"):
        english = f" {title}".lower()
    is_new = english.startswith((" create ", " add "))
    return all(
        f" {word}" in english or (is_new and word in _NEW) or (not word.isascii() and _stands_in(word, str(title)))
        for word in words
    )


def _stands_in(word: str, shown: str) -> bool:
    """Tell whether a word of a language without blanks stands in a title, whichever word for new it begins with."""
    rest = next((word.removeprefix(new) for new in _NEW if word.startswith(new)), word)
    is_new = rest == word or shown.startswith(_NEW)
    letters = iter(shown)
    # in this order, whatever stands between: people write less than the title does
    return is_new and all(letter in letters for letter in rest)


def _may_open(address: str, user: Any) -> bool:
    """Tell whether the user may open the page at an address of the console."""
    path = address.partition("#")[0]
    access = access_of(resolve(f"/{path.removeprefix(get_script_prefix())}").func)
    return access.lets_in(user, current_topics())


#: what is kept of how somebody wants to see the console, without the zone, which the browser tells
_PREFERENCES = (
    ("theme", "dark", gettext_lazy("Dark")),
    ("theme", "light", gettext_lazy("Light")),
    ("density", "comfortable", gettext_lazy("Comfortable rows")),
    ("density", "compact", gettext_lazy("Compact rows")),
    ("zone", "UTC", gettext_lazy("Times in UTC")),
)


def _of_the_account(text: str) -> Iterator[Jump]:
    """Yield what is in the menu behind one's name; "ord" is somebody's way to `orders`, not to a password."""
    of = gettext_lazy("your account")
    for view, label in (
        ("own_settings", gettext_lazy("Settings")),
        ("own_password", gettext_lazy("Your password")),
        ("own_second_factor", gettext_lazy("Your second factor")),
    ):
        if _begins_word_of(text, label):
            yield Jump(reverse(view), label, of)
    for field, word, label in _PREFERENCES:
        if _begins_word_of(text, label):
            yield Jump("", label, of, command=word, form=f"set_{field}", field=field)
    if _begins_word_of(text, gettext_lazy("Sign out")):
        yield Jump("", gettext_lazy("Sign out"), of, command="1", form="logout")


def _is_of_a_group(topic: str) -> bool:
    return topic.startswith((RETRY_PREFIX, DLQ_PREFIX))


def _with_key(text: str) -> Iterator[Jump]:
    """Yield searches for this key: each runs when it is chosen, not with every letter that is typed."""
    by_key = reverse("find_key")
    label = _("Key or id “%(text)s”") % {"text": text}
    yield Jump(f"{by_key}?{urlencode({'q': text})}", label, gettext_lazy("message, timer or transaction"))
    for of in ("timers", "transactions"):
        yield _named(of, text, f"{by_key}?{urlencode({'q': text, 'of': of})}")
    yield _named("messages", text, reverse("messages") + "?" + urlencode({"q": text}))


def _named(of: str, text: str, address: str) -> Jump:
    """Return what leads to the messages, timers or transactions with a key."""
    labels = {
        "messages": (_("Messages with the key or id “%(text)s”"), gettext_lazy("in all topics")),
        "timers": (_("Timers with the key “%(text)s”"), gettext_lazy("waiting")),
        "transactions": (_("Transaction with the key “%(text)s”"), gettext_lazy("half message")),
    }
    label, kind = labels[of]
    return Jump(address, label % {"text": text}, kind)


def _to_do(command: Command) -> Jump:
    if command.address:
        return Jump(command.address, command.label, gettext_lazy("form"))
    label = f"{command.label}: {command.reason}" if command.reason else command.label
    return Jump("", label, gettext_lazy("preview first"), command=command.text)


def _is_named(text: str, label: str | Promise) -> bool:
    """Tell whether the text names the label in the reader's language or in English."""
    with override("en"):
        english = str(label)
    wanted = text.lower()
    return wanted in str(label).lower() or wanted in english.lower()


def _begins_word_of(text: str, label: str | Promise) -> bool:
    """Tell whether a word of the label begins so, in English, or the label in the reader's language has it."""
    with override("en"):
        english = str(label).lower()
    wanted, shown = text.lower(), str(label).lower()
    return f" {wanted}" in f" {english}" or (shown != english and wanted in shown)


def topics_named(text: str, count: int) -> list[str]:
    """Return at most `count` topics, RocketMQ's own left out."""
    found = Topic.objects.filter(broker__in=cluster().names, is_system=False, name__icontains=text)
    seen = current_scope()
    return _first((name for name in set(found.values_list("name", flat=True)) if seen.topic(name)), text, count)


def groups_named(text: str, count: int) -> list[str]:
    """Return at most `count` consumer groups, RocketMQ's own left out."""
    found = ConsumerGroup.objects.filter(broker__in=cluster().names, is_system=False, name__icontains=text)
    seen = current_scope()
    return _first((name for name in set(found.values_list("name", flat=True)) if seen.group(name)), text, count)


def _first(names: Iterable[str], text: str, count: int) -> list[str]:
    wanted = text.lower()
    return sorted(names, key=lambda name: (_is_of_a_group(name), not name.lower().startswith(wanted), name))[:count]


@require_safe
def find(request: HttpRequest) -> HttpResponse:
    """Show everything that the text may mean; `part=1` gives the options alone, for the palette."""
    text = request.GET.get("q", "").strip()[:TEXT_LENGTH]
    template = "jumping/options.html" if request.GET.get("part") == "1" else "jumping/page.html"
    return render(request, template, {"jumps": list(jumps(text, request.user)), "text": text})


def _places_of(command: Command) -> list[str]:
    """Return the brokers at which a command may be meant where none is chosen; the first where none has the key."""
    of = cluster()
    if command.brokers is None or not of.has_several:
        return []
    return sorted(command.brokers()) or list(of.names[:1])


@form_of("find")
def act(request: HttpRequest) -> HttpResponse:
    """Preview what a command of the palette asks for; its reason and number stand in the form already."""
    text = request.POST.get("do", "").strip()[:TEXT_LENGTH]
    command = next(commands(text), None)
    if command is None:
        raise Http404(_("There is no such operation."))
    try:
        Actor.of(request.user).require(command.permission, command.kind)
    except NotAllowed as error:
        raise PermissionDenied(error.permission) from None
    if command.address:
        return redirect(command.address)
    names = _places_of(command)
    if len(names) > 1:
        places = [(name, address_at(if_several(name), "find_act")) for name in names]
        return render(request, "jumping/brokers.html", {"places": places, "text": text}, status=422)
    with at("".join(names)):
        answer = drafted(request, command.kind, command.parameters)
    given = {"reason": command.reason, "typed": command.count}
    if answer.status_code == 303 and any(given.values()):
        answer["Location"] += "?" + urlencode({name: value for name, value in given.items() if value})
    return answer
