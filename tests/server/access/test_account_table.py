"""Users and policies survive crashes, and what cannot be read lets nobody in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from broker.engine.disk import OsFiles
from broker.rocketmq.acl import (
    AccessError,
    AccessUnreadable,
    InvalidAccess,
    PolicyNotFound,
    PolicyType,
    User,
    UserExists,
    UserNotFound,
    entry,
    parse_resource,
)
from broker.server.access.accounts import AccountTable

INNER = User("house", "inner-secret", is_super=True)
ORDERS = entry("Topic:order*", ["Pub"], "Allow", ["10.0.0.0/8"])


def opened(path: Path, changed: Callable[[str, bool], None] = lambda _name, _is_less: None) -> AccountTable:
    table = AccountTable(OsFiles(), str(path), INNER, changed)
    table.load()
    return table


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "config" / "access.json"


def test_users_and_policies_are_there_again_after_a_restart(path: Path) -> None:
    table = opened(path)
    table.create_user(User("alice", "a"))
    table.create_user(User("bob", "b", is_super=True, is_enabled=False))
    table.add_policies("alice", {PolicyType.CUSTOM: [ORDERS], PolicyType.DEFAULT: [entry("*", ["Get"], "Deny")]})
    again = opened(path)
    assert again.users() == [User("alice", "a"), User("bob", "b", is_super=True, is_enabled=False), INNER]
    assert again.policies("alice") == table.policies("alice")
    assert again.all_policies() == table.all_policies()


def test_the_inner_user_is_in_no_file_and_nobody_changes_him(path: Path) -> None:
    table = opened(path)
    table.create_user(User("alice", "a"))
    assert "inner-secret" not in path.read_text()
    assert table.user("house") is INNER
    for change in (
        lambda: table.change_user("house", secret="x"),
        lambda: table.delete_user("house"),
        lambda: table.add_policies("house", {PolicyType.CUSTOM: [ORDERS]}),
        lambda: table.create_user(User("house", "x")),
    ):
        with pytest.raises(AccessError):
            change()


def test_a_damaged_file_gives_way_to_the_version_before(path: Path) -> None:
    table = opened(path)
    table.create_user(User("alice", "a"))
    table.create_user(User("bob", "b"))
    path.write_bytes(path.read_bytes().replace(b'"b"', b'"c"'))
    assert [user.name for user in opened(path).users()] == ["alice", "house"]


def test_without_a_version_that_can_be_read_the_book_does_not_open(path: Path) -> None:
    table = opened(path)
    table.create_user(User("alice", "a"))
    table.create_user(User("bob", "b"))
    for each in (path, path.with_name("access.json.bak")):
        each.write_bytes(b"{}")
    with pytest.raises(AccessUnreadable):
        opened(path)


def test_a_change_that_cannot_be_saved_has_not_happened(path: Path) -> None:
    table = opened(path)
    table.create_user(User("alice", "a"))
    path.with_name("access.json.tmp").mkdir()
    with pytest.raises(OSError):
        table.change_user("alice", secret="new")
    with pytest.raises(OSError):
        table.create_user(User("bob", "b"))
    assert table.user("alice") == User("alice", "a")
    assert table.user("bob") is None


def test_what_is_not_there_is_said(path: Path) -> None:
    table = opened(path)
    table.create_user(User("alice", "a"))
    with pytest.raises(UserExists):
        table.create_user(User("alice", "other"))
    with pytest.raises(UserNotFound):
        table.change_user("bob", secret="b")
    with pytest.raises(UserNotFound):
        table.add_policies("bob", {PolicyType.CUSTOM: [ORDERS]})
    with pytest.raises(PolicyNotFound):
        table.delete_policies("alice")
    with pytest.raises(InvalidAccess):
        table.add_policies("alice", {})
    for name in ("", "a b", "a:b", "a*", "x" * 129, "a\n"):
        with pytest.raises(InvalidAccess):
            table.create_user(User(name, "secret"))
    with pytest.raises(InvalidAccess):
        table.create_user(User("carol", ""))


def test_a_deleted_user_leaves_no_policies_behind(path: Path) -> None:
    table = opened(path)
    table.create_user(User("alice", "a"))
    table.add_policies("alice", {PolicyType.CUSTOM: [ORDERS]})
    table.delete_user("alice")
    table.delete_user("alice")
    table.create_user(User("alice", "b"))
    assert table.policies("alice") is None


def test_one_resource_of_a_user_is_forgotten_or_all(path: Path) -> None:
    table = opened(path)
    table.create_user(User("alice", "a"))
    table.add_policies("alice", {PolicyType.CUSTOM: [ORDERS, entry("Group:g", ["Sub"], "Allow")]})
    table.delete_policies("alice", resource=parse_resource("Topic:order*"))
    left = table.policies("alice")
    assert left is not None
    assert [str(each.resource) for each in left[PolicyType.CUSTOM]] == ["Group:g"]
    table.delete_policies("alice")
    assert table.policies("alice") is None


def test_who_listens_is_told_whether_a_user_may_do_less_now(path: Path) -> None:
    told: list[tuple[str, bool]] = []
    table = opened(path, lambda name, is_less: told.append((name, is_less)))
    table.create_user(User("alice", "a"))
    table.add_policies("alice", {PolicyType.CUSTOM: [ORDERS]})
    table.add_policies("alice", {PolicyType.CUSTOM: [entry("Topic:x", ["Pub"], "Allow")]})
    table.change_user("alice", is_super=True)
    assert told == [("alice", False)] * 4
    told.clear()
    table.add_policies("alice", {PolicyType.CUSTOM: [entry("Topic:x", ["Sub"], "Allow")]})
    table.add_policies("alice", {PolicyType.CUSTOM: [entry("Topic:y", ["Sub"], "Deny")]})
    table.delete_policies("alice", resource=parse_resource("Topic:y"))
    table.change_user("alice", is_super=False)
    table.change_user("alice", secret="b")
    table.change_user("alice", secret="b")
    table.change_user("alice", is_enabled=False)
    table.delete_user("alice")
    assert told == [("alice", True)] * 7


def test_both_secrets_are_there_again_after_a_restart_and_closing_follows_what_is_less(path: Path) -> None:
    told: list[tuple[str, bool]] = []
    table = opened(path, lambda name, is_less: told.append((name, is_less)))
    table.create_user(User("alice", "first"))
    table.change_user("alice", secret="second", keep_until_ms=1_000)
    both = User("alice", "second", previous="first", previous_until_ms=1_000)
    assert opened(path).user("alice") == both
    assert (both.older(999), both.older(1_000)) == ("first", "")
    table.change_user("alice", keep_until_ms=2_000)
    table.change_user("alice", keep_until_ms=500)
    table.change_user("alice", secret="third", keep_until_ms=2_000)
    table.change_user("alice", keep_until_ms=0)
    table.change_user("alice", keep_until_ms=9_000)
    assert opened(path).user("alice") == User("alice", "third")
    assert [is_less for _name, is_less in told] == [False, False, False, True, True, True]
    assert "first" not in path.read_text()
