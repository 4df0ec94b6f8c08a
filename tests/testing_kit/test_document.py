"""The examples of docs/TESTING.md are tests, and pass."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

import broker.testing.cases
import broker.testing.plugin
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
