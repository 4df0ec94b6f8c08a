"""Synchronous faces: each speaks through an asynchronous client, which belongs to one process.

A face that was made before a fork works in the child too: with a client of its own, that is made at its first use there
and connects anew. What had begun (consuming, above all) goes on in the parent alone.
"""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from types import TracebackType
from typing import Generic, Self, TypeVar

from .forks import forks

Core = TypeVar("Core")


class _Making:
    """The lock under which clients are made; a child has its own."""

    def __init__(self) -> None:
        self._begin()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        self.lock = threading.Lock()


_making = _Making()


class Face(ABC, Generic[Core]):
    """What all synchronous clients have in common; the end of a `with` block closes them."""

    def __init__(self, make: Callable[[], Core]) -> None:
        self._make = make
        self._made = make()
        self._generation = forks.generation
        #: closed before a fork, it stays so in the child
        self._is_closed = False

    @property
    def _core(self) -> Core:
        """The asynchronous client of this process."""
        if self._generation != forks.generation and not self._is_closed:
            with _making.lock:
                if self._generation != forks.generation:
                    self._made = self._renewed()
                    self._generation = forks.generation
        return self._made

    def _renewed(self) -> Core:
        """Another client, in the child of a fork."""
        return self._make()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @abstractmethod
    def close(self) -> None:
        """Let go of connections; twice is fine."""
