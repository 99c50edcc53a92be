"""Database triggers that keep the log tables append-only for every connection: compare and install.

Triggers are compared by definition, not by name: one that is disabled, conditional or calls another function protects
nothing. `inspect` lists all differences, and `install` creates the triggers that differ. `trigger_repair` calls both
and records the results in the audit log.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from django.db import transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from nhi.audit import sanitization

LOG_TABLES = ("nhi_audit_event", "nhi_invocation_log")
TRIGGER_SUFFIXES = {"postgresql": ("_rows", "_all"), "sqlite": ("_no_update", "_no_delete", "_no_replace")}
#: How many unknown triggers or rules of a table are reported, and the maximum length of a name.
MAX_UNKNOWN, MAX_NAME_LENGTH = 20, 128

# The texts below are compared with the definitions in the database. Change one only together with code that recognises
# the earlier text; otherwise every upgrade reports a false difference.
FUNCTION = "gatehouse_append_only"
FUNCTION_BODY = """
BEGIN
    RAISE EXCEPTION 'append-only: % on % is refused', TG_OP, TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
END """
#: By suffix: the events of the trigger and their `pg_trigger.tgtype` (catalog/pg_trigger.h).
POSTGRESQL_TRIGGERS = {
    "_rows": ("BEFORE UPDATE OR DELETE ON {table} FOR EACH ROW", 1 | 2 | 8 | 16),
    "_all": ("BEFORE TRUNCATE ON {table} FOR EACH STATEMENT", 2 | 32),
}
# INSERT OR REPLACE removes the old row without a delete trigger, hence the third trigger. In a row without a rowid,
# NEW.rowid is -1, which no stored row has.
SQLITE_TRIGGERS = {
    "_no_update": """{table}_no_update BEFORE UPDATE ON {table}
BEGIN SELECT RAISE(ABORT, 'append-only: UPDATE on {table} is refused'); END""",
    "_no_delete": """{table}_no_delete BEFORE DELETE ON {table}
BEGIN SELECT RAISE(ABORT, 'append-only: DELETE on {table} is refused'); END""",
    "_no_replace": """{table}_no_replace BEFORE INSERT ON {table}
WHEN EXISTS (
    SELECT 1 FROM {table}
    WHERE rowid = NEW.rowid OR id = NEW.id OR (writer = NEW.writer AND writer_seq = NEW.writer_seq)
)
BEGIN SELECT RAISE(ABORT, 'append-only: REPLACE on {table} is refused'); END""",
}

# `to_regclass` resolves a name like the application's own statements: a table of that name in another schema does not
# count. Catalogs are qualified because a search path may put another schema before them. The internal triggers of
# foreign keys from other tables are ignored.
POSTGRESQL_FOUND_TRIGGERS = """
SELECT c.relname, t.tgname, t.tgtype, t.tgenabled, t.tgqual IS NOT NULL, t.tgattr::pg_catalog.text <> '', p.proname,
       p.pronamespace = c.relnamespace, p.prosrc, l.lanname, p.prosecdef OR p.proconfig IS NOT NULL
FROM pg_catalog.pg_trigger t
JOIN pg_catalog.pg_class c ON c.oid = t.tgrelid
JOIN pg_catalog.pg_proc p ON p.oid = t.tgfoid
JOIN pg_catalog.pg_language l ON l.oid = p.prolang
WHERE t.tgrelid = pg_catalog.to_regclass(%s) AND NOT (t.tgisinternal AND t.tgconstraint <> 0)
"""
POSTGRESQL_FOUND_RULES = """
SELECT r.rulename FROM pg_catalog.pg_rewrite r WHERE r.ev_class = pg_catalog.to_regclass(%s)
"""
POSTGRESQL_SCHEMA = """
SELECT n.nspname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid = pg_catalog.to_regclass(%s)
"""
POSTGRESQL_MAY_INSTALL = """
SELECT pg_catalog.bool_and(pg_catalog.pg_has_role(current_user, c.relowner, 'USAGE'))
FROM pg_catalog.pg_class c WHERE c.oid = ANY(ARRAY[pg_catalog.to_regclass(%s), pg_catalog.to_regclass(%s)])
"""
# A trigger keeps the letter case of its table's name from its creation.
SQLITE_FOUND_TRIGGERS = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND lower(tbl_name) = %s"


class TriggerDifference(StrEnum):
    """How the triggers of a log table differ from the ones that Gatehouse installs."""

    MISSING = "missing"
    DISABLED = "disabled"
    CHANGED = "changed"
    #: A trigger or rule that Gatehouse did not install. It may bypass the triggers, so it counts as a difference.
    UNKNOWN = "unknown"


@dataclass(frozen=True, order=True)
class TriggerFinding:
    """A trigger or rule that differs from the installed ones. `explanation` is the end of a sentence."""

    table: str
    guard: str
    difference: TriggerDifference
    explanation: str

    def __str__(self) -> str:
        return f"{self.guard} on {self.table} {self.explanation}"

    @property
    def is_ours(self) -> bool:
        return self.difference != TriggerDifference.UNKNOWN

    def as_json(self) -> dict[str, str]:
        return {"guard": self.guard, "difference": self.difference.value, "explanation": self.explanation}


def existing_tables(connection: BaseDatabaseWrapper) -> list[str]:
    names = set(connection.introspection.table_names())
    return [table for table in LOG_TABLES if table in names]


def inspect(connection: BaseDatabaseWrapper) -> list[TriggerFinding]:
    """Return every trigger that is missing or differs, and every unknown trigger or rule."""
    inspect_table = {"postgresql": _inspect_postgresql, "sqlite": _inspect_sqlite}[connection.vendor]
    with connection.cursor() as cursor:
        return [finding for table in LOG_TABLES for finding in sorted(inspect_table(cursor, table))]


def may_install(connection: BaseDatabaseWrapper) -> bool:
    """Whether this connection's role can create triggers on the tables and replace their function."""
    if connection.vendor != "postgresql":
        return True
    with connection.cursor() as cursor:
        cursor.execute(POSTGRESQL_MAY_INSTALL, LOG_TABLES)
        return bool(cursor.fetchone()[0])


