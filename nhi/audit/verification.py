"""Row MACs of both logs, checked row by row.

A row that was edited is found; a row that was removed is not, because the MACs do not chain. Rows are read in batches
whose position is a value that no edit can make unreadable, so memory stays constant and a row with a broken column
costs its batch a slower reading, not the whole check.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db import DatabaseError, connection, models
from django.db.models.expressions import RawSQL

from nhi.audit import row_macs
from nhi.audit.row_macs import Verdict
from nhi.models import AuditEvent, InvocationLog

BATCH = 500
#: How many broken rows, and how many unknown keys, are listed; beyond that they are only counted.
MAX_LISTED, MAX_KEYS_LISTED = 10_000, 20
#: Each log with the column of its time.
LOGS: tuple[tuple[type[models.Model], str], ...] = ((AuditEvent, "at"), (InvocationLog, "timestamp"))
PAGE = "SELECT {columns} FROM {table} WHERE {where} ORDER BY {order} LIMIT {limit}"
# By database: a row's position and key, which is the last of them; the order; and what is behind a position. PostgreSQL
# walks the index by time. The time travels as text, since `infinity` and years before Christ are valid in the column
# and unreadable for Python. SQLite stores whatever it is told in any column but the rowid.
POSITIONS = {
    "postgresql": ("{time}::text, id", "{time}, id", "({time}, id) > (%s::timestamptz, %s::uuid)"),
    "sqlite": ("rowid", "rowid", "rowid > %s"),
}
# What a read of a damaged row raises: the database's driver, Django's converters, Python's JSON and UUID.
UNREADABLE = (DatabaseError, ValueError, TypeError, OverflowError, RecursionError)


@dataclass(frozen=True)
class BrokenRow:
    table: str
    #: None where the column itself is unreadable.
    id: str | None
    timestamp: datetime | None


@dataclass
class Report:
    rows: int = 0
    broken: list[BrokenRow] = field(default_factory=list)
    broken_count: int = 0
    unknown_key: int = 0
    #: The first ids of keys that rows name and the installation does not have.
    unknown_keys: set[str] = field(default_factory=set)

    @property
    def good(self) -> bool:
        return not self.broken_count and not self.unknown_key


@dataclass(frozen=True)
class _Log:
    model: type[models.Model]
    time: str

    @property
    def table(self) -> str:
        return self.model._meta.db_table


def verify(*, since: datetime | None = None, progress: Callable[[str, int], None] | None = None) -> Report:
    """Check every row of both logs, or those whose time is `since` or later. `progress` is called after each batch."""
    report = Report()
    for log in (_Log(model, time) for model, time in LOGS):
        checked = 0
        for keys in _pages(log, since):
            _verify_batch(log, keys, report)
            checked += len(keys)
            if progress:
                progress(log.table, checked)
    return report


def _pages(log: _Log, since: datetime | None) -> Iterator[list[Any]]:
    """Keys of rows, a batch at a time: ids on PostgreSQL, rowids on SQLite."""
    columns, order, behind = (text.format(time=f'"{log.time}"') for text in POSITIONS[connection.vendor])
    # No condition that nobody asked for: an edited time must not put a row before the first one.
    bounds = [f'"{log.time}" >= %s'] if since else []
    values = [connection.ops.adapt_datetimefield_value(since)] if since else []
    position: tuple[Any, ...] = ()
    while True:
        where = " AND ".join([*bounds, *([behind] if position else [])]) or "TRUE"
        sql = PAGE.format(columns=columns, table=log.table, where=where, order=order, limit=BATCH)
        with connection.cursor() as cursor:
            cursor.execute(sql, [*values, *position])
            rows = cursor.fetchall()
        if rows:
            position = rows[-1]
            yield [row[-1] for row in rows]
        if len(rows) < BATCH:
            return


def _verify_batch(log: _Log, keys: Sequence[Any], report: Report) -> None:
    try:
        rows = list(_rows(log, keys))
    except UNREADABLE:
        rows = [row for key in keys for row in _row_or_broken(log, key, report)]
    report.rows += len(rows)
    for columns in rows:
        verdict = _verdict(log, columns)
        if verdict == Verdict.BROKEN:
            _add_broken(report, BrokenRow(log.table, str(columns["id"]), columns[log.time]))
        elif verdict == Verdict.UNKNOWN_KEY:
            report.unknown_key += 1
            if len(report.unknown_keys) < MAX_KEYS_LISTED:
                report.unknown_keys.add(columns["row_mac"].partition(":")[0])


def _verdict(log: _Log, columns: dict[str, Any]) -> Verdict:
    try:
        return row_macs.verdict_of_columns(log.table, columns)
    except UNREADABLE:
        return Verdict.BROKEN


def _rows(log: _Log, keys: Sequence[Any]) -> "models.QuerySet[Any, dict[str, Any]]":
    manager = log.model._default_manager
    if connection.vendor == "postgresql":
        return manager.filter(pk__in=keys).order_by().values()
    return manager.alias(row_number=RawSQL("rowid", ())).filter(row_number__in=keys).order_by().values()


def _row_or_broken(log: _Log, key: Any, report: Report) -> list[dict[str, Any]]:
    """One row of a batch that could not be read as a whole. One that is unreadable itself is broken."""
    rows = _rows(log, [key])
    try:
        return list(rows)
    except UNREADABLE:
        report.rows += 1
        _add_broken(report, BrokenRow(log.table, _column(rows, "id"), _column(rows, log.time)))
        return []


def _column(rows: "models.QuerySet[Any, dict[str, Any]]", name: str) -> Any:
    try:
        value = rows.values_list(name, flat=True).first()
    except UNREADABLE:
        return None
    return str(value) if name == "id" else value


def _add_broken(report: Report, row: BrokenRow) -> None:
    report.broken_count += 1
    if len(report.broken) < MAX_LISTED:
        report.broken.append(row)
