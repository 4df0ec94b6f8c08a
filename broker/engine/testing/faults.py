"""Calls of the file seam that fail when a test says so."""

from __future__ import annotations

import errno
from dataclasses import dataclass
from typing import Literal

Kind = Literal[
    "open",
    "read",
    "write",
    "allocate",
    "truncate",
    "sync",
    "rename",
    "remove",
    "make_directory",
    "sync_directory",
    "list",
]


@dataclass(frozen=True, slots=True)
class Fault:
    """The ``nth`` call of ``kind`` (counted from 1, on paths that contain ``path_part``) raises OSError.

    ``forever``: all later ones too. ``partial_bytes``: so much of a failing write is there nevertheless.
    """

    kind: Kind
    nth: int = 1
    error: int = errno.EIO
    forever: bool = False
    partial_bytes: int = 0
    path_part: str = ""

    def strikes(self, kind: str, count: int) -> bool:
        """Tell whether the ``count``-th call of ``kind`` fails."""
        return kind == self.kind and (count == self.nth or (self.forever and count > self.nth))

    def as_error(self, path: str) -> OSError:
        """Return what the call raises."""
        return OSError(self.error, f"simulated {errno.errorcode.get(self.error, self.error)} of {self.kind}", path)
