"""The worker's database connection and its SQL statements."""

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

from common.executors import use_unpooled_connection

STATEMENT_TIMEOUT_MS = 2000
LOCK_TIMEOUT_MS = 500
SESSION_SETTINGS = (
    f"SET statement_timeout = {STATEMENT_TIMEOUT_MS}",
    f"SET lock_timeout = {LOCK_TIMEOUT_MS}",
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
    return _fill_statement(FACTS_SQL, FACTS_INPUT_SQL[vendor], "(%s, %s, %s, %s, %s, %s)", vendor, size)


@lru_cache(maxsize=64)
def _build_principals_sql(vendor: str, size: int) -> str:
    return _fill_statement(PRINCIPALS_SQL, PRINCIPALS_INPUT_SQL[vendor], "(%s, %s, %s)", vendor, size)


def _fill_statement(statement: str, input_sql: str, row: str, vendor: str, size: int) -> str:
    dialect = DIALECTS[vendor]
    access = ACCESS_SQL.format(**dialect).strip()
    rows = input_sql.format(rows=", ".join([row] * size))
    return statement.format(asked=rows, access=access, latest_grant=LATEST_GRANT_SQL.strip(), **dialect)


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


FACT_COLUMNS = (
    "n", "now",
    "credential_id", "public_id", "digest", "credential_expires", "credential_revoked", "networks", "run_chain",
    "agent_id", "agent_kind", "agent_name", "agent_state", "agent_expires", "epoch", "tokens_from", "owner_id",
    "tool_id", "tool_name", "tool_identity_state", "tool_expires", "capability",
    "tool_state", "wire_name", "asks", "definition_id", "definition_checkable",
    "server_id", "server_name", "enabled", "revision", "era", "timeout", "connection", "faults",
    "breaker_id", "breaker_state", "breaker_failures", "breaker_since", "breaker_recovery", "breaker_probe_until",
    "own_breaker_id", "own_breaker_state", "own_breaker_failures", "own_breaker_since", "own_breaker_recovery",
    "own_breaker_probe_until",
    "grant_id", "granted_by", "grant_expires", "grant_revoked", "limited", "per_hour", "grant_asks",
    "role",
    "approval_id", "approval_state", "approval_expires", "approval_terms",
    "budgeted", "recordable",
)  # fmt: skip

#: Columns of a principal of a delegation chain: its state and its own access.
PRINCIPAL_COLUMNS = (
    "n", "now", "agent_id", "agent_kind", "agent_name", "agent_state", "agent_expires",
    "grant_id", "granted_by", "grant_expires", "grant_revoked", "limited", "per_hour", "grant_asks",
    "role",
)  # fmt: skip

FACTS_INPUT_SQL = {
    "postgresql": """
    SELECT n, public_id, credential_id, identity_id, tool, args_hash
    FROM unnest(%s::int[], %s::text[], %s::uuid[], %s::uuid[], %s::text[], %s::text[])
        AS asked(n, public_id, credential_id, identity_id, tool, args_hash)
    """,
    "sqlite": "VALUES {rows}",
}
PRINCIPALS_INPUT_SQL = {
    "postgresql": """
    SELECT n, identity_id, tool FROM unnest(%s::int[], %s::uuid[], %s::text[]) AS asked(n, identity_id, tool)
    """,
    "sqlite": "VALUES {rows}",
}
DIALECTS = {
    "postgresql": {
        "now": "STATEMENT_TIMESTAMP()",
        "never": "'9999-01-01 00:00:00+00'::timestamptz",
        "least": "LEAST",
        "greatest": "GREATEST",
        "object": "json_build_object",
        # Without the right to insert log rows, no call may be made: it could not be logged afterwards.
        "recordable": "has_table_privilege('nhi_invocation_log', 'INSERT')",
    },
    "sqlite": {
        "now": "STRFTIME('%%Y-%%m-%%d %%H:%%M:%%f', 'NOW')",
        "never": "'9999-01-01 00:00:00'",
        "least": "MIN",
        "greatest": "MAX",
        "object": "json_object",
        "recordable": "1",
    },
}
# A role covers a tool when assignment, pattern and tool existed at the same time, as in nhi.authorization.facts.
ACCESS_SQL = """
    g.id, g.granted_by_name, g.expires_at, g.revoked_at, g.allowed_parameters IS NOT NULL, g.max_calls_per_hour,
        g.requires_approval,
    CASE WHEN t.id IS NULL THEN NULL ELSE (
        SELECT {object}('id', ra.id, 'role_id', ra.role_id, 'name', r.name, 'expires_at', ra.expires_at, 'closed',
            NULLIF({least}(COALESCE(ra.revoked_at, {never}), COALESCE(rc.removed_at, {never})), {never}))
        FROM nhi_role_assignment ra
        JOIN nhi_role r ON r.id = ra.role_id
        JOIN nhi_role_capability rc ON rc.role_id = ra.role_id AND rc.approved_at IS NOT NULL
        WHERE ra.identity_id = i.id
            AND ((rc.prefix IS NULL AND rc.pattern = t.capability)
                OR SUBSTR(t.capability, 1, LENGTH(rc.prefix)) = rc.prefix)
            AND {greatest}(ra.created_at, rc.approved_at, t.created_at)
                < {least}(COALESCE(ra.revoked_at, {never}), COALESCE(rc.removed_at, {never}),
                    COALESCE(ra.expires_at, {never}))
        ORDER BY {least}(COALESCE(ra.revoked_at, {never}), COALESCE(rc.removed_at, {never})) DESC,
            ra.expires_at DESC NULLS FIRST
        LIMIT 1
    ) END
"""
LATEST_GRANT_SQL = """
LEFT JOIN nhi_tool_permission g ON g.id = (
    SELECT own.id FROM nhi_tool_permission own WHERE own.agent_id = i.id AND own.tool_id = t.id
    ORDER BY own.revoked_at DESC NULLS FIRST, own.created_at DESC LIMIT 1
)
"""
FACTS_SQL = """
WITH asked(n, public_id, credential_id, identity_id, tool, args_hash) AS ({asked})
SELECT asked.n, {now},
    c.id, c.public_id, c.digest, c.expires_at, c.revoked_at, c.allowed_networks, c.chain,
    i.id, i.kind, i.name, i.state, i.expires_at, i.access_epoch, i.tokens_from, i.owner_id,
    t.id, t.name, t.state, t.expires_at, t.capability,
    tool.state, tool.name, tool.requires_approval, tool.approved_id, d.checkable,
    s.id, s.name, s.enabled, s.revision, s.era, s.timeout, s.status, s.faults,
    b.id, b.state, b.failure_count, b.last_state_change, b.recovery_timeout, b.probe_until,
    ob.id, ob.state, ob.failure_count, ob.last_state_change, ob.recovery_timeout, ob.probe_until,
    {access},
    a.id, a.state, a.expires_at, a.terms,
    EXISTS (
        SELECT 1 FROM mcp_budget bu
        WHERE (bu.scope = 'server' AND bu.target_id = s.id) OR (bu.scope = 'tool' AND bu.target_id = t.id)
            OR (bu.scope = 'agent' AND bu.target_id = i.id) OR (bu.scope = 'grant' AND bu.target_id = g.id)
    ),
    {recordable}
FROM asked
LEFT JOIN nhi_credential c ON c.id = COALESCE(
    asked.credential_id, (SELECT known.id FROM nhi_credential known WHERE known.public_id = asked.public_id)
) AND (asked.identity_id IS NULL OR c.identity_id = asked.identity_id)
LEFT JOIN nhi_identity i ON i.id = c.identity_id
LEFT JOIN nhi_identity t ON t.kind = 'tool' AND t.name = asked.tool
LEFT JOIN mcp_tool tool ON tool.identity_id = t.id
LEFT JOIN mcp_server s ON s.id = tool.server_id
LEFT JOIN mcp_tool_definition d ON d.id = tool.approved_id
LEFT JOIN mcp_breaker b ON b.server_id = s.id AND b.agent_id IS NULL
LEFT JOIN mcp_breaker ob ON ob.server_id = s.id AND ob.agent_id = i.id
{latest_grant}
LEFT JOIN mcp_call_approval a ON a.agent_id = i.id AND a.tool_id = t.id AND a.args_hash = asked.args_hash
    AND a.state IN ('pending', 'approved')
ORDER BY asked.n
"""
# A principal without access to the tool cannot delegate it: this loads the same access for the chain's principals.
PRINCIPALS_SQL = """
WITH asked(n, identity_id, tool) AS ({asked})
SELECT asked.n, {now}, i.id, i.kind, i.name, i.state, i.expires_at,
    {access}
FROM asked
LEFT JOIN nhi_identity i ON i.id = asked.identity_id
LEFT JOIN nhi_identity t ON t.kind = 'tool' AND t.name = asked.tool
{latest_grant}
ORDER BY asked.n
"""
