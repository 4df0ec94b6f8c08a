"""Why something was refused, in the reader's language."""

from __future__ import annotations

from django.utils.translation import gettext as _

from broker.client import ClientError, NotSupported
from console.operations.errors import (
    InvalidParameter,
    NameNotTyped,
    NotPossible,
    NotTyped,
    OutOfReach,
    PendingUndecided,
    PreviewStale,
    ReasonMissing,
    TooMany,
)


def words(error: Exception) -> str:
    """What was wrong, in the reader's language."""
    if isinstance(error, TooMany):
        return _("More than %(limit)s match; narrow the filter and do it in parts.") % {"limit": f"{error.limit:,}"}
    if isinstance(error, NotSupported):
        return _("This broker does not know the request: it is not there to be done.")
    if isinstance(error, ClientError):
        return _("The broker did not do it: %(error)s") % {"error": error}
    if isinstance(error, InvalidParameter) and error.field == "moment":
        return str(error)
    if isinstance(error, PendingUndecided):
        return _("Say what is to become of what waits for the topic: cancel it, or keep it.")
    if isinstance(error, InvalidParameter) and error.field == "pending":
        return _("This broker cannot cancel what waits for a topic: cancel its timers by themselves, or keep it.")
    if isinstance(error, OutOfReach):
        return _(
            "You see some topics only, and this is not bounded to them: "
            "choose rows of theirs, or filter by one of them."
        )
    plain: dict[type[Exception], str] = {
        ReasonMissing: _("Say why: the reason is kept in the audit."),
        NameNotTyped: _("Type the name to confirm."),
        NotTyped: _("Type the number of messages to confirm."),
        PreviewStale: _("The preview was too old and was counted again: look, and confirm once more."),
    }
    if isinstance(error, NotPossible):
        return _("This cannot be done now: %(error)s") % {"error": error}
    return plain.get(type(error), str(error))
