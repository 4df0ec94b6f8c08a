"""What every kind of operation can do: check its parameters, preview, name its targets, act on a batch of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from console.operations.errors import OperationError
from console.operations.preview import Preview

#: most that one operation touches
LIMIT = 10_000
#: targets of one request to the broker
BATCH = 500
#: more than so many are confirmed by typing their number
TYPED_ABOVE = 100


@dataclass(frozen=True, slots=True)
class Target:
    """One thing to touch: `target` is what the broker is given, `label` what people see."""

    target: Mapping[str, Any]
    label: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ItemResult:
    """What became of one target."""

    outcome: str
    result: Mapping[str, Any] = field(default_factory=dict)


class Kind(ABC):
    """One kind; `name` is a stable code ("timers.cancel"), `permission` Django's."""

    name: ClassVar[str]
    permission: ClassVar[str]
    #: where the page of the operation stands in the rail
    page: ClassVar[str] = "timers"
    #: True: cannot be taken back
    is_final: ClassVar[bool] = False
    #: it waits for a moment before it can be previewed
    needs_moment: ClassVar[bool] = False

    def typed_word(self, parameters: Mapping[str, Any]) -> str:
        """What has to be typed to confirm; empty: nothing but the number of many."""
        return ""

    def undecided(self, parameters: Mapping[str, Any], preview: Preview) -> OperationError | None:
        """Return what has to be chosen first, where the preview asks for a choice that nobody has made."""
        return None

    @abstractmethod
    def checked(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters in their one form; raises InvalidParameter."""

    @abstractmethod
    def preview(self, parameters: Mapping[str, Any]) -> Preview:
        """What would be hit now; raises ClientError, TooMany."""

    @abstractmethod
    def targets(self, parameters: Mapping[str, Any], preview: Preview) -> Sequence[Target]:
        """What is hit, counted again; at most LIMIT, else TooMany. Raises ClientError."""

    @abstractmethod
    def act(self, parameters: Mapping[str, Any], reason: str, targets: Sequence[Mapping[str, Any]]) -> list[ItemResult]:
        """Do it to at most BATCH targets, in order; raises ClientError when nothing can be said of any."""

    def act_as(
        self, who: str, parameters: Mapping[str, Any], reason: str, targets: Sequence[Mapping[str, Any]]
    ) -> list[ItemResult]:
        """As `act`, in the name of who confirmed it: for what the broker keeps together with who did it."""
        return self.act(parameters, reason, targets)
