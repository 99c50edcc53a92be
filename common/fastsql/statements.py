"""Statements whose text never changes, asked past what the ORM does anew for each.

On PostgreSQL the server keeps each of them parsed and planned for as long as the connection lasts, and is sent the
values alone. Django's own cursors write the values into the text, so that every statement is a new one. SQLite's driver
keeps statements by their text already.
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
#: Its text, and its values.
Statement = tuple[str, Sequence[Any]]


class _PreparingCursor(ServerBindingCursor):
    def execute(self, query: Any, params: Any = None, **how: Any) -> Any:
        try:
            done = super().execute(query, params, prepare=True, **how)  # type: ignore[misc]  # psycopg's own
        except FeatureNotSupported:
            # A column has another type since: what is kept of it is no use to anybody who borrows this connection.
            held = self.connection  # type: ignore[attr-defined]  # psycopg's own
            held._prepared.clear()
            if held.info.transaction_status != TransactionStatus.IDLE:
                raise
            # Not kept this once: the server is told to forget behind the next statement.
            done = super().execute(query, params, prepare=False, **how)  # type: ignore[misc]  # as above
        # Where queries are logged, Django asks the cursor which it was; psycopg forgets those that were kept.
        self._query = _LoggedQuery(self.connection, query, params)  # type: ignore[attr-defined]  # psycopg's own
        return done


@dataclass(frozen=True)
class _LoggedQuery:
    connection: Any
    sql: str
    params: Any

    @property
    def query(self) -> bytes:
        """With its values in it, as all others are logged."""
        return ClientCursor(self.connection).mogrify(self.sql, self.params).encode()


def get_connection() -> Any:
    """The asking thread's own connection. Its proxy, `django.db.connection`, finds it anew for each attribute."""
    return connections[DEFAULT_DB_ALIAS]


def fetch_rows(sql: str, params: Sequence[Any]) -> list[Any]:
    with _open_cursor(get_connection()) as cursor:
        cursor.execute(sql, params)
        return list(cursor.fetchall())


def execute_statements(*wanted: Statement) -> list[int]:
    """How many rows each of them wrote. PostgreSQL is sent all of them before it is waited for."""
    held = get_connection()
    if held.vendor != "postgresql" or len(wanted) < 2:
        return [_execute_statement(held, one) for one in wanted]
    held.ensure_connection()
    with held.wrap_database_errors, held.connection.pipeline():
        asked = [_send_statement(held, one) for one in wanted]
    return [int(cursor.rowcount) for cursor in asked]


def inline_constants(sql: str, params: Sequence[Any], varying: set[int]) -> tuple[str, list[Any]]:
    """The same statement and its remaining values, where those that are not in a place of `varying` are in its text.

    A plan that is kept must know them: what an index leaves out is decided by a constant.
    """
    held = get_connection()
    if held.vendor != "postgresql":
        return sql, list(params)
    at = iter(range(len(params)))

    def placed(found: re.Match[str]) -> str:
        if found[0] == "%%" or (place := next(at)) in varying:
            return found[0]
        return str(held.ops.compose_sql("%s", [params[place]])).replace("%", "%%")

    return _PLACEHOLDER.sub(placed, sql), [param for place, param in enumerate(params) if place in varying]


def _execute_statement(held: Any, one: Statement) -> int:
    with _open_cursor(held) as cursor:
        cursor.execute(*one)
        return int(cursor.rowcount)


def _send_statement(held: Any, one: Statement) -> Any:
    cursor = _open_cursor(held)
    cursor.execute(*one)  # type: ignore[attr-defined]  # a cursor
    return cursor


def _open_cursor(held: Any) -> AbstractContextManager[Any]:
    if held.vendor != "postgresql":
        return held.cursor()  # type: ignore[no-any-return]  # any vendor's
    held.ensure_connection()
    # Django's wrapper around it counts queries, names errors and keeps to its thread, as around any cursor.
    return held._prepare_cursor(_PreparingCursor(held.connection))  # type: ignore[no-any-return, call-arg]  # as above, psycopg's
