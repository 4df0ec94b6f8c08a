"""Users of a broker with access control, each with a client of his own."""

from __future__ import annotations

import json
from typing import Any

from broker.client.credentials import Signer
from broker.client.remoting import RemotingClient
from broker.rocketmq.acl import AccessConfig, User
from broker.rocketmq.codes import Request
from broker.rocketmq.frame import Command
from tests.server.peer import Peer

#: Name and secret of the broker's own user.
ROOT = ("root", "root-secret")
ACCESS = AccessConfig(User(*ROOT, is_super=True))


def policy(
    resource: str, *actions: str, decision: str = "Allow", sources: tuple[str, ...] = (), type_: str | None = None
) -> dict[str, Any]:
    """A policy of one entry, as `mqadmin` sends it."""
    entry = {"resource": resource, "actions": list(actions), "sourceIps": list(sources), "decision": decision}
    return {"policyType": type_, "entries": [entry]}


class People:
    """Makes users and clients."""

    def __init__(self, address: str, namesrv: str) -> None:
        self.address = address
        self.namesrv = namesrv
        self._clients: list[RemotingClient] = []
        self.root = self.signed(*ROOT)

    def client(self, signer: Signer | None = None, *, serialization: int = 0) -> RemotingClient:
        """A client that signs, or one that does not."""
        made = RemotingClient(sign=signer.sign if signer else None, serialization=serialization)
        self._clients.append(made)
        return made

    def signed(self, name: str, secret: str, **options: Any) -> Peer:
        """Somebody with a name."""
        return Peer(self.client(Signer(name, secret), **options), self.address)

    def nobody(self) -> Peer:
        """A client without a name."""
        return Peer(self.client(), self.address)

    async def normal(self, name: str, *policies: dict[str, Any]) -> Peer:
        """A Normal user with these policies."""
        await self.create(name)
        for each in policies:
            assert (await self.allow(name, each)).code == 0
        return self.signed(name, f"{name}-secret")

    async def create(self, name: str, **info: str) -> Command:
        """Make a user by the root's hand."""
        body = {"password": f"{name}-secret", **info}
        return await self.root.ask(Request.AUTH_CREATE_USER, {"username": name}, json.dumps(body).encode())

    async def update(self, name: str, by: Peer | None = None, **info: str) -> Command:
        return await (by or self.root).ask(Request.AUTH_UPDATE_USER, {"username": name}, json.dumps(info).encode())

    async def allow(self, name: str, *policies: dict[str, Any], by: Peer | None = None) -> Command:
        """Add policies to a user."""
        subject = f"User:{name}"
        body = json.dumps({"subject": subject, "policies": list(policies)}).encode()
        return await (by or self.root).ask(Request.AUTH_CREATE_ACL, {"subject": subject}, body)

    async def ask_namesrv(self, peer: Peer, code: int, ext: dict[str, str] | None = None) -> Command:
        """Ask the name service instead."""
        return await peer.client.invoke(self.namesrv, code, ext)

    async def close(self) -> None:
        for client in self._clients:
            await client.close()
