"""The settings of topics and consumer groups that can be changed here: names, values, RocketMQ's fields, and the forms.

A group's own retry delays are written as text, "10s 30s 1m" for its first three tries, as RocketMQ writes delay levels.
RocketMQ's list has two entries before that of the first try, which nobody reads (CustomizedRetryPolicy)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from broker.client import Admin
from console.operations.errors import InvalidParameter
from console.site.broker import ask_each
from console.site.evidence import Evidence
from console.site.mirrored import cluster

#: 4 read, 2 write
PERMISSIONS = (6, 4, 2)
MESSAGE_TYPES = ("", "NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED")
RETRY_POLICIES = ("CUSTOMIZED", "EXPONENTIAL")
LONGEST_MS = 365 * 86_400_000
MOST_DELAYS = 100

POLICY = "groupRetryPolicy"

#: ExponentialRetryPolicy of RocketMQ 5.5.0
USUAL_GROWTH = {"initial": 5_000, "max": 7_200_000, "multiplier": 2}
#: the attribute of a topic that says which messages 5.x clients may send
TYPE_ATTRIBUTE = "message.type"
_DELAY = re.compile(r"([1-9][0-9]{0,10})(ms|s|m|h|d)")
_SKIPPED = 2
_UNITS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}

Fields = Mapping[str, Any]
Value = int | bool | str


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting: `choices`, a whole number from `low` to `high`, a text that `form` puts in its one form, or (none of
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
        """Tell whether the setting is a text."""
        return self.form is not None

    @property
    def is_number(self) -> bool:
        """Tell whether the setting is a whole number."""
        return self.low is not None

    def checked(self, given: Any) -> Value:
        """Return the value in its one form, also of a form's text; raises InvalidParameter."""
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


def checked_delay(name: str, given: Any) -> str:
    """Return one delay in its one form; raises InvalidParameter."""
    if not (delays := delays_of(name, given, most=1)):
        raise InvalidParameter(name, f"{name} is one of 500ms, 10s, 5m, 2h or 1d.")
    return delay_text(delays[0])


def checked_delays(name: str, given: Any) -> str:
    """Return several delays in their one form, or none; raises InvalidParameter."""
    return " ".join(map(delay_text, delays_of(name, given)))


def delays_of(name: str, text: Any, *, most: int = MOST_DELAYS) -> list[int]:
    """Return the delays in a text, ms; raises InvalidParameter."""
    words = text.split() if isinstance(text, str) else [""]
    found = [match and int(match[1]) * _UNITS[match[2]] for match in map(_DELAY.fullmatch, words)]
    delays = [delay_ms for delay_ms in found if delay_ms is not None and delay_ms <= LONGEST_MS]
    if len(delays) < len(words) or len(delays) > most:
        raise InvalidParameter(name, f"{name} is up to {most} of 500ms, 10s, 5m, 2h or 1d, with blanks between.")
    return delays


def growth_of(found: Mapping[str, Any], part: str, usual: int) -> int:
    """Return a part of an EXPONENTIAL policy; `usual` where the group does not have it."""
    said = policy_of(found).get("exponentialRetryPolicy")
    value = said.get(part) if isinstance(said, Mapping) else None
    return value if isinstance(value, int) and value > 0 else usual


def own_delays(found: Mapping[str, Any]) -> str:
    """Return the delays of a CUSTOMIZED policy; "": the broker's levels."""
    said = policy_of(found).get("customizedRetryPolicy")
    delays = said.get("next") if isinstance(said, Mapping) else None
    if not isinstance(delays, list) or not all(isinstance(each, int) and each > 0 for each in delays):
        return ""
    return " ".join(map(delay_text, delays[_SKIPPED:] or delays[-1:]))


