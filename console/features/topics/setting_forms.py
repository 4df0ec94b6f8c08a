"""The forms in which topics and groups are created, changed and deleted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from broker.client import Admin
from console.features.topics import setting_fields
from console.features.topics.setting_fields import GROUP, TOPIC, Setting, Value
from console.site.broker import ask
from console.site.evidence import Evidence
from console.site.mirrored import mirrored

TOPIC_REQUESTS, GROUP_REQUESTS = (351, 26), (352,)


@dataclass(frozen=True, slots=True)
class Row:
    """One field: `was` is its value now as a form's text, `text` what stands in the field, `fault` what is wrong."""

    setting: Setting
    was: str
    text: str
    fault: str = ""

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
    """Return the form of a topic as it is now."""

    def question(admin: Admin) -> tuple[setting_fields.Fields | None, str]:
        return admin.topic_settings(name), admin.broker_config().get("fileReservedTime", "")

    found, evidence = ask(question, source=mirrored().name, requests=TOPIC_REQUESTS)
    fields, hours = found if found is not None else (None, "")
    return Form("topics", name, None if fields is None else _rows(TOPIC, fields), evidence, hours)


def group_form(name: str) -> Form:
    """Return the form of a group as it is now."""
    fields, evidence = ask(
        lambda admin: admin.group_settings(name), source=mirrored().name, requests=GROUP_REQUESTS
    )  # fmt: skip
    return Form("groups", name, None if fields is None else _rows(GROUP, fields), evidence)


def new_topic_form() -> Form:
    """Return the form of a topic that is not there yet."""
    return Form("topics", "", _rows(TOPIC, {}))


def new_group_form() -> Form:
    """Return the form of a group that is not there yet."""
    return Form("groups", "", _rows(GROUP, {}))


def _rows(settings: Sequence[Setting], fields: setting_fields.Fields) -> tuple[Row, ...]:
    return tuple(Row(each, text, text) for each in settings for text in [text_of(each.read(fields))])


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
