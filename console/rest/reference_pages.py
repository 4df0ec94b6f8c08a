"""The reference of REST in the console: all operations, found by words, and one page for each, where it is run "as me".

What reads runs at once. What changes something is looked at first, by the route's own preview where it has one; it runs
with a reason that the audit keeps, for who has the permission and has given the password lately, and once however often
the form is sent.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from django.contrib.auth.models import Permission
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.cache import add_never_cache_headers
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_safe

from console.operations.errors import NotAllowed
from console.operations.models import AuditEntry
from console.operations.workflow import REASON_LENGTH
from console.rest import as_me
from console.rest.as_me import Answered, Asked, DoneBefore, NoAnswer
from console.rest.curl import curl
from console.rest.person import grant_of
from console.rest.reference import OWN_FIELDS, Operation, faults, groups, operations
from console.rest.request_body import MAX_SINGLE_BYTES
from console.security import presence

SOUGHT_LENGTH = 100
#: longest value of a parameter, and how much of an answer is shown
VALUE_LENGTH, SHOWN_BYTES = 2_000, 48 * 1024
_TYPED_LENGTH = 1_000
_KEY = "Idempotency-Key"
#: values that a form begins with, so that an address can be read at once
_BEGIN = {"window": "1h"}


@dataclass(frozen=True, slots=True)
class Input:
    """A parameter as the form has it: the name of its field, and what was given."""

    field: str
    name: str
    place: str
    is_required: bool
    about: str
    value: str


@dataclass(slots=True)
class Form:
    """What was typed, and what is wrong with it, by the name of the field."""

    values: Mapping[str, str]
    body: str
    reason: str = ""
    faults: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Shown:
    """An answer as the page shows it."""

    answer: Answered
    text: str
    is_cut: bool
    is_preview: bool

    @property
    def is_good(self) -> bool:
        """Tell whether it is no error."""
        return self.answer.status < 400


@require_safe
def reference(request: HttpRequest) -> HttpResponse:
    """Show all operations in groups, or those that are sought, and what each error means."""
    sought = request.GET.get("q", "").replace("\0", "").strip()[:SOUGHT_LENGTH]
    found = groups(sought)
    context = {
        "here": "reference",
        "sought": sought,
        "groups": found,
        "count": sum(len(each.operations) for each in found),
        "faults": () if sought else faults(),
    }
    return render(request, "api/list.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
def operation(request: HttpRequest, operation: str) -> HttpResponse:
    """Show one operation; a form that is sent runs it as whoever is signed in, or looks what it would do."""
    found = operations().get(operation)
    if found is None:
        raise Http404(_("There is no such operation."))
    if request.method != "POST":
        return _page(request, found, _typed_before(request, found))
    _require(request, found)
    form = _sent(request)
    asked = _asked(found, form)
    if form.faults:
        return _page(request, found, form, asked, status=422)
    if not found.route.is_change:
        return _run(request, found, form, asked)
    if as_me.needs_second(asked):
        form.faults[""] = _("This needs approval: send it from the topic's page.")
        return _page(request, found, form, asked, status=409)
    if request.POST.get("step") != "run":
        return _look(request, found, form, asked)
    return _confirmed(request, found, form, asked)


def _require(request: HttpRequest, found: Operation) -> None:
    """Raise PermissionDenied unless the person may do this; the audit keeps the refusal."""
    grant = grant_of(request.user, (found.route.permission,))
    actor = replace(grant.actor, permissions=grant.permissions)
    try:
        actor.require(found.route.permission, as_me.KIND)
    except NotAllowed as error:
        raise PermissionDenied(error.permission) from None


def _look(request: HttpRequest, found: Operation, form: Form, asked: Asked) -> HttpResponse:
    """Show what would be done: the route's own preview, or no more than the request."""
    shown = None
    if asked.previews:
        # a preview needs no reason, but the form of the body has one
        answer = as_me.ask(asked.as_preview().because(form.reason or "preview"), _grant(request, found))
        shown = _shown(answer, is_preview=True)
        if not shown.is_good:
            return _page(request, found, form, asked, shown)
    mark = asked.seen_by(_user_id(request), str(uuid.uuid4()))
    return _page(request, found, form, asked, shown, mark=mark)


def _confirmed(request: HttpRequest, found: Operation, form: Form, asked: Asked) -> HttpResponse:
    mark = request.POST.get("seen", "")
    number = asked.number_of(mark, _user_id(request))
    if number is None:
        form.faults[""] = _("This is not what was previewed, or the preview is too old: preview it again.")
        return _page(request, found, form, asked, status=409)
    if not form.reason.strip() or len(form.reason) > REASON_LENGTH:
        form.faults["reason"] = _("Enter a reason of at most %(count)s characters.") % {"count": REASON_LENGTH}
        return _page(request, found, form, asked, mark=mark, status=422)
    if not presence.is_proved(request):
        typed = {"body": form.body, "reason": form.reason, **{f"in-{k}": v for k, v in form.values.items()}}
        is_short = all(len(text) <= _TYPED_LENGTH for text in typed.values())
        return presence.ask(request, request.path, typed if is_short else None)
    return _run(request, found, form, asked.because(form.reason), number)


def _run(request: HttpRequest, found: Operation, form: Form, asked: Asked, number: str = "") -> HttpResponse:
    try:
        answer = as_me.ask(asked, _grant(request, found), number)
    except DoneBefore:
        form.faults[""] = _("It was run already: this form was sent before.")
        return _page(request, found, form, asked, status=409)
    except NoAnswer:
        if number:
            _note(request, found, form, None)
        form.faults[""] = _("No answer in time: whether it was carried out is not known.")
        return _page(request, found, form, asked, status=504)
    if number:
        _note(request, found, form, answer.status)
    return _page(request, found, form, asked, _shown(answer))


