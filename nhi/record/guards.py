"""Database triggers that keep the record append-only, whoever holds the connection.

They are set after every migrate, because on SQLite any column change silently drops a table's triggers and a
migration alone would never put them back. Nothing in the product takes them off.
"""

from typing import Any

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

TABLES = ("nhi_audit_event", "nhi_invocation_log")

POSTGRESQL = """
CREATE OR REPLACE FUNCTION gatehouse_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'append-only: % on % is refused', TG_OP, TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
END $$;
CREATE OR REPLACE TRIGGER {table}_rows BEFORE UPDATE OR DELETE ON {table}
    FOR EACH ROW EXECUTE FUNCTION gatehouse_append_only();
CREATE OR REPLACE TRIGGER {table}_all BEFORE TRUNCATE ON {table}
    FOR EACH STATEMENT EXECUTE FUNCTION gatehouse_append_only();
ALTER TABLE {table} ENABLE ALWAYS TRIGGER {table}_rows, ENABLE ALWAYS TRIGGER {table}_all;
"""
# INSERT OR REPLACE removes the old row without a delete trigger, hence the third guard. A row that brings no rowid
# has -1 there, which no row has.
SQLITE = """
CREATE TRIGGER IF NOT EXISTS {table}_no_update BEFORE UPDATE ON {table}
BEGIN SELECT RAISE(ABORT, 'append-only: UPDATE on {table} is refused'); END
--
CREATE TRIGGER IF NOT EXISTS {table}_no_delete BEFORE DELETE ON {table}
BEGIN SELECT RAISE(ABORT, 'append-only: DELETE on {table} is refused'); END
--
CREATE TRIGGER IF NOT EXISTS {table}_no_replace BEFORE INSERT ON {table}
WHEN EXISTS (
    SELECT 1 FROM {table}
    WHERE rowid = NEW.rowid OR id = NEW.id OR (writer = NEW.writer AND writer_seq = NEW.writer_seq)
)
BEGIN SELECT RAISE(ABORT, 'append-only: REPLACE on {table} is refused'); END
"""
STATEMENTS = {"postgresql": [POSTGRESQL], "sqlite": SQLITE.split("--")}
SUFFIXES = {"postgresql": ("_rows", "_all"), "sqlite": ("_no_update", "_no_delete", "_no_replace")}
ENABLED = {
    "postgresql": "SELECT tgname FROM pg_trigger WHERE NOT tgisinternal AND tgenabled = 'A'",
    "sqlite": "SELECT name FROM sqlite_master WHERE type = 'trigger'",
}


def install(connection: BaseDatabaseWrapper) -> None:
    """Set every guard that is not there."""
    existing = set(connection.introspection.table_names())
    with connection.cursor() as cursor:
        for table in (table for table in TABLES if table in existing):
            for statement in STATEMENTS[connection.vendor]:
                cursor.execute(statement.format(table=table))


def missing(connection: BaseDatabaseWrapper) -> list[str]:
    """The guards that should be there and are not, or are switched off."""
    with connection.cursor() as cursor:
        cursor.execute(ENABLED[connection.vendor])
        there = {row[0] for row in cursor.fetchall()}
    wanted = [table + suffix for table in TABLES for suffix in SUFFIXES[connection.vendor]]
    return [name for name in wanted if name not in there]


def after_migrate(*, using: str, **_kwargs: Any) -> None:
    install(connections[using])