def remedy(connection: BaseDatabaseWrapper, findings: Sequence[TriggerFinding]) -> str:
    """Return what an operator does about the remaining findings."""
    sentences = []
    if any(finding.is_ours for finding in findings):
        owner = "" if may_install(connection) else " as the owner of the tables"
        sentences.append(f"Run `manage.py migrate`{owner}: it sets the guards again.")
    if not all(finding.is_ours for finding in findings):
        sentences.append("Drop the triggers and rules that Gatehouse did not install.")
    return " ".join(sentences)


def install(connection: BaseDatabaseWrapper) -> None:
    """Create every trigger that is missing or differs. Unknown triggers and rules stay: dropping them is not ours."""
    existing = existing_tables(connection)
    differing = [finding for finding in inspect(connection) if finding.is_ours and finding.table in existing]
    if not differing:
        return
    statements = {"postgresql": _postgresql_statements, "sqlite": _sqlite_statements}[connection.vendor]
    with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
        for finding in differing:
            for statement in statements(connection, finding):
                cursor.execute(statement)


def _inspect_postgresql(cursor: Any, table: str) -> Iterator[TriggerFinding]:
    cursor.execute(POSTGRESQL_FOUND_TRIGGERS, [table])
    triggers = {row[1]: row for row in cursor.fetchall()}
    for suffix, (_, expected_type) in POSTGRESQL_TRIGGERS.items():
        row = triggers.pop(name := table + suffix, None)
        if row is None:
            yield TriggerFinding(table, name, TriggerDifference.MISSING, "is missing")
        elif row[3] != "A":
            yield TriggerFinding(table, name, TriggerDifference.DISABLED, "is disabled")
        elif explanation := _postgresql_change(row, expected_type):
            yield TriggerFinding(table, name, TriggerDifference.CHANGED, explanation)
    cursor.execute(POSTGRESQL_FOUND_RULES, [table])
    rules = [row[0] for row in cursor.fetchall()]
    yield from _unknown_findings(table, "trigger", triggers)
    yield from _unknown_findings(table, "rule", rules)


def _postgresql_change(row: tuple[Any, ...], expected_type: int) -> str:
    """Return how an enabled trigger differs from the installed one; empty if it does not."""
    trigger_type, conditional, of_columns, function, in_schema, body, language, has_options = row[2], *row[4:]
    if trigger_type != expected_type:
        return "fires at other events"
    if conditional:
        return "has a condition"
    if of_columns:
        return "covers some columns only"
    if (function, in_schema) != (FUNCTION, True):
        return "calls another function"
    if (body, language, has_options) != (FUNCTION_BODY, "plpgsql", False):
        return "calls a function that was replaced"
    return ""


def _inspect_sqlite(cursor: Any, table: str) -> Iterator[TriggerFinding]:
    cursor.execute(SQLITE_FOUND_TRIGGERS, [table])
    triggers = dict(cursor.fetchall())
    for suffix, text in SQLITE_TRIGGERS.items():
        sql = triggers.pop(name := table + suffix, None)
        if sql is None:
            yield TriggerFinding(table, name, TriggerDifference.MISSING, "is missing")
        elif sql != f"CREATE TRIGGER {text.format(table=table)}":
            yield TriggerFinding(table, name, TriggerDifference.CHANGED, "was replaced")
    yield from _unknown_findings(table, "trigger", triggers)


def _unknown_findings(table: str, kind: str, names: Iterable[str]) -> Iterator[TriggerFinding]:
    """Yield a finding for each unknown name. The names are untrusted, so they are sanitized and shortened."""
    for name in sorted(names)[:MAX_UNKNOWN]:
        text = sanitization.single_line(name, MAX_NAME_LENGTH)
        yield TriggerFinding(table, text, TriggerDifference.UNKNOWN, f"is a {kind} that Gatehouse did not install")


def _postgresql_statements(connection: BaseDatabaseWrapper, finding: TriggerFinding) -> Iterator[str]:
    with connection.cursor() as cursor:
        cursor.execute(POSTGRESQL_SCHEMA, [finding.table])
        schema = connection.ops.quote_name(cursor.fetchone()[0])
    table, function = f"{schema}.{finding.table}", f"{schema}.{FUNCTION}"
    times, _ = POSTGRESQL_TRIGGERS[finding.guard.removeprefix(finding.table)]
    yield f"CREATE OR REPLACE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql AS $${FUNCTION_BODY}$$"
    # Not `CREATE OR REPLACE`, which refuses to replace a constraint trigger. No other statement can intervene: DROP
    # locks the table until the transaction ends.
    yield f"DROP TRIGGER IF EXISTS {finding.guard} ON {table}"
    yield f"CREATE TRIGGER {finding.guard} {times.format(table=table)} EXECUTE FUNCTION {function}()"
    # `session_replication_role = replica` skips all triggers except ALWAYS ones.
    yield f"ALTER TABLE {table} ENABLE ALWAYS TRIGGER {finding.guard}"


def _sqlite_statements(_connection: BaseDatabaseWrapper, finding: TriggerFinding) -> Iterator[str]:
    text = SQLITE_TRIGGERS[finding.guard.removeprefix(finding.table)]
    yield f"DROP TRIGGER IF EXISTS {finding.guard}"
    yield f"CREATE TRIGGER {text.format(table=finding.table)}"
