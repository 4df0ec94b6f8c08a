"""The build of the wheel: what is renamed in a module, and what is not."""

from __future__ import annotations

import subprocess
import sys

import pytest

from hatch_build import moved, renamed
from tests.house.sources import ROOT

MODULES = {
    "broker": set(), "broker.client": {"Producer"}, "broker.hosting.worker": {"EngineStep"}, "console": set(),
    "console.urls": {"live_pages"}, "console.site": set(), "console.features.checkback": set(), "spark.run": set(),
}  # fmt: skip


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("from broker import log_lines", "from escapement_mq import log_lines"),
        ("from broker.client import Producer", "from escapement_mq.client import Producer"),
        ("    from console.site import broker", "    from escapement_mq.console.site import broker"),
        ("import spark.run as run", "import escapement_mq.spark.run as run"),
        ("from . import broker", "from . import broker"),
        ("from brokers.client import x", "from brokers.client import x"),
        ("x = 'console.urls.live_pages'", "x = 'escapement_mq.console.urls.live_pages'"),
        ('("-A", "console.site", "ö")', '("-A", "escapement_mq.console.site", "ö")'),
        ('("ö", "broker.hosting.worker:EngineStep")', '("ö", "escapement_mq.hosting.worker:EngineStep")'),
        ('"console.view_message"', '"console.view_message"'),
        ('"console.features.checkback.secret"', '"console.features.checkback.secret"'),
        ('to="broker.broker"', 'to="broker.broker"'),
        ('"spark.sql.shuffle.partitions"', '"spark.sql.shuffle.partitions"'),
        ('"broker"', '"broker"'),
        ('"see broker.client for more"', '"see broker.client for more"'),
        ("broker.client = 1  # from broker.client import x", "broker.client = 1  # from broker.client import x"),
        (
            "from broker.client import (  # from broker.client\n    Producer,\n)",
            "from escapement_mq.client import (  # from broker.client\n    Producer,\n)",
        ),
    ],
)
def test_what_names_a_module_is_renamed(source: str, wanted: str) -> None:
    indented = source.startswith("    ")
    front = "def f():\n" if indented else ""
    assert renamed(f"{front}{source}\n", MODULES) == f"{front}{wanted}\n"


def test_an_import_that_would_bind_another_name_is_refused() -> None:
    with pytest.raises(ValueError, match=r"line 2: import broker\.client as something"):
        renamed("x = 1\nimport broker.client\n", MODULES)


def test_a_name_in_pieces_is_refused() -> None:
    with pytest.raises(ValueError, match="in one piece"):
        renamed('x = ("console"\n".site")\n', MODULES)


def test_the_broker_is_the_package_itself() -> None:
    assert [moved(name) for name in ("broker", "broker.client", "console", "spark.run")] == [
        "escapement_mq", "escapement_mq.client", "escapement_mq.console", "escapement_mq.spark.run",
    ]  # fmt: skip


def test_in_a_checkout_both_names_are_the_same_module() -> None:
    ask = (
        "import sys, importlib, broker.client.names as real\n"
        "import escapement_mq, escapement_mq.client.names as alias, escapement_mq.console.run.addresses\n"
        "import broker, console.run.addresses as addresses\n"
        "assert escapement_mq is broker and alias is real, (alias, real)\n"
        "assert escapement_mq.console.run.addresses is addresses\n"
        "wrong = {n: m.__spec__.name for n, m in sys.modules.items() if n.startswith(('broker', 'console'))"
        " and m.__spec__.name != n}\n"
        "assert not wrong, wrong\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", ask], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
