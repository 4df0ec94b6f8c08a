"""The plug-in for pytest: the fixture `escapement`, and the guard.

| in the settings of pytest   | default |                                                                     |
|-----------------------------|---------|---------------------------------------------------------------------|
| `escapement_guard`          | true    | refuse clients of brokers that are not the tests' own               |
| `escapement_allow`          | none    | addresses (host:port, one a line) that clients may be made for      |
| `escapement_delay_levels`   | none    | the delay levels of the fixture's broker, as `1s 5s 10s`            |

`@pytest.mark.escapement_allow("host:port")` allows an address in one test.

It is loaded in every run of pytest where the package is installed: whatever costs time is imported when it is used.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from .guard import guard

if TYPE_CHECKING:
    from .kit import Escapement

MARK = "escapement_allow"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the settings of pytest.ini."""
    parser.addini("escapement_guard", "refuse clients of brokers outside of the tests", type="bool", default=True)
    parser.addini("escapement_allow", "name servers that clients may be made for", type="linelist", default=[])
    parser.addini("escapement_delay_levels", "delay levels of the fixture's broker", default="")


def pytest_configure(config: pytest.Config) -> None:
    """Put up the guard before any test is imported."""
    config.addinivalue_line("markers", f"{MARK}(*addresses): clients of these name servers may be made in the test")
    behind = ExitStack()
    behind.enter_context(guard.allowing(config.getini("escapement_allow")))
    if config.getini("escapement_guard"):
        behind.enter_context(guard.refusing())
    config.add_cleanup(behind.close)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Allow what the test is marked with, in its fixtures as well."""
    with guard.allowing(address for mark in item.iter_markers(MARK) for address in mark.args):
        return (yield)


@pytest.fixture
def escapement(request: pytest.FixtureRequest) -> Iterator[Escapement]:
    """The broker of one test, with a clock in the test's hand (see `Escapement`)."""
    from .kit import Escapement

    with Escapement(request.config.getini("escapement_delay_levels") or None) as running:
        yield running
