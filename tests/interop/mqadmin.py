"""RocketMQ's own mqadmin, run by `Tools.java` in one JVM, and what it says without what differs from run to run."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.interop.programs import Program

_STACK = re.compile(r"^\s+(?:at \S+|\.\.\. \d+ more).*\n?", re.MULTILINE)
_PLACES = (
    (re.compile(r"\b127\.0\.0\.1:\d+\b"), "ADDRESS"),
    (re.compile(r"\b[0-9A-F]{32,}"), "ID"),
    (re.compile(r"\b\d+ms\b"), "SOME ms"),
    (re.compile(r"\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:,\d+)?"), "TIME"),
    (re.compile(r"\b1[5-9]\d{11}\b"), "MOMENT"),
    (re.compile(r"\b\d+\.\d+\b"), "NUMBER"),
    (re.compile(r"__CRC32#=\d+"), "CRC"),
    (re.compile(r"[ \t]+"), " "),
)
_WHOLE = re.compile(r"\b\d+\b")


@dataclass(frozen=True, slots=True)
class Said:
    """What one command said, and whether it came to its end."""

    out: str
    err: str
    ended: bool

    @property
    def text(self) -> str:
        """Both outputs, without stack frames, addresses, ids, moments and rates."""
        return plain(f"{self.out.rstrip()}\n{self.err.rstrip()}").strip()

    @property
    def outline(self) -> str:
        """The same without any number."""
        return _WHOLE.sub("N", self.text)

    @property
    def names(self) -> set[str]:
        """First words of the lines: the names in a list of them."""
        lines = (line.removeprefix("ADDRESS ") for line in plain(self.out).splitlines())
        return {line.split()[0] for line in lines if line.strip()}

    @property
    def heads(self) -> list[str]:
        """The lines that say what the others are."""
        return [line for line in self.outline.splitlines() if line.startswith("#")]


def plain(text: str) -> str:
    """Text with what differs from run to run replaced by what it is."""
    text = _STACK.sub("", text)
    for pattern, word in _PLACES:
        text = pattern.sub(word, text)
    return "\n".join(line.strip() for line in text.splitlines())


class MqAdmin(Program):
    """mqadmin 5.5.0 beside one broker."""

    def __init__(self, namesrv: str, address: str, *, work: Path, properties: Sequence[str] = ()) -> None:
        super().__init__("Tools", [], version="5.5.0", work=work, properties=properties)
        self._words = {"{broker}": address, "{work}": str(work)}
        self._namesrv = namesrv

    def say(self, line: str, *, timeout_s: int = 30, **words: str) -> Said:
        """Run one subcommand with its arguments; `{name}` is replaced by the word of that name."""
        known = self._words | {f"{{{name}}}": word for name, word in words.items()}
        name, *arguments = shlex.split(line)
        for mark, word in known.items():
            arguments = [argument.replace(mark, word) for argument in arguments]
        answer = self.ask(timeout_s, name, "-n", self._namesrv, *arguments, until="done", timeout_s=timeout_s + 30)[-1]
        out, err = (answer[name].replace(known["{work}"], "WORK") for name in ("out", "err"))
        return Said(out, err, bool(answer["ended"]))

    def subcommands(self) -> set[str]:
        """The names of all subcommands, as mqadmin without arguments lists them."""
        said = self.ask(30, until="done")[-1]["out"]
        return set(re.findall(r"^   (\w+) ", said, re.MULTILINE))
