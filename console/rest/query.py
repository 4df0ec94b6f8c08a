"""Parameters in the address of a request, read strictly into the Struct that a route declares for them.

A field is a text, a whole number with its bounds, a choice of words or a moment (`Moment`); its name in the Struct's
`rename` or `name` is the one in the address. `Meta` has its description and bounds, from which OpenAPI is made, too.

Moments, in bodies as well, are RFC 3339 with a zone, or milliseconds since 1970. A time without a zone is refused,
never guessed. What is finer than a millisecond is rounded up: never early.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import NoneType
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta, Struct
from starlette.requests import Request

from console.rest.errors import InvalidMoment, InvalidParameter, ZoneMissing
from console.site.parsing import MOST, NoMoment, Why, read_moment, whole_number

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DIGITS = re.compile(r"[+-]?\d+", re.ASCII).fullmatch
_LATEST_MS = 2**63 - 1
#: Longer numbers in an address are no moments of any kind.
_MOST_DIGITS = 100


def moment_ms(value: str | int, field: str) -> int:
    """Return epoch ms; raise InvalidMoment or ZoneMissing, which name the field."""
    if isinstance(value, int):
        if not 0 <= value <= _LATEST_MS:
            written = f"{value}" if abs(value) < 10**40 else "with so many digits"
            raise InvalidMoment(f"{field} {written} is not valid: milliseconds since 1970, from 0 to 2^63 - 1.", field)
        return value
    try:
        return read_moment(value)
    except NoMoment as error:
        raise _refused(value, field, error.why) from None


def _refused(value: str, field: str, why: Why) -> InvalidMoment:
    given = f"{field} {value[:60]!r}"
    if why == "zone":
        return ZoneMissing(f"{given} has no zone: end it with Z or an offset such as +01:00.", field)
    if why == "early":
        return InvalidMoment(f"{given} is before 1970.", field)
    if why == "form":
        hint = " Give epoch milliseconds as a number, without quotes." if _DIGITS(value) else ""
        return InvalidMoment(f"{given} is not a time: write it as 2027-01-31T08:00:00+01:00 or ...Z.{hint}", field)
    return InvalidMoment(
        f"{given} is not a time: there is no such {'offset' if why == 'offset' else 'day or time'}.", field
    )


def parameter_ms(text: str, field: str) -> int:
    """Read a moment in the address: digits are epoch ms. A blank is a plus sign that was not encoded."""
    if len(text) <= _MOST_DIGITS and _DIGITS(text):
        return moment_ms(int(text), field)
    return moment_ms(text[:11] + text[11:].replace(" ", "+"), field)


def written_moment(ms: int) -> str:
    """Return epoch ms as RFC 3339 in UTC, for people; moments after the year 9999 as the number."""
    try:
        return (_EPOCH + timedelta(milliseconds=ms)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except OverflowError:
        return f"{ms} ms"


_MOMENT = object()
#: epoch ms; in the address RFC 3339 with a zone, or ms since 1970
Moment = Annotated[int, _MOMENT]

Query = TypeVar("Query", bound=Struct)


@dataclass(frozen=True, slots=True)
class Parameter:
    """A query parameter: its name in the address, its field, how its text is read, and what OpenAPI says of it."""

    name: str
    field: str
    read: Callable[[str], Any]
    schema: dict[str, Any]
    description: str


def parameters_of(kind: type[Struct]) -> tuple[Parameter, ...]:
    """Return the parameters of a Struct's fields; raises TypeError for a field that cannot be read from an address."""
    hints = get_type_hints(kind, include_extras=True)
    return tuple(_parameter(each.name, each.encode_name, hints[each.name]) for each in msgspec.structs.fields(kind))


def read_query(request: Request, kind: type[Query], parameters: tuple[Parameter, ...]) -> Query:
    """Return the parameters of a request as their Struct; raises InvalidParameter, InvalidMoment or ZoneMissing."""
    if not request.scope["query_string"]:
        return kind()
    check_names(request, *(each.name for each in parameters))
    given = request.query_params
    return kind(**{each.field: each.read(given[each.name]) for each in parameters if each.name in given})


def check_names(request: Request, *names: str) -> None:
    """Raise InvalidParameter for any other parameter in the address, and for one that stands there twice."""
    given = [name for name, _ in request.query_params.multi_items()]
    for name in given:
        if name not in names:
            raise InvalidParameter(f"There is no parameter {name[:100]!r} here.")
        if given.count(name) > 1:
            raise InvalidParameter(f"The parameter {name} is given {given.count(name):,} times; give it once.")


def _parameter(field: str, name: str, hint: Any) -> Parameter:
    kind, metas = _unpacked(hint)
    told = next((meta for meta in metas if isinstance(meta, Meta)), Meta())
    schema: dict[str, Any] = {"type": "string"}
    if _MOMENT in metas:
        read: Callable[[str], Any] = _moment_reader(name)
    elif get_origin(kind) is Literal:
        schema["enum"] = list(get_args(kind))
        read = _choice_reader(name, get_args(kind))
    elif kind is int:
        low, high = int(told.ge or 0), int(MOST if told.le is None else told.le)
        schema = {"type": "integer", "minimum": low, "maximum": high}
        read = _number_reader(name, low, high)
    elif kind is str:
        read = _text_reader(name, told.min_length or 0, told.max_length)
    else:
        raise TypeError(f"A parameter of the type {kind!r} is not read from addresses: {name}.")
    return Parameter(name, field, read, schema, told.description or "")


def _unpacked(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return the type of a field without None, and what is annotated to it."""
    if get_origin(hint) is Annotated:
        kind, metas = _unpacked(hint.__origin__)
        return kind, (*metas, *hint.__metadata__)
    if NoneType in get_args(hint):
        (kind,) = (each for each in get_args(hint) if each is not NoneType)
        return _unpacked(kind)
    return hint, ()


def _moment_reader(name: str) -> Callable[[str], int]:
    return lambda text: parameter_ms(text, name)


def _choice_reader(name: str, words: tuple[str, ...]) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in words:
            raise InvalidParameter(f"{name} is one of {', '.join(words)}.")
        return text

    return read


def _number_reader(name: str, low: int, high: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        number = whole_number(text, low, high)
        if number is None:
            raise InvalidParameter(f"{name} {text[:40]!r} is not valid: a whole number from {low:,} to {high:,}.")
        return number

    return read


def _text_reader(name: str, least: int, most: int | None) -> Callable[[str], str]:
    def read(text: str) -> str:
        if len(text) < least:
            raise InvalidParameter(f"{name} is empty: omit it, or give a value.")
        if most is not None and len(text) > most:
            raise InvalidParameter(f"{name} has {len(text):,} characters, at most {most:,} are taken.")
        return text

    return read
