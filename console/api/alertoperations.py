"""The part of the table of REST operations that is about alert rules and silences."""

from __future__ import annotations

from console.credentials import SETTINGS

from . import alerting
from .alertschemas import AlertRuleChange, AlertRuleRows, AlertRuleShown, NewAlertRule, NewSilence, SilenceRows
from .bulkschemas import OperationShown
from .choiceschemas import OperationPreview
from .needs import EVERYWHERE, Need
from .operation import Operation

_RULES, _SILENCES = "/alert-rules", "/alert-silences"
_RULE, _SILENCE = _RULES + "/{rule}", _SILENCES + "/{silence}"
_REASON = (("reason", "Kept in the audit."), ("preview", "true: say what would come of it, and do nothing."))
_BEGUN = (202, "It is done, or waits for a second person; Location says where to look.", OperationShown)
_PREVIEW = (200, "Asked for a preview: what it would say now.", OperationPreview)
#: rules watch names of every beginning
_NEEDS = (Need((SETTINGS,), EVERYWHERE),)

OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "GET", _RULES, "List alert rules", SETTINGS, alerting.rules, None, ((200, "Rules.", AlertRuleRows),),
        needs=_NEEDS,
    ),
    Operation(
        "POST", _RULES, "Make an alert rule", SETTINGS, alerting.make, NewAlertRule, (_BEGUN, _PREVIEW), needs=_NEEDS
    ),
    Operation(
        "GET", _RULE, "Look at an alert rule", SETTINGS, alerting.rule, None, ((200, "The rule.", AlertRuleShown),),
        needs=_NEEDS,
    ),
    Operation(
        "PATCH", _RULE, "Change an alert rule, or switch it on or off", SETTINGS, alerting.change, AlertRuleChange,
        (_BEGUN, (200, "It is so already; asked for a preview: OperationPreview.", AlertRuleShown)), needs=_NEEDS,
    ),
    Operation(
        "DELETE", _RULE, "Delete an alert rule with what it raised", SETTINGS, alerting.delete, None,
        (_BEGUN, _PREVIEW), _REASON, needs=_NEEDS,
    ),
    Operation(
        "GET", _SILENCES, "List silences that hold", SETTINGS, alerting.silences, None,
        ((200, "Silences.", SilenceRows),), needs=_NEEDS,
    ),
    Operation(
        "POST", _SILENCES, "Silence alerts", SETTINGS, alerting.silence, NewSilence, (_BEGUN, _PREVIEW), needs=_NEEDS
    ),
    Operation(
        "DELETE", _SILENCE, "End a silence", SETTINGS, alerting.end_silence, None, (_BEGUN, _PREVIEW), _REASON,
        needs=_NEEDS,
    ),
)  # fmt: skip
