"""Every error of the engine has its response code."""

from __future__ import annotations

import inspect

from broker.engine import errors
from broker.rocketmq.codes import Answer
from broker.server.refusals import REFUSALS, refusal_code


def test_the_table_is_complete() -> None:
    kinds = {kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, errors.BrokerError)}
    assert set(REFUSALS) == kinds


def test_no_error_is_answered_as_success() -> None:
    assert Answer.SUCCESS not in REFUSALS.values()


def test_an_error_that_is_newer_than_the_table_is_answered_like_its_parent() -> None:
    class TooNew(errors.DiskFull):
        """Not in the table."""

    assert refusal_code(TooNew()) == Answer.SERVICE_NOT_AVAILABLE
