"""The examples of docs/CELERY.md: its project is run by Celery's worker, and its calls are made."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import broker.celery as transport
from broker.testing import BrokerThread
from tests.celery.running import PATIENCE_S
from tests.house.sources import ROOT
from tests.waiting import until

DOCUMENT = (ROOT / "docs" / "CELERY.md").read_text()
HERE = transport.__name__.rpartition(".")[0]


def example(name: str, namesrv: str) -> str:
    (text,) = re.findall(rf"```python {name}\n(.*?)```", DOCUMENT, re.DOTALL)
    return str(text).replace("127.0.0.1:9876", namesrv).replace("escapement_mq", HERE)


def test_the_examples_work(broker: BrokerThread, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(f"import {transport.__name__}\n" + example("shop.py", broker.namesrv))
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    log = tmp_path / "worker.log"
    (command,) = re.findall(r"^celery (-A shop worker.*)$", DOCUMENT, re.MULTILINE)
    with log.open("wb") as output:
        worker = subprocess.Popen(
            [sys.executable, "-m", "celery", *command.split(), "-l", "info", "-P", "threads", "-c", "1"],
            cwd=tmp_path, env=environment, stdout=output, stderr=subprocess.STDOUT,
        )  # fmt: skip
    try:
        until(lambda: " ready." in log.read_text(), PATIENCE_S)
        said = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", example("calls", broker.namesrv)], cwd=tmp_path, env=environment,
            capture_output=True, text=True, timeout=PATIENCE_S, check=False,
        )  # fmt: skip
    finally:
        worker.send_signal(signal.SIGTERM)
        worker.wait(PATIENCE_S)
    assert said.stdout.splitlines() == [
        "paid 4711", "rescheduled", "cancelled", "already_cancelled", "reminded 4712 already_delivered",
    ], said.stderr  # fmt: skip
