"""Settings of a rule as forms and REST send them: each is read into its one form, or refused with a reason."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from django.utils.translation import gettext as _

from console.features.alerts.deliveries import CHANNELS, SettingRefused
from console.features.alerts.models import AlertRule
from console.operations.errors import InvalidParameter
from console.site.parsing import read_span, whole_number

Value = str | float | int | bool
#: a day for what is counted in seconds is usual, a week is enough
LONGEST_FOR_S = 604_800
HIGHEST_LIMIT = 1e15
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
#: what a rule has where nothing is said
DEFAULTS: Mapping[str, Value] = {
    "name": "",
    "what": "",
    "subject": "*",
    "limit": "",
    "for_s": 60,
    **{channel.setting: "" for channel in CHANNELS.values()},
    "is_on": True,
}


def read(given: Mapping[str, Any]) -> tuple[dict[str, Value], dict[str, str]]:
    """Read given settings: the values in their one form, and the faults, each by name."""
    values: dict[str, Value] = {}
    faults: dict[str, str] = {}
    for name, value in given.items():
        if name not in _READERS:
            faults["settings"] = f"There is no setting {str(name)[:60]!r}; there are: {', '.join(_READERS)}."
            continue
        try:
            values[name] = _READERS[name](_without_unit(name, value, given.get("what")))
        except SettingRefused as error:
            faults[name] = str(error)
    return values, faults


def checked(given: Any) -> dict[str, Value]:
    """Return given settings in their one form. Raises InvalidParameter for the first fault."""
    if not isinstance(given, Mapping):
        raise InvalidParameter("settings", "settings are names with values.")
    values, faults = read(given)
    for name, fault in faults.items():
        raise InvalidParameter(name, fault)
    return values


def shown(rule: AlertRule) -> dict[str, Value]:
    """Return all settings of a rule."""
    return {name: getattr(rule, name) for name in _READERS}


def _text(longest: int) -> Callable[[Any], Value]:
    def read_text(value: Any) -> Value:
        text = value.strip() if isinstance(value, str) else None
        if text is None or len(text) > longest or _CONTROL.search(text):
            raise SettingRefused(_("At most %(count)s characters, and no line breaks.") % {"count": longest})
        return text

    return read_text


def _subject(value: Any) -> Value:
    return _text(255)(value) or "*"


def _what(value: Any) -> Value:
    if not isinstance(value, str) or value not in AlertRule.What.values:
        raise SettingRefused(_("Choose a metric: %(codes)s.") % {"codes": ", ".join(AlertRule.What.values)})
    return value


def _without_unit(name: str, value: Any, what: Any) -> Any:
    """Return a length of time with its unit, such as "1 s", as the number of what the setting counts in.

    The unit of a limit is that of what is watched: where that is not given with it, a number has to do.
    """
    unit_ms = 1_000 if name == "for_s" else None
    if name == "limit" and what in AlertRule.What.values:
        unit_ms = AlertRule.What(what).unit_ms
    length_ms = read_span(f"+{value.strip()}") if isinstance(value, str) else None
    if length_ms is None or unit_ms is None:
        return value
    number = length_ms / unit_ms
    return str(int(number) if number == int(number) else number)


def _limit(value: Any) -> Value:
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not 0 <= number <= HIGHEST_LIMIT:
        raise SettingRefused(_("A number from 0, such as 100 or 2.5."))
    return number


def _for_s(value: Any) -> Value:
    if isinstance(value, str):
        value = whole_number(value.strip())
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= LONGEST_FOR_S:
        raise SettingRefused(_("A whole number of seconds from 0 to %(most)s.") % {"most": f"{LONGEST_FOR_S:,}"})
    return value


def _is_on(value: Any) -> Value:
    found = {"yes": True, "no": False}.get(value, value) if isinstance(value, str) else value
    if not isinstance(found, bool):
        raise SettingRefused(_("Yes or no."))
    return found


_READERS: Mapping[str, Callable[[Any], Value]] = {
    "name": _text(80),
    "what": _what,
    "subject": _subject,
    "limit": _limit,
    "for_s": _for_s,
    **{channel.setting: channel.checked for channel in CHANNELS.values()},
    "is_on": _is_on,
}
