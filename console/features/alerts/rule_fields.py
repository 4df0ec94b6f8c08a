"""Settings of a rule as forms and REST send them: each is read into its one form, or refused with a reason.

The secret of a webhook is sealed as soon as it is read: neither operations nor rules ever hold it in clear.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from django.utils.translation import gettext as _

from console.features.alerts import sealed_secret, units
from console.features.alerts.channels import CHANNELS, SettingRefused
from console.features.alerts.models import AlertRule
from console.features.alerts.webhooks.plain import Plain
from console.features.alerts.webhooks.registry import FORMATS, format_of
from console.operations.errors import InvalidParameter
from console.operations.typed_moments import bare_span_ms
from console.site.parsing import whole_number

Value = str | float | int | bool
#: a day for what is counted in seconds is usual, a week is enough
LONGEST_FOR_S = 604_800
HIGHEST_LIMIT = 1e15
LONGEST_SECRET = 200
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
#: what a rule has where nothing is said
DEFAULTS: Mapping[str, Value] = {
    "name": "",
    "what": "",
    "subject": "*",
    "limit": "",
    "for_s": 60,
    **{channel.setting: "" for channel in CHANNELS.values()},
    "webhook_format": "plain",
    "webhook_secret": "",
    "is_on": True,
}


def read(given: Mapping[str, Any], what: str = "") -> tuple[dict[str, Value], dict[str, str]]:
    """Read given settings: the values in their one form, and the faults, each by name.

    `what` says what is watched where that is not given with them: the unit of the limit is that of what is watched.
    """
    what = str(given.get("what", what))
    values: dict[str, Value] = {}
    faults: dict[str, str] = {}
    for name, value in given.items():
        if name not in _READERS:
            faults["settings"] = f"There is no setting {str(name)[:60]!r}; there are: {', '.join(_READERS)}."
            continue
        try:
            values[name] = _limit(value, what) if name == "limit" else _READERS[name](value)
        except SettingRefused as error:
            faults[name] = str(error)
    return values, faults


def checked(given: Any, what: str = "") -> dict[str, Value]:
    """Return given settings in their one form, as `read` does. Raises InvalidParameter for the first fault."""
    if not isinstance(given, Mapping):
        raise InvalidParameter("settings", "settings are names with values.")
    values, faults = read(given, what)
    for name, fault in faults.items():
        raise InvalidParameter(name, fault)
    return values


def faults_together(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return what is wrong with settings that are right each by itself: those of a webhook belong together."""
    form = format_of(str(settings["webhook_format"]))
    if form.name != Plain.name and not settings["webhook"]:
        return {"webhook": _("Enter the address, such as %(example)s") % {"example": form.example}}
    if settings["webhook_secret"] and not form.secret_title:
        return {"webhook_secret": _("This service has no secret to enter.")}
    if form.needs_secret and not settings["webhook_secret"]:
        return {"webhook_secret": _("Enter the %(secret)s.") % {"secret": form.secret_title}}
    return {}


def check_together(settings: Mapping[str, Any]) -> None:
    """Raise InvalidParameter for what is wrong with settings together."""
    for name, fault in faults_together(settings).items():
        raise InvalidParameter(name, fault)


def with_secret(changes: Mapping[str, Value], now: Mapping[str, Value]) -> dict[str, Value]:
    """Return changes in which a secret goes with its webhook: kept for another address or service it would be told to
    somebody else."""
    of_webhook = ("webhook", "webhook_format")
    is_other = any(name in changes and changes[name] != now[name] for name in of_webhook)
    lost = {"webhook_secret": ""} if is_other and now["webhook_secret"] and "webhook_secret" not in changes else {}
    return {**changes, **lost}


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


def _limit(value: Any, what: str = "") -> Value:
    number: float | None = math.nan
    if isinstance(value, str):
        number = units.read(what, value)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        number = value
    try:
        number = math.nan if number is None else float(number)
    except OverflowError:
        number = math.nan
    if not 0 <= number <= HIGHEST_LIMIT:
        example = units.example_of(what) or "100"
        raise SettingRefused(_("A number from 0 with its unit, such as %(example)s.") % {"example": example})
    return number


def _for_s(value: Any) -> Value:
    if isinstance(value, str):
        span_ms = bare_span_ms(value)
        seconds = None if span_ms is None or span_ms % 1_000 else span_ms // 1_000
        value = whole_number(value.strip()) if span_ms is None else seconds
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= LONGEST_FOR_S:
        raise SettingRefused(_("A length of time up to 7 days in whole seconds, such as 30 s or 5 min."))
    return value


def _webhook_format(value: Any) -> Value:
    if not isinstance(value, str) or value not in FORMATS:
        raise SettingRefused(_("Choose a service: %(codes)s.") % {"codes": ", ".join(FORMATS)})
    return value


def _webhook_secret(value: Any) -> Value:
    """Return the secret sealed; one that is sealed already, by an operation, as it is."""
    if sealed_secret.is_sealed(value):
        return str(value)
    text = str(_text(LONGEST_SECRET)(value))
    return sealed_secret.seal(text) if text else ""


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
    "webhook_format": _webhook_format,
    "webhook_secret": _webhook_secret,
    "is_on": _is_on,
}
