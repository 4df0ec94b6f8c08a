"""Pages of one broker that their address names: whatever is on them stays with it."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

import pytest
from django.http import Http404
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st

from broker.client import Admin, Producer
from broker.mirror.follower import Mirror
from broker.mirror.models import Broker, MirrorState
from console.operations import workflow
from console.operations.actor import PERMISSIONS, Actor
from console.operations.models import Operation
from console.site.asgi import application_for, pages, sign_ins
from console.site.chosen import ALL, Choice, choice_of, choosing, chosen, split
from console.site.mirrored import History, added, cluster, mirrored
from console.ui.live import page_of
from console.ui.saved_views import address_of
from tests.cluster import Cluster
from tests.console.several import A, B, Several, several
from tests.console.ui.test_pages import words

NAMES = st.text(st.characters(codec="utf-8", exclude_characters="/~", exclude_categories=("Cc", "Cs")), min_size=1)
ENTRIES = st.from_regex(r"[a-z0-9-]+", fullmatch=True)
ACTOR = Actor("token shop", frozenset(PERMISSIONS))


@pytest.fixture
def both(transactional_db: None, settings: Any) -> Iterator[Several]:
    """`orders` at both brokers, `mailbags` at broker-b alone."""
    with several(settings) as made:
        made.admins[B].create_topic("mailbags", queues=1)
        made.send(A, "orders", "a", keys=["k"], queue_id=0)
        made.send(B, "orders", "b", keys=["k"], queue_id=0)
        made.mirror()
        yield made


@given(NAMES, st.one_of(st.just(""), ENTRIES))
def test_an_address_leads_back_to_the_choice(broker: str, entry: str) -> None:
    choice = Choice(entry, broker)
    assert split(unquote(f"{choice.prefix}/topics/orders/")) == (choice, "/topics/orders/")
    assert choice_of(choice.text) == choice
    assert choice_of(choice.name) == choice


@pytest.mark.parametrize("path", ["/", "/topics/", "/at/", "/at", "/at//topics/", "/attics/b/"])
def test_other_addresses_choose_nothing(path: str) -> None:
    assert split(path) == (ALL, path)


def test_a_page_and_its_links_are_of_the_broker(both: Several, operator: Client) -> None:
    page = operator.get("/at/broker-b/topics/").content.decode()
    assert 'href="/at/broker-b/topics/mailbags/"' in page
    assert 'href="/at/broker-b/groups/"' in page, "the rail"
    assert 'hx-ws:connect="/ws/live/at/broker-b/topics"' in page
    assert "mailbags" not in words(operator.get("/at/broker-a/topics/"))
    assert chosen() == ALL, "nothing is left of it for who comes next"
    assert 'href="/topics/mailbags/"' in operator.get("/topics/").content.decode()


def test_the_picker_keeps_the_page_and_leaves_what_is_of_one_broker(both: Several, operator: Client) -> None:
    offered = _offered(operator, "/at/broker-b/topics/?search=or")
    assert offered == ["/topics/?search=or", "/at/broker-a/topics/?search=or", "/at/broker-b/topics/?search=or"]
    assert _offered(operator, "/topics/orders/")[2] == "/at/broker-b/topics/orders/"
    assert _offered(operator, "/topics/mailbags/")[1:] == ["/at/broker-a/topics/", "/at/broker-b/topics/mailbags/"]
    assert _offered(operator, f"/at/broker-a/operations/{_drafted(both).pk}/")[2] == "/at/broker-b/operations/"
    assert "Brokers shown" not in Client().get("/login/").content.decode()


def _offered(operator: Client, address: str) -> list[str]:
    page = operator.get(address).content.decode()
    menu = page[page.index("Brokers shown") : page.index('class="find"')]
    return [found.replace("&amp;", "&") for found in re.findall(r'href="([^"]*)"', menu)]


def test_one_broker_alone_is_not_offered(both: Several, operator: Client) -> None:
    Broker.mirror_writer.filter(name=B).delete()
    assert "Brokers shown" not in operator.get("/topics/").content.decode()


def test_a_broker_that_is_not_there_is_said_to_be_nothing(both: Several, operator: Client) -> None:
    assert operator.get("/at/broker-c/topics/").status_code == 404
    assert operator.get("/at/nowhere~broker-a/topics/").status_code == 404
    with choosing(Choice("", "broker-c")), pytest.raises(Http404):
        mirrored()
    with choosing(Choice("nowhere")):
        assert cluster().brokers == ()


def test_strangers_are_led_to_sign_in_and_back(both: Several) -> None:
    answer = Client().get("/at/broker-b/topics/")
    assert (answer.status_code, answer["Location"]) == (302, "/login/?next=/at/broker-b/topics/")


def test_passwords_have_their_own_room_under_any_address() -> None:
    scope = {"type": "http", "method": "POST", "path": "/at/broker-b/login/"}
    assert application_for(scope) is sign_ins
    assert application_for({**scope, "path": "/at/broker-b/topics/"}) is pages


def test_a_file_has_the_rows_of_its_broker(both: Several, operator: Client) -> None:
    def names(address: str) -> set[str]:
        answer = operator.get(f"{address}?as=csv")
        lines = b"".join(answer.streaming_content).decode().splitlines()  # type: ignore[attr-defined]  # of a streamed answer
        return {line.split(",")[0] for line in lines[1:]}

    assert "mailbags" not in names("/at/broker-a/topics/")
    assert "mailbags" in names("/at/broker-b/topics/")


def test_a_live_page_is_of_the_broker_in_its_address() -> None:
    page = page_of("at/broker-b/topic/orders")
    assert page is not None
    assert (page.choice, page.name, page.argument) == (Choice("", "broker-b"), "topic", "orders")
    assert page != page_of("topic/orders"), "each is rendered by itself"


def test_a_saved_view_leads_to_the_broker(both: Several) -> None:
    kept = address_of("/at/broker-b/topics/?search=or&offset=20")
    assert kept is not None
    assert kept.text == "/at/broker-b/topics/?search=or"


def _drafted(both: Several) -> Operation:
    with choosing(choice_of(B)):
        parameters = {"name": "parcels", "settings": {"read_queues": 3, "write_queues": 3}}
        return workflow.draft("topics.create", parameters, ACTOR, number=uuid.uuid4())


def test_an_operation_is_done_where_it_was_drafted(both: Several) -> None:
    row = _drafted(both)
    workflow.confirm(row.pk, ACTOR, reason="because")
    row.refresh_from_db()
    assert (row.broker, row.state) == (B, Operation.State.DONE)
    assert both.admins[A].topic_settings("parcels") is None
    assert both.admins[B].topic_settings("parcels") is not None


def test_histories_are_added_by_their_ends() -> None:
    end_ms = 1_795_000_000_000
    early = History((*(None,) * 58, 1.0, 2.0), end_ms)
    late = History((*(None,) * 57, 10.0, None, 30.0), end_ms + 5_000)
    assert added([early, late]) == History((*(None,) * 57, 11.0, 2.0, 30.0), end_ms + 5_000)
    assert added([History(), History()]) == History()


def test_a_broker_that_the_mirror_cannot_reach_is_not_asked(both: Several, operator: Client) -> None:
    both.kill(B)
    MirrorState.mirror_writer.filter(broker=B).update(as_of_ms=1, error="it does not answer")
    asked = words(operator.get("/messages/?q=k&topic=orders"))
    assert "it does not answer" in asked, "the mirror's words, not those of a question of its own"
    assert "broker-a" in asked, "the others are asked"


def test_a_second_cluster_is_a_second_entry(both: Several, operator: Client, settings: Any) -> None:
    with Cluster(1) as other, Admin(other.namesrv, broker=A) as source:
        settings.ESCAPEMENT_CLUSTERS = {"lisbon": other.namesrv}
        source.create_topic("pastries", queues=1)
        with Producer(group="tests", namesrv=other.namesrv) as producer:
            producer.send("pastries", "nata", keys=["k"])
        far = Mirror(source, A, entry="lisbon")
        far.run_once()
        far.close()
        assert "pastries" not in words(operator.get("/topics/")), "each cluster by itself"
        assert "pastries" in words(operator.get("/at/lisbon~/topics/"))
        page = operator.get("/at/lisbon~broker-a/topics/pastries/")
        assert 'href="/at/lisbon~broker-a/groups/"' in page.content.decode()
        assert "nata" in words(operator.get("/at/lisbon~broker-a/topics/pastries/0/")), "its broker is asked"
        assert "nata" in words(operator.get("/at/lisbon~/topics/pastries/tail/"))
        menu = _offered(operator, "/topics/")
        assert menu[-2:] == ["/topics/", "/at/lisbon~/topics/"]
        assert operator.get("/at/lisbon~broker-b/topics/").status_code == 404
        with choosing(Choice("lisbon")):
            made = workflow.draft("topics.create", {"name": "boxes", "settings": {}}, ACTOR)
        workflow.confirm(made.pk, ACTOR, reason="because")
        assert source.topic_settings("boxes") is not None
        assert both.admins[A].topic_settings("boxes") is None
