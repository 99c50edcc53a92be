"""The pages of the log of calls: where they are, and how what they ask is answered."""

from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from playwright.sync_api import Page

from common.ids import uuid7
from tests.console.conftest import identity

LIST = "/admin/nhi/invocationlog/"
TAIL, EXPORT = f"{LIST}tail/", f"{LIST}export/"
PART = {"X-Console-Part": "1"}

ROWS = 60_000
# A minute apart: more than a month. Straight into the table, since what is measured here is reading.
FILL = """
INSERT INTO nhi_invocation_log
    (id, timestamp, run_id, agent_id, agent_name, agent_role, tool_id, tool_name, method, args_hash, redaction_applied,
     duration, status, error_code, error_message, reason, request_id, thread_id, session_id, task_id, chain, source,
     details, writer, writer_seq, row_version, row_mac)
SELECT gen_random_uuid(), now() - n * interval '1 minute', gen_random_uuid(),
    CASE WHEN n %% 500 = 0 THEN %s::uuid ELSE gen_random_uuid() END, 'someone', '', NULL,
    (ARRAY['github', 'jira', 'todo', 'mail'])[1 + n %% 4], 'tool' || n %% 90, '', false, n %% 900,
    (ARRAY['success', 'success', 'success', 'permission_denied', 'error'])[1 + n %% 5], '', '', 'no_grant',
    gen_random_uuid(), '', '', '', '[]', '', '{}', %s::uuid, n, 1, ''
FROM generate_series(1, %s) n
"""
on_postgresql = pytest.mark.skipif(connection.vendor != "postgresql", reason="The plans pinned are PostgreSQL's")


def fill() -> None:
    with connection.cursor() as cursor:
        cursor.execute(FILL, [identity().pk, uuid7(), ROWS])
        cursor.execute("ANALYZE nhi_invocation_log")


def plans(client: Client, query: str, page: str = LIST) -> list[str]:
    with CaptureQueriesContext(connection) as seen:
        assert client.get(f"{page}?{query}").status_code == 200
    asked = [one["sql"] for one in seen if 'FROM "nhi_invocation_log"' in one["sql"]]
    assert asked
    with connection.cursor() as cursor:
        found = []
        for sql in asked:
            cursor.execute(f"EXPLAIN {sql}".replace("%", "%%"), [])
            found.append("\n".join(line for (line,) in cursor.fetchall()))
    return found


def link_of(page: Page, row: Any) -> Any:
    return page.locator(f'[data-open][href="{LIST}{row.pk}/"]')
