"""Apache's Python client of the 5.x API (gRPC): an environment of its own, made once, and our program in it."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import venv
from pathlib import Path

from tests.interop.grpcclients import GrpcProgram
from tests.interop.jars import cache_directory
from tests.interop.programs import Program

HERE = Path(__file__).parent / "python"
INSTALL_TIMEOUT_S = 600


class ClientMissing(RuntimeError):
    """The client could not be installed from PyPI."""


def interpreter() -> Path:
    """The Python of an environment with the pinned client, made on first use; raises ClientMissing."""
    pins = HERE / "grpc.txt"
    digest = hashlib.sha256(pins.read_bytes() + sys.version.encode()).hexdigest()[:12]
    home = cache_directory() / f"python-grpc-{digest}"
    python = home / "bin" / "python"
    if not (home / ".complete").exists():
        venv.create(home, clear=True, with_pip=True)
        install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes"]
        done = subprocess.run(
            [*install, "-r", str(pins)], capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S, check=False
        )
        if done.returncode != 0:
            raise ClientMissing(f"pip failed ({done.returncode}): {done.stderr[-2000:]}")
        (home / ".complete").touch()
    return python


class PythonGrpcClient(GrpcProgram):
    """rocketmq-python-client."""

    def __init__(self, endpoints: str, topics: list[str], *, work: Path) -> None:
        label = f"python-grpc-{next(Program.numbers)}"
        home = work / label
        home.mkdir(parents=True)
        command = [str(interpreter()), "-u", str(HERE / "grpc_client.py"), endpoints, ",".join(topics)]
        # the client logs below HOME
        env = {"HOME": str(home), "PYTHONPATH": ""}
        self._start(command, label, work=work, env=env)
