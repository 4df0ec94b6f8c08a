"""Calls of one of our functions, seen from outside by the interpreter's profiling hook: the real function runs.

For tests that count calls, and for those that let something happen at the one moment at which it matters. Only calls
in the thread that entered the block are seen.
"""

from __future__ import annotations

import dis
import inspect
import sys
from collections.abc import Callable, Mapping
from types import CodeType, FrameType
from typing import Any, Self


class Calls:
    """Counts calls of functions, coroutine functions too, while a `with` block runs.

    `most`: one call more fails where it is made. `before` gets the arguments when a call begins; `after` gets them and
    what it returns when it ends. Neither is seen itself, whatever it calls.
    """

    def __init__(
        self,
        *functions: Callable[..., Any],
        most: int | None = None,
        before: Callable[[Mapping[str, Any]], None] | None = None,
        after: Callable[[Mapping[str, Any], Any], None] | None = None,
    ) -> None:
        self.count = 0
        codes: list[CodeType] = [inspect.unwrap(each).__code__ for each in functions]
        self._begins = {code: _begin(code) for code in codes}
        self._most, self._before, self._after = most, before, after

    def __enter__(self) -> Self:
        assert sys.getprofile() is None, "one at a time"
        sys.setprofile(self._seen)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _seen(self, frame: FrameType, event: str, result: Any) -> None:
        begin = self._begins.get(frame.f_code)
        if begin is None:
            return
        # a coroutine that goes on is a call to the hook as well
        if event == "call" and frame.f_lasti == begin:
            self.count += 1
            assert self._most is None or self.count <= self._most, f"more than {self._most} calls"
            if self._before is not None:
                self._before(frame.f_locals)
        elif event == "return" and self._after is not None:
            self._after(frame.f_locals, result)


def _begin(code: CodeType) -> int:
    """Where it begins, whether it is called or sent into for the first time."""
    return next(each.offset for each in dis.get_instructions(code) if each.opname == "RESUME")