def _note(request: HttpRequest, found: Operation, form: Form, status: int | None) -> None:
    """Write into the audit what was run as whoever is signed in; names of messages are left out, masks may be on."""
    named = [f"{name} {form.values[name]}" for name in ("topic", "group") if form.values.get(name)]
    is_good = status is not None and status < 400
    AuditEntry.objects.create(
        user_id=_user_id(request),
        actor=request.user.get_username(),
        what=AuditEntry.What.DONE if is_good else AuditEntry.What.FAILED,
        kind=as_me.KIND,
        reason=form.reason.strip(),
        result={
            "name": ", ".join([f"{found.method} {found.path}", *named]),
            "answer": "no answer" if status is None else str(status),
        },
    )


def _grant(request: HttpRequest, found: Operation) -> Any:
    return grant_of(request.user, (found.route.permission,))


def _user_id(request: HttpRequest) -> int:
    user: Any = request.user
    return int(user.pk)


def _sent(request: HttpRequest) -> Form:
    typed = {name: str(text).replace("\0", "") for name, text in request.POST.items()}
    values = {name.removeprefix("in-"): text for name, text in typed.items() if name.startswith("in-")}
    return Form(values, request.POST.get("body", ""), request.POST.get("reason", ""))


def _typed_before(request: HttpRequest, found: Operation) -> Form:
    """Return the form as it begins: with what was typed before the password was asked for, or with the example."""
    typed = presence.take_typed(request)
    values = {name.removeprefix("in-"): text for name, text in typed.items() if name.startswith("in-")}
    return Form(values or _BEGIN, typed.get("body", _example(found)), typed.get("reason", ""))


def _example(found: Operation) -> str:
    """Return the body to begin with, without what the form has fields of its own for."""
    if not found.example:
        return ""
    body = {name: value for name, value in json.loads(found.example).items() if name not in OWN_FIELDS}
    return json.dumps(body, indent=2, ensure_ascii=False)


def _asked(found: Operation, form: Form) -> Asked:
    """Return the request that the form is; what is wrong with it is written into the form."""
    route = found.route
    given = {name: text for name, text in form.values.items() if text.strip()}
    for each in found.parameters:
        if each.place == "path" and each.name not in given:
            form.faults[f"in-{each.name}"] = _("Required.")
        elif len(given.get(each.name, "")) > VALUE_LENGTH:
            form.faults[f"in-{each.name}"] = _("At most %(count)s characters.") % {"count": VALUE_LENGTH}
    by_place = {
        place: {each.name: given[each.name] for each in found.parameters if each.place == place and each.name in given}
        for place in ("path", "query")
    }
    asked = Asked(route, by_place["path"], by_place["query"], _body(found, form), given.get(_KEY, ""))
    return asked.bare if route.is_change else asked


def _body(found: Operation, form: Form) -> Any:
    if found.route.body is None or (found.route.is_body_optional and not form.body.strip()):
        return None
    if len(form.body.encode("utf-8", "replace")) > MAX_SINGLE_BYTES:
        form.faults["body"] = _("This is too large for the form.")
        return None
    try:
        body = json.loads(form.body)
        # halves of characters can be written in JSON, and not be sent
        json.dumps(body, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        form.faults["body"] = _("This is not JSON: %(error)s") % {"error": error}
        return None
    if not isinstance(body, dict):
        form.faults["body"] = _("This is not a JSON object.")
        return None
    return body


def _shown(answer: Answered, *, is_preview: bool = False) -> Shown:
    cut = answer.body[:SHOWN_BYTES]
    text = cut.decode("utf-8", "replace")
    is_cut = len(cut) < len(answer.body)
    if text and not is_cut:
        text = json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    return Shown(answer, text, is_cut, is_preview)


def _page(
    request: HttpRequest,
    found: Operation,
    form: Form,
    asked: Asked | None = None,
    shown: Shown | None = None,
    *,
    mark: str = "",
    status: int = 200,
) -> HttpResponse:
    inputs = [
        Input(f"in-{each.name}", each.name, each.place, each.is_required and each.place == "path", each.about,
              form.values.get(each.name, ""))
        for each in found.parameters if each.name not in OWN_FIELDS
    ]  # fmt: skip
    context: dict[str, Any] = {
        "here": "reference",
        "call": found,
        "form": form,
        "inputs": inputs,
        "mark": mark,
        "shown": shown,
        "may": request.user.has_perm(found.route.permission),
        "permission": _permission(found.route.permission),
        "line": _line(request, found, asked, form),
        "reason_length": REASON_LENGTH,
        "takes_body": found.route.body is not None,
    }
    answer = render(request, "api/operation.html", context, status=status)
    if shown is not None:
        add_never_cache_headers(answer)
    return answer


def _line(request: HttpRequest, found: Operation, asked: Asked | None, form: Form) -> str:
    """Return the request as a line for a shell: as it was sent, else as it may be."""
    if asked is None or form.faults:
        body = json.loads(found.example) if found.example else None
        return curl(_origin(request), found.method, found.route.path.removeprefix("/"), body)
    told = asked if not found.route.is_change else asked.because(form.reason.strip() or "...")
    headers = (f"Idempotency-Key: {asked.key}",) if asked.key else ()
    return curl(_origin(request), found.method, told.address, told.body, headers)


def _origin(request: HttpRequest) -> str:
    return f"{request.scheme}://{request.get_host()}"


def _permission(name: str) -> str:
    """Return what a permission is called in /admin/."""
    app, _dot, codename = name.partition(".")
    row = Permission.objects.filter(content_type__app_label=app, codename=codename).first()
    return _(row.name) if row is not None else name
