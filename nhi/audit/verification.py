"""Verifies the MAC of each log row.

An edited row is detected. A removed row is not, because no MAC covers the row before it.
Rows are read in batches to keep memory constant. The position of a batch is a value that no edit can make unreadable,
so a row with a broken column slows down its batch but does not stop the verification.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db import DatabaseError, connection, models
from django.db.models.expressions import RawSQL

from nhi.audit import row_macs
from nhi.audit.row_macs import MacVerdict
from nhi.models import AuditEvent, InvocationLog

BATCH_SIZE = 500
#: How many broken rows and unknown keys are listed; the rest is only counted.
MAX_LISTED, MAX_KEYS_LISTED = 10_000, 20
#: Each log with its time column.
LOGS: tuple[tuple[type[models.Model], str], ...] = ((AuditEvent, "at"), (InvocationLog, "timestamp"))
PAGE_QUERY = "SELECT {columns} FROM {table} WHERE {where} ORDER BY {order} LIMIT {limit}"
# By database: the columns of a row's position, of which the last is its key; the order; the condition for later rows.
# PostgreSQL uses the index by time. The time is read as text, because `infinity` and years BC are valid in the column
# but not in Python. SQLite uses the rowid, the only column that cannot store values of another type.
POSITIONS = {
    "postgresql": ("{time}::text, id", "{time}, id", "({time}, id) > (%s::timestamptz, %s::uuid)"),
    "sqlite": ("rowid", "rowid", "rowid > %s"),
}
# Errors of reading a damaged row: from the database driver, Django's converters, Python's JSON and UUID.
READ_ERRORS = (DatabaseError, ValueError, TypeError, OverflowError, RecursionError)


@dataclass(frozen=True)
class BrokenRow:
    """A log row that does not match its MAC or cannot be read."""

    table: str
    #: None if the column itself is unreadable.
    id: str | None
    timestamp: datetime | None


@dataclass
class VerificationReport:
    """The result of one verification. `broken_count` also counts broken rows that `broken` does not list."""

    rows: int = 0
    broken: list[BrokenRow] = field(default_factory=list)
    broken_count: int = 0
    unknown_key: int = 0
    #: The first key ids that rows name and the installation does not have.
    unknown_keys: set[str] = field(default_factory=set)

    @property
    def good(self) -> bool:
        return not self.broken_count and not self.unknown_key


@dataclass(frozen=True)
class _CheckedLog:
    """A log that is verified: its model, and the column with the time of a row."""

    model: type[models.Model]
    time: str

    @property
    def table(self) -> str:
        return self.model._meta.db_table


def verify(*, since: datetime | None = None, progress: Callable[[str, int], None] | None = None) -> VerificationReport:
    """Verify the rows of both logs, optionally from the time `since` on. Call `progress` after each batch."""
    report = VerificationReport()
    for log in (_CheckedLog(model, time) for model, time in LOGS):
        checked = 0
        for keys in _pages(log, since):
            _verify_batch(log, keys, report)
            checked += len(keys)
            if progress:
                progress(log.table, checked)
    return report


def _pages(log: _CheckedLog, since: datetime | None) -> Iterator[list[Any]]:
    """Yield batches of row keys: ids on PostgreSQL, rowids on SQLite."""
    columns, order, after_position = (text.format(time=f'"{log.time}"') for text in POSITIONS[connection.vendor])
    # Without `since` there is no lower bound, so that an edited time cannot exclude a row.
    bounds = [f'"{log.time}" >= %s'] if since else []
    values = [connection.ops.adapt_datetimefield_value(since)] if since else []
    position: tuple[Any, ...] = ()
    while True:
        where = " AND ".join([*bounds, *([after_position] if position else [])]) or "TRUE"
        sql = PAGE_QUERY.format(columns=columns, table=log.table, where=where, order=order, limit=BATCH_SIZE)
        with connection.cursor() as cursor:
            cursor.execute(sql, [*values, *position])
            rows = cursor.fetchall()
        if rows:
            position = rows[-1]
            yield [row[-1] for row in rows]
        if len(rows) < BATCH_SIZE:
            return


def _verify_batch(log: _CheckedLog, keys: Sequence[Any], report: VerificationReport) -> None:
    try:
        rows = list(_load_rows(log, keys))
    except READ_ERRORS:
        rows = [row for key in keys for row in _row_or_broken(log, key, report)]
    report.rows += len(rows)
    for columns in rows:
        verdict = _verify_columns(log, columns)
        if verdict == MacVerdict.BROKEN:
            _add_broken(report, BrokenRow(log.table, str(columns["id"]), columns[log.time]))
        elif verdict == MacVerdict.UNKNOWN_KEY:
            report.unknown_key += 1
            if len(report.unknown_keys) < MAX_KEYS_LISTED:
                report.unknown_keys.add(columns["row_mac"].partition(":")[0])


def _verify_columns(log: _CheckedLog, columns: dict[str, Any]) -> MacVerdict:
    try:
        return row_macs.verify_columns(log.table, columns)
    except READ_ERRORS:
        return MacVerdict.BROKEN


def _load_rows(log: _CheckedLog, keys: Sequence[Any]) -> "models.QuerySet[Any, dict[str, Any]]":
    manager = log.model._default_manager
    if connection.vendor == "postgresql":
        return manager.filter(pk__in=keys).order_by().values()
    return manager.alias(row_number=RawSQL("rowid", ())).filter(row_number__in=keys).order_by().values()


def _row_or_broken(log: _CheckedLog, key: Any, report: VerificationReport) -> list[dict[str, Any]]:
    """Load one row of an unreadable batch, or report it as broken if it is unreadable itself."""
    rows = _load_rows(log, [key])
    try:
        return list(rows)
    except READ_ERRORS:
        report.rows += 1
        _add_broken(report, BrokenRow(log.table, _read_column(rows, "id"), _read_column(rows, log.time)))
        return []


def _read_column(rows: "models.QuerySet[Any, dict[str, Any]]", name: str) -> Any:
    try:
        value = rows.values_list(name, flat=True).first()
    except READ_ERRORS:
        return None
    return str(value) if name == "id" else value


def _add_broken(report: VerificationReport, row: BrokenRow) -> None:
    report.broken_count += 1
    if len(report.broken) < MAX_LISTED:
        report.broken.append(row)
