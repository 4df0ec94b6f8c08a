"""The examples of docs/TESTING.md are tests, and pass; and a test is as quick as it says."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from statistics import median
from typing import Any

import pytest

import broker.testing.cases
import broker.testing.plugin
from broker.client import Producer
from broker.handlers import forget_all
from broker.testing import Escapement
from tests.house.sources import ROOT
from tests.testing_kit.test_plugin import PLUGIN

DOCUMENT = (ROOT / "docs" / "TESTING.md").read_text()
PACKAGE = broker.testing.__name__.rpartition(".")[0]
EXAMPLES = [
    (kind, code.replace("escapement_mq.", f"{PACKAGE}."))
    for kind, code in re.findall(r"^```python ?(\w*)\n(.*?)^```", DOCUMENT, re.DOTALL | re.MULTILINE)
]
#: Of the processor, for a test with its broker; several times what it takes on a slow machine.
MOST_MS = 60


@pytest.fixture(autouse=True)
def no_handlers() -> Iterator[None]:
    forget_all()
    yield
    forget_all()


@pytest.mark.parametrize("number", [at for at, (kind, _) in enumerate(EXAMPLES) if kind != "django"])
def test_the_examples_pass(number: int, pytester: pytest.Pytester) -> None:
    code = EXAMPLES[number][1]
    pytester.makepyfile(code)
    pytester.runpytest_inprocess(*PLUGIN).assert_outcomes(
        passed=len(re.findall(r"^ *(?:async )?def test_", code, re.MULTILINE))
    )


@pytest.mark.django_db
@pytest.mark.parametrize("name", ["test_the_event_is_published_with_the_commit", "test_the_outbox_is_sent"])
def test_the_examples_for_django_pass(name: str, escapement: Escapement, settings: Any) -> None:
    settings.ESCAPEMENT_PRODUCER_GROUPS = ["shop"]
    (code,) = [code for kind, code in EXAMPLES if kind == "django"]
    names: dict[str, Any] = {}
    exec(code, names)  # noqa: S102 - it is our own page
    names[name](escapement, None)


def test_all_that_is_public_is_in_the_document() -> None:
    wanted = [name for name in vars(Escapement) if not name.startswith("_")]
    assert [name for name in wanted if name not in DOCUMENT] == []

    settings = set(re.findall(r"`(escapement_\w+)`", broker.testing.plugin.__doc__))
    assert [name for name in settings if name not in DOCUMENT] == []


def test_a_test_takes_milliseconds() -> None:
    took_ms = []
    for _ in range(15):
        began_s = time.process_time()  # others may be at work on this machine
        with Escapement() as escapement, Producer("shop", escapement.namesrv) as producer:
            producer.send("reminders", "4711", delay_ms=86_400_000)
            escapement.forward(hours=24)
            escapement.assert_sent("reminders", body="4711")
        took_ms.append((time.process_time() - began_s) * 1000)
    assert median(took_ms) < MOST_MS
