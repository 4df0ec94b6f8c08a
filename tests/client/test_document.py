"""The examples of docs/CLIENT.md, one after the other, on a real broker."""

from __future__ import annotations

import re

import pytest

from broker.testing import BrokerThread
from tests.house.sources import ROOT

EXAMPLES = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs" / "CLIENT.md").read_text(), re.DOTALL | re.MULTILINE)


def test_the_examples_work(broker: BrokerThread, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, object] = {}
    for example in EXAMPLES:
        own = example.replace("127.0.0.1:9876", broker.namesrv).replace("from escapement_mq.", "from broker.")
        exec(compile(own, "docs/CLIENT.md", "exec", dont_inherit=True), names)  # noqa: S102 - it is our own page
    said = capsys.readouterr().out.splitlines()
    assert said == [
        "rescheduled",
        "True",
        "cancelled",
        "already_cancelled None",
        "100",
        '1 {"number": 4711}',
        'ship {"number": 4712}',
        "book 9.99",
        "bill 1",
        "bill 2",
        "true True",
        "['one', 'two', 'three']",
        "b'one'",
        "b'9.99'",
        "keep one",
        "['sent', 'delivered', 'handled']",
        "True",
        "[b'4713']",
    ]