def policy_of(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the group's policy, empty if it has none."""
    policy = found.get(POLICY)
    return dict(policy) if isinstance(policy, Mapping) else {}


def delay_text(delay_ms: int) -> str:
    """Return a delay in the largest unit that has it whole."""
    unit = next(unit for unit, length_ms in _UNITS.items() if delay_ms % length_ms == 0)
    return f"{delay_ms // _UNITS[unit]}{unit}"


def with_growth(found: Mapping[str, Any], part: str, value: int) -> dict[str, Any]:
    """Return the field of a group with this part changed; the other parts are said, too."""
    said = {name: growth_of(found, name, usual) for name, usual in USUAL_GROWTH.items()} | {part: value}
    policy = policy_of(found)
    if said != USUAL_GROWTH or policy.get("exponentialRetryPolicy"):
        policy["exponentialRetryPolicy"] = said
    return {POLICY: policy}


def with_own_delays(found: Mapping[str, Any], text: str) -> dict[str, Any]:
    """Return the field of a group that is to have these delays."""
    delays, policy = delays_of("retry_delays", text), policy_of(found)
    policy.pop("customizedRetryPolicy", None)
    if delays:
        policy["customizedRetryPolicy"] = {"next": [*delays[:1] * _SKIPPED, *delays]}
    return {POLICY: policy}


def _plain(name: str, key: str, default: Value, **more: Any) -> Setting:
    kind = type(default)
    return Setting(
        name,
        lambda found: kind(default if found.get(key) is None else found[key]),
        lambda _, value: {key: value},
        **more,
    )


def _read_type(found: Fields) -> str:
    return str((found.get("attributes") or {}).get(TYPE_ATTRIBUTE, ""))


def _read_policy(found: Fields) -> str:
    return str(policy_of(found).get("type", "CUSTOMIZED"))


def _growing_delay(name: str, part: str) -> Setting:
    return Setting(
        name,
        lambda found: delay_text(growth_of(found, part, USUAL_GROWTH[part])),
        lambda found, value: with_growth(found, part, delays_of(name, value)[0]),
        form=checked_delay,
    )


TOPIC = (
    _plain("read_queues", "readQueueNums", 4, low=1, high=1_024),
    _plain("write_queues", "writeQueueNums", 4, low=1, high=1_024),
    _plain("permission", "perm", 6, choices=PERMISSIONS),
    Setting(
        "message_type",
        _read_type,
        lambda _, value: {"attributes": {TYPE_ATTRIBUTE: value or None}},
        choices=MESSAGE_TYPES,
    ),
    _plain("order", "order", False),
)

GROUP = (
    _plain("consume_enabled", "consumeEnable", True),
    _plain("broadcast_enabled", "consumeBroadcastEnable", True),
    _plain("orderly", "consumeMessageOrderly", False),
    _plain("retry_max_times", "retryMaxTimes", 16, low=0, high=10_000),
    Setting(
        "retry_policy", _read_policy,
        lambda found, value: {POLICY: policy_of(found) | {"type": value}}, choices=RETRY_POLICIES,
    ),
    Setting(
        "retry_delays", own_delays, lambda found, value: with_own_delays(found, str(value)),
        form=checked_delays,
    ),
    _growing_delay("retry_first_delay", "initial"),
    _growing_delay("retry_longest_delay", "max"),
    Setting(
        "retry_multiplier",
        lambda found: growth_of(found, "multiplier", USUAL_GROWTH["multiplier"]),
        lambda found, value: with_growth(found, "multiplier", int(value)), low=1, high=100,
    ),
)  # fmt: skip


def shown(settings: tuple[Setting, ...], found: Fields) -> dict[str, Value]:
    """Return every setting by its name here."""
    return {each.name: each.read(found) for each in settings}


def checked(settings: tuple[Setting, ...], given: Any) -> dict[str, Value]:
    """Return what was given, checked; raises InvalidParameter for what is wrong, or no setting."""
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
    """Return the fields that a broker is given for these settings."""
    known = {each.name: each for each in settings}
    fields: dict[str, Any] = {}
    for name, value in wanted.items():
        fields |= known[name].write({**found, **fields}, value)
    return fields


TOPIC_REQUESTS, GROUP_REQUESTS = (351, 26), (352,)


#: a choice that stands for what differs from broker to broker, and stays so
DIFFERENT = "different"


@dataclass(frozen=True, slots=True)
class Row:
    """A field: `was` is its value now as a form's text, `text` what stands in the field, `fault` what is wrong.

    `values`: where the brokers differ, each broker with its text; the field is DIFFERENT then, or an empty text.
    """

    setting: Setting
    was: str
    text: str
    fault: str = ""
    values: tuple[tuple[str, str], ...] = ()

    @property
    def choices(self) -> tuple[tuple[Value, str], ...]:
        """The values that can be chosen, each with its text."""
        return tuple((each, text_of(each)) for each in self.setting.choices)


@dataclass(frozen=True, slots=True)
class Form:
    """The form of one; `family` is "topics" or "groups", `rows` None: the broker could not be asked."""

    family: str
    name: str
    rows: tuple[Row, ...] | None
    evidence: Evidence | None = None
    #: hours for which the broker keeps messages of all topics
    retention_hours: str = ""


def topic_form(name: str) -> Form:
    """Return the form of a topic as it is now; of several brokers as those have it that answer."""

    def question(admin: Admin) -> tuple[Fields | None, str]:
        return admin.topic_settings(name), admin.broker_config().get("fileReservedTime", "")

    found, evidence = ask_each(question, cluster(), requests=TOPIC_REQUESTS)
    several = [(each.name, fields) for each, (fields, _hours) in found if fields is not None]
    hours = sorted({told for _each, (_fields, told) in found if told})
    return Form("topics", name, _rows_of(TOPIC, several) if several else None, evidence, ", ".join(hours))


def group_form(name: str) -> Form:
    """Return the form of a group as it is now; of several brokers as those have it that answer."""
    found, evidence = ask_each(
        lambda admin: (admin.group_settings(name),), cluster(), requests=GROUP_REQUESTS
    )  # fmt: skip
    several = [(each.name, fields) for each, (fields,) in found if fields is not None]
    return Form("groups", name, _rows_of(GROUP, several) if several else None, evidence)


def new_topic_form() -> Form:
    """Return the form of a topic that is not there yet."""
    return Form("topics", "", _rows(TOPIC, {}))


def new_group_form() -> Form:
    """Return the form of a group that is not there yet."""
    return Form("groups", "", _rows(GROUP, {}))


def _rows(settings: Sequence[Setting], fields: Fields) -> tuple[Row, ...]:
    return tuple(Row(each, text, text) for each in settings for text in [text_of(each.read(fields))])


def _rows_of(settings: Sequence[Setting], several: Sequence[tuple[str, Fields]]) -> tuple[Row, ...]:
    """Return the fields as each of these brokers has them."""
    return tuple(_row_of(each, [(name, text_of(each.read(fields))) for name, fields in several]) for each in settings)


def _row_of(setting: Setting, values: Sequence[tuple[str, str]]) -> Row:
    texts = {text for _name, text in values}
    if len(texts) == 1:
        (text,) = texts
        return Row(setting, text, text)
    text = "" if setting.is_number or setting.is_text else DIFFERENT
    return Row(setting, text, text, values=tuple(values))


def text_of(value: Value) -> str:
    """Return a value as a form sends it."""
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)


def as_sent(form: Form, given: Mapping[str, str], faults: Mapping[str, str]) -> Form:
    """Return the form with what was typed into it, and what is wrong with that."""
    rows = tuple(
        replace(
            row, was=given.get(f"was_{row.setting.name}", row.was), text=given.get(row.setting.name, row.text),
            fault=faults.get(row.setting.name, ""),
        )
        for row in form.rows or ()
    )  # fmt: skip
    return replace(form, rows=rows)
