"""A message as somebody writes it in the console: every part checked, the whole made ready to be sent.

Its parameters in their one form; what is not given is not there:

    topic, body             always; a body in base64 stays as it was written
    body_as                 "json" (checked, sent as it was written) or "base64"; else it is text
    tag, keys, properties   a word, words, texts by name
    delay_level             1 to 18
    deliver_at_ms           a moment; or delay_ms, from when the broker takes it
    schedule_key            with a moment; on_conflict ("replace" or "keep") says what to do if one waits under it
    sharding_key            messages of one such key go to one queue
    producer_group          it is sent as a half, which the producers of this group decide

Nothing is asked of a broker here. What is wrong is said of the field in which it was written.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from django.utils.translation import gettext as _

from broker.client import InvalidArgument, Outgoing, Timing, as_half, prepare
from broker.client.names import MAX_BODY_BYTES, check_group
from broker.rocketmq.properties import OWN_PREFIX, SYSTEM_PROPERTIES
from console.operations.errors import InvalidName, InvalidParameter
from console.operations.typed_moments import bare_span_ms, delay_ms, is_shift, moment_ms
from console.rest.request_body import check_topic_to_send_to
from console.site.chosen import chosen
from console.site.parsing import whole_number

#: a larger body is sent by REST, which takes MAX_BODY_BYTES
MOST_BODY_BYTES = 65_536
#: no body of so many bytes is written with more characters: base64 of it, with line ends
_MOST_CHARACTERS = 2 * MOST_BODY_BYTES
BODY_FORMS = ("text", "json", "base64")
CONFLICTS = ("error", "replace", "keep")
#: what the client calls a field, and where that stands in the form
_FIELDS: Mapping[str, str] = {
    "deliver_at_ms": "moment",
    "delay_ms": "moment",
    "delay_level": "when",
    "group": "producer_group",
}
#: texts and constants of JSON as Python takes it: the constants are none
_STRING_OR_CONSTANT = re.compile(r'"(?:[^"\\]|\\.)*+"|-?Infinity|NaN', re.DOTALL).finditer
_NOT_BASE64 = re.compile(r"[^A-Za-z0-9+/=\s]").search
#: PostgreSQL keeps neither in a text, and no byte of UTF-8 stands for the second
_NOT_KEPT = re.compile("[\x00\ud800-\udfff]").search


def checked_message(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters in their one form; raises InvalidParameter."""
    topic = _text(given, "topic")
    try:
        check_topic_to_send_to(topic)
    except InvalidArgument as error:
        raise InvalidName("topic", error) from None
    made: dict[str, Any] = {"topic": topic, **_checked_body(given, topic)}
    made |= {
        "tag": _text(given, "tag"),
        "keys": _words(given),
        "properties": _checked_properties(given),
        **_checked_timing(given),
        "sharding_key": _text(given, "sharding_key"),
        "producer_group": _text(given, "producer_group"),
    }
    if re.search(r"[\s|]", made["tag"]):
        raise InvalidParameter("tag", _("A tag is one word, without blanks and “|”."))
    made = {name: value for name, value in made.items() if value or name == "body"}
    if "producer_group" in made and "schedule_key" in made and made.get("on_conflict") != "replace":
        raise InvalidParameter(
            "on_conflict",
            _("A half message becomes a timer on commit, too late to reject it: choose to replace."),
        )
    outgoing(made)
    return made


def outgoing(parameters: Mapping[str, Any]) -> Outgoing:
    """Return the message with a new id, as it is sent to the brokers that are chosen; raises InvalidParameter."""
    timing: Timing = {}
    for name in ("deliver_at_ms", "delay_ms", "schedule_key", "on_conflict"):
        if name in parameters:
            timing[name] = parameters[name]
    group = parameters.get("producer_group")
    try:
        message = prepare(
            body_bytes(parameters),
            tag=parameters.get("tag"),
            keys=parameters.get("keys", ()),
            properties=parameters.get("properties"),
            delay_level=parameters.get("delay_level", 0),
            sharding_key=parameters.get("sharding_key"),
            broker=chosen().broker or None,
            **timing,
        )
        if not group:
            return message
        check_group(group)
        return as_half(message, group)
    except InvalidArgument as error:
        raise InvalidParameter(_FIELDS.get(error.field or "", error.field or ""), str(error)) from None


def body_bytes(parameters: Mapping[str, Any]) -> bytes:
    """Return the body as it is sent."""
    if parameters.get("body_as") == "base64":
        return base64.b64decode(parameters["body"])
    return str(parameters["body"]).encode()


