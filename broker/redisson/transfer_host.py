"""The transfer service as a process runs it: from addresses, with reliable mode through Escapement's own client."""

from __future__ import annotations

from collections.abc import Sequence

from ..client import Admin, Producer
from ..client.errors import InvalidArgument
from .server import connect
from .to_topic import Outbound
from .transfer import ModeMover, TransferService

#: A script that moves a value of 512 MB takes seconds.
TIMEOUT_S = 60.0
GROUP = "redisson"


def transfer_service(
    url: str, status_url: str, namesrv: str, *, queues: Sequence[str] = ("*",), read_only: bool = False
) -> TransferService:
    """A service for the delayed queues at `url` that keeps its status at `status_url`; ValueError for no address.

    Queues in reliable mode are sent to the broker that the name service at `namesrv` knows.
    """
    try:
        client = connect(url, timeout_s=TIMEOUT_S)
    except ValueError as error:
        raise ValueError(f"ESCAPEMENT_REDISSON_URL is no address of a Redis: {error}") from error
    try:
        producer, admin = Producer(group=GROUP, namesrv=namesrv), Admin(namesrv)
    except InvalidArgument as error:
        raise ValueError(f"ESCAPEMENT_NAMESRV: {error}") from error
    mover = ModeMover(Outbound(producer, admin), closing=(producer.close, admin.close))
    return TransferService(client, queues=queues, read_only=read_only, status_to=connect(status_url), mover=mover)
