"""The record only grows: the database itself refuses every other way, and a missing guard is noticed."""

from collections.abc import Callable
from typing import Any

import pytest
from django.core.checks import ERROR, run_checks
from django.core.management import call_command
from django.db import DatabaseError, connection, transaction

from common import canonical_json
from nhi.actors import SYSTEM
from nhi.audit import append_only_triggers, checks, events, row_macs
from nhi.models import AuditEvent
from nhi.models.audit import AppendOnlyViolation

pytestmark = [pytest.mark.capability("AUD-01"), pytest.mark.both_databases]
ON_SQLITE = "sqlite"


def written(**details: Any) -> AuditEvent:
    return events.write("page.opened", actor=SYSTEM, subject_name="a page", details=details)


def refused(statement: str, *values: Any) -> None:
    """Each statement in a transaction of its own, so that the next sees the table as it is."""
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement, values)


def columns(row: AuditEvent, **other: Any) -> dict[str, Any]:
    fields = AuditEvent._meta.concrete_fields
    return {
        field.column: field.get_db_prep_save(other.get(field.name, getattr(row, field.name)), connection)
        for field in fields
    }


@pytest.mark.django_db
def test_no_row_is_changed_or_removed_by_sql() -> None:
    row = written()
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM nhi_audit_event")
        before = cursor.fetchone()
    refused("UPDATE nhi_audit_event SET reason = 'changed'")
    refused("UPDATE nhi_audit_event SET row_mac = row_mac")
    refused("DELETE FROM nhi_audit_event")
    refused("DELETE FROM nhi_audit_event WHERE event = %s", row.event)
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM nhi_audit_event")
        assert cursor.fetchone() == before
    assert row_macs.is_intact(AuditEvent.objects.get(pk=row.pk))


@pytest.mark.django_db
def test_the_table_is_not_emptied() -> None:
    written()
    if connection.vendor == ON_SQLITE:
        refused("DELETE FROM nhi_audit_event WHERE 1 = 1")
    else:
        refused("TRUNCATE nhi_audit_event")
        refused("TRUNCATE nhi_audit_event CASCADE")
    assert AuditEvent.objects.count() == 1


@pytest.mark.django_db
@pytest.mark.parametrize("verb", ["INSERT OR REPLACE", "REPLACE", "INSERT OR IGNORE"])
@pytest.mark.parametrize("kept", ["id", "writer and number", "rowid"])
def test_no_row_is_replaced(verb: str, kept: str) -> None:
    row, other = written(), written()
    if connection.vendor != ON_SQLITE:
        pytest.skip("only SQLite replaces rows")
    new = {
        "id": columns(other, id=row.pk, reason="changed"),
        "writer and number": columns(other, writer=row.writer, writer_seq=row.writer_seq, reason="changed"),
        "rowid": columns(other, reason="changed"),
    }[kept]
    new |= {"id": columns(written())["id"]} if kept == "writer and number" else {}
    if kept == "rowid":
        with connection.cursor() as cursor:
            cursor.execute("SELECT rowid FROM nhi_audit_event WHERE id = %s", [columns(row)["id"]])
            new = {"rowid": cursor.fetchone()[0], **new, "writer_seq": 10**9, "id": "0" * 32}
    names, places = ", ".join(new), ", ".join(["%s"] * len(new))
    refused(f"{verb} INTO nhi_audit_event ({names}) VALUES ({places})", *new.values())
    assert AuditEvent.objects.get(pk=row.pk).reason == ""


@pytest.mark.django_db
def test_an_upsert_does_not_get_through_either() -> None:
    row = written()
    new = columns(row, reason="changed")
    names, places = ", ".join(new), ", ".join(["%s"] * len(new))
    refused(
        f"INSERT INTO nhi_audit_event ({names}) VALUES ({places}) ON CONFLICT (id) DO UPDATE SET reason = 'changed'",
        *new.values(),
    )


@pytest.mark.django_db
def test_replica_mode_does_not_switch_the_guards_off() -> None:
    written()
    if connection.vendor == ON_SQLITE:
        pytest.skip("PostgreSQL's own way to pass triggers by")
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
            cursor.execute("DELETE FROM nhi_audit_event")


@pytest.mark.django_db
def test_the_model_refuses_before_the_database_must() -> None:
    row = written()
    row.reason = "changed"
    attempts: list[Callable[[], Any]] = [
        row.save,
        row.delete,
        AuditEvent.objects.all().delete,
        lambda: AuditEvent.objects.update(reason="changed"),
        lambda: AuditEvent.objects.get(pk=row.pk).save(),
    ]
    for attempt in attempts:
        with pytest.raises(AppendOnlyViolation):
            attempt()
    with pytest.raises((AppendOnlyViolation, DatabaseError)), transaction.atomic():
        AuditEvent.objects.bulk_update([row], ["reason"])
    assert AuditEvent.objects.get(pk=row.pk).reason == ""


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("place", range(3))
def test_a_missing_guard_is_named_by_the_check_and_put_back_by_migrate(place: int) -> None:
    suffixes = append_only_triggers.TRIGGER_SUFFIXES[connection.vendor]
    if place >= len(suffixes):
        pytest.skip("this database needs fewer guards")
    name = f"nhi_audit_event{suffixes[place]}"
    on = "" if connection.vendor == ON_SQLITE else " ON nhi_audit_event"
    assert append_only_triggers.inspect(connection) == []
    with connection.cursor() as cursor:
        cursor.execute(f"DROP TRIGGER {name}{on}")
    assert [(finding.guard, finding.difference) for finding in append_only_triggers.inspect(connection)] == [
        (name, "missing")
    ]
    found, *warnings = checks.guards_are_set(databases=["default"])
    assert {message.id for message in warnings} <= {"nhi.W001"}
    assert (found.id, found.level >= 40, name in found.msg) == ("nhi.E001", True, True)
    told = run_checks(tags=["database"], include_deployment_checks=True, databases=["default"])
    assert found.id in {message.id for message in told}
    call_command("migrate", verbosity=0)
    assert append_only_triggers.inspect(connection) == []
    assert [message for message in checks.guards_are_set(databases=["default"]) if message.level >= ERROR] == []


