"""Inspects the triggers of the log tables, repairs them and records both in the audit log.

Called by two signals of `migrate`, by a task of the control worker and at the start of a web process. Readiness and the
system check only inspect.
"""

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from django.db import DEFAULT_DB_ALIAS, DatabaseError, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from common.errors import RecordUnavailable
from common.redaction import redact
from nhi.actors import SYSTEM
from nhi.audit import append_only_triggers, events
from nhi.audit.append_only_triggers import TriggerDifference, TriggerFinding
from nhi.models import AuditEvent

logger = logging.getLogger(__name__)
#: One process at a time compares, repairs and records. No other advisory lock uses this number.
ADVISORY_LOCK_ID = 0x6761_7465_0001
DIFFER_EVENT, REPAIRED_EVENT, HOLD_EVENT = "record.guards_differ", "record.guards_repaired", "record.guards_hold"
#: The findings of `before_migrate` by database, for `after_migrate` of the same command.
_findings_before_migrate: dict[str, list[TriggerFinding]] = {}


def inspect_and_repair(*, using: str = DEFAULT_DB_ALIAS) -> list[TriggerFinding]:
    """Repair the triggers if the role may, record the changes and return the remaining findings."""
    connection = connections[using]
    if not append_only_triggers.inspect(connection) and not _unresolved_findings():
        return []
    with _exclusive_transaction(connection):
        findings = append_only_triggers.inspect(connection)
        return _repair_triggers(connection, findings=findings, reported=findings)


def before_migrate(*, using: str, **_kwargs: Any) -> None:
    """Remember the findings before migrations run, since no migration caused them."""
    connection = connections[using]
    complete = len(append_only_triggers.existing_tables(connection)) == len(append_only_triggers.LOG_TABLES)
    _findings_before_migrate[using] = append_only_triggers.inspect(connection) if complete else []


def after_migrate(*, using: str, **_kwargs: Any) -> None:
    """Install the triggers. Triggers that migrations removed, as SQLite does for a column change, are not recorded."""
    connection = connections[using]
    before = _findings_before_migrate.pop(using, [])
    existing = append_only_triggers.existing_tables(connection)
    with _exclusive_transaction(connection):
        findings = [finding for finding in append_only_triggers.inspect(connection) if finding.table in existing]
        reported = [
            *before,
            *(row for row in findings if row.difference != TriggerDifference.MISSING and row not in before),
        ]
        if findings or reported:
            _repair_triggers(connection, findings=findings, reported=reported)


def log_findings() -> None:
    """Log the findings at the start of a web process, which must start without its database, too."""
    try:
        _log_all(append_only_triggers.inspect(connections[DEFAULT_DB_ALIAS]))
    except DatabaseError as error:
        logger.warning("The record's guards could not be inspected: %s.", type(error).__name__)
    finally:
        connections[DEFAULT_DB_ALIAS].close()


@contextmanager
def _exclusive_transaction(connection: BaseDatabaseWrapper) -> Iterator[None]:
    """Open a transaction that only one process can hold. On SQLite, every transaction starts with the write lock."""
    with transaction.atomic(using=connection.alias):
        if connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_catalog.pg_advisory_xact_lock(%s)", [ADVISORY_LOCK_ID])
        yield


def _repair_triggers(
    connection: BaseDatabaseWrapper, *, findings: list[TriggerFinding], reported: list[TriggerFinding]
) -> list[TriggerFinding]:
    if any(finding.is_ours for finding in findings) and append_only_triggers.may_install(connection):
        try:
            with transaction.atomic(using=connection.alias):
                append_only_triggers.install(connection)
        except DatabaseError:
            logger.exception("The record's guards could not be repaired.")
    remaining = append_only_triggers.inspect(connection)
    try:
        with transaction.atomic(using=connection.alias):
            _record_changes(reported, remaining)
    except (DatabaseError, RecordUnavailable):
        # The repair is more important than its event, and the log itself may have been tampered with.
        logger.exception("The audit event about the triggers of the log tables could not be written.")
    _log_all({*reported, *remaining})
    return remaining


def _record_changes(reported: list[TriggerFinding], remaining: list[TriggerFinding]) -> None:
    """Write events for each table: repaired findings, changed remaining findings, or that none remain."""
    earlier = _unresolved_findings()
    for table in append_only_triggers.LOG_TABLES:
        # Redacted like the event, so that it can equal the earlier one.
        unrepaired = redact([finding.as_json() for finding in remaining if finding.table == table])
        names = {finding.guard for finding in remaining}
        repaired = [row.as_json() for row in reported if row.table == table and row.guard not in names]
        if repaired:
            _write_event(REPAIRED_EVENT, table, repaired)
        if unrepaired and unrepaired != earlier.get(table):
            _write_event(DIFFER_EVENT, table, unrepaired)
        elif not unrepaired and table in earlier:
            _write_event(HOLD_EVENT, table, [])


def _write_event(event: str, table: str, findings: list[dict[str, str]]) -> None:
    details = {"findings": findings} if findings else {}
    events.write(event, actor=SYSTEM, subject_kind="table", subject_name=table, details=details)


def _unresolved_findings() -> dict[str, list[dict[str, str]]]:
    """Return the recorded, unresolved findings by table, so that each is recorded once, not at every inspection."""
    unresolved = {}
    for table in append_only_triggers.LOG_TABLES:
        rows = AuditEvent.objects.filter(event__in=(DIFFER_EVENT, HOLD_EVENT), subject_name=table)
        row = rows.order_by("-at", "-id").first()
        if row is not None and row.event == DIFFER_EVENT:
            unresolved[table] = row.details.get("findings", [])
    return unresolved


def _log_all(findings: Iterable[TriggerFinding]) -> None:
    for finding in sorted(findings):
        logger.error("The record's guards differ from those that Gatehouse installs: %s.", finding)
