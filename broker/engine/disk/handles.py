"""A bounded number of open files: thousands of queues must not cost thousands of descriptors.

Used by one thread. Jobs that run beside it open and close what they need themselves.
"""

from __future__ import annotations

from collections import OrderedDict

from .files import NO_DESCRIPTOR, File, Files


class Handles:
    """The most recently used files of a store, open for reading."""

    def __init__(self, files: Files, limit: int = 96) -> None:
        self._files = files
        self._limit = limit
        self._open: OrderedDict[str, File] = OrderedDict()

    def get(self, path: str) -> File:
        """Return the file, opened now or before; raises FileNotFoundError.

        Where no descriptor is left, files that were used before are closed for it."""
        file = self._open.get(path)
        if file is not None:
            self._open.move_to_end(path)
            return file
        while True:
            try:
                file = self._files.open(path)
                break
            except OSError as error:
                if error.errno not in NO_DESCRIPTOR or not self._open:
                    raise
                self._open.popitem(last=False)[1].close()
        self._open[path] = file
        if len(self._open) > self._limit:
            self._open.popitem(last=False)[1].close()
        return file

    def forget(self, path: str) -> None:
        """Close a file that is about to be removed or replaced."""
        file = self._open.pop(path, None)
        if file is not None:
            file.close()

    def close(self) -> None:
        """Close all; closing twice is fine."""
        while self._open:
            self._open.popitem()[1].close()
