"""Every filter of the log is answered through an index, also when there are many rows."""

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from common.ids import uuid7
from tests.console.calling import registered
from tests.console.conftest import identity

pytestmark = pytest.mark.capability("AUD-02", "CON-05")

LOG, ROWS = "/admin/nhi/invocationlog/", 60_000
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
QUERIES = (
    "", "span=all", "agent=deploy-bot&span=all", "tool=github__tool7&span=all", "tool=tool7&span=all",
    "outcome=error&span=all", "outcome=permission_denied:no_grant&span=7d", "find=deploy&span=all",
    "find=create_iss&span=all", "slower=100", "owner=mara&span=all", "server=github",
    f"find={uuid7()}", "since=2026-01-01T00:00&until=2026-01-02T00:00",
)  # fmt: skip


@pytest.mark.skipif("connection.vendor != 'postgresql'", reason="The plans pinned here are PostgreSQL's")
def test_no_filter_reads_the_log_from_end_to_end(mara: Client) -> None:
    registered()
    with connection.cursor() as cursor:
        cursor.execute(FILL, [identity().pk, uuid7(), ROWS])
        cursor.execute("ANALYZE nhi_invocation_log")
    scanned = {query: plan for query in QUERIES for plan in plans(mara, query) if "Seq Scan on nhi_invoc" in plan}
    assert not scanned, scanned


def plans(client: Client, query: str, page: str = LOG) -> list[str]:
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
