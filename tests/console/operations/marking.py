"""A kind of operation without a broker: it remembers what it touched."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from console.features.timers.operations import TimersPreview
from console.operations.actor import STEER_TIMERS
from console.operations.errors import TooMany
from console.operations.kind import LIMIT, Call, ItemResult, Kind, Preview, Target


class Marking(Kind[Preview]):
    """Touches numbers from 0 up."""

    name = "tests.marking"
    permission = STEER_TIMERS
    title, verb, effect = "Mark numbers", "Mark them", "They are marked."
    page, list_page = "timers", "timer_list"
    preview_type = TimersPreview
    preview_template = "timers/operation_preview.html"

    def __init__(self) -> None:
        self.touched: list[int] = []
        self.batches: list[int] = []
        #: called before each batch with how many came before
        self.before: Callable[[int], None] = lambda count: None
        self.counted = 0
        #: how many there are by now, if not as many as were asked for
        self.left: int | None = None

    def checked(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        return {"many": int(parameters["many"])}

    def preview(self, parameters: Mapping[str, Any]) -> Preview:
        self.counted += 1
        return Preview(at_ms=1, count=self._count(parameters))

    def targets(self, parameters: Mapping[str, Any], preview: Preview) -> Sequence[Target]:
        if parameters["many"] > LIMIT:
            raise TooMany(LIMIT)
        return [Target({"position": number}, {"name": f"n{number}"}) for number in range(self._count(parameters))]

    def _count(self, parameters: Mapping[str, Any]) -> int:
        return int(parameters["many"]) if self.left is None else self.left

    def act(self, parameters: Mapping[str, Any], reason: str, targets: Sequence[Mapping[str, Any]]) -> list[ItemResult]:
        self.before(len(self.batches))
        self.batches.append(len(targets))
        self.touched += [target["position"] for target in targets]
        return [ItemResult("cancelled", {"position": target["position"]}) for target in targets]

    def rest_call(self, parameters: Mapping[str, Any]) -> Call:
        return "POST", "timers:mark", dict(parameters)
