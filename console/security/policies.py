"""What a user of the brokers' access control may do by REST: each of its actions in the words of policies.

| action    | on               | needs                | as the broker asks for                                       |
|-----------|------------------|----------------------|--------------------------------------------------------------|
| publish   | a topic          | Pub                  | a send, the end of a transaction, a change of its timers     |
| read      | a topic, a group | Sub or Get           | a message by its id or position                              |
| consume   | a topic, a group | Sub                  | pop, ack, change of the invisible time                       |
| admin     | a producer group | Update on the group  |                                                              |
| settings  | a topic          | Create               | 17, which makes and changes                                  |
| settings  | a group          | Create or Update     | 200, which makes and changes                                 |
| delete    | a topic, a group | Delete               | 215, 207                                                     |
| overview  | the cluster      | Get                  | its groups, delay levels, and figures of all timers          |
| everything| the cluster      | Update               | what names no topic                                          |

What decides is the broker's own rule (broker.client.admin.UserAccess). Of several brokers each has to allow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from broker.client.admin import UserAccess
from broker.rocketmq.acl import Action, Kind
from console.security.tokens import ADMIN, CONSUME, DELETE, PUBLISH, READ, SETTINGS

_NEEDS: Mapping[str, tuple[Action, ...]] = {
    PUBLISH: (Action.PUB,), READ: (Action.SUB, Action.GET), CONSUME: (Action.SUB,), ADMIN: (Action.UPDATE,),
    SETTINGS: (Action.CREATE,), DELETE: (Action.DELETE,),
}  # fmt: skip
_GROUP_SETTINGS = (Action.CREATE, Action.UPDATE)
_KINDS: Mapping[str, Kind] = {"topic": Kind.TOPIC, "group": Kind.GROUP, "producer group": Kind.GROUP}


@dataclass(frozen=True, slots=True)
class PoliciesOfUser:
    """What each broker's access control lets a user do who asks from `source`, an IP address (None: not known)."""

    user: str
    of_brokers: tuple[UserAccess, ...]
    source: str | None

    def allows(self, action: str, name: str, kind: str = "topic") -> bool:
        """Whether the action is allowed on a topic, a group or a producer group."""
        needed, kind_of = _NEEDS[action], _KINDS[kind]
        if action == SETTINGS and kind_of is Kind.GROUP:
            needed = _GROUP_SETTINGS
        return all(each.allows(kind_of, name, needed, self.source) for each in self.of_brokers)

    def allows_overview(self) -> bool:
        """Whether figures of the whole cluster may be seen."""
        return self._on_cluster(Action.GET)

    def allows_everything(self) -> bool:
        """Whether the whole cluster may be changed."""
        return self._on_cluster(Action.UPDATE)

    def refusal(self, what: str) -> str:
        """Who is not allowed to do what, in a sentence."""
        for each in self.of_brokers:
            if not each.is_known:
                return f"Access control of {each.broker} has no user {self.user!r}, to whom the token is bound."
            if not each.is_enabled:
                return f"The user {self.user!r}, to whom the token is bound, is disabled at {each.broker}."
        return f"The policies of the user {self.user!r} do not allow {what} from {self.source or 'an unknown address'}."

    def _on_cluster(self, action: Action) -> bool:
        return all(each.allows(Kind.CLUSTER, each.cluster, (action,), self.source) for each in self.of_brokers)
