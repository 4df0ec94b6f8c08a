"""Tasks in the Django admin: seen and cancelled, never written."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from broker.tasks.attempt import Worker, attempt
from broker.tasks.models import TaskRow
from broker.tasks.sending import Order
from broker.testing import BrokerThread
from tests.tasks import shop
from tests.tasks.test_enqueueing import IN_AN_HOUR, timers

pytestmark = pytest.mark.django_db(transaction=True)
LIST = "/admin/escapement_tasks/taskrow/"


@pytest.fixture
def admin(settings: Any) -> Client:
    """The browser of a superuser."""
    client = Client()
    client.force_login(User.objects.create_superuser("root"), backend=settings.AUTHENTICATION_BACKENDS[-1])
    return client


def test_tasks_are_listed_and_shown_with_what_went_wrong(admin: Client, broker: BrokerThread, backend: Any) -> None:
    result = shop.fail.enqueue()
    attempt(Order(result.id, 0, "default"), "token", Worker("one", backend.named, 60))
    listed = admin.get(LIST).content.decode()
    assert "tests.tasks.shop.fail" in listed
    shown = admin.get(f"{LIST}{result.id}/change/").content.decode()
    assert "no such order" in shown
    assert '<input type="text"' not in shown
    assert admin.get(f"{LIST}add/").status_code == 403


def test_tasks_that_wait_are_cancelled(admin: Client, broker: BrokerThread) -> None:
    waits, over = shop.remind.using(run_after=timezone.now() + IN_AN_HOUR).enqueue(1), shop.remind.enqueue(2)
    TaskRow.objects.filter(pk=over.id).update(status="SUCCESSFUL")
    answer = admin.post(LIST, {"action": "cancel", "_selected_action": [waits.id, over.id]}, follow=True)
    said = [str(message) for message in answer.context["messages"]]
    assert said == ["1 task was cancelled.", "1 task was no longer waiting."]
    waits.refresh()
    assert (waits.status, timers(broker)) == ("FAILED", [])