@pytest.mark.django_db(transaction=True)
def test_a_guard_that_is_switched_off_is_missing() -> None:
    if connection.vendor == ON_SQLITE:
        pytest.skip("SQLite has no switch")
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE nhi_audit_event DISABLE TRIGGER nhi_audit_event_rows")
    assert [str(finding) for finding in append_only_triggers.inspect(connection)] == [
        "nhi_audit_event_rows on nhi_audit_event is disabled"
    ]
    append_only_triggers.install(connection)
    assert append_only_triggers.inspect(connection) == []


AWKWARD: dict[str, Any] = {
    "whole": [0, -1, 2**31, 2**53, 2**53 + 1, -(2**63), 10**25],
    "floats": [
        0.1,
        -0.0,
        1.0,
        1e21,
        1e22,
        123456789012345680000.0,
        5e-324,
        1.7976931348623157e308,
        1e-7,
        0.30000000000000004,
    ],
    "text": [
        "",
        "é",
        "e\u0301",
        "😀",
        "\u2028\u2029",
        "\x7f",
        "\\u0000",
        '"\\/\b\f\n\r\t\x01',
        "\ufeff",
        "ﬁ",
        "\uffff",
    ],
    "nothing": [None, {}, [], {"": None}],
    "yes and no": [True, False],
    "nested": {"b": {"a": [1, {"z": None, "é": 2, "😀": 3, "a": 4, "A": 5, "1": 6}]}},
}


@pytest.mark.django_db
@pytest.mark.parametrize("kind", AWKWARD)
def test_a_row_is_intact_after_its_way_through_the_database(kind: str) -> None:
    row = events.write(
        "identity.changed", actor=SYSTEM, subject_kind="identity", subject_name="bot", reason="awkward",
        before={"value": AWKWARD[kind]}, after={kind: AWKWARD[kind]}, details={"é": AWKWARD[kind]},
    )  # fmt: skip
    read = AuditEvent.objects.get(pk=row.pk)
    assert row_macs.mac_input(read) == row_macs.mac_input(row)
    assert row_macs.is_intact(read)


@pytest.mark.django_db
def test_any_changed_column_is_noticed() -> None:
    row = AuditEvent.objects.get(pk=written(one=1).pk)
    assert row_macs.is_intact(row)
    for name in row_macs.MAC_COLUMNS["nhi_audit_event", row.row_version]:
        kept = getattr(row, name)
        setattr(row, name, {"id": row.writer, "at": row.at.replace(year=2001)}.get(name, "other" if kept != 1 else 2))
        assert not row_macs.is_intact(row), name
        setattr(row, name, kept)
    row.row_mac = "t1:" + "0" * 64
    assert not row_macs.is_intact(row)
    row.row_mac = "gone:" + "0" * 64
    assert not row_macs.is_intact(row)


@pytest.mark.django_db
def test_every_column_is_covered_but_the_seal_itself() -> None:
    names = {field.name for field in AuditEvent._meta.concrete_fields}
    assert set(row_macs.MAC_COLUMNS["nhi_audit_event", AuditEvent.ROW_VERSION]) == names - {"row_mac"}


@pytest.mark.django_db
def test_rows_of_one_writer_are_numbered_without_gaps() -> None:
    rows = [written(number=number) for number in range(5)]
    assert len({row.writer for row in rows}) == 1
    first = rows[0].writer_seq
    assert [row.writer_seq for row in rows] == list(range(first, first + 5))


@pytest.mark.django_db
@pytest.mark.parametrize("name", ["a\nb", "a\x00b", "a\ud800b", "\x1b[2J", "\x85", '{"event": "forged"}\n', "x" * 1000])
def test_no_name_forges_a_row_or_keeps_one_from_being_written(name: str) -> None:
    row = events.write("sign_in.failed", actor=SYSTEM, subject_name=name, reason=name)
    read = AuditEvent.objects.get(pk=row.pk)
    assert not [mark for mark in read.subject_name + read.reason if ord(mark) < 32 or 126 < ord(mark) < 160]
    assert len(read.subject_name) <= 400
    assert row_macs.is_intact(read)


@pytest.mark.django_db
def test_no_value_keeps_a_row_from_being_written() -> None:
    row = events.write("identity.changed", actor=SYSTEM, details={"a\x00": ["b\x00", {"c": "\ud800"}], "d": "e\n"})
    read = AuditEvent.objects.get(pk=row.pk)
    assert read.details == {"a\\u0000": ["b\\u0000", {"c": "\\ud800"}], "d": "e\n"}
    assert row_macs.is_intact(read)


def test_what_is_not_json_is_refused_before_the_database() -> None:
    for value in (float("nan"), float("inf"), "\ud800", {1: 2}, object(), b"x"):
        with pytest.raises(canonical_json.CanonicalizationError):
            canonical_json.encode({"value": value})
