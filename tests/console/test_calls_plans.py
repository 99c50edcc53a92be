"""Every filter of the log is answered through an index, also when there are many rows."""

import pytest
from django.test import Client

from common.ids import uuid7
from tests.console.call_log import fill, on_postgresql, plans
from tests.console.calling import registered

pytestmark = pytest.mark.capability("AUD-02", "CON-05")
QUERIES = (
    "", "span=all", "agent=deploy-bot&span=all", "tool=github__tool7&span=all", "tool=tool7&span=all",
    "outcome=error&span=all", "outcome=permission_denied:no_grant&span=7d", "find=deploy&span=all",
    "find=create_iss&span=all", "slower=100", "owner=mara&span=all", "server=github",
    f"find={uuid7()}", "since=2026-01-01T00:00&until=2026-01-02T00:00",
)  # fmt: skip


@on_postgresql
def test_no_filter_reads_the_log_from_end_to_end(mara: Client) -> None:
    registered()
    fill()
    scanned = {query: plan for query in QUERIES for plan in plans(mara, query) if "Seq Scan on nhi_invoc" in plan}
    assert not scanned, scanned
