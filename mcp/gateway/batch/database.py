"""The worker's database connection, with short timeouts, and its prepared SQL statements."""

import json
import threading
from collections.abc import Sequence
from datetime import UTC, date, datetime
from functools import lru_cache
from typing import Any
from uuid import UUID

import orjson
import psycopg
from django.db import connection, models

from common.connections import use_unpooled_connection
from mcp.gateway.batch import sql

STATEMENT_TIMEOUT_MS = 2000
SESSION_SETTINGS = (
    f"SET statement_timeout = {STATEMENT_TIMEOUT_MS}",
    "SET lock_timeout = 1000",
    # The worker runs a few fixed statements, and planning each time would cost more than running them. Each uses an
    # index, also when it is planned while a table is still empty.
    "SET plan_cache_mode = force_generic_plan",
    "SET enable_seqscan = off",
    "SET jit = off",
)


def is_postgresql() -> bool:
    return connection.vendor == "postgresql"


def prepare_connection() -> None:
    """Open a connection with short timeouts, so that callers get an error early instead of waiting behind a lock."""
    if connection.connection is not None and _prepared_connection.dbapi_connection is connection.connection:
        return
    # The settings stay on the connection, so it must not go back to a pool.
    use_unpooled_connection()
    connection.close()
    connection.ensure_connection()
    if is_postgresql():
        # Django disables this for poolers that share connections. This connection is not shared.
        connection.connection.prepare_threshold = 0
        for setting in SESSION_SETTINGS:
            run_statement(setting)
    else:
        with connection.cursor() as cursor:
            cursor.execute(f"PRAGMA busy_timeout = {STATEMENT_TIMEOUT_MS}")
    _prepared_connection.dbapi_connection = connection.connection


class _PreparedConnection(threading.local):
    """The prepared connection of this thread. A different connection must be prepared first."""

    dbapi_connection: Any = None


_prepared_connection = _PreparedConnection()


def run_statement(statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """Run one statement and return its rows. PostgreSQL binds the parameters, so it can prepare the statement."""
    if is_postgresql():
        connection.ensure_connection()
        # Raises Django's errors, by which the worker distinguishes an unreachable database from a rejected row.
        with connection.wrap_database_errors, _BindingCursor(connection.connection) as cursor:
            cursor.execute(statement.encode(), values or None)
            result = cursor.pgresult
            return cursor.fetchall() if result is not None and result.nfields else []
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return list(cursor.fetchall()) if cursor.description else []


class _BindingCursor(psycopg.Cursor[tuple[Any, ...]]):
    """Binds parameters on the server and reads times with psycopg's own loader, as Django's is slow Python code."""

    def __init__(self, pg_connection: Any) -> None:
        super().__init__(pg_connection)
        self._adapters = _adapters(pg_connection)


@lru_cache(maxsize=1)
def _adapters(pg_connection: Any) -> psycopg.adapt.AdaptersMap:
    adapters_map = psycopg.adapt.AdaptersMap(pg_connection.adapters)
    oid = psycopg.adapters.types["timestamptz"].oid
    loader = psycopg.adapters.get_loader(oid, psycopg.pq.Format.TEXT)
    assert loader is not None  # psycopg has a loader for this type
    adapters_map.register_loader(oid, loader)
    return adapters_map


def load_facts(lookups: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Load the facts of each (public id, credential id, identity id, tool name, arguments hash)."""
    rows = [(number, *row) for number, row in enumerate(lookups)]
    if is_postgresql():
        return run_statement(_build_facts_sql("postgresql", 0), [list(column) for column in zip(*rows, strict=True)])
    return run_statement(_build_facts_sql("sqlite", len(lookups)), [to_sqlite(value) for row in rows for value in row])


def load_principals(lookups: Sequence[tuple[UUID, str]]) -> list[tuple[Any, ...]]:
    """Load the state of each identity and its access to the tool of that name."""
    rows = [(number, *row) for number, row in enumerate(lookups)]
    if is_postgresql():
        return run_statement(
            _build_principals_sql("postgresql", 0), [list(column) for column in zip(*rows, strict=True)]
        )
    return run_statement(
        _build_principals_sql("sqlite", len(lookups)), [to_sqlite(value) for row in rows for value in row]
    )


@lru_cache(maxsize=256)
def _build_facts_sql(vendor: str, size: int) -> str:
    return _fill_statement(sql.FACTS_SQL, sql.FACTS_INPUT_SQL[vendor], "(%s, %s, %s, %s, %s, %s)", vendor, size)


@lru_cache(maxsize=64)
def _build_principals_sql(vendor: str, size: int) -> str:
    return _fill_statement(sql.PRINCIPALS_SQL, sql.PRINCIPALS_INPUT_SQL[vendor], "(%s, %s, %s)", vendor, size)


def _fill_statement(statement: str, input_sql: str, row: str, vendor: str, size: int) -> str:
    dialect = sql.DIALECTS[vendor]
    access = sql.ACCESS_SQL.format(**dialect).strip()
    rows = input_sql.format(rows=", ".join([row] * size))
    return statement.format(asked=rows, access=access, latest_grant=sql.LATEST_GRANT_SQL.strip(), **dialect)


def insert_rows(model: type[models.Model], rows: Sequence[dict[str, Any]]) -> None:
    """Insert rows, given as dicts by column name, without the ORM. Also works for append-only tables."""
    if not rows:
        return
    table, columns = model._meta.db_table, [field.attname for field in model._meta.concrete_fields]
    names = ", ".join(columns)
    if is_postgresql():
        values = ", ".join(f"r.{column}" for column in columns)
        run_statement(f"INSERT INTO {table} ({names}) SELECT {values} FROM {recordset_sql(table)} r", [dump_rows(rows)])  # noqa: S608 - our own names
        return
    placeholders = ", ".join(["%s"] * len(columns))
    with connection.cursor() as cursor:
        cursor.executemany(
            f"INSERT INTO {table} ({names}) VALUES ({placeholders})",  # noqa: S608 - our own names
            [[to_sqlite(row[column]) for column in columns] for row in rows],
        )


def recordset_sql(table: str) -> str:
    """Return SQL that reads a JSON list as rows of a table (PostgreSQL only)."""
    return f"jsonb_populate_recordset(NULL::{table}, %s::jsonb)"


def dump_rows(rows: Sequence[dict[str, Any]]) -> str:
    return orjson.dumps(rows).decode()


def to_sqlite(value: Any) -> Any:
    """Convert a value to the form that the ORM stores in SQLite."""
    if isinstance(value, UUID):
        return value.hex
    if isinstance(value, datetime):
        return str(value.astimezone(UTC).replace(tzinfo=None))
    if isinstance(value, date):
        return value.isoformat()
    return json.dumps(value) if isinstance(value, dict | list) else value


def id_condition(values: Sequence[UUID]) -> tuple[str, list[Any]]:
    """Return a condition for "is one of these ids" and its parameters."""
    if is_postgresql():
        return "= ANY(%s)", [list(values)]
    return f"IN ({', '.join(['%s'] * len(values))})", [value.hex for value in values]


def to_database_id(value: UUID) -> UUID | str:
    return value if is_postgresql() else value.hex
