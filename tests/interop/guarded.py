"""Both brokers with access control: root may do everything, everybody else what he was given."""

from __future__ import annotations

import json
from pathlib import Path

from broker.client.credentials import Signer
from tests.interop.programs import Event, Program
from tests.interop.readiness import await_registration, await_runtime
from tests.interop.servers import START_TIMEOUT_S, ApacheServer, EscapementServer, Server, says

ROOT = ("root", "root-secret")
_AUTH = "org.apache.rocketmq.auth"


def guarded_settings() -> dict[str, object]:
    """What a broker of Apache RocketMQ is told to have access control."""
    return {
        "authenticationEnabled": "true",
        "authenticationProvider": f"{_AUTH}.authentication.provider.DefaultAuthenticationProvider",
        "authenticationMetadataProvider": f"{_AUTH}.authentication.provider.LocalAuthenticationMetadataProvider",
        "initAuthenticationUser": json.dumps({"username": ROOT[0], "password": ROOT[1]}),
        "innerClientAuthenticationCredentials": json.dumps({"accessKey": "inner", "secretKey": "inner-secret"}),
        "authorizationEnabled": "true",
        "authorizationProvider": f"{_AUTH}.authorization.provider.DefaultAuthorizationProvider",
        "authorizationMetadataProvider": f"{_AUTH}.authorization.provider.LocalAuthorizationMetadataProvider",
    }


class GuardedApache(ApacheServer):
    """Apache RocketMQ with authenticationEnabled and authorizationEnabled."""

    def start(self) -> None:
        """As every server; what it tells about itself it tells to root."""
        self.prepare()
        self.launch().wait_for(says("boot success"), START_TIMEOUT_S, "the broker")
        await_registration(self.namesrv, START_TIMEOUT_S)
        await_runtime(self.address, START_TIMEOUT_S, Signer(*ROOT).sign({}, b""))

    def _settings(self) -> dict[str, object]:
        return super()._settings() | guarded_settings()


class GuardedEscapement(EscapementServer):
    """Our broker with an access key; TLS too where there is a certificate."""

    more_arguments = ("--access-key", ROOT[0])
    more_environment = {"ESCAPEMENT_SECRET_KEY": ROOT[1]}


class OpenRoutes(GuardedEscapement):
    """Our broker with access control, which tells everybody where a topic is."""

    more_arguments = (*GuardedEscapement.more_arguments, "--open-routes")


GUARDED: dict[str, type[GuardedApache | GuardedEscapement]] = {
    "apache": GuardedApache,
    "escapement": GuardedEscapement,
}


class JavaUser(Program):
    """The official client in the name of a user."""

    def __init__(
        self, server: Server, name: str, secret: str, *, version: str, work: Path, properties: tuple[str, ...] = ()
    ) -> None:
        super().__init__("Signed", [server.namesrv, name, secret], version=version, work=work, properties=properties)

    def send(self, topic: str, body: str) -> Event:
        """Send one message."""
        return self.ask("send", topic, body, until="sent", timeout_s=60)[-1]

    def pull(self, group: str, topic: str, queue_id: int = 0) -> Event:
        """Pull one queue from its first message on."""
        return self.ask("pull", group, topic, "broker-a", queue_id, 0, until="pulled", timeout_s=60)[-1]

    def consume(self, group: str, topic: str) -> None:
        """Begin to consume."""
        self.ask("consume", group, topic, until="consuming", timeout_s=60)
