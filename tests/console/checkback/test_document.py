"""The other side of a check-back, as docs/REST.md has it."""

from __future__ import annotations

import json
import re
import time
from typing import Any

import pytest

from console.features.checkback.models import make_secret, new_salt
from console.features.checkback.request import sign_answer, sign_question
from console.features.checkback.worker import read_decision
from tests.house.sources import ROOT

PAGE = (ROOT / "docs" / "REST.md").read_text()


@pytest.fixture
def answer() -> Any:
    (example,) = [each for each in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "def answer(" in each]
    names: dict[str, Any] = {}
    exec(example, names)  # noqa: S102 - the page is ours
    return names["answer"]


def asked(secret: str, body: bytes, age_s: float = 0) -> dict[str, str]:
    stamp = str(int(time.time() - age_s))
    return {
        "Escapement-Timestamp": stamp, "Escapement-Nonce": "n",
        "Escapement-Signature": sign_question(secret, stamp, "n", body),
    }  # fmt: skip


def test_the_example_answers_what_is_believed(answer: Any) -> None:
    secret, body = make_secret("shop", new_salt()), json.dumps({"transaction_id": "T"}).encode()
    said, signature = answer(secret, asked(secret, body), body, lambda question: "COMMIT")
    assert read_decision(said).name == "COMMIT"
    assert signature == sign_answer(secret, "n", said)


def test_the_example_believes_nobody_else(answer: Any) -> None:
    secret, body = make_secret("shop", new_salt()), b"{}"
    for headers, given in (
        (asked("another", body), body), (asked(secret, body), b'{"x": 1}'), (asked(secret, body, 400), body),
        (asked(secret, body) | {"Escapement-Nonce": "m"}, body),
    ):  # fmt: skip
        with pytest.raises(PermissionError):
            answer(secret, headers, given, lambda question: "COMMIT")
