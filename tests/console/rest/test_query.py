"""Parameters in addresses: what each kind of field takes, and what is refused."""

from __future__ import annotations

from typing import Annotated, Literal

import pytest
from msgspec import Meta, Struct, field
from starlette.requests import Request

from console.rest.errors import InvalidMoment, InvalidParameter, ZoneMissing
from console.rest.query import Moment, parameters_of, read_query


class Wanted(Struct, kw_only=True):
    """One field of each kind."""

    from_ms: Annotated[Moment, Meta(description="From here.")] | None = field(name="from", default=None)
    limit: Annotated[int, Meta(ge=1, le=10)] = 5
    cursor: int | None = None
    state: Literal["open", "parked"] = "open"
    key: Annotated[str, Meta(min_length=1, max_length=3)] | None = None
    topic: str = ""


def read(address: str) -> Wanted:
    request = Request({"type": "http", "headers": [], "query_string": address.encode()})
    return read_query(request, Wanted, parameters_of(Wanted))


def test_what_is_left_out_has_its_default() -> None:
    assert read("") == Wanted()
    assert read("limit=7") == Wanted(limit=7)


def test_every_kind_is_read() -> None:
    whole = read("from=2027-01-31T08:00:00Z&limit=10&cursor=0&state=parked&key=abc&topic=")
    assert whole == Wanted(from_ms=1_801_382_400_000, limit=10, cursor=0, state="parked", key="abc", topic="")
    assert read("from=5").from_ms == 5


@pytest.mark.parametrize(
    ("address", "error"),
    [
        ("limit=0", InvalidParameter),
        ("limit=11", InvalidParameter),
        ("limit=", InvalidParameter),
        ("limit=1.5", InvalidParameter),
        ("cursor=-1", InvalidParameter),
        ("state=shut", InvalidParameter),
        ("key=", InvalidParameter),
        ("key=abcd", InvalidParameter),
        ("from=soon", InvalidMoment),
        ("from=2027-01-31T08:00:00", ZoneMissing),
        ("from_ms=5", InvalidParameter),
        ("limit=1&limit=1", InvalidParameter),
    ],
)
def test_anything_else_is_refused(address: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        read(address)


def test_the_description_has_names_and_bounds() -> None:
    told = {each.name: each for each in parameters_of(Wanted)}
    assert list(told) == ["from", "limit", "cursor", "state", "key", "topic"]
    assert told["limit"].schema == {"type": "integer", "minimum": 1, "maximum": 10}
    assert told["state"].schema == {"type": "string", "enum": ["open", "parked"]}
    assert told["from"].description == "From here."


def test_a_field_of_another_type_is_no_parameter() -> None:
    class Odd(Struct):
        sizes: list[int] = []

    with pytest.raises(TypeError, match="sizes"):
        parameters_of(Odd)
