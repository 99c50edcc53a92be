"""A guard is compared by what it does: each way to pass one by is named, repaired where it may be, and on record."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.management import call_command
from django.db import DatabaseError, connection, connections, transaction
from django.test import Client

from config import celery
from nhi.actors import SYSTEM
from nhi.audit import append_only_triggers, events, trigger_repair
from nhi.celery_tasks import watch_guards
from nhi.models import AuditEvent
from tests.services import guards as test_guards

pytestmark = [
    pytest.mark.capability("AUD-01"),
    pytest.mark.both_databases,
    pytest.mark.django_db(transaction=True),
]

LOG = "nhi_audit_event"
REPLACED_FUNCTION = """
CREATE OR REPLACE FUNCTION gatehouse_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RETURN CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END; END $$
"""
ELSEWHERE = "CREATE SCHEMA elsewhere"
FUNCTION_ELSEWHERE = REPLACED_FUNCTION.replace("gatehouse_append_only", "elsewhere.gatehouse_append_only")
ROWS = "CREATE TRIGGER nhi_audit_event_rows BEFORE UPDATE OR DELETE ON nhi_audit_event FOR EACH ROW"
CALL_ELSEWHERE = "EXECUTE FUNCTION elsewhere.gatehouse_append_only()"
CALL = "EXECUTE FUNCTION gatehouse_append_only()"
DROP_ROWS = "DROP TRIGGER nhi_audit_event_rows ON nhi_audit_event"
ALWAYS = "ALTER TABLE nhi_audit_event ENABLE ALWAYS TRIGGER nhi_audit_event_rows"
DROP_NO_DELETE = "DROP TRIGGER nhi_audit_event_no_delete"
NO_DELETE = "CREATE TRIGGER nhi_audit_event_no_delete BEFORE DELETE"
REFUSE = f"BEGIN SELECT RAISE(ABORT, 'append-only: DELETE on {LOG} is refused'); END"
DECOY = f"""
ALTER TABLE {LOG} DISABLE TRIGGER nhi_audit_event_rows; {ELSEWHERE}; CREATE TABLE elsewhere.{LOG} (LIKE {LOG});
CREATE TRIGGER nhi_audit_event_rows BEFORE UPDATE OR DELETE ON elsewhere.{LOG} FOR EACH ROW {CALL};
ALTER TABLE elsewhere.{LOG} ENABLE ALWAYS TRIGGER nhi_audit_event_rows
"""
#: By database: what is done, whether rows can be deleted then, and what is found.
OURS: dict[str, dict[str, tuple[str, bool, str]]] = {
    "postgresql": {
        "function replaced": (REPLACED_FUNCTION, True, "changed calls a function that was replaced"),
        "function of another schema": (
            f"{ELSEWHERE}; {FUNCTION_ELSEWHERE}; {DROP_ROWS}; {ROWS} {CALL_ELSEWHERE}; {ALWAYS}",
            True, "changed calls another function",
        ),
        "disabled": (f"ALTER TABLE {LOG} DISABLE TRIGGER nhi_audit_event_rows", True, "disabled is disabled"),
        "not in replicas": (f"ALTER TABLE {LOG} ENABLE TRIGGER nhi_audit_event_rows", False, "disabled is disabled"),
        "dropped": (DROP_ROWS, True, "missing is missing"),
        "decoy table": (DECOY, True, "disabled is disabled"),
        "condition": (f"{DROP_ROWS}; {ROWS} WHEN (false) {CALL}; {ALWAYS}", True, "changed has a condition"),
        "columns": (
            f"{DROP_ROWS}; {ROWS.replace('UPDATE OR', 'UPDATE OF reason OR')} {CALL}; {ALWAYS}",
            False, "changed covers some columns only",
        ),
        "fewer events": (
            f"{DROP_ROWS}; {ROWS.replace('UPDATE OR DELETE', 'UPDATE')} {CALL}; {ALWAYS}",
            True, "changed fires at other events",
        ),
        "too late": (
            f"{DROP_ROWS}; {ROWS.replace('BEFORE', 'AFTER')} {CALL}; {ALWAYS}",
            False, "changed fires at other events",
        ),
    },
    "sqlite": {
        "dropped": (DROP_NO_DELETE, True, "missing is missing"),
        "replaced": (
            f"{DROP_NO_DELETE}; {NO_DELETE} ON {LOG} BEGIN SELECT 1; END",
            True, "changed was replaced",
        ),
        "condition": (
            f"{DROP_NO_DELETE}; {NO_DELETE} ON {LOG} WHEN 0 {REFUSE}",
            True, "changed was replaced",
        ),
        "decoy table": (
            f"{DROP_NO_DELETE}; CREATE TABLE decoy (id TEXT); {NO_DELETE} ON decoy {REFUSE}",
            True, "missing is missing",
        ),
    },
}  # fmt: skip
SUPPRESS = "CREATE FUNCTION suppress() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$"
#: What is put beside the guards: what is done, how it is undone, its name. None of it is ours to drop.
BESIDE: dict[str, dict[str, tuple[str, str, str]]] = {
    "postgresql": {
        "trigger that comes first": (
            f"{SUPPRESS}; CREATE TRIGGER a_first BEFORE DELETE ON {LOG} FOR EACH ROW EXECUTE FUNCTION suppress()",
            "DROP FUNCTION suppress() CASCADE", "a_first",
        ),
        "rule": (
            f"CREATE RULE nothing AS ON DELETE TO {LOG} DO INSTEAD NOTHING", f"DROP RULE nothing ON {LOG}", "nothing",
        ),
    },
    "sqlite": {
        "trigger": (
            f"CREATE TRIGGER a_first BEFORE DELETE ON {LOG} BEGIN SELECT RAISE(IGNORE); END",
            "DROP TRIGGER a_first", "a_first",
        ),
        "trigger in other letters": (
            f"CREATE TRIGGER a_first BEFORE DELETE ON {LOG.upper()} BEGIN SELECT RAISE(IGNORE); END",
            "DROP TRIGGER a_first", "a_first",
        ),
    },
}  # fmt: skip
CASES = sorted({*OURS["postgresql"], *OURS["sqlite"]})
CASES_BESIDE = sorted({*BESIDE["postgresql"], *BESIDE["sqlite"]})


def execute(sql: str) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        statements = [sql] if connection.vendor == "postgresql" else split(sql)
        for statement in statements:
            cursor.execute(statement)


def split(sql: str) -> list[str]:
    """SQLite takes one statement at a time; the bodies of triggers hold semicolons of their own."""
    parts: list[str] = []
    for part in sql.split("; "):
        if parts and "BEGIN" in parts[-1] and not parts[-1].endswith("END"):
            parts[-1] += f"; {part}"
        else:
            parts.append(part)
    return parts


def of_this_database(cases: dict[str, dict[str, Any]], case: str) -> Any:
    if case not in cases[connection.vendor]:
        pytest.skip("not a way to pass the guards of this database by")
    return cases[connection.vendor][case]


@pytest.fixture(autouse=True)
def _nothing_stays() -> Iterator[None]:
    yield
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("DROP SCHEMA IF EXISTS elsewhere CASCADE; DROP FUNCTION IF EXISTS suppress() CASCADE")
            cursor.execute(f"DROP RULE IF EXISTS nothing ON {LOG}")
        else:
            for statement in ("DROP TRIGGER IF EXISTS a_first", "DROP TABLE IF EXISTS decoy"):
                cursor.execute(statement)
    append_only_triggers.install(connection)


def row_is_deleted() -> bool:
    """In a transaction that is taken back."""
    row = events.write("page.opened", actor=SYSTEM, subject_name="a page")
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(f"DELETE FROM {LOG} WHERE event = 'page.opened'")
            deleted = not AuditEvent.objects.filter(pk=row.pk).exists()
            transaction.set_rollback(True)
            return deleted
    except DatabaseError:
        return False


def recorded() -> list[tuple[str, str, list[str]]]:
    rows = AuditEvent.objects.filter(event__startswith="record.").order_by("writer_seq")
    return [
        (row.event, row.subject_name, [finding["guard"] for finding in row.details.get("findings", [])]) for row in rows
    ]


def guards_check() -> dict[str, Any]:
    return dict(Client().get("/readyz").json()["checks"]["guards"])


@pytest.mark.parametrize("case", CASES)
def test_a_guard_that_does_something_else_is_named_and_repaired(case: str) -> None:
    sql, opens, expected = of_this_database(OURS, case)
    execute(sql)
    assert row_is_deleted() is opens
    findings = append_only_triggers.inspect(connection)
    assert {f"{finding.difference} {finding.explanation}" for finding in findings} == {expected}
    check = guards_check()
    assert not check["ok"]
    assert all(finding.guard in check["message"] for finding in findings)
    watch_guards.apply(throw=True)
    assert not row_is_deleted()
    assert guards_check()["ok"]
    tables = sorted({finding.table for finding in findings})
    assert recorded() == [
        ("record.guards_repaired", table, [finding.guard for finding in findings if finding.table == table])
        for table in tables
    ]
    (event, *_) = AuditEvent.objects.filter(event="record.guards_repaired")
    assert f"{event.details['findings'][0]['difference']} {event.details['findings'][0]['explanation']}" == expected
    watch_guards.apply(throw=True)
    assert len(recorded()) == len(tables), "the second look finds nothing to record"


@pytest.mark.parametrize("case", CASES)
def test_migrate_repairs_and_records_what_it_did_not_cause(case: str) -> None:
    sql, _, _ = of_this_database(OURS, case)
    execute(sql)
    call_command("migrate", verbosity=0)
    assert not row_is_deleted()
    assert {event for event, _, _ in recorded()} == {"record.guards_repaired"}


@pytest.mark.parametrize("case", CASES_BESIDE)
def test_what_stands_beside_the_guards_is_named_and_stays(case: str) -> None:
    sql, undo, name = of_this_database(BESIDE, case)
    execute(sql)
    check = guards_check()
    assert (check["ok"], name in check["message"]) == (False, True)
    assert "Drop the triggers and rules that Gatehouse did not install." in check["message"]
    for _ in range(3):
        watch_guards.apply(throw=True)
    assert [(row.table, row.guard) for row in append_only_triggers.inspect(connection)] == [(LOG, name)]
    assert recorded() == [("record.guards_differ", LOG, [name])], "recorded once, not at each look"
    execute(undo)
    watch_guards.apply(throw=True)
    assert guards_check()["ok"]
    execute(sql)
    watch_guards.apply(throw=True)
    events_of_guards = [event for event, _, _ in recorded()]
    assert events_of_guards == ["record.guards_differ", "record.guards_hold", "record.guards_differ"]


def test_a_migration_that_drops_triggers_is_no_alarm() -> None:
    """As SQLite does at a change of a column: the guards go between the two signals of `migrate`."""
    trigger_repair.before_migrate(using="default")
    test_guards.drop("default")
    trigger_repair.after_migrate(using="default")
    assert append_only_triggers.inspect(connection) == []
    assert recorded() == []


def test_an_upgrade_of_a_database_of_the_version_before_is_no_alarm() -> None:
    """The statements with which the version before installed its guards, to the letter."""
    test_guards.drop("default")
    with connection.cursor() as cursor:
        for statement in INSTALLED_BEFORE[connection.vendor]:
            for table in append_only_triggers.LOG_TABLES:
                cursor.execute(statement.format(table=table))
    assert append_only_triggers.inspect(connection) == []
    call_command("migrate", verbosity=0)
    assert recorded() == []


def test_two_processes_repair_once() -> None:
    test_guards.drop("default")
    barrier, errors = threading.Barrier(4), []

    def run() -> None:
        try:
            barrier.wait(10)
            trigger_repair.inspect_and_repair()
        except Exception as error:
            errors.append(error)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert errors == []
    assert append_only_triggers.inspect(connection) == []
    assert [(event, table) for event, table, _ in recorded()] == [
        ("record.guards_repaired", table) for table in append_only_triggers.LOG_TABLES
    ]


def test_a_repair_holds_even_when_its_event_cannot_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_args: Any, **_kwargs: Any) -> None:
        raise DatabaseError("no room")

    test_guards.drop("default")
    monkeypatch.setattr(AuditEvent, "save", refuse)
    assert trigger_repair.inspect_and_repair() == []
    assert append_only_triggers.inspect(connection) == []


def test_the_control_worker_looks_more_than_once_a_minute() -> None:
    tick = celery.app.conf.beat_schedule["watch-guards"]
    assert tick["task"] == watch_guards.name
    assert tick["options"]["queue"] == "control"
    assert tick["schedule"] <= 30


def test_a_web_process_says_at_its_start_what_differs(caplog: pytest.LogCaptureFixture) -> None:
    test_guards.drop("default")
    trigger_repair.log_findings()
    assert "nhi_audit_event" in caplog.text


INSTALLED_BEFORE = {
    "postgresql": [
        """
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
    ],
    "sqlite": [
        """
CREATE TRIGGER IF NOT EXISTS {table}_no_update BEFORE UPDATE ON {table}
BEGIN SELECT RAISE(ABORT, 'append-only: UPDATE on {table} is refused'); END
""",
        """
CREATE TRIGGER IF NOT EXISTS {table}_no_delete BEFORE DELETE ON {table}
BEGIN SELECT RAISE(ABORT, 'append-only: DELETE on {table} is refused'); END
""",
        """
CREATE TRIGGER IF NOT EXISTS {table}_no_replace BEFORE INSERT ON {table}
WHEN EXISTS (
    SELECT 1 FROM {table}
    WHERE rowid = NEW.rowid OR id = NEW.id OR (writer = NEW.writer AND writer_seq = NEW.writer_seq)
)
BEGIN SELECT RAISE(ABORT, 'append-only: REPLACE on {table} is refused'); END
""",
    ],
}
