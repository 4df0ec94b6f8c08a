"""A table that is in memory and in a JSON file: a change is in both when the call returns, or in neither."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

from ..disk import atomic
from ..disk.files import Files
from . import json_file


class Kept(ABC):
    """What the owners of the small tables share. ``_memory`` names the attributes that a change may touch."""

    _memory: ClassVar[tuple[str, ...]] = ()

    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self._path = path

    def load(self) -> bool:
        """Read the file, or the version before; False if there is none that can be read."""
        return json_file.load(self._files, self._path, self._read) or False

    @abstractmethod
    def _read(self, value: dict[str, Any]) -> bool:
        """Take over what the file holds; raises what ``json_file.load`` takes for unreadable."""

    @abstractmethod
    def _content(self) -> dict[str, Any]:
        """Return what the file shall hold."""

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Save what the block changed in memory. Whatever goes wrong, in the block or while saving (a disk that is
        full, a value that cannot be written), memory is as it was, and the error goes on."""
        before = {name: _copy(getattr(self, name)) for name in self._memory}
        try:
            yield
            atomic.save(self._files, self._path, json_file.dump(self._content()))
        except BaseException:
            for name, value in before.items():
                setattr(self, name, value)
            raise


def _copy(value: Any) -> Any:
    """Tables are changed in place, what is in them is only ever replaced."""
    return dict(value) if isinstance(value, dict) else value