def _text(given: Mapping[str, Any], name: str) -> str:
    """Return a text that can be kept and sent; "" for none."""
    found = given.get(name)
    if found is None:
        return ""
    if not isinstance(found, str):
        raise InvalidParameter(name, _("%(name)s must be a string.") % {"name": name})
    if _NOT_KEPT(found):
        raise InvalidParameter(
            name, _("It contains a character that cannot be sent (U+0000, or half of a surrogate pair).")
        )
    return found


def _words(given: Mapping[str, Any]) -> list[str]:
    words = given.get("keys") or []
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise InvalidParameter("keys", _("Keys must be a list of strings."))
    if any(not word or re.search(r"\s", word) or _NOT_KEPT(word) for word in words):
        raise InvalidParameter("keys", _("A key is one word, without blanks."))
    return words


def _checked_properties(given: Mapping[str, Any]) -> dict[str, str]:
    found = given.get("properties") or {}
    if not isinstance(found, Mapping):
        raise InvalidParameter("properties", _("Properties must be strings by name."))
    for name, text in found.items():
        if not isinstance(name, str) or not isinstance(text, str) or _NOT_KEPT(name + text):
            raise InvalidParameter("properties", _("Properties must be strings by name."))
        if name in SYSTEM_PROPERTIES or name.startswith(OWN_PREFIX):
            raise InvalidParameter(
                "properties", _("“%(name)s” belongs to the broker: use another name.") % {"name": name}
            )
    return dict(found)


