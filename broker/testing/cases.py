"""For tests without pytest: `EscapementTestCase`, in front of the class of unittest or Django that a test case has.

>>> class ReminderTests(EscapementTestCase, TestCase):
...     def test_it_goes_out_after_a_day(self):
...         remind("4711")
...         self.escapement.forward(hours=24)
...         self.escapement.assert_sent("reminders", body="4711")
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any, ClassVar
from unittest import TestCase

from .guard import guard
from .kit import Escapement


class EscapementTestCase(TestCase):
    """A test case whose tests have a broker each, `self.escapement`, as the fixture of pytest.

    Clients of other brokers are refused while a test runs, but for those of `escapement_allow`.
    """

    escapement: Escapement
    #: name servers that clients may be made for, host:port
    escapement_allow: ClassVar[tuple[str, ...]] = ()
    #: the delay levels of the broker, as "1s 5s 10s"; RocketMQ's if none are given
    escapement_delay_levels: ClassVar[str | None] = None

    def run(self, result: Any = None) -> Any:
        """Run one test, with all that is set up for it, beside a broker."""
        behind = ExitStack()
        behind.enter_context(guard.refusing())
        behind.enter_context(guard.allowing(self.escapement_allow))
        self.escapement = behind.enter_context(Escapement(self.escapement_delay_levels))
        self.addCleanup(behind.close)  # so that what is wrong at the end is this test's error
        try:
            return super().run(result)
        finally:
            behind.close()
