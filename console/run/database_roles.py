"""The rights of PostgreSQL's roles: who owns the tables, and what the program, Spark and readers may do with each.

owner          ESCAPEMENT_DATABASE_OWNER_URL: `prepare` and `migrate`; the tables are its own
application    DATABASE_URL: web processes, workers, commands; it may change rows, but of the audit only add and read
Spark          ESCAPEMENT_SPARK_DATABASE_URL: what computes dashboards; their results, and offsets to read
reader         ESCAPEMENT_DATABASE_READER, a role's name: people and their tools; what holds no secret and no content

Each table of the project has a row below; a test says when one has none. Rights are compared with what the database
says, so whatever was granted beside them is taken back, and a second time there is nothing to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connections, transaction
from psycopg import pq, sql

#: the alias of Django's database connection that owns the tables
OWNER = "owner"
APPLICATION, SPARK, READER = "application", "spark", "reader"

_ROWS = frozenset({"SELECT", "INSERT", "UPDATE", "DELETE"})
_SEE = frozenset({"SELECT"})
_NONE: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Rights:
    """What may be done with one table; `columns`: what the application may change although it may not change rows."""

    application: frozenset[str] = _ROWS
    spark: frozenset[str] = _NONE
    reader: frozenset[str] = _NONE
    columns: tuple[str, ...] = ()

    def of(self, role: str) -> frozenset[str]:
        """Return what a role may do; with a column as `UPDATE (column)`."""
        given: Mapping[str, frozenset[str]] = {
            APPLICATION: self.application | {f"UPDATE ({each})" for each in self.columns},
            SPARK: self.spark,
            READER: self.reader,
        }
        return given[role]


_OWN = Rights()
_SHOWN = Rights(reader=_SEE)
#: what migrations write
_FIXED = Rights(application=_SEE)

TABLES: Mapping[str, Rights] = {
    # what the mirror keeps; halves and timers have keys and properties of messages in them
    "broker_broker": _SHOWN,
    "broker_replica": _SHOWN,
    "broker_mirrorstate": _SHOWN,
    "broker_topic": _SHOWN,
    "broker_queue": _SHOWN,
    "broker_consumergroup": _SHOWN,
    "broker_consumeroffset": Rights(spark=_SEE, reader=_SEE),
    "broker_schedulelevel": _SHOWN,
    "broker_ratehistory": _SHOWN,
    "broker_halfmessage": _OWN,
    "broker_opmessage": _OWN,
    # what others put their messages into
    "escapement_outbox": _OWN,
    "escapement_outbox_message": _OWN,
    "escapement_inbox": _OWN,
    "escapement_task": _OWN,
    # the console's own
    "console_alert": _SHOWN,
    "console_alertrule": _OWN,
    "console_passworddue": _OWN,
    "console_recoverycode": _OWN,
    "console_secondfactor": _OWN,
    "console_apitoken": _OWN,
    # only that the account of an entry is forgotten with the account; a trigger refuses any other change of it
    "console_auditentry": Rights(application=frozenset({"SELECT", "INSERT"}), reader=_SEE, columns=("user_id",)),
    # a trigger writes it, with its owner's rights
    "console_auditend": Rights(application=_SEE, reader=_SEE),
    "console_checkaddress": _OWN,
    "console_dashboardpoint": Rights(spark=_ROWS, reader=_SEE),
    "console_dashboardrun": Rights(spark=frozenset({"SELECT", "UPDATE", "DELETE"}), reader=_SEE),
    "console_delivery": _OWN,
    "console_figuresubject": _SHOWN,
    "console_findingmark": _SHOWN,
    "console_hourfigures": _SHOWN,
    "console_identity": _OWN,
    "console_lettermark": _OWN,
    "console_maskrule": _OWN,
    "console_minutefigures": _SHOWN,
    "console_operation": _OWN,
    "console_operationitem": _OWN,
    "console_readadministration": _OWN,
    "console_savedview": _OWN,
    "console_silence": _SHOWN,
    "console_snapshot": _SHOWN,
    "console_topicdescriptor": _OWN,
    "console_topicpermission": _OWN,
    # Django's, and who tried to sign in
    "auth_group": _OWN,
    "auth_group_permissions": _OWN,
    "auth_permission": _FIXED,
    "auth_user": _OWN,
    "auth_user_groups": _OWN,
    "auth_user_user_permissions": _OWN,
    "axes_accessattempt": _OWN,
    "axes_accessattemptexpiration": _OWN,
    "axes_accessfailurelog": _OWN,
    "axes_accesslog": _OWN,
    "django_admin_log": _OWN,
    "django_content_type": _FIXED,
    "django_migrations": _FIXED,
    "django_session": _OWN,
}


class RolesFailed(Exception):
    """The rights could not be given; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Role:
    """A role of PostgreSQL, in one of the parts above; the password is set when it has to be made."""

    part: str
    name: str
    password: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class Step:
    """One statement, and how it is shown; a password stands in the statement only."""

    statement: sql.Composable
    shown: str


