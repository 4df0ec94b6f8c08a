"""The errors that an operation can raise, as one tree.

OperationError
├── NotAllowed          the person or token may not do this
│   ├── OutOfReach      it touches topics that this person does not see, or nothing bounds it to others
│   └── SamePerson      a second person is needed, and this is the one who asked
├── InvalidParameter    a field is wrong; `field` names it
│   └── InvalidName     a topic or a group cannot have such a name
├── ReasonMissing       no reason was given
├── NotTyped            many are touched and their number was not typed
│   └── NameNotTyped    it is final and the name of what it touches was not typed
├── PendingUndecided    something waits for a topic that is to be deleted, and nobody said what is to become of it
├── PreviewStale        what was shown is too old to be confirmed: look again
├── TooMany             more match than one operation may touch
└── NotPossible         the state of the operation, or the broker, does not allow it
    └── PreviewChanged  what was asked for is not what would be done now
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from django.utils.translation import gettext as _

from broker.client import ClientError, InvalidArgument, NotSupported


class OperationError(Exception):
    """The operation cannot be done."""

    field: str | None = None

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (self.__doc__ or "").strip())


class NotAllowed(OperationError):
    """You may not do this; ask an administrator for the permission."""

    def __init__(self, permission: str) -> None:
        super().__init__(f"This needs the permission {permission}; ask an administrator for it.")
        self.permission = permission


class OutOfReach(NotAllowed):
    """You see some topics only, and this is not bounded to them; choose rows, or a filter with a topic that you see."""

    def __init__(self, why: Literal["selection", "all", "other"] = "selection") -> None:
        told = {
            "all": "It is about all topics, and you see some of them only; somebody who sees all topics can do it.",
            "other": "It touches what you do not see, or not all of; somebody who sees all topics can do it.",
        }
        OperationError.__init__(self, told.get(why))
        self.permission = "topics"
        self.why = why


class SamePerson(NotAllowed):
    """Somebody else has to approve or decline it, signed in here."""

    def __init__(self) -> None:
        OperationError.__init__(self)
        self.permission = "second person"


class InvalidParameter(OperationError):
    """A field is not valid."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class InvalidName(InvalidParameter):
    """A name is none that a topic or a group of a broker can have; `of` says which of them."""

    def __init__(self, field: str, error: InvalidArgument) -> None:
        super().__init__(field, str(error))
        self.of = error.field


class ReasonMissing(OperationError):
    """Enter a reason. It is kept in the audit log."""

    field = "reason"


class NotTyped(OperationError):
    """Type the number of messages to confirm."""

    field = "typed"


class NameNotTyped(NotTyped):
    """Type the name to confirm."""


class PreviewStale(OperationError):
    """The preview is too old; it was counted again: look, and confirm once more."""


class PendingUndecided(OperationError):
    """Say what is to become of that which waits for the topic: cancel it, or keep it."""

    field = "pending"

    def __init__(self, topic: str, waiting: Mapping[str, int | None], *, is_whole: bool) -> None:
        told = ", ".join(f"{name} {count}" for name, count in waiting.items() if count) or "not counted"
        total = sum(count or 0 for count in waiting.values())
        least = "" if is_whole else "at least "
        super().__init__(f"For {topic} {least}{total:,} messages wait ({told}): choose cancel or keep.")
        self.waiting = dict(waiting)


class TooMany(OperationError):
    """More match than one operation may touch."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"More than {limit:,} match; narrow the filter and work in batches.")
        self.limit = limit


class NotPossible(OperationError):
    """This cannot be done now."""


class PreviewChanged(NotPossible):
    """What was asked for is not what would be done now."""

    def __init__(self, name: str, now: object, asked: object) -> None:
        super().__init__(f"{name}: {now} now, {asked} when it was asked for. Decline it, and have it asked for anew.")


def _out_of_reach(error: OutOfReach) -> str:
    """Return why it is refused, and what helps: of what is not a selection only somebody else."""
    if error.why == "all":
        return _("This is about all topics, and you can see some of them only. Somebody who sees all topics can do it.")
    if error.why == "other":
        return _("This touches something that you cannot see, or not all of. Somebody who sees all topics can do it.")
    return _(
        "You can see some topics only, and this selection is not limited to them: select rows of those topics, or "
        "filter by one of them. Somebody who sees all topics can do the rest."
    )


def _invalid_name(error: InvalidName) -> str:
    """Return which names there can be."""
    rules = {
        "topic": _("A topic name has 1 to 127 of the characters %(allowed)s, and is none of the broker's own."),
        "group": _("A group name has 1 to 255 of the characters %(allowed)s."),
    }
    return rules[error.of] % {"allowed": "A-Z a-z 0-9 _ - | %"} if error.of in rules else str(error)


def words(error: Exception) -> str:
    """Return what was wrong, in the reader's language."""
    if isinstance(error, TooMany):
        return _("More than %(limit)s match; narrow the filter and work in batches.") % {"limit": f"{error.limit:,}"}
    if isinstance(error, NotSupported):
        return _("This broker does not support this request.")
    if isinstance(error, ClientError):
        return _("The broker returned an error: %(error)s") % {"error": error}
    if isinstance(error, InvalidParameter) and error.field == "moment":
        return str(error)
    if isinstance(error, InvalidName):
        return _invalid_name(error)
    if isinstance(error, PendingUndecided):
        return _("Choose what happens to the pending messages of the topic: cancel or keep them.")
    if isinstance(error, InvalidParameter) and error.field == "pending":
        return _(
            "This broker cannot cancel the pending messages of a topic: cancel its timers separately, or keep them."
        )
    if isinstance(error, OutOfReach):
        return _out_of_reach(error)
    plain: dict[type[Exception], str] = {
        ReasonMissing: _("Enter a reason. It is kept in the audit log."),
        NameNotTyped: _("Type the name to confirm."),
        NotTyped: _("Type the number of messages to confirm."),
        PreviewStale: _("The preview had expired and was counted again: check it, and confirm once more."),
    }
    if isinstance(error, NotPossible):
        return _("This cannot be done now: %(error)s") % {"error": error}
    return plain.get(type(error), str(error))
