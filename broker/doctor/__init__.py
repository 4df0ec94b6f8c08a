"""Checks of a machine, a store and what a broker needs: each says that it is well, what to change, or that it cannot
tell.

A check is a function without arguments that looks at one thing and returns a `Finding`. Whatever goes wrong in one is
its own finding, and the others go on. Nothing is changed but a small file that is written to see how long that takes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ..log_lines import escaped


class Verdict(StrEnum):
    """The three things that a check may say."""

    OK = "ok"
    CHANGE = "change"
    CANNOT_TELL = "cannot tell"


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found, and where something is to be changed the command or setting that does it."""

    verdict: Verdict
    text: str
    remedy: str = ""


Check = Callable[[], Finding]


def ok(text: str) -> Finding:
    """Return that all is well."""
    return Finding(Verdict.OK, text)


def change(text: str, remedy: str) -> Finding:
    """Return what is wrong, and the command or setting that mends it."""
    assert remedy, text
    return Finding(Verdict.CHANGE, text, remedy)


def cannot_tell(text: str) -> Finding:
    """Return why it is not known."""
    return Finding(Verdict.CANNOT_TELL, text)


def examine(checks: Mapping[str, Check]) -> Iterator[tuple[str, Finding]]:
    """Yield the name and the finding of each check, in their order."""
    for name, check in checks.items():
        try:
            yield name, check()
        except Exception as error:  # whatever a machine has in store: the other checks go on
            said = str(error).strip().partition("\n")[0]
            yield name, cannot_tell(f"the check failed: {type(error).__name__}: {said}")


def chosen(checks: Mapping[str, Check], names: Sequence[str]) -> dict[str, Check]:
    """Return the checks of these names or beginnings of names, all without any. Raises ValueError for one that is
    none."""
    for name in names:
        if not any(each.startswith(name) for each in checks):
            raise ValueError(f"There is no check {name!r}; there are: {', '.join(checks)}.")
    return {each: check for each, check in checks.items() if not names or each.startswith(tuple(names))}


def told(found: Sequence[tuple[str, Finding]]) -> Iterator[str]:
    """Yield the lines for a terminal: verdict, check, what was found, and under it what to do."""
    for name, finding in found:
        yield escaped(f"{finding.verdict:<12}{name:<22}{finding.text}")
        if finding.remedy:
            yield escaped(f"{'':12}{'':22}-> {finding.remedy}")
    counts = {verdict: sum(finding.verdict is verdict for _, finding in found) for verdict in Verdict}
    yield f"{counts[Verdict.OK]} ok, {counts[Verdict.CHANGE]} to change, {counts[Verdict.CANNOT_TELL]} cannot be told"


def as_json(found: Sequence[tuple[str, Finding]]) -> str:
    """Return the findings as one line of JSON."""
    rows = [
        {
            "check": name,
            "verdict": str(finding.verdict),
            "text": escaped(finding.text),
            "remedy": escaped(finding.remedy),
        }
        for name, finding in found
    ]
    return json.dumps({"to_change": exit_code(found), "checks": rows})


def exit_code(found: Sequence[tuple[str, Finding]]) -> int:
    """Return 1 if something is to be changed, else 0."""
    return int(any(finding.verdict is Verdict.CHANGE for _, finding in found))