def roles(settings: Any) -> list[Role]:
    """Return the roles that these settings name beside the owner's."""
    owner = settings.DATABASES.get(OWNER)
    if owner is None:
        return []
    found = {APPLICATION: settings.DATABASES["default"], SPARK: settings.SPARK_DATABASE}
    made = [Role(part, its["USER"], its["PASSWORD"]) for part, its in found.items() if its is not None]
    if settings.DATABASE_READER:
        made.append(Role(READER, settings.DATABASE_READER))
    names = [each.name for each in made]
    if owner["USER"] in names or len(set(names)) < len(names):
        raise RolesFailed(
            f"One role is named twice ({', '.join([owner['USER'], *names])}): the owner of the tables, the application,"
            " Spark and the reader are to be different ones."
        )
    return made


@contextmanager
def as_owner() -> Iterator[None]:
    """Do everything as the owner of the tables, while the application's role may not be there yet."""
    usual = connections[DEFAULT_DB_ALIAS]
    connections[DEFAULT_DB_ALIAS] = connections[OWNER]
    try:
        yield
    finally:
        connections[DEFAULT_DB_ALIAS] = usual


def steps(wanted: Iterable[Role], using: str = OWNER) -> list[Step]:
    """Return what is to be done so that the roles may do what they are to, and nothing else. Raises RolesFailed."""
    with connections[using].cursor() as cursor:
        return [step for role in wanted for step in _of(cursor, role)]


def give(wanted: Iterable[Role], using: str = OWNER) -> list[Step]:
    """Do it, all or nothing; returns what was done. Raises RolesFailed, django.db.Error."""
    with transaction.atomic(using=using):
        todo = steps(wanted, using)
        with connections[using].cursor() as cursor:
            for step in todo:
                cursor.execute(step.statement)
    return todo


def _of(cursor: Any, role: Role) -> Iterator[Step]:
    is_there = _is_there(cursor, role)
    if not is_there:
        yield _made(cursor, role)
    who = sql.Identifier(role.name)
    cursor.execute("SELECT current_database(), current_schema()")
    database, schema = (sql.Identifier(each) for each in cursor.fetchone())
    may_connect, may_use, may_create = _general(cursor, role.name) if is_there else (False, False, False)
    if not may_connect:
        yield _step(sql.SQL("GRANT CONNECT ON DATABASE {} TO {}").format(database, who))
    if not may_use:
        yield _step(sql.SQL("GRANT USAGE ON SCHEMA {} TO {}").format(schema, who))
    if may_create:
        yield _step(sql.SQL("REVOKE CREATE ON SCHEMA {} FROM {}, PUBLIC").format(schema, who))
    held = _held(cursor, role.name) if is_there else {}
    for table in sorted({*held, *TABLES} & _tables(cursor)):
        rights = TABLES[table].of(role.part) if table in TABLES else _NONE
        yield from _changed(who, table, held.get(table, set()), rights)


