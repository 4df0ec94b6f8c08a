"""A page of the documentation that is followed as it stands: its files are written, its commands run, its words seen.

| block                            | what is done with it                                                            |
|----------------------------------|---------------------------------------------------------------------------------|
| ```python NAME.py                | the file is written                                                             |
| ```python end of NAME.py         | is added at the end of the file                                                 |
| ```python before                 | code for another library: it is read, and not run                               |
| ```sh                            | is run by bash where the one before it ended: directory and environment are kept |
| ```sh NAME terminal              | is run by bash beside the rest of the page; of one name there is one at a time  |
| ```text                          | the lines that the commands just before must have said, in this order            |
| ```text NAME terminal            | lines that this terminal says at last                                           |

`...` in a line stands for anything. What a page says of the world and is different in a test, ports for instance, is
replaced in all of it (`instead`), and commands that need one more argument get it (`also`).
"""

from __future__ import annotations

import ast
import os
import re
import signal
import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.interop.process import Child

BLOCK = re.compile(r"^```(sh|python|text) ?([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
#: pip downloads, and a machine may be busy
PATIENCE_S = 600
#: a terminal that was opened has begun what it is to say
SAY_S = 400


@dataclass(frozen=True, slots=True)
class Block:
    """A block of the page: its language, what stands behind that, and its text."""

    kind: str
    about: str
    text: str


def blocks_of(page: Path) -> list[Block]:
    """Return the blocks of a page, in their order."""
    return [Block(*found) for found in BLOCK.findall(page.read_text())]


class Walk:
    """A page, and the directory and terminals in which it is followed."""

    def __init__(self, page: Path, place: Path, env: Mapping[str, str], *, instead: Mapping[str, str]) -> None:
        self.place = place
        self.blocks = blocks_of(page)
        self.also: dict[str, str] = {}
        self.terminals: dict[str, Child] = {}
        self._env = dict(env)
        self.instead = instead
        self._at = place / "at"
        self._at.write_text(f"cd {place}\n")
        #: what the last commands said, and who said it
        self._said: str | Child = ""

    def follow(self, blocks: list[Block]) -> None:
        """Do what these blocks say; an assertion fails where the page is wrong."""
        for block in blocks:
            if block.kind == "python":
                self._write(block)
            elif block.kind == "text":
                self._see(block)
            elif block.about:
                self._open(block)
            else:
                self._said = self._run(block)

    def end(self) -> dict[str, int]:
        """Ask all terminals to end; return how each did."""
        return {name: child.stop(120) for name, child in reversed(self.terminals.items())}

    def kill(self) -> None:
        """Kill what still runs, with all that it started."""
        for child in self.terminals.values():
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.kill()

    @property
    def directory(self) -> Path:
        """Where the page's commands have led."""
        (line,) = re.findall(r"^cd (.*)$", self._at.read_text(), re.MULTILINE)[-1:]
        return Path(line)

    def _write(self, block: Block) -> None:
        if block.about == "before":
            ast.parse(block.text)
            return
        name = block.about.removeprefix("end of ")
        path = self.directory / name
        before = path.read_text() if name != block.about else ""
        path.write_text(f"{before}\n{self._own(block.text)}" if before else self._own(block.text))

    def _run(self, block: Block) -> str:
        keep = f'{{ export -p; echo "cd $PWD"; }} > {self._at}.new && mv {self._at}.new {self._at}'
        done = subprocess.run(
            ["bash", "-e", "-c", f". {self._at}\n{self._own(block.text)}\n{keep}\n"], cwd=self.place, env=self._env,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=PATIENCE_S, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{block.text}{done.stdout[-4000:]}"
        return done.stdout

    def _open(self, block: Block) -> None:
        *first, last = self._own(block.text).splitlines()
        last += next((more for begin, more in self.also.items() if last.startswith(begin)), "")
        script = "\n".join([f"cd {self.directory}", *first, f"exec env {last} 2>&1"])
        command = ["env", "-i", *(f"{name}={value}" for name, value in self._env.items()), "bash", "-e", "-c", script]
        self.terminals[block.about] = child = Child(command, log=self.place / f"{block.about}.log", cwd=self.place)
        self._said = child

    def _see(self, block: Block) -> None:
        said = self.terminals[block.about] if block.about else self._said
        wanted = [_pattern(self._own(line)) for line in block.text.splitlines()]
        if isinstance(said, Child):
            for pattern in wanted:
                said.wait_for(_says(pattern), SAY_S, pattern.pattern)
            return
        lines = iter(said.splitlines())
        for pattern in wanted:
            assert any(pattern.fullmatch(line) for line in lines), f"{pattern.pattern} is not in:\n{said}"

    def _own(self, text: str) -> str:
        for there, here in self.instead.items():
            text = text.replace(there, here)
        return text


def _pattern(line: str) -> re.Pattern[str]:
    return re.compile(".*".join(re.escape(part) for part in line.rstrip().split("...")))


def _says(pattern: re.Pattern[str]) -> Callable[[list[str]], str | None]:
    return lambda lines: next((line for line in lines if pattern.fullmatch(line)), None)


def lines_of_python(blocks: list[Block]) -> int:
    """How many lines of Python a reader writes, empty ones left out."""
    return sum(1 for block in blocks if block.kind == "python" for line in block.text.splitlines() if line.strip())
