"""What a text means: all places, or straight to the one message, timer or transaction with this key.

The latter is asked for with Enter, never while somebody types: a key is sought in the broker.
"""

from __future__ import annotations

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from console.features.messages import read as messages_read
from console.features.messages.shapes import OFFSET_ID
from console.features.timers import read as timers_read
from console.features.timers.shapes import TimerFilter
from console.features.transactions.operations import halves_named
from console.operations.actor import Actor
from console.operations.errors import NotAllowed
from console.operations.forms import draft
from console.palette.jumps import TEXT_LENGTH, jumps
from console.palette.verbs import commands
from console.ui.form_addresses import form_of


@require_safe
def find(request: HttpRequest) -> HttpResponse:
    """Everything that the text may mean; `part=1` gives the options alone, for the palette."""
    text = request.GET.get("q", "").strip()[:TEXT_LENGTH]
    template = "jumping/options.html" if request.GET.get("part") == "1" else "jumping/page.html"
    return render(request, template, {"jumps": list(jumps(text, request.user)), "text": text})


@require_safe
def open_key(request: HttpRequest) -> HttpResponse:
    """See the one thing with the key, id or offset id `q`; `of=timers` and `of=transactions` look there only."""
    text = request.GET.get("q", "").strip()[:TEXT_LENGTH]
    if OFFSET_ID.fullmatch(text):
        return redirect("message", text)
    ways = {"messages": _of_messages, "timers": _of_timers, "transactions": _of_transactions}
    wanted = request.GET.get("of", "")
    for way in [ways[wanted]] if wanted in ways else ways.values():
        if text and (address := way(text)):
            return redirect(address)
    return redirect(reverse("messages") + "?" + urlencode({"q": text}))


def _of_messages(text: str) -> str | None:
    """The first record of the one message: its page has the others."""
    hits = messages_read.messages_everywhere(text).hits
    if len({hit.unique_key or hit.offset_message_id for hit in hits}) == 1:
        return reverse("message", args=[hits[-1].offset_message_id])
    return reverse("messages") + "?" + urlencode({"q": text}) if hits else None


def _of_timers(text: str) -> str | None:
    rows = timers_read.timer_list(TimerFilter(key=text), count=2).rows
    if len(rows) == 1:
        return reverse("timer", args=[rows[0].position])
    return reverse("timer_list") + "?" + urlencode({"key": text}) if rows else None


def _of_transactions(text: str) -> str | None:
    """The newest one; who sends a half with a key again means the last."""
    positions = (row.position for row in halves_named(text) if row.position is not None)
    position = next(positions, None)
    return None if position is None else reverse("transaction", args=[position])


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
    answer = draft(request, command.kind, command.parameters)
    given = {"reason": command.reason, "typed": command.count}
    if answer.status_code == 303 and any(given.values()):
        answer["Location"] += "?" + urlencode({name: value for name, value in given.items() if value})
    return answer
