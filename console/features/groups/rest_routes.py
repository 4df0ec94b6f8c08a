"""The part of the table of REST operations that is about dead letters and offsets of consumer groups."""

from __future__ import annotations

from console.security.tokens import CONSUME, PUBLISH, READ, SETTINGS

from ...rest.choice_schemas import DeadLetterRows, ManyLetters, NewOffsets, OperationPreview
from ...rest.needs import SOMEWHERE, Need
from ...rest.route import Operation
from ..timers.rest_bulk_schemas import OperationShown
from . import rest as groups_rest

_LETTERS = "/groups/{group}/dead-letters"
_BEGUN = (202, "It runs, has run, or waits for a second person; Location says where to look.", OperationShown)
_PREVIEW = (200, "Asked for a preview: what it would touch.", OperationPreview)

OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "GET", _LETTERS, "List the dead letters of a group", READ, groups_rest.dead_letters, None,
        ((200, "A page of them.", DeadLetterRows),),
        (
            ("topic", "Only of this topic."), ("key", "Only with this key, tag or message_id."),
            ("from", "RFC 3339 with a zone, or ms since 1970; died from this moment on."),
            ("to", "RFC 3339 with a zone, or ms since 1970; died before this moment."),
            ("cursor", "From the page before."),
        ),
        "rows",
    ),
    Operation(
        "POST", f"{_LETTERS}:send-back", "Give dead letters to their group once more", CONSUME,
        groups_rest.sending("send_back"), ManyLetters, (_BEGUN, _PREVIEW), narrows="body",
    ),
    Operation(
        "POST", f"{_LETTERS}:send-as-new", "Send dead letters as new messages, for every group", CONSUME,
        groups_rest.sending("send_as_new"), ManyLetters, (_BEGUN, _PREVIEW), narrows="body",
        needs=(Need((CONSUME,), "group", "group"), Need((PUBLISH,), SOMEWHERE)),
    ),
    Operation(
        "POST", "/topics/{topic}/groups/{group}:reset-offsets", "Have a group go on elsewhere in a topic", SETTINGS,
        groups_rest.reset_offsets, NewOffsets, (_BEGUN, _PREVIEW),
        needs=(Need((CONSUME,), "topic"), Need((CONSUME,), "group", "group"), Need((SETTINGS,), "group", "group")),
    ),
)  # fmt: skip
