"""Rights on names: a name is that one alone, and all that begin so only where a star says it."""

from __future__ import annotations

from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.core.management import call_command
from django.db import connection
from django.test import Client

from broker.mirror.models import Broker, ConsumerGroup, ConsumerOffset, MirrorState, Topic
from console.operations.models import Operation
from console.security import tokens
from console.security.models import ApiToken, TopicPermission
from console.security.see_as import ROLE, subject_of
from console.security.topic_scope import ALL, NOTHING, TopicScope, VisibleTopics, visible_topics
from console.site.clock import real_now_ms as now_ms
from tests.console.people import browser_of, person
from tests.console.ui.test_pages import words

NAMES = ("orders", "orders2", "orders-late", "order", "o_ders", "100%", "100% more", "oxders", "Orders", "pay")
PATTERNS = (
    ("orders",), ("orders*",), ("order", "pay"), ("o_ders*",), ("100%",), ("100%*",), ("*",), ("orders", "*"),
    ("pay", "order*"), (), ("",), ("none",),
)  # fmt: skip


def made(*names: str) -> None:
    """Topics, as the mirror knows them."""
    (broker,) = Broker.mirror_writer.bulk_create([Broker(name="broker-a")])
    # nobody asks a broker that is polled
    MirrorState.mirror_writer.bulk_create([MirrorState(broker=broker, as_of_ms=now_ms(), polling=True)])
    rows = [Topic(broker=broker, name=name, read_queues=1, write_queues=1, permission=6) for name in names]
    Topic.mirror_writer.bulk_create(rows)


def a_group(name: str, *topics: str) -> None:
    """A consumer group that read these topics, as the mirror knows it."""
    ConsumerGroup.mirror_writer.bulk_create([ConsumerGroup(broker_id="broker-a", name=name)])
    ConsumerOffset.mirror_writer.bulk_create(
        [ConsumerOffset(broker_id="broker-a", group=name, topic=topic, queue_id=0, offset=0) for topic in topics]
    )


def limited_to(name: str, *patterns: str) -> Any:
    """A viewer whose roles name these topics."""
    user, group = person(name), Group.objects.create(name=f"of {name}")
    user.groups.add(group)
    for pattern in patterns:
        TopicPermission.objects.create(group=group, pattern=pattern)
    return user


@pytest.mark.parametrize(
    ("pattern", "seen"),
    [
        ("orders", {"orders"}),
        ("orders*", {"orders", "orders2", "orders-late"}),
        ("o_ders", {"o_ders"}),
        ("100%*", {"100%", "100% more"}),
        ("*", {*NAMES, ""}),
        ("none", set()),
        ("", set()),
    ],
)
def test_a_name_means_itself_and_a_star_all_that_begin_so(pattern: str, seen: set[str]) -> None:
    visible, scope = VisibleTopics.of([pattern]), tokens.Scope(pattern, frozenset(["read"]))
    assert {name for name in (*NAMES, "") if visible.has(name)} == seen
    assert {name for name in (*NAMES, "") if scope.covers("read", name)} == seen
    assert not any(scope.covers("publish", name) for name in NAMES)


@pytest.mark.parametrize("patterns", PATTERNS, ids=" ".join)
def test_the_database_finds_the_rows_that_are_seen(db: None, patterns: tuple[str, ...]) -> None:
    made(*NAMES)
    visible = VisibleTopics.of(patterns)
    found = Topic.objects.filter(visible.among("name")).values_list("name", flat=True)
    assert set(found) == {name for name in NAMES if visible.has(name)}


def test_every_name_is_all_and_no_name_is_nothing() -> None:
    assert VisibleTopics.of(["a", "*"]) == ALL
    assert VisibleTopics.of([]) == NOTHING
    assert VisibleTopics.of(["a"]).prefixes == ()


def test_a_user_of_a_topic_sees_neither_its_namesakes_nor_their_groups(db: None) -> None:
    made("orders", "orders2")
    a_group("one", "orders")
    a_group("two", "orders2")
    a_group("both", "orders", "orders2")
    anna = limited_to("anna", "orders")
    scope = TopicScope(visible_topics(anna))
    assert [name for name in ("orders", "orders2") if scope.topic(name)] == ["orders"]
    assert scope.groups() == ["both", "one"]
    assert [name for name in scope.groups() if scope.whole_group(name)] == ["one"]
    browser = browser_of(anna)
    listed = browser.get("/topics/?kind=all").content.decode()
    assert "/topics/orders/" in listed
    assert "orders2" not in listed
    assert browser.get("/topics/orders2/").status_code == 404
    both = TopicScope(visible_topics(limited_to("ben", "orders", "orders2")))
    assert both.groups() == ["both", "one", "two"]


def test_a_role_is_seen_as_with_its_names(db: None) -> None:
    limited_to("anna", "orders", "pay*")
    subject = subject_of(ROLE, Group.objects.get(name="of anna").pk)
    assert subject is not None
    assert subject.topics == VisibleTopics(("pay",), frozenset(["orders"]))


