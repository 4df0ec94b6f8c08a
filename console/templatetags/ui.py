"""Parts that many pages are made of; their markup stands in `templates/ui/`.

A part with a closing tag encloses what the page writes between the two. Titles and texts come translated: `_("Title")`
in the tag, or a variable where `blocktranslate … asvar` made one.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Protocol

from django import template
from django.forms.utils import flatatt
from django.http import QueryDict
from django.template.base import Template
from django.template.context import Context
from django.urls import get_script_prefix, reverse
from django.utils.http import urlencode
from django.utils.safestring import SafeString
from django.utils.translation import get_language
from django.utils.translation import gettext as _

from console.site.chosen import choice_of, choosing
from console.site.evidence import Evidence
from console.templatetags.visible import visible
from console.ui.frame import places_for, sections_with

register = template.Library()

#: what a template of a field is given
Field = dict[str, object]


class Given(Protocol):
    """What was given for a field of a form, and what was wrong with it."""

    value: object
    fault: str | None


#: an id shorter than this stands as it is; of others that have no room so many characters of the end are shown
_SHORT_ID, _ID_END = 20, 8
#: attributes that are there or not
_SWITCHES = {"autofocus", "data-enter", "required"}
#: the mark that a note begins with, by its tone
_NOTE_MARKS = {"": "look", "brass": "look", "ruby": "broken", "plain": "idle"}


@register.simple_tag
def address(name: str, *args: object, **query: object) -> str:
    """The address of a page with its query; parameters that are None or empty are left out."""
    asked = urlencode({key: str(value) for key, value in query.items() if value not in (None, "")})
    return reverse(name, args=args) + (f"?{asked}" if asked else "")


@register.simple_tag
def address_at(of: Any, broker: str, name: str, *args: object) -> str:
    """The address of a page of one broker, where `of` has rows of several; else of what this page is about."""
    if not of.has_several:
        return reverse(name, args=args)
    with choosing(choice_of(broker)):
        return reverse(name, args=args)


@register.simple_tag(takes_context=True)
def frame_part(context: Context, name: str) -> SafeString:
    """A template of what surrounds every page, given the page's place in the rail (`here`) and the rail's `sections`.

    It is rendered once for all pages of a place, as these parts take as long as a short page.
    """
    assert context.template is not None, "a part is drawn while its page is"
    part = context.template.engine.get_template(name)
    user = context.get("user")
    places = tuple(place.name for place in places_for(user)) if user is not None else ()
    return _frame_part(part, places, context.get("here", ""), get_language(), get_script_prefix())


@lru_cache(maxsize=1024)
def _frame_part(part: Template, places: tuple[str, ...], here: str, _language: str | None, _prefix: str) -> SafeString:
    return part.render(Context({"sections": list(sections_with(places)), "here": here}))


@register.simple_block_tag(takes_context=True)
def sheet(
    context: Context,
    content: str,
    title: str,
    name: str,
    *,
    lead: str = "",
    evidence: Evidence | None = None,
    now_ms: int = 0,
    is_fixed: bool = False,
) -> SafeString:
    """A container with a title, a sentence beside it, and who said what it shows.

    `name` is its id, by which an open page replaces it; its title's is the same with "-title". One that `is_fixed` is
    never replaced, and has none.
    """
    head = {"title": title, "name": name, "lead": lead, "evidence": evidence, "now_ms": now_ms, "is_fixed": is_fixed}
    return _part(context, "ui/sheet.html", content=content, **head)


@register.simple_block_tag(takes_context=True)
def page_head(
    context: Context, content: str, title: str, lead: str = "", kind: str = "", copied: str = ""
) -> SafeString:
    """The name of a page and what it is about; enclosed is what can be done with all of it, at the right.

    `copied` is what a button beside the name copies.
    """
    return _part(context, "ui/page_head.html", title=title, lead=lead, kind=kind, copied=copied, content=content)


@register.simple_block_tag(takes_context=True)
def plain_table(context: Context, content: str, caption: str, labelled_by: str = "", kind: str = "") -> SafeString:
    """A table that scrolls sideways where it is wider than the page; its caption is for who does not see it.

    With `labelled_by`, the id of a title, it takes the focus, so that the keys scroll it.
    """
    return _part(context, "ui/plain_table.html", caption=caption, labelled_by=labelled_by, kind=kind, content=content)


@register.simple_block_tag(takes_context=True)
def note(context: Context, content: str, tone: str = "", role: str = "") -> SafeString:
    """Something to know before the rest: "" and "brass" worth a look, "ruby" a failure, "plain" no more than said."""
    mark = _NOTE_MARKS[tone]
    return _part(
        context,
        "ui/note.html",
        tone=tone,
        mark=mark,
        role=role or ("alert" if tone == "ruby" else "note"),
        content=content,
    )


@register.simple_block_tag
def written(content: str) -> str:
    """What is written between the two, kept under a name (`as`) for the part that takes it as one of its texts."""
    return content


@register.simple_tag
def if_same(one: object, other: object, value: object) -> object:
    """The value where the first two are the same, or nothing: what a tag is given only then."""
    return value if one == other else ""


@register.inclusion_tag("ui/figure.html")
def figure(title: str, value: object, note: str | None = None, **look: Any) -> dict[str, object]:
    """One of a page's figures: what it is called, how much it is, and what to know about it.

    `brass` and `ruby` say whether it is worth a look or a failure, `tone` another look; `unit` is what is counted.
    """
    return _figure(title, value, note, **look)


@register.simple_block_tag(takes_context=True)
def noted_figure(context: Context, content: str, title: str, value: object, **look: Any) -> SafeString:
    """A figure whose note is what is enclosed."""
    return _part(context, "ui/figure.html", **_figure(title, value, content, **look))


def _figure(
    title: str,
    value: object,
    note: str | None,
    brass: object = None,
    ruby: object = None,
    tone: str = "",
    unit: str = "",
) -> dict[str, object]:
    shown = "brass" if brass else "ruby" if ruby else tone
    return {"title": title, "value": value, "note": note, "tone": shown, "unit": unit}


@register.simple_block_tag(takes_context=True)
def whole_broker(context: Context, content: str) -> SafeString:
    """Figures and drawings that brokers have of all topics together: to who sees some topics only they are told apart
    from his own, under one heading that says so; what is enclosed needs to say nothing."""
    return _part(context, "ui/whole_broker.html", content=content)


@register.simple_block_tag(takes_context=True)
def filters(
    context: Context,
    content: str,
    given: Mapping[str, object],
    names: str,
    *,
    errors: object = None,
    is_more: bool = False,
) -> SafeString:
    """The fields that a list is filtered by: on a telephone behind one line, which says how many of them are given.

    `names` are those of the fields in `given`, separated by blanks. What is wrong with one of them is never behind it.
    With `is_more` there are others before them.
    """
    count = sum(bool(given.get(name)) for name in names.split())
    shown = {"count": count, "is_open": bool(errors), "is_more": is_more, "content": content}
    return _part(context, "ui/filters.html", **shown)


@register.inclusion_tag("ui/text_field.html")
def text_field(title: str, name: str, value: object = None, maxlength: object = None, **more: Any) -> Field:
    """A line to write in, with its title; what else is given are attributes of the `<input>`.

    `fault` and `about` stand below it, `error` says that what is wrong with it stands elsewhere on the page
    (`field_errors`). With `is_quiet` only who does not see the page is told the title.
    """
    return _field(title, name, {"value": value}, maxlength=maxlength, **more)


@register.inclusion_tag("ui/asked_field.html")
def asked_field(title: str, name: str, given: Given, maxlength: int, about: str | None = None, **more: Any) -> Field:
    """A line of a form that keeps what was given last, with what was wrong with it."""
    value = "" if given.value is None else given.value
    more = {"fault": given.fault, "about": about, "autocomplete": "off", **more}
    return _field(title, name, {"value": value}, maxlength=maxlength, **more)


@register.inclusion_tag("ui/area_field.html")
def reason_field(value: str, fault: str | None = None, **more: Any) -> Field:
    """Why an operation is done, which the audit keeps."""
    more = {"rows": 2, "required": True, "fault": fault, **more}
    return {
        **_field(_("Reason (required; kept in the audit log)"), "reason", {}, maxlength=500, **more),
        "value": value,
    }


@register.inclusion_tag("ui/text_field.html")
def typed_field(title: str, value: str, fault: str | None = None, **more: Any) -> Field:
    """What has to be typed before something is done that needs it."""
    return _field(title, "typed", {"value": value}, autocomplete="off", required=True, fault=fault, **more)


@register.inclusion_tag("ui/area_field.html")
def area_field(title: str, name: str, value: object, maxlength: object, **more: Any) -> Field:
    """Several lines to write in; otherwise as `text_field`."""
    return {**_field(title, name, {}, maxlength=maxlength, **more), "value": value}


@register.simple_block_tag(takes_context=True)
def choice_field(context: Context, content: str, title: str, name: str, **more: Any) -> SafeString:
    """One of the enclosed options; otherwise as `text_field`."""
    return _part(context, "ui/choice_field.html", content=content, **_field(title, name, {}, **more))


def _field(
    title: str,
    name: str,
    first: dict[str, object],
    *,
    fault: str | None = None,
    about: str | None = None,
    error: object = None,
    is_quiet: bool = False,
    place: str = "",
    **more: Any,
) -> Field:
    """`place` is what a fault's id is made of, where two fields of a page have the same name."""
    place = place or name
    told = f"wrong-{place}" if fault else f"{name}-error" if error else f"about-{place}" if about else None
    more = {key.replace("_", "-"): value for key, value in more.items() if value != ""}
    if told is not None:
        more["aria-describedby"] = told
    if fault or error:
        more["aria-invalid"] = "true"
    more |= {key: bool(more[key]) for key in _SWITCHES & more.keys()}
    written = flatatt({"name": name}) + flatatt(first) + flatatt(more)
    shown = {"title": title, "attributes": written, "is_quiet": is_quiet}
    return {**shown, "name": place, "fault": fault, "about": about}


