"""Executes SQL as server-side prepared statements.

The text of the statements never changes. On PostgreSQL the server keeps each statement parsed and planned for the life
of the connection and receives only the values. Django's own cursors write the values into the text, so every statement
is a new one. SQLite's driver already caches statements by their text.
"""

import re
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connections
from django.db.backends.postgresql.base import ServerBindingCursor
from psycopg import ClientCursor
from psycopg.errors import FeatureNotSupported
from psycopg.pq import TransactionStatus

_PLACEHOLDER = re.compile(r"%[%s]")
#: SQL text and parameters.
Statement = tuple[str, Sequence[Any]]


class _PreparingCursor(ServerBindingCursor):
    """A psycopg cursor that prepares every statement on the server."""

    def execute(self, query: Any, params: Any = None, **options: Any) -> Any:
        try:
            result = super().execute(query, params, prepare=True, **options)  # type: ignore[misc]  # psycopg's own
        except FeatureNotSupported:
            # The type of a column has changed: the prepared statements of this connection are no longer valid.
            connection = self.connection  # type: ignore[attr-defined]  # psycopg's own
            connection._prepared.clear()
            if connection.info.transaction_status != TransactionStatus.IDLE:
                raise
            # Without preparing this time: psycopg deallocates the old statements after the next one.
            result = super().execute(query, params, prepare=False, **options)  # type: ignore[misc]  # as above
        # Django's query log reads the query from the cursor, but psycopg does not store prepared queries there.
        self._query = _LoggedQuery(self.connection, query, params)  # type: ignore[attr-defined]  # psycopg's own
        return result


@dataclass(frozen=True)
class _LoggedQuery:
    """An executed query with its parameters, in the form in which Django's query log reads it from a cursor."""

    connection: Any
    sql: str
    params: Any

    @property
    def query(self) -> bytes:
        """The SQL text with its values, as Django logs other queries."""
        return ClientCursor(self.connection).mogrify(self.sql, self.params).encode()


def get_connection() -> Any:
    """The current thread's connection. The proxy `django.db.connection` would look it up again for every attribute."""
    return connections[DEFAULT_DB_ALIAS]


def fetch_rows(sql: str, params: Sequence[Any]) -> list[Any]:
    with _open_cursor(get_connection()) as cursor:
        cursor.execute(sql, params)
        return list(cursor.fetchall())


def execute_statements(*statements: Statement) -> list[int]:
    """Execute statements and return the number of rows each wrote. PostgreSQL receives all of them in one pipeline."""
    connection = get_connection()
    if connection.vendor != "postgresql" or len(statements) < 2:
        return [_execute_statement(connection, statement) for statement in statements]
    connection.ensure_connection()
    with connection.wrap_database_errors, connection.connection.pipeline():
        cursors = [_send_statement(connection, statement) for statement in statements]
    return [int(cursor.rowcount) for cursor in cursors]


def inline_constants(sql: str, params: Sequence[Any], varying: set[int]) -> tuple[str, list[Any]]:
    """Write the parameters at positions outside `varying` into the text; return the text and the other parameters.

    The planner needs these constants: it uses a partial index only if the plan has the constant of its condition.
    """
    connection = get_connection()
    if connection.vendor != "postgresql":
        return sql, list(params)
    positions = iter(range(len(params)))

    def placed(match: re.Match[str]) -> str:
        if match[0] == "%%" or (position := next(positions)) in varying:
            return match[0]
        return str(connection.ops.compose_sql("%s", [params[position]])).replace("%", "%%")

    return _PLACEHOLDER.sub(placed, sql), [param for position, param in enumerate(params) if position in varying]


def _execute_statement(connection: Any, statement: Statement) -> int:
    with _open_cursor(connection) as cursor:
        cursor.execute(*statement)
        return int(cursor.rowcount)


def _send_statement(connection: Any, statement: Statement) -> Any:
    cursor = _open_cursor(connection)
    cursor.execute(*statement)  # type: ignore[attr-defined]  # a cursor
    return cursor


def _open_cursor(connection: Any) -> AbstractContextManager[Any]:
    if connection.vendor != "postgresql":
        return connection.cursor()  # type: ignore[no-any-return]  # a cursor of any backend
    connection.ensure_connection()
    # Django's wrapper logs queries, converts errors and checks the thread, as for any cursor.
    return connection._prepare_cursor(_PreparingCursor(connection.connection))  # type: ignore[no-any-return, call-arg]  # as above, psycopg's
