"""What a token has to allow for an operation, as the table of operations says it."""

from __future__ import annotations

from dataclasses import dataclass

#: on some name: the handler narrows
SOMEWHERE = "somewhere"
#: as SOMEWHERE, and policies have to allow figures of the whole cluster
OVERVIEW = "overview"
#: on every name
EVERYWHERE = "everywhere"


@dataclass(frozen=True, slots=True)
class Need:
    """One of `actions` on the name that the address has as its parameter `of`, or SOMEWHERE, OVERVIEW, EVERYWHERE.

    Of several actions the first one counts that the token has at all. `kind` says what the name is of: topic, group or
    producer group.
    """

    actions: tuple[str, ...]
    of: str
    kind: str = "topic"
