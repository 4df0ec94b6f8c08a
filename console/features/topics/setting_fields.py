"""The settings of a topic and of a group that can be changed here: names, values, and the fields of RocketMQ."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from console.features.topics import retry_delays as delays
from console.operations.errors import InvalidParameter

#: 4 read, 2 write
PERMISSIONS = (6, 4, 2)
MESSAGE_TYPES = ("", "NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED")
RETRY_POLICIES = ("CUSTOMIZED", "EXPONENTIAL")
_TYPE = "message.type"

Fields = Mapping[str, Any]
Value = int | bool | str


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: `choices`, a whole number from `low` to `high`, a text that `form` puts in its one form, or (none of
    these) yes and no."""

    name: str
    read: Callable[[Fields], Value]
    write: Callable[[Fields, Value], dict[str, Any]]
    choices: tuple[Value, ...] = ()
    low: int | None = None
    high: int | None = None
    form: Callable[[str, Any], str] | None = None

    @property
    def is_text(self) -> bool:
        """It is written."""
        return self.form is not None

    @property
    def is_number(self) -> bool:
        """It is counted."""
        return self.low is not None

    def checked(self, given: Any) -> Value:
        """The value in its one form, also of a form's text; raises InvalidParameter."""
        value: Any = given
        if isinstance(given, str) and (self.is_number or isinstance(next(iter(self.choices), None), int)):
            value = int(given) if given.isascii() and given.isdigit() and len(given) < 10 else None
        if self.form is not None:
            return self.form(self.name, given)
        if self.choices:
            if isinstance(value, bool) or value not in self.choices:
                listed = ", ".join(repr(each) for each in self.choices)
                raise InvalidParameter(self.name, f"{self.name} is one of {listed}.")
        elif self.low is not None and self.high is not None:
            if not isinstance(value, int) or isinstance(value, bool) or not self.low <= value <= self.high:
                raise InvalidParameter(self.name, f"{self.name} is a whole number from {self.low:,} to {self.high:,}.")
        else:
            value = {"yes": True, "no": False}.get(given, given) if isinstance(given, str) else given
            if not isinstance(value, bool):
                raise InvalidParameter(self.name, f"{self.name} is true or false.")
        return value


def _plain(name: str, key: str, default: Value, **more: Any) -> Setting:
    kind = type(default)
    return Setting(
        name,
        lambda found: kind(default if found.get(key) is None else found[key]),
        lambda _, value: {key: value},
        **more,
    )


def _read_type(found: Fields) -> str:
    return str((found.get("attributes") or {}).get(_TYPE, ""))


def _read_policy(found: Fields) -> str:
    return str(delays.policy_of(found).get("type", "CUSTOMIZED"))


def _growing_delay(name: str, part: str) -> Setting:
    return Setting(
        name,
        lambda found: delays.text_of(delays.growth_of(found, part, delays.USUAL_GROWTH[part])),
        lambda found, value: delays.with_growth(found, part, delays.delays_of(name, value)[0]),
        form=delays.checked_delay,
    )


TOPIC = (
    _plain("read_queues", "readQueueNums", 4, low=1, high=1_024),
    _plain("write_queues", "writeQueueNums", 4, low=1, high=1_024),
    _plain("permission", "perm", 6, choices=PERMISSIONS),
    Setting("message_type", _read_type, lambda _, value: {"attributes": {_TYPE: value or None}}, choices=MESSAGE_TYPES),
    _plain("order", "order", False),
)
GROUP = (
    _plain("consume_enabled", "consumeEnable", True),
    _plain("broadcast_enabled", "consumeBroadcastEnable", True),
    _plain("orderly", "consumeMessageOrderly", False),
    _plain("retry_max_times", "retryMaxTimes", 16, low=0, high=10_000),
    Setting(
        "retry_policy", _read_policy,
        lambda found, value: {delays.POLICY: delays.policy_of(found) | {"type": value}}, choices=RETRY_POLICIES,
    ),
    Setting(
        "retry_delays", delays.own_delays, lambda found, value: delays.with_own_delays(found, str(value)),
        form=delays.checked_delays,
    ),
    _growing_delay("retry_first_delay", "initial"),
    _growing_delay("retry_longest_delay", "max"),
    Setting(
        "retry_multiplier",
        lambda found: delays.growth_of(found, "multiplier", delays.USUAL_GROWTH["multiplier"]),
        lambda found, value: delays.with_growth(found, "multiplier", int(value)), low=1, high=100,
    ),
)  # fmt: skip


def shown(settings: tuple[Setting, ...], found: Fields) -> dict[str, Value]:
    """Every setting by its name here."""
    return {each.name: each.read(found) for each in settings}


def checked(settings: tuple[Setting, ...], given: Any) -> dict[str, Value]:
    """What was given, checked; raises InvalidParameter for what is wrong, or no setting."""
    known = {each.name: each for each in settings}
    if not isinstance(given, Mapping):
        raise InvalidParameter("settings", "settings are names with values.")
    for name in given:
        if name not in known:
            raise InvalidParameter(
                "settings", f"There is no setting {str(name)[:60]!r}; there are: {', '.join(known)}."
            )
    return {name: known[name].checked(value) for name, value in given.items()}


def written(settings: tuple[Setting, ...], found: Fields, wanted: Mapping[str, Value]) -> dict[str, Any]:
    """The fields that a broker is given for these settings."""
    known = {each.name: each for each in settings}
    fields: dict[str, Any] = {}
    for name, value in wanted.items():
        fields |= known[name].write({**found, **fields}, value)
    return fields
