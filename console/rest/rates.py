"""How often a token may ask: so many requests a second, those of one second at once.

Each process counts for itself, and the web process is one (console.site.web).
"""

from __future__ import annotations

import time
from collections.abc import Callable

from console.rest.errors import TokenLimited
from console.security.tokens import Grant

#: tokens that are counted at the same time; when there are more, all begin anew
MAX_COUNTED = 10_000


class Rates:
    """The requests of tokens that have a limit; the clock is in seconds."""

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        #: by prefix: requests that are left, and when that was counted
        self._left: dict[str, tuple[float, float]] = {}

    def require(self, grant: Grant) -> None:
        """Count a request; raises TokenLimited."""
        most = grant.requests_per_s
        if not most:
            return
        now_s = self._clock_s()
        left, at_s = self._left.get(grant.prefix, (float(most), now_s))
        left = min(float(most), left + (now_s - at_s) * most)
        if left < 1:
            raise TokenLimited(f"The token {grant.name!r} may ask {most} times a second.")
        if len(self._left) >= MAX_COUNTED:
            self._left.clear()
        self._left[grant.prefix] = (left - 1, now_s)
