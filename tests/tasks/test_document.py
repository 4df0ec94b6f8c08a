"""The examples of docs/TASKS.md do what the page says."""

from __future__ import annotations

import io
import re
import sys
from contextlib import redirect_stdout
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from broker.tasks import EscapementBackend
from broker.tasks.attempt import Worker, attempt
from broker.tasks.framework import task_backends
from broker.tasks.models import TaskRow
from broker.tasks.sending import Order
from broker.testing import BrokerThread
from tests.tasks import decorator
from tests.tasks.test_enqueueing import orders

pytestmark = pytest.mark.django_db(transaction=True)

PAGE = (Path(__file__).parents[2] / "docs" / "TASKS.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
(SETTINGS,) = re.findall(r"```python settings\n(.*?)```", PAGE, re.DOTALL)
(TASKS,) = re.findall(r"```python tasks\n(.*?)```", PAGE, re.DOTALL)


def here(example: str) -> str:
    """The example with the names of this checkout, and of the package that is installed."""
    own = decorator.task.__module__.partition(".base")[0]
    return example.replace("escapement_mq.", "broker.").replace("from django.tasks import", f"from {own} import")


@pytest.fixture
def page(broker: BrokerThread, settings: Any, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The page's settings and tasks, and what its examples know."""
    said: dict[str, Any] = {"INSTALLED_APPS": []}
    exec(here(SETTINGS), said)  # noqa: S102 - the page is ours
    assert set(said["INSTALLED_APPS"]) <= set(settings.INSTALLED_APPS)
    settings.TASKS = said["TASKS"]
    for name in ("shop", "shop.tasks"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    exec(here(TASKS), vars(sys.modules["shop.tasks"]))  # noqa: S102 - the page is ours
    return {}


def test_the_examples_of_the_page_run(page: dict[str, Any], broker: BrokerThread) -> None:
    printed = io.StringIO()
    for example in EXAMPLES:
        with redirect_stdout(printed):
            exec(here(example), page)  # noqa: S102 - the page is ours
    expected = [comment.partition(":")[0] for comment in re.findall(r"print\(.*\)  # (.*)", PAGE)]
    first, *rest = printed.getvalue().splitlines()
    assert first.endswith(" READY")
    assert rest == expected
    assert list(TaskRow.objects.order_by("enqueued_at").values_list("args", "status")) == [
        ([4711], "FAILED"), ([4712], "READY"), ([4713], "READY"),
    ]  # fmt: skip
    backend = task_backends["default"]
    assert isinstance(backend, EscapementBackend)
    for body in orders(broker, "shop_default"):
        attempt(Order(**body), "token", Worker("one", backend.named, 60))
    results = [backend.get_result(row.pk) for row in TaskRow.objects.filter(status="SUCCESSFUL")]
    assert {result.return_value for result in results} == {"order 4712 is not paid", "order 4713 is not paid"}


def test_the_mail_of_the_page_is_tried_again(page: dict[str, Any], broker: BrokerThread) -> None:
    result = sys.modules["shop.tasks"].send_mail.enqueue("a@example.com")
    (body,) = orders(broker, "shop_mails_high")
    backend = task_backends["default"]
    assert isinstance(backend, EscapementBackend)
    attempt(Order(**body), "token", Worker("one", backend.named, 60))
    result.refresh()
    assert (result.status, len(result.errors)) == ("READY", 1)


def test_every_example_is_run() -> None:
    assert len(EXAMPLES) + 2 == PAGE.count("```python")
