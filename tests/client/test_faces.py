"""The synchronous faces are what the generator makes of their cores, and leave nothing of these out."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import broker.client
from broker.client import _make_faces as generator
from tests.house.sources import ROOT

PAIRS = [(getattr(broker.client, plan.name), getattr(broker.client, plan.core_class)) for plan in generator.PLANS]
#: What a face says in its own way; its base is written by hand.
WRITTEN = {"__init__", "subscribe", "start", "stop", "close"}


def test_the_faces_are_what_is_generated_now() -> None:
    for path, text in generator.faces().items():
        assert path.read_text() == text, "run `make format`"


def test_formatting_generates_the_faces() -> None:
    made = (ROOT / "Makefile").read_text().partition("\nformat:")[2].partition("\n\n")[0]
    assert "broker/client/_make_faces.py" in made


@pytest.mark.parametrize(("face", "core"), PAIRS)
def test_a_face_has_all_that_its_core_has(face: type, core: type) -> None:
    def public(kind: type) -> set[str]:
        return {name for name, _ in inspect.getmembers(kind) if not name.startswith("_")}

    assert public(core) <= public(face)


@pytest.mark.parametrize(("face", "core"), PAIRS)
def test_a_face_takes_and_gives_what_its_core_does(face: Any, core: Any) -> None:
    for name, method in inspect.getmembers(core, inspect.isfunction):
        if not name.startswith("_") and name not in WRITTEN:
            assert inspect.signature(getattr(face, name)) == inspect.signature(method), name


CORE = """
class AsyncProducer:
    'Sends.'

    def __init__(self) -> None:
        return

    {method}
"""


@pytest.mark.parametrize(
    ("method", "why"),
    [
        ("async def more(self) -> None: ...", "no docstring"),
        ("@contextmanager\n    def more(self) -> None:\n        'More.'", "No face is known"),
        ("more: int", "no docstring"),
    ],
)
def test_what_cannot_be_handed_on_is_refused(method: str, why: str) -> None:
    plan = next(plan for plan in generator.PLANS if plan.name == "Producer")
    with pytest.raises(SystemExit, match=why):
        generator.Face(plan, generator.Source(plan.core, CORE.format(method=method))).text()
