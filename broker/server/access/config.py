"""How access control is set up."""

from __future__ import annotations

from dataclasses import dataclass

from .users import User


@dataclass(frozen=True, slots=True)
class AccessConfig:
    """``inner``: the broker's own user, who may do everything and is in no file.

    ``are_routes_open``: where a topic is (105) is answered to everybody, as Apache RocketMQ's name service does; some
    clients sign nothing that they ask a name service. It tells strangers which topics there are.
    """

    inner: User
    are_routes_open: bool = False
