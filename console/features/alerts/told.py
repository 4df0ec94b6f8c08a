"""What is told of an alert, before any service has its own form of it: kept with a delivery, the same for every try.

The kept text is the JSON that a plain webhook gets (docs/CONSOLE.md).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Literal, Self
from uuid import UUID

from django.conf import settings
from django.utils.translation import override

from console.features.alerts.models import Alert, AlertRule
from console.features.alerts.units import in_words

State = Literal["raised", "over", "test"]
_STATES = {"raised": "firing", "over": "resolved", "test": "TEST"}


@dataclass(frozen=True, slots=True)
class Told:
    """The news of one alert, or the message by which a rule's channels are tried."""

    delivery: str
    #: 0 for a test: there is no alert
    alert: int
    state: State
    rule: str
    what: str
    subject: str
    value: float
    highest: float
    limit: float
    #: ISO 8601
    since: str
    environment: str

    @classmethod
    def of(cls, alert: Alert, delivery: UUID, *, is_over: bool) -> Self:
        """Return the news that an alert is raised, or over."""
        rule = alert.rule
        state: State = "over" if is_over else "raised"
        return cls(
            str(delivery), alert.pk, state, rule.name, rule.what, alert.subject, alert.value, alert.highest, rule.limit,
            alert.since.isoformat(), settings.ESCAPEMENT_ENV,
        )  # fmt: skip

    @classmethod
    def test(cls, rule: AlertRule, delivery: UUID, at: datetime) -> Self:
        """Return what says that it is a test, and of which rule."""
        return cls(
            str(delivery), 0, "test", rule.name, rule.what, rule.subject, 0, 0, rule.limit, at.isoformat(),
            settings.ESCAPEMENT_ENV,
        )  # fmt: skip

    @classmethod
    def read(cls, text: str) -> Self:
        """Return what a delivery keeps."""
        kept = json.loads(text)
        return cls(**{name: kept[name] for name in cls.__slots__})

    def kept(self) -> str:
        """Return the text that a delivery keeps."""
        return json.dumps(asdict(self))

    @property
    def is_test(self) -> bool:
        """Tell whether nothing has happened: somebody tries the channel."""
        return self.state == "test"

    @property
    def is_over(self) -> bool:
        """Tell whether the alert is over."""
        return self.state == "over"

    @property
    def key(self) -> str:
        """What is the same for all news of one alert, and for no other's."""
        return f"escapement/{self.environment}/{self.alert or self.delivery}"

    @property
    def title(self) -> str:
        """The news in one line."""
        said = f"[{self.environment}] {_STATES[self.state]}: {self.subject}: {self.rule or self._metric()}"
        return " ".join(said.split())

    @property
    def facts(self) -> Sequence[tuple[str, str]]:
        """What there is to know, each with its name, in the language of the installation."""
        with override(settings.LANGUAGE_CODE):
            return self._facts()

    def _facts(self) -> Sequence[tuple[str, str]]:
        metric = ("metric", self._metric())
        threshold = ("threshold", in_words(self.what, self.limit))
        if self.is_test:
            nothing = ("this is a test", "nothing is wrong; somebody asked in the console whether this channel works")
            return nothing, metric, threshold
        return (
            metric,
            ("now", in_words(self.what, self.value)),
            ("peak", in_words(self.what, self.highest)),
            threshold,
            ("since", f"{datetime.fromisoformat(self.since):%Y-%m-%d %H:%M:%S} UTC"),
        )

    @property
    def text(self) -> str:
        """All of it in lines."""
        return "\n".join([self.title, *(f"{name}: {value}" for name, value in self.facts)])

    def _metric(self) -> str:
        with override(settings.LANGUAGE_CODE):
            return str(dict(AlertRule.What.choices).get(self.what, self.what))
