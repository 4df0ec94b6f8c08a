"""What clients with tracing told of a message, for who asks for the message by REST."""

from __future__ import annotations

from collections.abc import Iterable

from broker.client.errors import ClientError
from console.features.messages.traces import TOLD_LIMIT, Told, told_of
from console.security.tokens import READ, Grant

from ...rest.grants import eyes_of
from ...rest.operations_bridge import in_thread
from ...rest.schemas import TracedStep
from ...rest.state import Room


async def traced_steps(unique_id: str | None, grant: Grant, room: Room) -> list[TracedStep] | None:
    """Oldest first, those without a moment last; None: the broker did not tell them.

    A unique id is what a producer says: of a message with the same one that the token may not read nothing is told.
    """
    if unique_id is None:
        return []
    try:
        told = told_of(await room.admin.traces(unique_id))
    except ClientError:
        # the message itself is worth the answer
        return None
    groups = {line.group for line in told if line.what == "consumed" and line.group}
    seen = await in_thread(lambda: groups_seen(grant, groups)) if groups else frozenset()
    told = tuple(line for line in told if _is_seen(line, grant, seen))
    return [
        TracedStep(
            what=line.what, at_ms=line.at_ms, group=line.group, client=line.client, took_ms=line.took_ms,
            succeeded=line.succeeded, retries=line.retries, state=line.state,
        )
        for line in told[:TOLD_LIMIT]
    ]  # fmt: skip


def groups_seen(grant: Grant, names: Iterable[str]) -> frozenset[str]:
    """Of these groups those that the token may read: by their own names, or because they read such topics and no
    others, and by its policies; asks the database."""
    eyes = eyes_of(grant)
    return frozenset(
        name
        for name in names
        if (grant.scopes_allow(READ, name) or eyes.group(name))
        and (grant.policies is None or grant.policies.allows(READ, name, "group"))
    )


def _is_seen(line: Told, grant: Grant, groups: frozenset[str]) -> bool:
    """Consumers name their group, all others the topic."""
    return line.group in groups if line.what == "consumed" else grant.allows(READ, line.topic or "")
