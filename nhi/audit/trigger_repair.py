"""When guards are inspected, who repairs them, and what the audit log says of it.

Two signals of `migrate`, a task of the control worker and the start of a web process come here. Readiness and the
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
#: One process at a time compares, repairs and records. A number that no other use of advisory locks here has.
ADVISORY_LOCK_ID = 0x6761_7465_0001
DIFFER_EVENT, REPAIRED_EVENT, HOLD_EVENT = "record.guards_differ", "record.guards_repaired", "record.guards_hold"
#: What `before_migrate` found, by database, for `after_migrate` of the same command.
_findings_before_migrate: dict[str, list[TriggerFinding]] = {}


def inspect_and_repair(*, using: str = DEFAULT_DB_ALIAS) -> list[TriggerFinding]:
    """Repair the guards that differ where the role may, record it, and return the differences that remain."""
    connection = connections[using]
    if not append_only_triggers.inspect(connection) and not _unresolved_findings():
        return []
    with _exclusive_transaction(connection):
        found = append_only_triggers.inspect(connection)
        return _repair_triggers(connection, found=found, reported=found)


def before_migrate(*, using: str, **_kwargs: Any) -> None:
    """Remember which guards differ before migrations run: the differences that they find are nobody's migration."""
    connection = connections[using]
    complete = len(append_only_triggers.existing_tables(connection)) == len(append_only_triggers.LOG_TABLES)
    _findings_before_migrate[using] = append_only_triggers.inspect(connection) if complete else []


def after_migrate(*, using: str, **_kwargs: Any) -> None:
    """Set the guards. Those that the migrations removed, as SQLite does at a change of a column, are no event."""
    connection = connections[using]
    before = _findings_before_migrate.pop(using, [])
    existing = append_only_triggers.existing_tables(connection)
    with _exclusive_transaction(connection):
        found = [finding for finding in append_only_triggers.inspect(connection) if finding.table in existing]
        reported = [
            *before,
            *(row for row in found if row.difference != TriggerDifference.MISSING and row not in before),
        ]
        if found or reported:
            _repair_triggers(connection, found=found, reported=reported)


def log_findings() -> None:
    """For the start of a web process, which must not depend on its database being there."""
    try:
        _log_all(append_only_triggers.inspect(connections[DEFAULT_DB_ALIAS]))
    except DatabaseError as error:
        logger.warning("The record's guards could not be inspected: %s.", type(error).__name__)
    finally:
        connections[DEFAULT_DB_ALIAS].close()


@contextmanager
def _exclusive_transaction(connection: BaseDatabaseWrapper) -> Iterator[None]:
    """A transaction that no second process enters. On SQLite, a transaction begins with the lock for writing."""
    with transaction.atomic(using=connection.alias):
        if connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_catalog.pg_advisory_xact_lock(%s)", [ADVISORY_LOCK_ID])
        yield


def _repair_triggers(
    connection: BaseDatabaseWrapper, *, found: list[TriggerFinding], reported: list[TriggerFinding]
) -> list[TriggerFinding]:
    if any(finding.is_ours for finding in found) and append_only_triggers.may_install(connection):
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
        # A repair counts more than its event, and the log may be what was tampered with.
        logger.exception("The audit log does not take the event about its guards.")
    _log_all({*reported, *remaining})
    return remaining


def _record_changes(reported: list[TriggerFinding], remaining: list[TriggerFinding]) -> None:
    """An event for each table: about what was repaired, what remains, or that nothing does any more."""
    earlier = _unresolved_findings()
    for table in append_only_triggers.LOG_TABLES:
        # Redacted as the event will be, or it would not equal the earlier one.
        still = redact([finding.as_json() for finding in remaining if finding.table == table])
        names = {finding.guard for finding in remaining}
        repaired = [row.as_json() for row in reported if row.table == table and row.guard not in names]
        if repaired:
            _write_event(REPAIRED_EVENT, table, repaired)
        if still and still != earlier.get(table):
            _write_event(DIFFER_EVENT, table, still)
        elif not still and table in earlier:
            _write_event(HOLD_EVENT, table, [])


def _write_event(event: str, table: str, findings: list[dict[str, str]]) -> None:
    details = {"findings": findings} if findings else {}
    events.write(event, actor=SYSTEM, subject_kind="table", subject_name=table, details=details)


def _unresolved_findings() -> dict[str, list[dict[str, str]]]:
    """By table, the differences that are on record and not yet resolved. Each is recorded once, not at every look."""
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