@register.inclusion_tag("ui/shortened.html")
def shortened(text: object) -> dict[str, str]:
    """An id: where it has no room its middle gives way to an ellipsis; it is whole for the mouse, and when copied."""
    shown = visible("" if text is None else str(text))
    at = 0 if len(shown) < _SHORT_ID else len(shown) - _ID_END
    return {"start": shown[:at], "end": shown[at:]}


@register.inclusion_tag("ui/copies.html")
def copies(value: object, in_row: bool = False) -> dict[str, object]:
    """A button that copies an id, a key or a name; nothing where there is none.

    `in_row`: it stands in a row of a list, seen while the row is pointed at and passed by the tab key: a letter copies.
    """
    return {"copied": "" if value is None else str(value), "in_row": in_row}


@register.inclusion_tag("ui/quoted.html")
def quoted(text: object, kind: str = "") -> dict[str, object]:
    """Lines as they are, with a button that copies them: a body, a command, a secret."""
    return {"text": text, "kind": kind}


@register.inclusion_tag("ui/field_errors.html")
def field_errors(errors: Mapping[str, str], kind: str = "note") -> dict[str, object]:
    """What is wrong with the fields of a form, below all of them."""
    return {"errors": errors, "kind": kind}


@register.inclusion_tag("ui/act.html", takes_context=True)
def act(context: Context, verb: str, kind: str, field: str, value: object, harm: bool = False) -> dict[str, object]:
    """A button that leads to the preview of an operation on one thing, which a hidden field names."""
    shown = {"verb": verb, "kind": kind, "field": field, "value": value, "harm": harm}
    return {**shown, "csrf_token": context.get("csrf_token")}


