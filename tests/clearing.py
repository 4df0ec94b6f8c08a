"""Puts the test database back after a test that committed.

Django would truncate every table, each a new file, and then make permissions, content types and roles again: most of
the time of a short test. Here rows are deleted where there are any, and what a new database holds is copied back.
"""

from __future__ import annotations

from typing import Any

import psycopg
from django.db import connection

_KEEP = """
DO $$ DECLARE place record; is_filled bool; BEGIN
  CREATE SCHEMA kept;
  FOR place IN SELECT tablename AS name FROM pg_tables WHERE schemaname = 'public' LOOP
    EXECUTE format('SELECT EXISTS (SELECT FROM public.%I)', place.name) INTO is_filled;
    IF is_filled THEN EXECUTE format('CREATE TABLE kept.%I AS TABLE public.%I', place.name, place.name); END IF;
  END LOOP;
END $$
"""
_PUT_BACK = """
DO $$ DECLARE place record; BEGIN
  SET LOCAL session_replication_role = replica;
  FOR place IN SELECT tablename AS name FROM pg_tables WHERE schemaname = 'public' LOOP
    EXECUTE format('DELETE FROM public.%I', place.name);
  END LOOP;
  FOR place IN SELECT tablename AS name FROM pg_tables WHERE schemaname = 'kept' LOOP
    EXECUTE format('INSERT INTO public.%I TABLE kept.%I', place.name, place.name);
  END LOOP;
END $$
"""


def forget_power_loss(address: str) -> None:
    """Have a server of tests write without waiting for the disk: no test cuts its power."""
    with psycopg.connect(address, autocommit=True) as session:
        for name in ("fsync", "synchronous_commit", "full_page_writes", "autovacuum"):
            session.execute(f"ALTER SYSTEM SET {name} = off")
        session.execute("ALTER SYSTEM SET scram_iterations = 1")
        session.execute("SELECT pg_reload_conf()")


def keep() -> None:
    """Copy what the new database holds into a schema of its own."""
    with connection.cursor() as cursor:
        cursor.execute(_KEEP)


def put_back(case: Any) -> None:
    """In the place of `TransactionTestCase._fixture_teardown`."""
    with connection.cursor() as cursor:
        cursor.execute(_PUT_BACK)
