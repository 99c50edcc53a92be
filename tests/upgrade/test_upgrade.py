"""An installation of an earlier version goes on under this one: what it stored opens, fits and lets in as before.

`make` made the two databases in `data`, and `expected.json` says what they held.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.services import migrated
from tests.services.house import House, embedded
from tests.upgrade.installation import (
    CARD_KEYS,
    DATA,
    ENVIRON,
    POSTGRESQL,
    SQLITE,
    request,
    restore_postgresql,
    restore_sqlite,
    run_apart,
)

pytestmark = [pytest.mark.capability("OPS-05"), pytest.mark.both_databases, pytest.mark.xdist_group("house")]

#: The places at which the product seals something, by table and the field that it is in.
PLACES = {
    ("a2a_push_config", "sealed"),
    ("a2a_runtime", "sealed_credential"),
    ("a2a_task", "sealed_callback_url"),
    ("a2a_task_message", "sealed_body"),
    ("a2a_webhook_secret", "sealed"),
    ("a2a_webhook_secret", "sealed_previous"),
    ("mcp_call_approval", "sealed_arguments"),
    ("mcp_server_secret", "KEY"),
    ("mfa_authenticator", "secret"),
    ("mfa_authenticator", "seed"),
    ("supervisor_agent", "sealed_envs"),
    ("supervisor_agent", "sealed_key"),
    ("supervisor_execution", "sealed_input"),
    ("supervisor_schedule", "sealed_input"),
    ("supervisor_session_message", "sealed_text"),
}
HOLDERS = {
    "person": "mara",
    "agent": "planner",
    "worker": "writer",
    "service_account": "nightly-report",
    "short": "planner",
    "run": "triage-bot",
}
#: Processes that are gone are forgotten, and so are the sessions of people that have ended.
MAY_SHRINK = {"nhi_process", "django_session"}
VERSION = "io.modelcontextprotocol/protocolVersion"


@dataclass
class Upgraded:
    house: House
    expected: dict[str, Any]


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    database = POSTGRESQL if "DATABASE_URL" in os.environ else SQLITE
    return dict(json.loads((DATA / "expected.json").read_text())[database])


@pytest.fixture(scope="module")
def upgraded(expected: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Upgraded]:
    """The stored installation, started by this version: it has migrated its database, and is ready."""
    place = Path(tmp_path_factory.mktemp("upgrade"))
    with restored(place) as environ, embedded(place, first=True, **ENVIRON, **environ) as house:
        house.wait_until_ready()
        yield Upgraded(house, expected)
        assert house.stop() == 0


@contextmanager
def restored(place: Path) -> Iterator[dict[str, str]]:
    """The stored database, and the variables that lead to it."""
    server = os.environ.get("DATABASE_URL")
    if server is None:
        restore_sqlite(DATA / f"{SQLITE}.gz", place / "data")
        yield {}
        return
    name = migrated.create_database(server)
    try:
        url = f"{server.rpartition('/')[0]}/{name}"
        restore_postgresql(DATA / f"{POSTGRESQL}.gz", url)
        yield {"DATABASE_URL": url}
    finally:
        migrated.drop_database(server, name)


def test_the_stored_database_has_a_row_of_every_model_and_a_sealed_value_of_every_place(
    expected: dict[str, Any],
) -> None:
    assert [label for table, label in expected["tables"].items() if not expected["counts"][table]] == []
    keys = (key.split("/") for key in expected["sealed"])
    assert {(table, field) for table, _, field in keys} == PLACES
    assert expected["tokens"].keys() == HOLDERS.keys()


def test_it_is_ready_without_errors(upgraded: Upgraded) -> None:
    readiness = upgraded.house.readiness()
    assert readiness["ready"] is True
    assert [name for name, check in readiness["checks"].items() if not check["ok"]] == []
    assert "Traceback" not in upgraded.house.output


def test_every_model_has_a_table_and_no_row_is_lost(upgraded: Upgraded) -> None:
    content = run_apart(upgraded.house, "counts")
    counts, before = content["counts"], upgraded.expected["counts"]
    assert [label for table, label in content["tables"].items() if table not in counts] == []
    assert {
        table: rows for table, rows in before.items() if counts.get(table, 0) < rows and table not in MAY_SHRINK
    } == {}


def test_every_sealed_value_opens(upgraded: Upgraded) -> None:
    now = run_apart(upgraded.house, "sealed")
    assert {key: now.get(key) for key in upgraded.expected["sealed"]} == upgraded.expected["sealed"]


def test_every_row_of_the_record_fits_its_mac(upgraded: Upgraded) -> None:
    done = upgraded.house.manage("verify_rows", "--json")
    report = json.loads(done.stdout)
    assert (done.returncode, report["broken_count"], report["unknown_key"]) == (0, 0, 0), report
    counts = upgraded.expected["counts"]
    assert report["rows"] >= counts["nhi_audit_event"] + counts["nhi_invocation_log"]


@pytest.mark.parametrize("kind", HOLDERS)
def test_a_token_still_lets_in(upgraded: Upgraded, kind: str) -> None:
    answer = request(upgraded.house, "GET", "/api/nhi/me", token=upgraded.expected["tokens"][kind])
    assert answer.status == 200, answer
    assert HOLDERS[kind] in answer.body.values()


def test_a_short_lived_token_is_narrowed_as_before_and_that_of_a_run_names_its_run(upgraded: Upgraded) -> None:
    tokens = upgraded.expected["tokens"]
    short = request(upgraded.house, "GET", "/api/nhi/me", token=tokens["short"]).body["token"]
    assert short["scope"] == "todo.* github.*"
    run = request(upgraded.house, "GET", "/api/nhi/me", token=tokens["run"]).body["token"]
    assert run["execution_id"] is not None


def test_a_lease_of_a_task_is_still_its_workers(upgraded: Upgraded) -> None:
    lease, token = upgraded.expected["lease"], upgraded.expected["tokens"]["worker"]
    path = f"/api/nhi/a2a/inbox/{lease['task']}/heartbeat"
    answer = request(upgraded.house, "POST", path, token=token, body={"lease_token": lease["token"]})
    assert answer.status == 200, answer


def test_a_cursor_of_rest_leads_on(upgraded: Upgraded) -> None:
    cursor, token = upgraded.expected["cursors"]["rest"], upgraded.expected["tokens"]["person"]
    answer = request(upgraded.house, "GET", f"/api/nhi/audit-events?limit=2&cursor={cursor}", token=token)
    assert answer.status == 200, answer
    assert len(answer.body["audit_events"]) == 2


def test_a_cursor_of_mcp_leads_on(upgraded: Upgraded) -> None:
    meta = {VERSION: "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
    params = {"_meta": meta, "cursor": upgraded.expected["cursors"]["mcp"]}
    answer = request(
        upgraded.house, "POST", "/mcp", token=upgraded.expected["tokens"]["agent"],
        body={"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": params},
        MCP_Protocol_Version="2026-07-28", Mcp_Method="tools/list", Accept="application/json, text/event-stream",
    )  # fmt: skip
    assert answer.status == 200, answer
    assert "todo__create_todo" in [tool["name"] for tool in answer.body["result"]["tools"]]


def test_a_cursor_of_a2a_leads_on(upgraded: Upgraded) -> None:
    params = {"pageSize": 1, "pageToken": upgraded.expected["cursors"]["a2a"]}
    answer = request(
        upgraded.house, "POST", "/agents/writer/", token=upgraded.expected["tokens"]["agent"],
        body={"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": params}, A2A_Version="1.0",
    )  # fmt: skip
    assert answer.status == 200, answer
    assert len(answer.body["result"]["tasks"]) == 1


def test_agent_cards_are_signed_with_the_same_keys(upgraded: Upgraded) -> None:
    status, body = upgraded.house.get(CARD_KEYS)
    assert status == 200
    assert json.loads(body) == upgraded.expected["card_keys"]
