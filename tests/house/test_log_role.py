"""Gatehouse as two database roles, as production.md sets them up: one owns the tables, one runs and only adds rows."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from django.core import checks
from django.db import connection

from nhi.audit import excess_rights
from nhi.audit.checks import guards_are_set
from tests.services import postgresql
from tests.services.house import ROOT, House, embedded
from tests.services.postgresql import Server
from tests.settings import KEYS_FOR_TESTS

pytestmark = [pytest.mark.capability("AUD-01", "OPS-02"), pytest.mark.xdist_group("house")]

PAGE = (ROOT / "docs" / "how-to" / "production.md").read_text()
#: The blocks under Database: roles and their database, and what the owner grants.
ROLES, GRANTS = PAGE.partition("CREATE ROLE")[2].partition("```")[0], PAGE.partition("```sql")[2].partition("```")[0]
REFUSED = [
    "ALTER TABLE nhi_audit_event DISABLE TRIGGER nhi_audit_event_rows",
    "DROP TRIGGER nhi_audit_event_rows ON nhi_audit_event",
    "CREATE TRIGGER a_first BEFORE DELETE ON nhi_audit_event FOR EACH ROW EXECUTE FUNCTION gatehouse_append_only()",
    "CREATE RULE nothing AS ON DELETE TO nhi_audit_event DO INSTEAD NOTHING",
    "CREATE OR REPLACE FUNCTION gatehouse_append_only() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN OLD; END'",
    "UPDATE nhi_invocation_log SET reason = ''",
    "DELETE FROM nhi_audit_event",
    "TRUNCATE nhi_audit_event",
    "DROP TABLE nhi_audit_event",
]


def as_role(server: Server, role: str) -> str:
    return f"postgresql://{role}:{role}@127.0.0.1:{server.port}/gatehouse_two"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """The documented statements, with passwords and a name of this test's own."""
    with postgresql.server() as server:
        with psycopg.connect(server.url("postgres"), autocommit=True) as admin:
            for statement in f"CREATE ROLE{ROLES}".split(";"):
                role = re.search(r"ROLE (\w+)", statement)
                text = statement.replace("'...'", f"'{role[1]}'" if role else "")
                admin.execute(text.replace("DATABASE gatehouse", "DATABASE gatehouse_two"))
        yield server


def manage(server: Server, role: str, data: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """One command as this role. All migrations on an empty database take their time on a busy machine."""
    own = {"PATH": os.environ["PATH"], **environ(server, role), "GATEHOUSE_DATA": str(data)}
    command = [sys.executable, "manage.py", *arguments]
    return subprocess.run(command, cwd=ROOT, env=own, capture_output=True, text=True, timeout=240, check=False)


def environ(server: Server, role: str) -> dict[str, str]:
    return {"DATABASE_URL": as_role(server, role), **KEYS_FOR_TESTS}


def test_a_house_whose_role_only_adds_to_the_logs_works_as_a_whole(server: Server, tmp_path: Path) -> None:
    migrated = manage(server, "gatehouse_owner", tmp_path / "owner", "migrate", "--verbosity", "0")
    assert migrated.returncode == 0, migrated.stderr
    with psycopg.connect(as_role(server, "gatehouse_owner"), autocommit=True) as owner:
        owner.execute(GRANTS)
    checked = manage(server, "gatehouse_app", tmp_path / "owner", "check", "--deploy", "--database", "default")
    assert "nhi.W001" not in checked.stderr
    with embedded(tmp_path, **environ(server, "gatehouse_app")) as house:
        house.wait_until_ready(180)
        assert house.readiness()["warnings"] == []
        with (
            psycopg.connect(as_role(server, "gatehouse_app"), autocommit=True) as app,
            psycopg.connect(as_role(server, "gatehouse_owner"), autocommit=True) as owner,
        ):
            calls = "SELECT count(*) FROM nhi_invocation_log WHERE status = 'success'"
            before = number(app, calls)
            call_the_demo_tool(house)
            assert number(app, calls) == before + 1
            assert number(app, "SELECT count(*) FROM nhi_audit_event WHERE event = 'identity.created'") > 0
            for statement in REFUSED:
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    app.execute(statement)
            assert manage(server, "gatehouse_app", house.data, "verify_rows").returncode == 0
            owner.execute(REFUSED[0])
            assert "as the owner of the tables" in house.readiness()["checks"]["guards"]["message"]
            differ = "SELECT count(*) FROM nhi_audit_event WHERE event = 'record.guards_differ'"
            house.wait_for(lambda: number(app, differ) == 1, 60, "recorded")
            assert manage(server, "gatehouse_owner", tmp_path / "owner", "migrate", "-v", "0").returncode == 0
            house.wait_for(house.is_ready, 10, "ready again")
            # The owner repaired what the application had reported.
            for event in ("record.guards_repaired", "record.guards_hold"):
                query = f"SELECT count(*) FROM nhi_audit_event WHERE event = '{event}'"
                house.wait_for(lambda query=query: number(app, query) == 1, 60, f"{event} recorded")
        assert house.stop() == 0


def call_the_demo_tool(house: House) -> None:
    (command,) = re.findall(r"Call a tool: (.*)", house.output)
    done = subprocess.run(
        [*shlex.split(command), "-sS", "--fail"], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 0, done.stderr


def number(link: "psycopg.Connection[tuple[int]]", query: str) -> int:
    row = link.execute(query.encode()).fetchone()
    assert row is not None
    return row[0]


#: What makes the role of an application more than it needs to be, and how that is said.
TOO_MUCH = {
    "owner": ("ALTER TABLE nhi_audit_event OWNER TO {role}", "owns nhi_audit_event"),
    "update": ("GRANT UPDATE ON nhi_audit_event TO {role}", "may change nhi_audit_event"),
    "update of a column": ("GRANT UPDATE (reason) ON nhi_audit_event TO {role}", "may change nhi_audit_event"),
    "trigger": ("GRANT TRIGGER ON nhi_invocation_log TO {role}", "may change nhi_invocation_log"),
    "function": ("ALTER FUNCTION gatehouse_append_only() OWNER TO {role}", "owns the function"),
    "nothing": ("SELECT 1", ""),
}


@pytest.mark.django_db
@pytest.mark.parametrize("case", TOO_MUCH)
def test_what_the_role_may_too_much_is_a_warning(case: str) -> None:
    if connection.vendor != "postgresql":
        pytest.skip("an embedded database has no roles")
    role = f"role_of_a_test_{os.getpid()}"
    statement, expected = TOO_MUCH[case]
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE ROLE {role}; GRANT SELECT, INSERT ON nhi_audit_event, nhi_invocation_log TO {role}")
        cursor.execute(statement.format(role=role))
        cursor.execute(f"SET LOCAL ROLE {role}")
    warnings = excess_rights.excess_right_warnings(connection)
    assert len(warnings) == (1 if expected else 0) or case == "function"
    assert all(expected in warning for warning in warnings)
    assert bool(warnings) is bool(expected)


@pytest.mark.django_db
@pytest.mark.both_databases
def test_a_superuser_is_warned_about_and_an_embedded_database_is_not() -> None:
    warnings = excess_rights.excess_right_warnings(connection)
    messages = guards_are_set(databases=["default"])
    assert [message.msg for message in messages] == warnings
    assert all(message.level == checks.WARNING for message in messages)
    expected = ["nhi_audit_event", "nhi_invocation_log"] if connection.vendor == "postgresql" else []
    assert [re.findall(r"guards of (\w+)", warning) for warning in warnings] == [[table] for table in expected]
