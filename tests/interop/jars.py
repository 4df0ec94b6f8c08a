"""The jars of the official clients, of Apache RocketMQ and of Redisson, and our Java programs compiled against them.

Maven copies the dependencies of the committed poms once into a cache directory outside git; a `.complete` file
marks a finished copy. Nothing is skipped when Java or a jar is missing: the caller fails with what to install.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

JAVA_SOURCES = Path(__file__).parent / "java"
REPOSITORY = Path(__file__).parents[2]
APACHE_VERSION = "5.5.0"
COPY_TIMEOUT_S = 300
COMPILE_TIMEOUT_S = 120


@dataclass(frozen=True, slots=True)
class Release:
    """One version of a Java product: where its pom and the programs that use it stand below `java/`."""

    product: str
    pom: str
    sources: tuple[str, ...]


#: By version number, which no two products share.
RELEASES = {
    "5.5.0": Release("rocketmq", "current", ("src", "since5")),
    "4.9.8": Release("rocketmq", "legacy", ("src",)),
    "5.0.8": Release("rocketmq-grpc", "grpc", ("grpc/src",)),
    "4.7.0": Release("redisson", "redisson/current", ("redisson/src",)),
    "3.16.8": Release("redisson", "redisson/legacy", ("redisson/src",)),
}


class JavaMissing(RuntimeError):
    """Java, its compiler or Maven is not installed, or the jars could not be fetched: install JDK 17 and Maven 3."""


def cache_directory() -> Path:
    """Where jars and classes are kept between runs; `ESCAPEMENT_INTEROP_CACHE` overrides `var/interop`."""
    return Path(os.environ.get("ESCAPEMENT_INTEROP_CACHE", REPOSITORY / "var" / "interop")).resolve()


def tool(name: str) -> str:
    """Full path of `java`, `javac` or `mvn`; raises JavaMissing."""
    found = shutil.which(name)
    if found is None:
        raise JavaMissing(f"{name} is not on the PATH: install JDK 17 and Maven 3")
    return found


@contextmanager
def made_once(target: Path) -> Iterator[bool]:
    """Whether this directory is still to be filled; of processes that want it at once one does, the others wait."""
    complete = target / ".complete"
    if complete.exists():
        yield False
        return
    target.mkdir(parents=True, exist_ok=True)
    with target.with_name(f"{target.name}.lock").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        is_wanted = not complete.exists()
        yield is_wanted
        if is_wanted:
            complete.touch()


def library(version: str) -> Path:
    """Directory with all jars of one version, copied by Maven on first use."""
    release = RELEASES[version]
    target = cache_directory() / f"{release.product}-{version}"
    with made_once(target) as is_wanted:
        if is_wanted:
            pom = str(JAVA_SOURCES / release.pom / "pom.xml")
            copy = ["dependency:copy-dependencies", f"-DoutputDirectory={target}"]
            run([tool("mvn"), "-q", "-B", "-f", pom, *copy], COPY_TIMEOUT_S)
    return target


def classpath(version: str) -> str:
    """Class path with our programs, compiled against this version, and all its jars."""
    folders = [JAVA_SOURCES / folder for folder in RELEASES[version].sources]
    sources = [path for folder in folders for path in sorted(folder.glob("*.java"))]
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:12]
    jars = f"{library(version)}/*"
    classes = cache_directory() / f"classes-{version}-{digest}"
    with made_once(classes) as is_wanted:
        if is_wanted:
            run([tool("javac"), "-nowarn", "-d", str(classes), "-cp", jars, *map(str, sources)], COMPILE_TIMEOUT_S)
    return f"{classes}:{jars}"


def run(command: list[str], timeout_s: float) -> None:
    """Run a build tool to its end; raises JavaMissing with its output when it fails."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
    if done.returncode != 0:
        raise JavaMissing(f"{command[0]} failed ({done.returncode}): {done.stdout[-2000:]}{done.stderr[-2000:]}")
