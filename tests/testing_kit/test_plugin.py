"""The plug-in in pytest runs of its own."""

from __future__ import annotations

import pytest

# what the runs within this one import stays imported
import broker.testing.cases
import broker.testing.plugin
from tests.house.sources import ROOT

PLUGIN = (
    "-p", "no:escapement",  # the one that is installed
    "-p", broker.testing.plugin.__name__, "-p", "no:django", "-o", "asyncio_default_fixture_loop_scope=function",
    "-W", "ignore::pytest.PytestAssertRewriteWarning",
)  # fmt: skip
USED = """
from broker.client import Producer

def test_one(escapement):
    with Producer("shop", escapement.namesrv) as producer:
        producer.send("orders", "4711", delay_ms=60_000)
    escapement.forward(minutes=1)
    escapement.assert_sent("orders", body="4711")

def test_two(escapement):
    escapement.assert_nothing_sent()
"""
OUTSIDE = """
import pytest
from broker.client import Admin

def test_refused():
    Admin("192.0.2.1:9876").close()

@pytest.mark.escapement_allow("192.0.2.1:9876", "192.0.2.2:9876")
def test_allowed():
    Admin("192.0.2.1:9876").close()
    Admin("192.0.2.2:9876").close()

@pytest.fixture
def admin():
    one = Admin("192.0.2.3:9876")
    yield one
    one.close()

@pytest.mark.escapement_allow("192.0.2.3:9876")
def test_allowed_in_fixtures(admin):
    pass

def test_refused_in_fixtures(admin):
    pass
"""


def test_the_fixture_is_there(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(USED)
    pytester.runpytest_inprocess(*PLUGIN, "--strict-markers").assert_outcomes(passed=2)


def test_a_client_for_elsewhere_fails_its_test_unless_that_is_marked(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(OUTSIDE)
    result = pytester.runpytest_inprocess(*PLUGIN, "--strict-markers")
    result.assert_outcomes(passed=2, failed=1, errors=1)
    result.stdout.fnmatch_lines(["*OutsideRefused: A client was made for the name server 192.0.2.1:9876*"])


def test_a_client_made_while_tests_are_imported_is_refused(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("from broker.client import Admin\nadmin = Admin('192.0.2.1:9876')\ndef test_it(): pass")
    result = pytester.runpytest_inprocess(*PLUGIN)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*192.0.2.1:9876, which is outside of the tests*"])


def test_settings_turn_it_off_or_allow_addresses(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(OUTSIDE)
    pytester.makeini("[pytest]\nescapement_guard = false")
    pytester.runpytest_inprocess(*PLUGIN).assert_outcomes(passed=4)
    pytester.makeini("[pytest]\nescapement_allow =\n    192.0.2.1:9876\n    192.0.2.3:9876")
    pytester.runpytest_inprocess(*PLUGIN).assert_outcomes(passed=4)


def test_delay_levels_are_a_setting(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nescapement_delay_levels = 1m 2m")
    pytester.makepyfile(
        """
        def test_it(escapement):
            escapement.send("orders", "4711", delay_level=2)
            escapement.forward(minutes=2, milliseconds=-1)
            escapement.assert_nothing_sent()
            escapement.forward(milliseconds=1)
            escapement.assert_sent("orders")
        """
    )
    pytester.runpytest_inprocess(*PLUGIN).assert_outcomes(passed=1)


def test_what_a_test_leaves_running_is_its_error(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        from broker.client import Consumer
        left = []

        def test_leaves_it(escapement):
            left.append(Consumer("billing", escapement.namesrv))
            left[0].subscribe("orders", "*", print)
            escapement.send("orders", "4711")
            left[0].start()

        def test_next():
            left[0].stop()
        """
    )
    result = pytester.runpytest_inprocess(*PLUGIN)
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["*Consumers of billing still run at the end of the test*"])


def test_coroutines_have_it_too(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        from broker.client import AsyncProducer

        @pytest.mark.asyncio
        async def test_it(escapement):
            async with AsyncProducer("shop", escapement.namesrv) as producer:
                await producer.send("orders", "4711", delay_ms=60_000)
            await escapement.aforward(minutes=1)
            escapement.assert_sent("orders", body="4711")
        """
    )
    pytester.runpytest_inprocess(*PLUGIN).assert_outcomes(passed=1)


def test_a_run_without_it_loads_neither_client_nor_broker(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = broker.testing.__name__.rpartition(".")[0]
    pytester.makepyfile(
        f"""
        import sys

        def test_it():
            loaded = [name for name in sys.modules if name.startswith("{package}.")]
            assert sorted(loaded) == [
                "{package}.reach", "{package}.testing", "{package}.testing.guard", "{package}.testing.plugin",
            ]
        """
    )
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.runpytest_subprocess(*PLUGIN).assert_outcomes(passed=1)
