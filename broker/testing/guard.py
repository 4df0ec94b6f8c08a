"""The guard of a test run: a client for an address that is not the tests' own is refused when it is made.

Allowed are brokers and name services that this process has started for its tests, and what a test names itself. The
brokers that an allowed name server tells of are reached, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from ..reach import put_up, take_down


class OutsideRefused(AssertionError):
    """A test made a client for a broker that is not its own."""

    def __init__(self, address: str, allowed: Iterable[str]) -> None:
        known = ", ".join(sorted(allowed))
        here = f"Here are {known}." if known else "None is here: does the test ask for the fixture `escapement`?"
        super().__init__(
            f"A client was made for the name server {address}, which is outside of the tests. {here} Give the client"
            " `escapement.namesrv` (in Django it is in settings.ESCAPEMENT_NAMESRV while the test runs, so make clients"
            " when they are needed, not when a module is imported). If the test is to reach that broker, mark it"
            f' @pytest.mark.escapement_allow("{address}").'
        )
        self.address = address


class Guard:
    """The addresses that clients may be made for, and how often it was asked to refuse all others."""

    def __init__(self) -> None:
        self._allowed: Counter[str] = Counter()
        self._wanted = 0

    @property
    def allowed(self) -> frozenset[str]:
        """The addresses that are allowed now, host:port."""
        return frozenset(+self._allowed)

    def put_up(self) -> None:
        """Refuse what is not allowed, from now on."""
        self._wanted += 1
        put_up(self.check)

    def take_down(self) -> None:
        """Take back one `put_up`; after the last, nothing is refused."""
        self._wanted -= 1
        if self._wanted <= 0:
            take_down(self.check)

    @contextmanager
    def refusing(self) -> Iterator[None]:
        """Refuse what is not allowed inside the block."""
        self.put_up()
        try:
            yield
        finally:
            self.take_down()

    def allow(self, address: str) -> None:
        """Allow an address until as many calls of `forbid` have named it."""
        self._allowed[_plain(address)] += 1

    def forbid(self, address: str) -> None:
        """Take back one `allow`."""
        self._allowed[_plain(address)] -= 1

    @contextmanager
    def allowing(self, addresses: Iterable[str]) -> Iterator[None]:
        """Allow these inside the block."""
        wanted = [part for each in addresses for part in each.replace(",", ";").split(";") if part.strip()]
        for address in wanted:
            self.allow(address)
        try:
            yield
        finally:
            for address in wanted:
                self.forbid(address)

    def check(self, namesrv: Sequence[str]) -> None:
        """Raise OutsideRefused for the first address that is not allowed."""
        for address in namesrv:
            if self._allowed[_plain(address)] <= 0:
                raise OutsideRefused(address, self.allowed)


def _plain(address: str) -> str:
    """Return the address in the form in which two of the same are equal."""
    host, _, port = address.strip().lower().rpartition(":")
    return f"{'127.0.0.1' if host in ('localhost', '[::1]') else host}:{port}"


guard = Guard()