@register.inclusion_tag("ui/name_filter.html", takes_context=True)
def name_filter(context: Context, title: str, value: str, maxlength: int) -> dict[str, object]:
    """The line that a list is filtered with, which stays in its order."""
    request = context.get("request")
    order = request.GET.get("order", "") if request is not None else ""
    return {"title": title, "value": value, "maxlength": maxlength, "order": order}


@register.inclusion_tag("ui/moment_chips.html")
def moment_chips(name: str) -> dict[str, object]:
    """Times that are asked for most, for the field of this name: a script writes the one that is pressed into it."""
    return {"name": name}


@register.inclusion_tag("ui/which_rows.html")
def which_rows(all_of_them: str) -> dict[str, object]:
    """Whether something is done with the rows that are ticked or with all that the list could show."""
    return {"all_of_them": all_of_them}


@register.inclusion_tag("ui/state.html")
def state(mark: str, words: str, tone: str = "") -> dict[str, object]:
    """A word for a state beside the mark that says the same by its shape."""
    return {"mark": mark, "words": words, "tone": tone}


@register.inclusion_tag("ui/empty_state.html")
def empty_state(title: str, text: str = "") -> dict[str, object]:
    """What stands where a list would, when there is nothing: that it is so, and what to do about it."""
    return {"title": title, "text": text}


@register.inclusion_tag("ui/pager.html", takes_context=True)
def pager(context: Context, previous: int | None, following: int | None) -> dict[str, object]:
    """The way to the stretches of a list before and after this one, by their offsets; the rest of the query stays."""
    request = context.get("request")
    asked = request.GET if request is not None else QueryDict()
    return {"before": _at(asked, previous), "after": _at(asked, following)}


def _at(asked: QueryDict, offset: int | None) -> str:
    """The query of another stretch; empty where there is none."""
    if offset is None:
        return ""
    query = asked.copy()
    query["offset"] = str(offset)
    return f"?{query.urlencode()}"


def _part(context: Context, part: str, /, **values: object) -> SafeString:
    """A template of `templates/ui/` with these values and nothing else of the page."""
    assert context.template is not None, "a part is drawn while its page is"
    made = context.template.engine.get_template(part)
    return made.render(context.new(values))
