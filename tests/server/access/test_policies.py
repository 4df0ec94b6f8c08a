"""What decides: the most exact resource, Deny where two are equally exact, and nothing said is no."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.rocketmq.acl import (
    Action,
    Demand,
    Entry,
    InvalidAccess,
    Kind,
    PolicyType,
    address_of,
    decide,
    entry,
    merged,
    parse_resource,
)

HERE = address_of("10.1.2.3")
ORDER = Demand(Kind.TOPIC, "order-eu", (Action.PUB,))


def allow(resource: str, *actions: str, sources: tuple[str, ...] = ()) -> Entry:
    return entry(resource, actions or ("Pub",), "Allow", sources)


def deny(resource: str, *actions: str, sources: tuple[str, ...] = ()) -> Entry:
    return entry(resource, actions or ("Pub",), "Deny", sources)


def of(*entries: Entry, demand: Demand = ORDER) -> bool | None:
    return decide({PolicyType.CUSTOM: entries}, demand, HERE)


@pytest.mark.parametrize("resource", ["*", "Topic:*", "Topic:order*", "Topic:order-eu", "topic:order-eu"])
def test_each_way_to_name_a_topic_covers_it(resource: str) -> None:
    assert of(allow(resource)) is True
    assert of(deny(resource)) is False


@pytest.mark.parametrize("resource", ["Group:*", "Cluster:*", "Topic:order", "Topic:order-eu2", "Topic:x*"])
def test_other_resources_do_not(resource: str) -> None:
    assert of(allow(resource)) is None


def test_nothing_said_is_no_permission() -> None:
    assert of() is None


@pytest.mark.parametrize(
    ("exact", "wide"),
    [
        ("Topic:order-eu", "Topic:order-*"),
        ("Topic:order-*", "Topic:order*"),
        ("Topic:order*", "Topic:*"),
        ("Topic:*", "*"),
        ("Topic:order-eu", "*"),
    ],
)
def test_the_more_exact_resource_decides(exact: str, wide: str) -> None:
    for order in (0, 1):
        assert of(*[allow(exact), deny(wide)][:: 1 - 2 * order]) is True
        assert of(*[deny(exact), allow(wide)][:: 1 - 2 * order]) is False


def test_of_two_equally_exact_the_deny_wins() -> None:
    assert of(allow("Topic:order-eu", "Pub"), deny("Topic:order-eu", "All")) is False
    assert of(deny("Topic:order-eu", "All"), allow("Topic:order-eu", "Pub")) is False


def test_an_entry_about_other_actions_says_nothing() -> None:
    assert of(allow("Topic:order-eu", "Sub", "Get"), deny("Topic:*", "Pub")) is False
    assert of(deny("Topic:order-eu", "Sub"), allow("Topic:*", "All")) is True


def test_one_of_several_demanded_actions_is_enough() -> None:
    demand = Demand(Kind.TOPIC, "order-eu", (Action.PUB, Action.SUB, Action.GET))
    assert of(allow("Topic:order-eu", "Get"), demand=demand) is True
    assert of(allow("Topic:order-eu", "Create"), demand=demand) is None


@pytest.mark.parametrize(
    ("source", "here"),
    [("10.1.2.3", True), ("10.0.0.0/8", True), ("10.1.2.4", False), ("192.168.0.0/16", False), ("::/0", False)],
)
def test_an_entry_with_addresses_counts_for_clients_there(source: str, here: bool) -> None:
    assert of(allow("Topic:order-eu", sources=(source,))) is (True if here else None)
    assert decide({PolicyType.CUSTOM: (allow("*", sources=("0.0.0.0/0",)),)}, ORDER, None) is None


def test_an_ipv4_client_on_an_ipv6_socket_is_known_by_its_ipv4_address() -> None:
    assert address_of("::ffff:10.1.2.3") == HERE
    assert address_of("fe80::1%eth0") == address_of("[fe80::1]")
    assert address_of("nowhere") is None


def test_default_entries_count_where_no_custom_one_applies() -> None:
    policies = {PolicyType.DEFAULT: (allow("Topic:order-eu"),), PolicyType.CUSTOM: (deny("Topic:*", "Sub"),)}
    assert decide(policies, ORDER, HERE) is True
    assert decide(policies | {PolicyType.CUSTOM: (deny("*"),)}, ORDER, HERE) is False


def test_a_new_entry_replaces_the_one_of_the_same_resource() -> None:
    before = (allow("Topic:a", "Pub"), allow("Topic:b", "Pub"))
    after = merged(before, [deny("Topic:a", "All"), allow("Topic:a*", "Sub")])
    assert [str(each.resource) for each in after] == ["Topic:a", "Topic:b", "Topic:a*"]
    assert not after[0].is_allowed


@pytest.mark.parametrize(
    "text", ["", "Topic", "Topic:", "Topic:a*b", "Topic:a b", "Topic:**", "Queue:a", "Any:*", "Topic:\x01", ":a"]
)
def test_what_is_no_resource_is_refused(text: str) -> None:
    with pytest.raises(InvalidAccess):
        parse_resource(text)


@pytest.mark.parametrize(
    ("actions", "decision", "sources"),
    [
        ((), "Allow", ()),
        (("Read",), "Allow", ()),
        (("Any",), "Allow", ()),
        (("Pub",), "maybe", ()),
        (("Pub",), "Allow", ("10.0.0.0/40",)),
        (("Pub",), "Allow", ("host.example",)),
        (("Pub",), "Allow", ("",)),
    ],
)
def test_what_is_no_entry_is_refused(actions: tuple[str, ...], decision: str, sources: tuple[str, ...]) -> None:
    with pytest.raises(InvalidAccess):
        entry("Topic:a", actions, decision, sources)


names = st.text("ab", min_size=0, max_size=3)
resources = st.one_of(
    st.just("*"),
    st.just("Topic:*"),
    names.filter(bool).map(lambda name: f"Topic:{name}"),
    names.filter(bool).map(lambda name: f"Topic:{name}*"),
)
entries = st.builds(
    lambda resource, actions, decision: entry(resource, actions, decision),
    resources,
    st.sets(st.sampled_from(["Pub", "Sub"]), min_size=1),
    st.sampled_from(["Allow", "Deny"]),
)


@given(st.lists(entries, max_size=6), names.filter(bool))
def test_the_order_of_entries_decides_nothing_and_a_deny_of_the_very_name_always_holds(
    listed: list[Entry], name: str
) -> None:
    demand = Demand(Kind.TOPIC, name, (Action.PUB,))
    said = of(*listed, demand=demand)
    assert of(*reversed(listed), demand=demand) is said
    assert of(*listed, deny(f"Topic:{name}"), demand=demand) is False
    if not any(each.is_allowed for each in listed):
        assert said is not True