def _checked_timing(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return when it is to come, and the key under which it waits."""
    made: dict[str, Any] = {}
    for name in ("delay_level", "deliver_at_ms", "delay_ms"):
        number = given.get(name)
        if number is None or number == 0:
            continue
        if not isinstance(number, int) or isinstance(number, bool) or number < 0:
            raise InvalidParameter(_FIELDS[name], _("%(name)s must be an integer of 0 or more.") % {"name": name})
        made[name] = number
    if len(made) > 1:
        raise InvalidParameter("when", _("Give only one of delay level, time and delay."))
    key, conflict = _text(given, "schedule_key"), given.get("on_conflict") or "error"
    if conflict not in CONFLICTS:
        raise InvalidParameter("on_conflict", _("It must be one of %(choices)s.") % {"choices": ", ".join(CONFLICTS)})
    if key and not {"deliver_at_ms", "delay_ms"} & made.keys():
        raise InvalidParameter("schedule_key", _("A schedule key needs a time or a delay."))
    if key:
        made["schedule_key"] = key
    if key and conflict != "error":
        made["on_conflict"] = conflict
    return made


# The body.


def _checked_body(given: Mapping[str, Any], topic: str) -> dict[str, str]:
    form, text = given.get("body_as") or "text", _text(given, "body")
    if form not in BODY_FORMS:
        raise InvalidParameter("body_as", _("It must be one of %(choices)s.") % {"choices": ", ".join(BODY_FORMS)})
    _check_size(len(text), topic, most=_MOST_CHARACTERS)
    if form == "json":
        _check_json(text)
    if form == "base64":
        text = _checked_base64(text)
    made = {"body": text, **({} if form == "text" else {"body_as": form})}
    _check_size(len(body_bytes(made)), topic)
    return made


def _check_size(size: int, topic: str, most: int = MOST_BODY_BYTES) -> None:
    if size > most:
        said = _(
            "The body has %(size)s bytes; the limit here is %(most)s. Send it by REST, which takes %(rest)s: "
            "POST /api/v1/topics/%(topic)s/messages"
        )
        sizes = {"size": f"{size:,}", "most": f"{MOST_BODY_BYTES:,}", "rest": f"{MAX_BODY_BYTES:,}"}
        raise InvalidParameter("body", said % {**sizes, "topic": topic})


def _check_json(text: str) -> None:
    """Raise InvalidParameter with the place at which it is no JSON; numbers stay texts, however long they are."""
    try:
        json.loads(text, parse_int=str, parse_float=str, parse_constant=str)
    except json.JSONDecodeError as error:
        raise _no_json(error.lineno, error.colno, error.msg) from None
    except RecursionError:
        raise InvalidParameter("body", _("The JSON is nested too deep to be checked: send it as text.")) from None
    for found in _STRING_OR_CONSTANT(text):
        if not found[0].startswith('"'):
            raise _no_json(*_place(text, found.start()), f"{found[0]} is no value of JSON")


def _no_json(line: int, column: int, why: str) -> InvalidParameter:
    said = _("Not valid JSON at line %(line)s, column %(column)s: %(why)s.")
    return InvalidParameter("body", said % {"line": line, "column": column, "why": why})


def _checked_base64(text: str) -> str:
    """Return it without blanks and line ends; raises InvalidParameter with the place of what is none."""
    if found := _NOT_BASE64(text):
        line, column = _place(text, found.start())
        said = _("Not valid base64 at line %(line)s, column %(column)s: “%(letter)s” is not allowed.")
        raise InvalidParameter("body", said % {"line": line, "column": column, "letter": found[0]})
    compact = "".join(text.split())
    try:
        base64.b64decode(compact, validate=True)
    except binascii.Error:
        raise InvalidParameter("body", _("Not valid base64: it ends too early, or has “=” before its end.")) from None
    return compact


def _place(text: str, at: int) -> tuple[int, int]:
    """Return line and column, both from 1 on."""
    return text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)


# The form.

#: what is written into the form, in its order
WRITTEN = (
    "topic", "body_as", "body", "keys", "tag", "when", "moment", "schedule_key", "on_conflict", "properties",
    "sharding_key", "half", "producer_group",
)  # fmt: skip
AT_A_MOMENT = "moment"


def from_fields(sent: Mapping[str, str]) -> dict[str, Any]:
    """Return the parameters that a form asks for; raises InvalidParameter.

    What stands in a field that the choice before it does not ask for is left aside: the page does not show it.
    """
    made: dict[str, Any] = {name: sent.get(name, "") for name in ("topic", "body_as")}
    # a browser sends every line end as CR LF, however it was written
    made["body"] = sent.get("body", "").replace("\r\n", "\n")
    made["keys"] = sent.get("keys", "").split()
    made |= {name: sent.get(name, "").strip() for name in ("tag", "sharding_key")}
    made["properties"] = properties_of(sent.get("properties", ""))
    when = sent.get("when", "")
    if when == AT_A_MOMENT:
        made |= _typed_moment(sent.get("moment", ""))
        made |= {name: sent.get(name, "").strip() for name in ("schedule_key", "on_conflict")}
    elif when not in ("", "now"):
        level = whole_number(when, 1)
        if level is None:
            raise InvalidParameter("when", _("Choose when it is to be delivered."))
        made["delay_level"] = level
    if sent.get("half"):
        made["producer_group"] = sent.get("producer_group", "").strip()
        if not made["producer_group"]:
            raise InvalidParameter("producer_group", _("Enter the producer group that decides."))
    return made


def _typed_moment(text: str) -> dict[str, int]:
    if not is_shift(text) and bare_span_ms(text) is None:
        return {"deliver_at_ms": moment_ms(text)}
    span = delay_ms(text)
    if span <= 0:
        raise InvalidParameter("moment", _("That time has passed: choose a later one, or deliver immediately."))
    return {"delay_ms": span}


def properties_of(text: str) -> dict[str, str]:
    """Return the properties of lines `name=value`; raises InvalidParameter with the line that is none."""
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        name, equals, value = line.partition("=")
        name = name.strip()
        said = ""
        if not equals or not name:
            said = _("Line %(line)s is not of the form name=value.")
        elif name in found:
            said = _("Line %(line)s: “%(name)s” is a duplicate.")
        elif name in SYSTEM_PROPERTIES or name.startswith(OWN_PREFIX):
            said = _("Line %(line)s: “%(name)s” belongs to the broker, use another name.")
        if said:
            raise InvalidParameter("properties", said % {"line": number, "name": name[:80]})
        found[name] = value.strip()
    return found


def lines_of(properties: Mapping[str, str]) -> str:
    """Return the lines that `properties_of` reads; those that no line can hold are left out."""
    whole = [
        (name, text)
        for name, text in properties.items()
        if len((name + text).splitlines()) == 1 and "=" not in name and name == name.strip() and text == text.strip()
    ]
    return "\n".join(f"{name}={text}" for name, text in whole)


def most_of(body: str, characters: int) -> str:
    """Return the beginning of a body, and that there is more."""
    return body if len(body) <= characters else f"{body[:characters]}…"


def rest_body(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the message as REST takes it."""
    made: dict[str, Any] = {"body_base64" if parameters.get("body_as") == "base64" else "body": parameters["body"]}
    names: Sequence[tuple[str, str]] = (
        ("tag", "tag"), ("keys", "keys"), ("properties", "properties"), ("delay_level", "delay_level"),
        ("deliver_at_ms", "deliver_at"), ("delay_ms", "delay_ms"), ("schedule_key", "schedule_key"),
        ("on_conflict", "on_conflict"), ("sharding_key", "sharding_key"),
    )  # fmt: skip
    made |= {theirs: parameters[ours] for ours, theirs in names if ours in parameters}
    return {**made, **({"broker": chosen().broker} if chosen().broker else {})}