def _is_there(cursor: Any, role: Role) -> bool:
    """Tell whether there is this role. Raises RolesFailed for one that no rights could bind."""
    cursor.execute(
        "SELECT rolsuper OR rolcreaterole OR rolbypassrls, EXISTS (SELECT FROM pg_class WHERE relowner = r.oid AND"
        " relkind = 'r' AND relnamespace = current_schema()::regnamespace) FROM pg_roles r WHERE rolname = %s",
        [role.name],
    )
    found = cursor.fetchone()
    if found is not None and any(found):
        why = "may do everything by what it is" if found[0] else "owns tables"
        raise RolesFailed(f"The role {role.name} {why}, so no rights bind it: name another one for {role.part}.")
    return found is not None


def _general(cursor: Any, name: str) -> tuple[bool, bool, bool]:
    cursor.execute(
        "SELECT has_database_privilege(%(who)s, current_database(), 'CONNECT'),"
        " has_schema_privilege(%(who)s, current_schema(), 'USAGE'),"
        " has_schema_privilege(%(who)s, current_schema(), 'CREATE')",
        {"who": name},
    )
    found: tuple[bool, bool, bool] = cursor.fetchone()
    return found


def _changed(who: sql.Identifier, table: str, held: set[str], wanted: frozenset[str]) -> Iterator[Step]:
    for words, rights in (("REVOKE {} ON {} FROM {}", held - wanted), ("GRANT {} ON {} TO {}", wanted - held)):
        if rights:
            named = sql.SQL(", ").join(sql.SQL(each) for each in sorted(rights))  # our own words, or a column's name
            yield _step(sql.SQL(words).format(named, sql.Identifier(table), who))


def _tables(cursor: Any) -> set[str]:
    cursor.execute("SELECT relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r'")
    return {name for (name,) in cursor.fetchall()}


def _held(cursor: Any, name: str) -> dict[str, set[str]]:
    """Return the rights that a role was given on tables, and on columns of them."""
    cursor.execute(
        """
        SELECT c.relname, a.privilege_type FROM pg_class c, aclexplode(c.relacl) a
         WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r' AND a.grantee = %(who)s::regrole
        UNION ALL
        SELECT c.relname, a.privilege_type || ' (' || quote_ident(t.attname) || ')'
          FROM pg_class c JOIN pg_attribute t ON t.attrelid = c.oid, aclexplode(t.attacl) a
         WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r' AND a.grantee = %(who)s::regrole
        """,
        {"who": f'"{name}"'},
    )
    held: dict[str, set[str]] = {}
    for table, right in cursor.fetchall():
        held.setdefault(table, set()).add(right)
    return held


def _made(cursor: Any, role: Role) -> Step:
    """Return the making of a role that is missing. Raises RolesFailed where this owner may make none."""
    cursor.execute("SELECT rolsuper OR rolcreaterole FROM pg_roles WHERE rolname = current_user")
    if not cursor.fetchone()[0]:
        raise RolesFailed(
            f"There is no role {role.name}, and the owner of the tables may make none:"
            f" sudo -u postgres createuser --pwprompt {role.name}"
        )
    who = sql.Identifier(role.name)
    if not role.password:
        return _step(sql.SQL("CREATE ROLE {} NOLOGIN").format(who))
    raw: pq.abc.PGconn = cursor.connection.pgconn
    digest = raw.encrypt_password(role.password.encode(), role.name.encode(), b"scram-sha-256").decode()
    made = sql.SQL("CREATE ROLE {} LOGIN PASSWORD ").format(who)
    return Step(made + sql.Literal(digest), f"{made.as_string()}'...'")


def _step(statement: sql.Composed) -> Step:
    return Step(statement, statement.as_string())
