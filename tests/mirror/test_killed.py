"""A mirror process that is killed, again and again, while messages arrive: nothing is missing and nothing is double."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from broker.client import Admin, Producer
from broker.mirror.follower import Mirror, MirrorBusyError
from broker.mirror.models import MirrorState, Queue, ScheduleLevel
from tests.mirror.running import running_broker
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import sys, threading, django
django.setup()
from broker.client import Admin
from broker.mirror import follower as mirror
mirror.FOLLOW_INTERVAL_S = 0.0
mirror.Mirror(Admin(sys.argv[1])).run(threading.Event())
"""


def test_killed_at_any_moment(
    tmp_path: Path, transactional_db: None, database_url: str, valkey: str, var_dir: Path
) -> None:
    environment: dict[str, Any] = {
        **os.environ,
        "DATABASE_URL": database_url,
        "REDIS_URL": valkey,
        "DJANGO_SETTINGS_MODULE": "console.site.settings",
    }
    with (
        running_broker(tmp_path / "store") as broker,
        Admin(broker.namesrv) as admin,
        Producer(group="tests", namesrv=broker.namesrv) as producer,
    ):
        admin.create_topic("orders", queues=1)
        sent = 0
        for lives in range(4):
            before = MirrorState.objects.values_list("sequence", flat=True).first() or 0
            command = [sys.executable, "-c", PROGRAM, broker.namesrv]
            with subprocess.Popen(command, cwd=ROOT, env=environment) as process:
                while (MirrorState.objects.values_list("sequence", flat=True).first() or 0) < before + 10 + lives:
                    producer.send("orders", "x", delay_level=(0, 18)[sent % 2])
                    sent += 1
                    assert process.poll() is None
                process.send_signal(signal.SIGKILL)
        mirror = Mirror(admin)
        done = followed(mirror)
        assert not done.full, "it went on from the token of the killed one"
        assert Queue.objects.get(topic="orders", queue_id=0).max_offset == (sent + 1) // 2
        assert ScheduleLevel.objects.get(level=18).max_offset == sent // 2
        mirror.close()


def followed(mirror: Mirror) -> Any:
    """A round, as soon as the server has noticed the death of the last lock holder."""
    return until(lambda: [mirror.run_once()], not_yet=(MirrorBusyError,))[0]
