"""Puts the test database back after a test that committed.

Django would truncate every table, each a new file, and then make permissions, content types and roles again: most of
the time of a short test. Here rows are deleted where there are any, and what a new database holds is copied back.
"""

from __future__ import annotations

from typing import Any

import psycopg
from django.db import connection

_KEEP = """
DO $$ DECLARE
  place record;
  is_filled bool;
  steps text := 'SET LOCAL session_replication_role = replica;';
BEGIN
  CREATE SCHEMA kept;
  FOR place IN SELECT tablename AS name FROM pg_tables WHERE schemaname = 'public' LOOP
    EXECUTE format('SELECT EXISTS (SELECT FROM public.%I)', place.name) INTO is_filled;
    IF is_filled THEN
      EXECUTE format('CREATE TABLE kept.%1$I AS TABLE public.%1$I', place.name);
      steps := steps || format(
        'IF (SELECT array_agg(old::text) FROM public.%1$I AS old)'
        ' IS DISTINCT FROM (SELECT array_agg(old::text) FROM kept.%1$I AS old) '
        'THEN DELETE FROM public.%1$I; INSERT INTO public.%1$I TABLE kept.%1$I; END IF;', place.name);
    ELSE
      steps := steps || format('IF EXISTS (SELECT FROM public.%1$I) THEN DELETE FROM public.%1$I; END IF;', place.name);
    END IF;
  END LOOP;
  -- a function, as its plans are made once for a connection and not for every test
  EXECUTE format('CREATE FUNCTION kept.put_back() RETURNS void LANGUAGE plpgsql AS %L', 'BEGIN ' || steps || ' END');
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
        cursor.execute("SELECT kept.put_back()")
