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
        #: brokers and name services of this process, that come and go on the same address
        self._own: set[str] = set()
        self._wanted = 0

    @property
    def allowed(self) -> frozenset[str]:
        """The addresses that are allowed now, host:port."""
        return frozenset(+self._allowed) | self._own

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

    def own(self, address: str) -> None:
        """Allow the address of a broker of the tests until it is disowned; again is fine."""
        self._own.add(_plain(address))

    def disown(self, address: str) -> None:
        """Allow the address of a broker no more, as it is gone; again is fine."""
        self._own.discard(_plain(address))

    @contextmanager
    def allowing(self, addresses: Iterable[str]) -> Iterator[None]:
        """Allow these inside the block."""
        parts = (part for each in addresses for part in each.replace(",", ";").split(";") if part.strip())
        wanted = Counter(map(_plain, parts))
        self._allowed += wanted
        try:
            yield
        finally:
            self._allowed -= wanted

    def check(self, namesrv: Sequence[str]) -> None:
        """Raise OutsideRefused for the first address that is not allowed."""
        for address in namesrv:
            if _plain(address) not in self.allowed:
                raise OutsideRefused(address, self.allowed)


def _plain(address: str) -> str:
    """Return the address in the form in which two of the same are equal."""
    host, _, port = address.strip().lower().rpartition(":")
    return f"{'127.0.0.1' if host in ('localhost', '[::1]') else host}:{port}"


guard = Guard()
