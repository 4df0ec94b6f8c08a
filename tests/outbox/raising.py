"""`pytest.raises` for blocks whose many statements are the point: the block, not one call, must raise."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class Changed(Exception):
    """The user's own error."""


@contextmanager
def raised(kind: type[BaseException]) -> Iterator[None]:
    """Fail unless the block ends with `kind`."""
    try:
        yield
    except kind:
        return
    raise AssertionError(f"{kind.__name__} was not raised")
