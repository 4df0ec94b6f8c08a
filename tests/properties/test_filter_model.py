"""Filter expressions against a slow model of their rules."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from broker.rocketmq.sql92 import Filter
from broker.rocketmq.sql92_nodes import BadExpression
from tests.engine.filter.forms import random_form, random_properties, written
from tests.engine.filter.model import Refused, check, matches


@settings(max_examples=1000, deadline=None)
@given(st.randoms(use_true_random=False))
def test_an_expression_says_what_the_rules_say(random: Random) -> None:
    form = random_form(random)
    expression = written(form)
    try:
        check(form)
    except Refused:
        refused = True
    else:
        refused = False
    try:
        ready = Filter(expression)
    except BadExpression:
        assert refused, expression
        return
    assert not refused, expression
    for _ in range(5):
        properties = random_properties(random)
        assert ready.matches(properties) == matches(form, properties), (expression, properties)


@given(st.text(st.sampled_from("ab5.'()<>=,-+ */\nNOTINULAD"), max_size=60))
def test_any_text_is_taken_or_refused(text: str) -> None:
    try:
        ready = Filter(text)
    except BadExpression:
        return
    assert ready.matches({"a": "5"}) in {True, False}
