"""What became of resent letters: asked of all at once, kept when it is known for good, and live while it moves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from django.test import Client

from console.operations import copies
from console.operations.models import Operation
from console.operations.reading import live_operation
from console.security.topic_scope import ALL
from console.ui.live import _render, page_of
from tests.console.dead_letters.test_dead_letters import bury, confirmed, drafted, received
from tests.console.stage import Stage
from tests.console.ui.test_pages import words


@pytest.fixture
def resent(stage: Stage, operator: Client) -> Iterator[Stage]:
    """Letters of `billing`, more than are asked for at once, all of them resent to it."""
    stage.producer.send("orders", "first")
    stage.consume()
    for number in range(27):
        bury(stage, f"order-{number}")
    stage.mirror.run_once()
    confirmed(operator, drafted(operator, "send_back", scope="matching", is_all="1"))
    yield stage
    copies.hang_up()


def shown_live(number: object) -> str:
    """What an open page of an operation is sent."""
    page = page_of(f"operation/{number}")
    assert page is not None
    parts, _charts = _render(replace(page, visible=ALL), "en", 1, None)
    return "".join(parts.values())


def test_the_page_of_a_resend_moves_until_all_is_known_for_good_which_is_kept(resent: Stage, operator: Client) -> None:
    """It said "waiting for delivery" until somebody loaded it again."""
    row = Operation.objects.get()
    page = operator.get(f"/operations/{row.pk}/")
    assert page.context["live"] == f"operation/{row.pk}"
    assert "waiting for delivery 27 (as of " in words(page)
    received(resent, 27)
    resent.wait_for(lambda: live_operation(str(row.pk)).became_counts == {"received": 27})
    assert "received" in shown_live(row.pk)
    page = operator.get(f"/operations/{row.pk}/")
    assert "received 27" in words(page) and not page.context.get("live")
    resent.broker.stop()
    assert "received 27" in words(operator.get(f"/operations/{row.pk}/"))


def test_a_message_that_was_resent_as_a_new_one_says_who_has_received_it(stage: Stage, operator: Client) -> None:
    """Its page said "Open message" whatever became of it."""
    sent = stage.producer.send("orders", "first")
    stage.consume()
    for part in stage.admin.topic_stats("orders").queues:
        stage.admin.move_group("billing", "orders", part.queue.queue_id, part.max_offset)
    stage.mirror.run_once()
    form = {"kind": "messages.resend", "message_id": sent.offset_message_id, "topic": "orders", "group": ""}
    answer = operator.post("/operations/draft/", form)
    row = confirmed(operator, answer.headers["Location"])
    page = operator.get(f"/operations/{row.pk}/")
    assert "received by 0 of 1 group" in words(page) and page.context["live"]
    stage.consume()
    stage.mirror.run_once()
    page = operator.get(f"/operations/{row.pk}/")
    assert "received by 1 of 1 group" in words(page) and not page.context.get("live")
    copies.hang_up()
