"""What a measurement gives: rows of ours against theirs, kept as JSON until the report is written."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
RESULTS = REPOSITORY / "var" / "bench"


@dataclass(frozen=True, slots=True)
class Row:
    """One figure; `theirs` and `ratio` (ours / theirs) are empty where the other side has no such thing."""

    name: str
    ours: str
    theirs: str = ""
    ratio: str = ""
    target: str = ""
    holds: bool | None = None


@dataclass(frozen=True, slots=True)
class Section:
    """One subcommand's result with the words it needs to be understood."""

    name: str
    title: str
    definition: str
    command: str
    measured_at: str
    rows: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    peer: str = "Apache RocketMQ"


def compared(name: str, ours: float, theirs: float, unit: str, target: str, holds: Callable[[float], bool]) -> Row:
    """A row with a ratio; `holds` judges the ratio."""
    ratio = ours / theirs if theirs else 0.0
    return Row(
        name, f"{ours:,.0f} {unit}", f"{theirs:,.0f} {unit}", f"{ratio:.2f}", target, holds(ratio) if target else None
    )


def keep(section: Section) -> None:
    """Write a section's result where the report finds it."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{section.name}.json").write_text(json.dumps(asdict(section), indent=1))


def kept() -> list[Section]:
    """All results there are, by name."""
    sections = []
    for path in sorted(RESULTS.glob("*.json")):
        values = json.loads(path.read_text())
        values["rows"] = [Row(**row) for row in values["rows"]]
        sections.append(Section(**values))
    return sections