def test_a_star_elsewhere_is_no_name(db: None) -> None:
    group = Group.objects.create(name="tenants")
    for wrong in ("a*b", "*a", "a**"):
        with pytest.raises(ValidationError, match="at the end only"):
            TopicPermission(group=group, pattern=wrong).full_clean()
        with pytest.raises(ValueError, match="neither a name nor the beginning"):
            tokens.scope_rows([wrong], [])
    with pytest.raises(ValueError, match="neither a name"):
        tokens.scope_rows([""], [])
    TopicPermission(group=group, pattern="a*").full_clean()


def test_a_token_of_the_command_says_what_it_is_on(db: None, capsys: pytest.CaptureFixture[str]) -> None:
    call_command("token", "create", "shop", "--publish", "orders", "--read", "bill*", "--read", "*")
    call_command("token", "list")
    assert "shop: publish orders, read bill*, read *" in capsys.readouterr().out
    assert [each["pattern"] for each in ApiToken.objects.get().scopes] == ["orders", "bill*", "*"]


def test_rows_from_before_keep_their_meaning(db: None) -> None:
    """A beginning is written with its star, also one that ended with one, and what waits to be confirmed."""
    step: Any = import_module("console.migrations.0037_name_patterns")
    editor = SimpleNamespace(connection=connection)
    group = Group.objects.create(name="tenants")
    for prefix in ("orders", "x" * 255, "odd*", ""):
        TopicPermission.objects.create(group=group, pattern=prefix)
    before = [{"prefix": "", "actions": ["read"]}, {"prefix": "orders", "actions": ["publish", "read"]}]
    token = ApiToken.objects.create(name="t", prefix="p", digest="d", scopes=before)
    limit = Operation.objects.create(kind="people.limit", parameters={"name": "anna", "prefixes": ["a-"]})
    make = Operation.objects.create(kind="tokens.make", parameters={"name": "n", "publish": ["a", "b*", "*"]})
    step._forwards(apps, editor)
    assert set(group.topic_permissions.values_list("pattern", flat=True)) == {"orders*", "x" * 255 + "*", "odd**", "*"}
    for row in (token, limit, make):
        row.refresh_from_db()
    after = [{"pattern": "*", "actions": ["read"]}, {"pattern": "orders*", "actions": ["publish", "read"]}]
    assert token.scopes == after
    assert limit.parameters == {"name": "anna", "topics": ["a-*"]}
    assert make.parameters["publish"] == ["a*", "b*", "*"]
    step._backwards(apps, editor)
    token.refresh_from_db()
    assert token.scopes == before
    assert set(group.topic_permissions.values_list("pattern", flat=True)) == {"orders", "x" * 255, "odd*", ""}
    assert not Operation.objects.filter(state="draft").exists()


def test_nobody_goes_back_to_where_a_name_would_open_more(db: None) -> None:
    step: Any = import_module("console.migrations.0037_name_patterns")
    ApiToken.objects.create(name="t", prefix="p", digest="d", scopes=tokens.scope_rows(["orders"], []))
    with pytest.raises(ValueError, match="orders"):
        step._backwards(apps, SimpleNamespace(connection=connection))


@pytest.fixture
def boss(django_user_model: Any, db: None) -> Client:
    return browser_of(django_user_model.objects.create_superuser("boss", password="a long secret"))


def previewed(browser: Client, kind: str, **fields: Any) -> str:
    """The page of the preview, as it is read."""
    drafted: Any = browser.post("/operations/draft/", {"kind": kind, **fields})
    assert drafted.status_code == 303, drafted.content.decode()[:2_000]
    return words(browser.get(drafted.headers["Location"]))


def test_the_preview_of_a_token_says_what_it_opens(boss: Client) -> None:
    made("orders", "orders2", "orders-late", "pay")
    a_group("orders-mail")
    page = previewed(
        boss, "tokens.make", name="t", days="5", publish="orders* pay new order",
        consume="orders* orders-mail nobody", admin="shop*", access="*",
    )  # fmt: skip
    for sentence in (
        "publish Topics that begin with orders: 3 now: orders, orders-late, orders2",
        "The topic pay.",
        "The topic new, which does not exist yet.",
        "The topic order, which does not exist yet. 3 others begin so; to open them, too, write order*.",
        "Consumer groups that begin with orders: 1 now: orders-mail",
        "The consumer group orders-mail.",
        "The topic or group nobody; neither exists yet.",
        "Producer groups that begin with shop.",
    ):
        assert sentence in page
    # no name of these is a star
    assert "also new ones" not in page


def test_the_preview_of_a_limit_says_what_is_seen(boss: Client) -> None:
    made(*(f"gate-{number}" for number in range(7)), "orders")
    Group.objects.create(name="tenants")
    page = previewed(boss, "people.limit_role", role="tenants", topics="gate-*\norders")
    assert "Topics that begin with gate-: 7 now: gate-0, gate-1, gate-2, gate-3, gate-4…" in page
    assert "The topic orders." in page
    person("anna")
    assert "Every topic, also new ones: 8 now." in previewed(boss, "people.limit", name="anna", topics="*")
    other = previewed(boss, "people.add_role", role="new", permissions=["console.view_console"], topics="")
    assert "Every topic, also new ones: 8 now." in other
