"""Where clients of this process may go: anywhere, unless a guard refuses the address.

Tests put one up (testing/guard.py), so that none reaches a broker that is not theirs. It stands below the client and is
small: who only puts one up need not load a client for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

Guard = Callable[[Sequence[str]], None]
"""Called with the name servers (host:port) of a client that is about to be made; raises to refuse it."""

_guards: list[Guard] = []


def put_up(guard: Guard) -> None:
    """Ask this guard as well from now on; again is fine."""
    if guard not in _guards:
        _guards.append(guard)


def take_down(guard: Guard) -> None:
    """Ask this guard no more; again is fine."""
    if guard in _guards:
        _guards.remove(guard)


def check_reach(namesrv: Sequence[str]) -> None:
    """Ask whether a client may be made for these name servers; raises what a guard raises."""
    for guard in _guards:
        guard(namesrv)
