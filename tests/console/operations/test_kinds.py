"""Every kind of operation says everything about itself, and nothing else decides by its name."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from django.http import QueryDict
from django.template.loader import get_template
from django.urls import reverse
from django.utils.translation import override

from console.operations.kind import COMMON_OUTCOMES, ItemResult, Kind, Outcome
from console.operations.registry import ACTS, KINDS, OUTCOMES, register
from console.templatetags.operations import for_count
from tests.console.operations.marking import Marking
from tests.console.people import browser_of, person
from tests.console.ui.test_pages import words

ROOT = Path(__file__).parents[3]
FAMILIES = {f"{name.partition('.')[0]}." for name in KINDS}


@pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
def test_a_kind_has_its_words_its_place_and_its_templates(kind: Kind[Any]) -> None:
    with override("en"):
        words = [kind.title, for_count(kind.verb, 1), for_count(kind.verb, 2), for_count(kind.verb, None), kind.effect]
        assert all(str(each).strip() for each in words)
    assert reverse(kind.page) and kind.list_address()
    assert get_template(kind.preview_template)
    assert bool(kind.choice_template) == bool(kind.choices)
    if kind.choice_template:
        assert get_template(kind.choice_template)
    if kind.undone_by:
        assert kind.undone_by in KINDS
        assert set(kind.undone_outcomes) <= set(kind.outcomes)
        assert type(kind).undo_of is not Kind.undo_of
        assert type(kind).undo_parameters is not Kind.undo_parameters
    assert kind.outcomes, "what becomes of an item has a name"


def test_a_verb_of_the_palette_is_of_one_kind() -> None:
    verbs = [verb for kind in KINDS.values() for verb in kind.verbs]
    assert len(verbs) == len(set(verbs)) > 10
    assert all(verb == verb.lower() for verb in verbs)
    for kind in KINDS.values():
        assert not kind.verbs or type(kind).commands is not Kind.commands, kind.name


def test_an_outcome_is_called_the_same_by_every_kind() -> None:
    for kind in KINDS.values():
        for code, outcome in kind.outcomes.items():
            assert code not in COMMON_OUTCOMES, (kind.name, code)
            known = OUTCOMES[code]
            assert (str(known.words), known.mark) == (str(outcome.words), outcome.mark), (kind.name, code)


class Painting(Marking):
    """A kind as a feature would add it: one class."""

    name = "tests.painting"
    title, verb, effect = "Paint numbers", "Paint them", "They are blue."
    outcomes = {"painted": Outcome("turned blue", "look")}

    def from_form(self, given: QueryDict) -> dict[str, Any]:
        return {"many": given.get("many", "0")}

    def selection(self, parameters: Mapping[str, Any]) -> str:
        return f"the first {parameters['many']} numbers"

    def act(self, parameters: Mapping[str, Any], reason: str, targets: Sequence[Mapping[str, Any]]) -> list[ItemResult]:
        return [ItemResult("painted") for _target in targets]


def test_one_class_is_a_new_operation_on_every_page(db: None) -> None:
    register(Painting)
    try:
        browser = browser_of(person("ben", "steer_timers", "view_auditentry"))
        address = browser.post("/operations/draft/", {"kind": Painting.name, "many": "3"}).headers["Location"]
        page = words(browser.get(address))
        for said in ("Paint numbers", "They are blue.", "the first 3 numbers", "Paint them", "api/v1/timers:mark"):
            assert said in page, said
        assert browser.post(address + "confirm/", {"reason": "they were grey"}).status_code == 303
        assert "turned blue 3" in words(browser.get(address))
        assert "Paint numbers the first 3 numbers done" in words(browser.get("/operations/"))
        assert "turned blue 3" in words(browser.get("/audit/"))
    finally:
        for known in (KINDS, ACTS):
            known.pop(Painting.name)
        OUTCOMES.pop("painted")


def is_name(value: object) -> bool:
    """Of a kind, or the beginning of the names of a family."""
    return isinstance(value, str) and (value in ACTS or value in FAMILIES)


def decisions(tree: ast.AST) -> Iterator[int]:
    """Lines in which something is compared with the name of a kind, or looked up by it."""
    for node in ast.walk(tree):
        compared: list[ast.expr | None] = []
        if isinstance(node, ast.Compare):
            compared = [node.left, *node.comparators]
        elif isinstance(node, ast.Dict):
            compared = list(node.keys)
        elif isinstance(node, ast.MatchValue):
            compared = [node.value]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "startswith":
            compared = list(node.args)
        elif isinstance(node, ast.keyword) and node.arg is not None and node.arg.endswith("startswith"):
            compared = [node.value]
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and is_name(node.value.value):
            # a name for the beginning of a family
            compared = [node.value] if node.value.value in FAMILIES else []
        flat = [part for each in compared if each is not None for part in ast.walk(each)]
        if any(isinstance(part, ast.Constant) and is_name(part.value) for part in flat):
            yield getattr(node, "lineno", 0)


def test_no_code_decides_by_the_name_of_a_kind() -> None:
    found = {
        str(path.relative_to(ROOT))
        for path in sorted((ROOT / "console").rglob("*.py"))
        if "migrations" not in path.parts and list(decisions(ast.parse(path.read_text())))
    }
    assert found == set()


def test_such_a_decision_would_be_found() -> None:
    for text in (
        'if kind == "timers.cancel": pass', 'x = {"timers.cancel": 1}', 'kind.startswith("timers.")',
        'if kind in ("topics.delete", "groups.delete"): pass', 'rows.filter(kind__startswith="alerts.")',
        'match kind:\n    case "timers.pause":\n        pass',
    ):  # fmt: skip
        assert list(decisions(ast.parse(text))), text
    assert not list(decisions(ast.parse('begun("timers.cancel", parameters)')))


def test_no_template_decides_by_the_name_of_a_kind() -> None:
    name = re.compile(r"{%\s*(?:if|elif)[^%]*kind[^%]*[\"'](?:" + "|".join(map(re.escape, ACTS)) + r")[\"'][^%]*%}")
    sliced = re.compile(r"kind\s*\|\s*slice")
    found = [
        str(path.relative_to(ROOT))
        for path in sorted((ROOT / "templates").rglob("*.html"))
        if name.search(path.read_text()) or sliced.search(path.read_text())
    ]
    assert found == []
    assert name.search('{% if row.kind == "topics.delete" %}')
    assert name.search("{% elif given.kind == 'redisson.offer' %}")


def test_what_all_kinds_share_knows_no_feature() -> None:
    for path in sorted((ROOT / "console" / "operations").glob("*.py")):
        text = path.read_text()
        assert not re.search(r"^(?:from|import) console\.features\.", text, re.MULTILINE), path.name
        used = {
            node.value
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in ACTS
        }
        assert used == set(), path.name
