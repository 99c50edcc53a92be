"""`verify_rows` finds every edited row of both logs, and tells it from a row whose key is gone."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.utils import timezone

from common.ids import uuid7
from common.installation_keys import KeyRing
from nhi.actors import SYSTEM
from nhi.audit import append_only_triggers, events, invocations, row_macs, verification
from nhi.audit.checks import signing_keys_are_set
from nhi.management.commands import verify_rows
from nhi.models import AuditEvent, InvocationLog
from tests.services import guards as test_guards
from tests.services.house import ROOT

pytestmark = [
    pytest.mark.capability("AUD-01", "OPS-05"),
    pytest.mark.both_databases,
    pytest.mark.django_db(transaction=True),
]
OTHER_KEY = KeyRing({"t2": b"2" * 32})


@pytest.fixture(autouse=True)
def _guards_are_set_again() -> Iterator[None]:
    yield
    append_only_triggers.install(connection)


def add_event(**details: Any) -> AuditEvent:
    return events.write("page.opened", actor=SYSTEM, subject_name="a page", details=details)


def add_call(**other: Any) -> InvocationLog:
    row = invocations.begin(
        call_id=uuid7(), at=other.pop("at", timezone.now()), agent=(uuid7(), "bot"), tool_id=uuid7(),
        tool_name="todo", method="add", args_hash="0" * 64, request_id=uuid7(), source="127.0.0.1",
        details={"decide_ms": 0.1},
    )  # fmt: skip
    row["row_version"] = other.pop("row_version", InvocationLog.ROW_VERSION)
    call = InvocationLog(**invocations.end(row, status="success", duration=1.5, **other))
    call.save()
    return call


def edit(statement: str, *values: Any) -> None:
    """As the owner of the tables can, who drops the guards and on SQLite switches the checks of JSON off."""
    test_guards.drop("default")
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute("PRAGMA ignore_check_constraints = ON")
        cursor.execute(statement, values)
        if connection.vendor == "sqlite":
            cursor.execute("PRAGMA ignore_check_constraints = OFF")


def key(row: Any) -> Any:
    return row.pk if connection.vendor == "postgresql" else row.pk.hex


def verified(*arguments: str) -> tuple[int, dict[str, Any]]:
    out = StringIO()
    code = 0
    try:
        call_command("verify_rows", *arguments, "--json", stdout=out)
    except SystemExit as end:
        code = int(str(end.code))
    return code, json.loads(out.getvalue())


def test_rows_of_both_logs_are_counted_and_good() -> None:
    for number in range(3):
        add_event(number=number)
        add_call()
    code, report = verified()
    assert (code, report) == (
        0, {"rows": 6, "broken": [], "broken_count": 0, "unknown_key": 0, "unknown_keys": []},
    )  # fmt: skip


def test_nothing_to_check_is_good() -> None:
    assert verified() == (0, {"rows": 0, "broken": [], "broken_count": 0, "unknown_key": 0, "unknown_keys": []})


@pytest.mark.parametrize("name", [*row_macs.MAC_COLUMNS["nhi_invocation_log", InvocationLog.ROW_VERSION]])
def test_an_edit_of_any_column_of_a_call_is_found(name: str) -> None:
    call = add_call()
    columns = {field.attname: getattr(call, field.attname) for field in InvocationLog._meta.concrete_fields}
    edited = {
        "id": uuid7(), "timestamp": call.timestamp + timedelta(microseconds=1), "redaction_applied": True,
        "duration": 1.501, "chain": [], "details": {"decide_ms": 0.2}, "writer_seq": call.writer_seq + 1,
        "row_version": 1, "calls": 2,
    }.get(name, uuid7() if columns[name] is None or name.endswith("_id") or name == "writer" else "other")  # fmt: skip
    assert row_macs.verify_columns("nhi_invocation_log", columns) == "intact"
    assert row_macs.verify_columns("nhi_invocation_log", {**columns, name: edited}) == "broken"


def test_a_call_of_the_version_before_stands_for_one_call() -> None:
    """Its MAC does not cover the column that says so, which came later."""
    call = add_call(row_version=1)
    columns = {field.attname: getattr(call, field.attname) for field in InvocationLog._meta.concrete_fields}
    assert row_macs.verify_columns("nhi_invocation_log", columns) == "intact"
    assert row_macs.verify_columns("nhi_invocation_log", {**columns, "calls": 2}) == "broken"


@pytest.mark.parametrize("table", ["nhi_audit_event", "nhi_invocation_log"])
def test_an_edited_row_is_named(table: str) -> None:
    rows = {"nhi_audit_event": add_event(), "nhi_invocation_log": add_call()}
    add_event(), add_call()
    row = rows[table]
    edit(f"UPDATE {table} SET reason = 'edited' WHERE id = %s", key(row))
    code, report = verified()
    moment = row.at if isinstance(row, AuditEvent) else row.timestamp
    assert (code, report["rows"], report["broken_count"], report["unknown_key"]) == (1, 4, 1, 0)
    (broken,) = report["broken"]
    assert (broken["table"], broken["id"]) == (table, str(row.pk))
    assert broken["timestamp"][:19] == moment.isoformat()[:19]


#: What databases store, and Python does not read.
UNREADABLE = {
    "postgresql": {
        "at": "'infinity'", "at before Christ": "'0044-03-15 BC'", "details": "'{\"n\": 1e400}'",
        "before": "'{\"n\": 123456789012345678901234567890}'",
    },
    "sqlite": {
        "at": "'yesterday'", "at as a number": "5", "details": "'{'", "id": "'no id'", "target_id": "'no id'",
        "writer_seq": "'many'", "reason": "CAST(x'ff' AS TEXT)", "before": "x'00ff'",
    },
}  # fmt: skip


@pytest.mark.parametrize("place", range(8))
def test_a_row_that_python_cannot_read_is_broken_and_hides_no_other(place: int) -> None:
    cases = [*UNREADABLE[connection.vendor].items()]
    if place >= len(cases):
        pytest.skip("this database stores fewer odd values")
    (name, value), rows = cases[place], [add_event(number=number) for number in range(3)]
    edit(f"UPDATE nhi_audit_event SET {name.split()[0]} = {value} WHERE id = %s", key(rows[1]))
    code, report = verified()
    assert (code, report["rows"], report["broken_count"]) == (1, 3, 1)
    assert report["broken"][0]["id"] in {str(rows[1].pk), None}


def test_a_row_at_the_ends_of_order_is_not_passed_by() -> None:
    row = add_event()
    if connection.vendor == "postgresql":
        edit("UPDATE nhi_audit_event SET at = '-infinity', id = '00000000-0000-0000-0000-000000000000'")
    else:
        edit("UPDATE nhi_audit_event SET rowid = -9223372036854775808, at = 0, reason = 'edited'")
    code, report = verified()
    assert (code, report["rows"], report["broken_count"]) == (1, 1, 1), row


def test_batches_pass_no_row_by(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verification, "BATCH_SIZE", 3)
    moment = timezone.now()
    calls = [add_call(at=moment) for _ in range(7)]
    edit("UPDATE nhi_invocation_log SET reason = 'edited' WHERE id = %s", key(calls[6]))
    add_event()
    code, report = verified()
    assert (code, report["rows"], [row["id"] for row in report["broken"]]) == (1, 8, [str(calls[6].pk)])


def test_since_leaves_earlier_rows_out() -> None:
    old = add_call(at=timezone.now() - timedelta(hours=3))
    add_call(at=timezone.now() - timedelta(minutes=30))
    edit("UPDATE nhi_invocation_log SET reason = 'edited' WHERE id = %s", key(old))
    assert verified("--since", "1h")[1]["rows"] == 1
    assert verified("--since", "1h")[0] == 0
    earlier = timezone.now() - timedelta(hours=4)
    for text in ("4h", earlier.isoformat(), earlier.strftime("%Y-%m-%dT%H:%M:%SZ"), "2020-01-01", "9w"):
        assert verified("--since", text)[0] == 1, text


@pytest.mark.parametrize("text", ["", "soon", "1y", "-1h", "2026-13-01", "2026-02-30T00:00:00Z", "999999999w"])
def test_an_odd_since_is_wrong_usage(text: str) -> None:
    with pytest.raises(CommandError, match="neither a time"):
        call_command("verify_rows", f"--since={text}")


def test_a_row_whose_key_is_gone_is_no_broken_row(settings: Any) -> None:
    add_event(), add_call()
    settings.SIGNING_KEYS = OTHER_KEY
    add_event()
    code, report = verified()
    assert (code, report["rows"], report["broken"]) == (1, 3, [])
    assert (report["unknown_key"], report["unknown_keys"]) == (2, ["t1"])


def test_rotated_signing_keys_keep_earlier_rows_verifiable(settings: Any) -> None:
    add_event(), add_call()
    settings.SIGNING_KEYS = KeyRing({**OTHER_KEY.keys, **settings.SIGNING_KEYS.keys})
    row = add_event()
    assert row.row_mac.startswith("t2:")
    assert verified()[0] == 0


def test_a_rotated_secret_key_keeps_earlier_rows_verifiable_while_it_is_listed(settings: Any) -> None:
    settings.SIGNING_KEYS, earlier = KeyRing(), settings.SECRET_KEY
    row = add_event()
    assert row.row_mac.startswith("sk.")
    settings.SECRET_KEY = "another secret key for tests, and for nothing else"
    assert verified()[1]["unknown_key"] == 1, "the row names a key that is gone, so nobody can tell"
    settings.SECRET_KEY_FALLBACKS = [earlier]
    assert add_event().row_mac.partition(":")[0] != row.row_mac.partition(":")[0]
    assert verified()[0] == 0
    settings.SIGNING_KEYS = OTHER_KEY
    assert verified()[0] == 0, "rows of before SIGNING_KEYS stay verifiable"


def test_rows_of_the_version_before_are_tried_with_each_secret_key(settings: Any) -> None:
    """They name `sk`, whichever SECRET_KEY that was, so one that fits none is taken for broken."""
    settings.SIGNING_KEYS, earlier = KeyRing(), settings.SECRET_KEY
    row = add_event()
    edit("UPDATE nhi_audit_event SET row_mac = %s WHERE id = %s", f"sk:{row.row_mac.partition(':')[2]}", key(row))
    assert verified()[0] == 0
    settings.SECRET_KEY = "another secret key for tests, and for nothing else"
    assert verified()[1]["broken_count"] == 1
    settings.SECRET_KEY_FALLBACKS = [earlier]
    assert verified()[0] == 0


@pytest.mark.parametrize("mac", ["", ":", "t1", "t1:", "t1:é", "t1:" + "0" * 64, "sk:" + "0" * 64])
def test_an_odd_mac_is_never_good(mac: str) -> None:
    edit("UPDATE nhi_audit_event SET row_mac = %s WHERE id = %s", mac, key(add_event()))
    code, report = verified()
    assert (code, report["broken_count"] + report["unknown_key"]) == (1, 1)


def test_the_list_has_an_end_and_the_count_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verification, "MAX_LISTED", 2)
    for _ in range(5):
        add_event()
    edit("UPDATE nhi_audit_event SET reason = 'edited'")
    _, report = verified()
    assert (len(report["broken"]), report["broken_count"]) == (2, 5)


def test_progress_goes_to_standard_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify_rows, "PROGRESS_INTERVAL", 0.0)
    add_event()
    out, err = StringIO(), StringIO()
    call_command("verify_rows", "--json", stdout=out, stderr=err)
    assert "nhi_audit_event: 1 rows checked" in err.getvalue()
    assert json.loads(out.getvalue())["rows"] == 1


def test_without_signing_keys_a_deployment_is_warned(settings: Any) -> None:
    assert signing_keys_are_set() == []
    settings.SIGNING_KEYS = KeyRing()
    (warning,) = signing_keys_are_set()
    assert (warning.id, "SIGNING_KEYS" in warning.msg) == ("nhi.W002", True)


def test_the_command_as_a_process() -> None:
    """On this very database, with exit codes as a script sees them."""
    add_call()
    assert run_process("--json").returncode == 0
    edit("UPDATE nhi_invocation_log SET status = 'error'")
    done = run_process("--json")
    assert (done.returncode, json.loads(done.stdout)["broken_count"]) == (1, 1), done.stderr
    for_people = run_process()
    assert (for_people.returncode, "broken_count: 1" in for_people.stdout) == (1, True)
    assert run_process("--since", "soon").returncode == 2


def run_process(*arguments: str) -> subprocess.CompletedProcess[str]:
    database = connection.settings_dict
    url = (
        f"postgresql://{database['USER']}:{database['PASSWORD']}@{database['HOST']}:{database['PORT']}"
        f"/{database['NAME']}"
        if connection.vendor == "postgresql"
        else f"sqlite://{database['NAME']}"
    )
    command = [sys.executable, "manage.py", "verify_rows", *arguments]
    return subprocess.run(
        command, cwd=ROOT, env={**os.environ, "DATABASE_URL": url, "DJANGO_SETTINGS_MODULE": "config.settings"},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
