"""Versions of this project from before, as the history of the repository has them, and a broker of each.

A version is named by its tag where there is one; until there are tags, by the commit at which it was complete.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.house.sources import ROOT
from tests.interop.servers import EscapementServer, StoreShape


@dataclass(frozen=True, slots=True)
class Version:
    """A version: its name, where it is in the history, the module of its bare broker, what that can do."""

    name: str
    revision: str
    module: str = "broker.server"
    #: whether timers have schedule keys, by which they are cancelled and moved
    knows_keys: bool = True


#: the oldest first; 0.1 ends with the fifth
VERSIONS = (
    Version("0.1 timers and halves", "8465ad2f621d", "broker.remoting", knows_keys=False),
    Version("0.1 pops", "bdb483955400", "broker.remoting", knows_keys=False),
    Version("0.1 schedule keys", "31b2556a4660", "broker.remoting"),
    Version("0.1 rooms by thing", "7443ff1c4c13"),
    Version("0.1 several brokers", "535559dd89df"),
    Version("0.2 at home in Python", "e8e57b421f4e"),
    Version("0.2 backups", "55bdd7e367df"),
)


def known() -> tuple[Version, ...]:
    """Return the versions of the list and, behind them, those that have a tag."""
    said = subprocess.run(
        ["git", "-C", str(ROOT), "tag", "--list", "v*", "--sort", "creatordate"],
        capture_output=True,
        text=True,
        check=False,
    )
    return (*VERSIONS, *(Version(tag, tag) for tag in said.stdout.split()))


class HistoryMissing(AssertionError):
    """The repository does not hold the commit of a version: fetch all of it (`git fetch --unshallow --tags`)."""


def checked_out(version: Version, place: Path) -> Path:
    """Unpack a version below `place`, and return the directory; raises HistoryMissing."""
    tree = place / version.revision
    if not tree.exists():
        archive = subprocess.run(
            ["git", "-C", str(ROOT), "archive", version.revision, "broker", "pyproject.toml"],
            capture_output=True, check=False,
        )  # fmt: skip
        if archive.returncode != 0:
            raise HistoryMissing(f"{version.revision}: {archive.stderr.decode().strip()}. {HistoryMissing.__doc__}")
        tree.mkdir(parents=True)
        subprocess.run(["tar", "-x", "-C", str(tree)], input=archive.stdout, check=True)
    return tree


class VersionedServer(EscapementServer):
    """Our broker in a version that can be changed while it is down; store, ports and settings stay."""

    def __init__(self, root: Path, work: Path, shape: StoreShape) -> None:
        super().__init__(root, work, shape)
        self.version = "this"

    def become(self, version: Version | None, place: Path) -> None:
        """Be of that version from the next start on; None: of this checkout."""
        self.version = version.name if version else "this"
        self.tree = checked_out(version, place) if version else ROOT
        self.module = version.module if version else "broker.server"
