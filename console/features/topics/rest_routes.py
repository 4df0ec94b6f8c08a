"""The part of the table of REST operations that is about the settings of topics and groups."""

from __future__ import annotations

from console.security.tokens import DELETE, READ, SETTINGS

from ...rest.route import Operation
from ..timers.rest_bulk_schemas import OperationShown
from . import rest as topics_rest
from .rest_schemas import (
    GroupChange,
    NewGroup,
    NewTopic,
    SettingsOfGroup,
    SettingsOfTopic,
    SettingsPreview,
    TopicChange,
)

_TOPIC, _GROUP = "/topics/{topic}", "/groups/{group}"
_DELETE = (("reason", "Kept in the audit."), ("preview", "true: say what would be lost, and delete nothing."))
_PENDING = (
    "pending", "What becomes of what waits for it, needed where something does: cancel, or keep (it makes it anew).",
)  # fmt: skip
_BEGUN = (202, "It is done, or waits for a second person; Location says where to look.", OperationShown)
_PREVIEW = (200, "Asked for a preview: what would come of it.", SettingsPreview)

OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "POST", "/topics", "Make a topic", SETTINGS, topics_rest.topics.make, NewTopic, (_BEGUN, _PREVIEW), narrows="body"
    ),
    Operation(
        "GET", f"{_TOPIC}/settings", "Look at a topic's settings", READ, topics_rest.topics.look, None,
        ((200, "As they are now.", SettingsOfTopic),),
    ),
    Operation(
        "PATCH", f"{_TOPIC}/settings", "Change a topic's settings", SETTINGS, topics_rest.topics.change, TopicChange,
        (_BEGUN, (200, "They are so already; asked for a preview: SettingsPreview.", SettingsOfTopic)),
    ),
    Operation(
        "DELETE", _TOPIC, "Delete a topic with its messages", DELETE, topics_rest.topics.delete, None,
        (_BEGUN, _PREVIEW), (*_DELETE, _PENDING),
    ),
    Operation(
        "POST", "/groups", "Make a consumer group", SETTINGS, topics_rest.groups.make, NewGroup, (_BEGUN, _PREVIEW),
        narrows="body",
    ),
    Operation(
        "GET", f"{_GROUP}/settings", "Look at a consumer group's settings", READ, topics_rest.groups.look, None,
        ((200, "As they are now.", SettingsOfGroup),),
    ),
    Operation(
        "PATCH", f"{_GROUP}/settings", "Change a consumer group's settings", SETTINGS, topics_rest.groups.change,
        GroupChange, (_BEGUN, (200, "They are so already; asked for a preview: SettingsPreview.", SettingsOfGroup)),
    ),
    Operation(
        "DELETE", _GROUP, "Delete a consumer group with how far it has read", DELETE, topics_rest.groups.delete, None,
        (_BEGUN, _PREVIEW), _DELETE,
    ),
)  # fmt: skip
