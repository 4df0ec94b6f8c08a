"""The client's admin makes, changes and deletes users and policies as mqadmin does."""

from __future__ import annotations

import time

import pytest

from broker.client import AsyncAdmin, BrokerRefused, InvalidArgument
from broker.client.admin import AccessUser
from broker.rocketmq.acl import PolicyType, entry
from broker.server.broker import BrokerService
from tests.server.access.clients import ROOT

ORDERS = entry("Topic:order*", ["Pub", "Sub"], "Allow", ["10.0.0.0/8"])


def admin_of(service: BrokerService, name: str = ROOT[0], secret: str = ROOT[1]) -> AsyncAdmin:
    return AsyncAdmin(service.namesrv_address, access_key=name, secret_key=secret)


async def test_a_user_is_made_changed_listed_and_deleted(service: BrokerService) -> None:
    async with admin_of(service) as admin:
        assert [user.name for user in await admin.access_users()] == ["root"]
        await admin.create_access_user("alice", "first")
        assert await admin.access_user("alice") == AccessUser("alice", False, True, {})
        with pytest.raises(BrokerRefused):
            await admin.create_access_user("alice", "other")
        await admin.change_access_user("alice", is_super=True)
        await admin.change_access_user("alice", is_enabled=False)
        await admin.set_policies("alice", [ORDERS])
        await admin.set_policies("alice", [entry("*", ["Get"], "Deny")], kind=PolicyType.DEFAULT)
        policies = {PolicyType.CUSTOM: (ORDERS,), PolicyType.DEFAULT: (entry("*", ["Get"], "Deny"),)}
        kept = AccessUser("alice", True, False, policies)
        assert await admin.access_users("lic") == (kept,)
        await admin.delete_policy("alice", "topic:order*")
        await admin.delete_policy("alice", "*", kind=PolicyType.DEFAULT)
        assert await admin.access_user("alice") == AccessUser("alice", True, False, {})
        await admin.delete_access_user("alice")
        assert await admin.access_user("alice") is None
        for wrong in (lambda: admin.delete_policy("alice", "order"), lambda: admin.create_access_user("a b", "x")):
            with pytest.raises(InvalidArgument):
                await wrong()


async def test_the_old_secret_counts_as_long_as_it_is_said(service: BrokerService) -> None:
    until_ms = time.time_ns() // 1_000_000 + 60_000
    async with admin_of(service) as admin:
        await admin.create_access_user("alice", "first", is_super=True)
        await admin.change_access_user("alice", secret="second", keep_until_ms=until_ms)
        found = await admin.access_user("alice")
        assert found is not None and found.previous_until_ms == until_ms
        for secret in ("first", "second"):
            async with admin_of(service, "alice", secret) as own:
                assert await own.access_users("alice") == (found,)
        await admin.change_access_user("alice", keep_until_ms=0)
        async with admin_of(service, "alice", "first") as own:
            with pytest.raises(BrokerRefused):
                await own.access_users()
        found = await admin.access_user("alice")
        assert found is not None and found.previous_until_ms is None
