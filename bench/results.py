"""Results of measurements: rows of ours against theirs, kept as JSON, shown as text, written to docs/BENCHMARKS.md."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TypeVar

from broker.doctor.machine import is_optimized

REPOSITORY = Path(__file__).parents[1]
RESULTS = REPOSITORY / "var" / "bench"


@dataclass(frozen=True, slots=True)
class Row:
    """A measured figure; `theirs` and `ratio` (ours / theirs) are empty where the other side has no such thing."""

    name: str
    ours: str
    theirs: str = ""
    ratio: str = ""
    target: str = ""
    holds: bool | None = None
    #: in place of all that, in a section with columns of its own
    cells: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Section:
    """A subcommand's result with the words it needs to be understood."""

    name: str
    title: str
    definition: str
    command: str
    measured_at: str
    rows: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    peer: str = "Apache RocketMQ"
    columns: Sequence[str] = ()


def compared(name: str, ours: float, theirs: float, unit: str, target: str, holds: Callable[[float], bool]) -> Row:
    """Return a row with a ratio; `holds` judges the ratio."""
    ratio = ours / theirs if theirs else 0.0
    return Row(
        name, f"{ours:,.0f} {unit}", f"{theirs:,.0f} {unit}", f"{ratio:.2f}", target, holds(ratio) if target else None
    )


Figure = TypeVar("Figure", int, float)


def share(values: Sequence[Figure], part: float) -> Figure:
    """Return the value that this part of the sorted values does not exceed."""
    return values[min(len(values) - 1, int(len(values) * part))]


def keep(section: Section) -> None:
    """Write a section's result as JSON, beside what the runs left."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{section.name}.json").write_text(json.dumps(asdict(section), indent=1))


DOCUMENT = REPOSITORY / "docs" / "BENCHMARKS.md"
INTRODUCTION = """# Benchmarks

Figures of one machine, side by side with Apache RocketMQ 5.5.0 or Redisson 4.7.0 where it has the same thing.
`make bench` measures the most wanted parts (its table alone takes 22 minutes) and writes them into this page;
`python -m bench NAME` measures one part, `--all` all of them (hours), `--quick` in small. Client and server share the
machine; everything goes over loopback.

Words: **lateness** is the time of arrival in the consumer's handler minus due (the parked record's store time plus its
level's delay). **Memory** is the anonymous memory (`RssAnon`) of the broker's process, page cache not counted.
**Ready** is the first send answered after the start of the process. **Ratio** is ours / theirs, in the same run with
the same client, medians, the JVMs warmed up.

Before each measurement the memory that is free is filled with pages of a file that is only read, as that of a server is
that has run for a day; for the table before each round. A virtual machine asks its host for a free page when it is
used, and may give it back seconds after it became free; whoever stores would pay for that.
"""


def machine() -> list[str]:
    """Return the shape of the machine and versions."""
    memory_kb = int(Path("/proc/meminfo").read_text().split()[1])
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr.splitlines()
    shape = f"{os.cpu_count()} cores ({processor()}), {memory_kb / (1 << 20):.0f} GB of memory"
    python = platform.python_version() + ("" if is_optimized() else " (compiled without optimizations)")
    return [
        f"{shape}, {platform.system()} {platform.release()}",
        f"Python {python}; {java[0] if java else 'no Java'}; Apache RocketMQ 5.5.0; Redisson 4.7.0",
    ]


def processor() -> str:
    """Return the model's name, where the kernel tells it."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def verdict(holds: bool | None) -> str:
    """Tell whether a target holds, as a word."""
    return {True: "yes", False: "no", None: ""}[holds]


def table(section: Section) -> list[str]:
    """Return a section's rows as a Markdown table."""
    if section.columns:
        head = [f"| | {' | '.join(section.columns)} |", "|---" * (len(section.columns) + 1) + "|"]
        return head + [f"| {row.name} | {' | '.join(row.cells)} |" for row in section.rows]
    lines = [f"| | Escapement | {section.peer} | Ratio | Target | Holds |", "|---|---|---|---|---|---|"]
    lines += [
        f"| {row.name} | {row.ours} | {row.theirs} | {row.ratio} | {row.target} | {verdict(row.holds)} |"
        for row in section.rows
    ]
    return lines


def show(section: Section) -> None:
    """Print a section in the terminal."""
    print(f"\n{section.title}\n")
    print("\n".join([*table(section), *section.notes]), flush=True)


def write(section: Section) -> None:
    """Write one section of the document. Others stay, and so does what somebody wrote behind its line "Measured"."""
    sections = sections_of(DOCUMENT.read_text())
    _, measured, behind = sections.get(section.title, "").partition("\n- Measured ")
    noted = behind.partition("\n")[2].strip("\n") if measured else ""
    sections[section.title] = written(section) + (f"{noted}\n" if noted else "")
    head = [INTRODUCTION, "Machine:", "", *(f"- {line}" for line in machine()), "", ""]
    DOCUMENT.write_text("\n".join(head) + "\n".join(sections.values()))


def written(section: Section) -> str:
    """Return a section of the document."""
    lines = [f"## {section.title}", "", section.definition, "", *table(section), ""]
    lines += [*(f"- {note}" for note in section.notes), f"- Measured {section.measured_at}: `{section.command}`.", ""]
    return "\n".join(lines)


def sections_of(text: str) -> dict[str, str]:
    """Return the sections of a document by title."""
    parts = re.split(r"^(?=## )", text, flags=re.MULTILINE)[1:]
    return {part[3:].split("\n", 1)[0]: part.rstrip("\n") + "\n" for part in parts}
