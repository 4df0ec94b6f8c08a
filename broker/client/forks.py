"""A process that forks: its child must never write to, or wait for, what belongs to the parent's event loop.

`generation` grows in each child. In the child, the parent's connections are closed without a word to the other end:
descriptors are put over with /dev/null, so whoever still holds one can do no harm with it, nor with its number.
"""

from __future__ import annotations

import asyncio
import os
import selectors
from collections.abc import Iterable
from contextlib import suppress
from typing import Protocol
from weakref import WeakSet


class Inherited(Protocol):
    """What a child lets go of."""

    def let_go(self) -> int | None:
        """Forget the parent's end; returns its descriptor if there is one."""


class Forks:
    """What this process has to give up when it is a child."""

    def __init__(self) -> None:
        #: how many forks this process is away from the first
        self.generation = 0
        self._mine: WeakSet[Inherited] = WeakSet()
        self._selectors: list[selectors.BaseSelector] = []
        #: loops and connections of a parent: collected, they would tidy up in a selector that is the parent's too
        self._kept: list[object] = []
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._in_child)

    def note(self, one: Inherited) -> None:
        """A child shall let go of it; it is not kept alive by this."""
        self._mine.add(one)

    def new_loop(self) -> asyncio.AbstractEventLoop:
        """An event loop whose descriptors, all of them, a child lets go of."""
        if not hasattr(os, "register_at_fork"):
            return asyncio.new_event_loop()
        selector = selectors.DefaultSelector()
        loop = asyncio.SelectorEventLoop(selector)
        self._selectors.append(selector)
        self._kept.append(loop)
        return loop

    def _in_child(self) -> None:
        self.generation += 1
        descriptors = [descriptor for one in list(self._mine) if (descriptor := one.let_go()) is not None]
        for selector in self._selectors:
            descriptors += [key.fd for key in list(selector.get_map().values())]
            fileno = getattr(selector, "fileno", None)  # those of epoll and kqueue have one
            if fileno is not None:
                descriptors.append(fileno())
        self._kept += self._mine
        self._mine = WeakSet()
        self._selectors = []
        _close(descriptors)


def _close(descriptors: Iterable[int]) -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    try:
        for descriptor in set(descriptors):
            with suppress(OSError):
                os.dup2(nothing, descriptor, inheritable=False)
    finally:
        os.close(nothing)


forks = Forks()
