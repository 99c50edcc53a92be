"""Queries of a page: few, and no more with many rows than with ten."""

from datetime import timedelta
from typing import Any

import pytest
from django.core.cache import cache
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from nhi.choices import Kind, State
from nhi.models import Credential, Identity, ToolPermission, User
from tests.console.conftest import hub, identity

pytestmark = pytest.mark.capability("CON-05")
MOST = 15
MANY = 10_000


def queries(client: Client, path: str) -> int:
    cache.clear()
    with CaptureQueriesContext(connection) as seen:
        assert client.get(path).status_code == 200
    return len(seen)


def fill(count: int, first: int = 0) -> None:
    """Rows straight into the tables: what is measured here is reading."""
    owner, now = User.objects.get(username="mara"), timezone.now()
    common: dict[str, Any] = {"owner": owner, "state": State.ACTIVE, "created_by_name": "mara"}
    agents = [Identity(kind=Kind.AGENT, name=f"agent-{number:05}", **common) for number in range(first, count)]
    Identity.objects.bulk_create(agents, batch_size=500)
    tool = identity("jira__search")
    given = {"reason": "Many", "granted_by_name": "mara", "expires_at": now + timedelta(days=5)}
    ToolPermission.objects.bulk_create(
        [ToolPermission(agent=one, tool=tool, **given) for one in agents], batch_size=500
    )
    tokens = [
        Credential(identity=one, public_id=f"p{number:015}", digest=b"x" * 32, expires_at=now, created_by_name="mara")
        for number, one in enumerate(agents, first)
    ]
    Credential.objects.bulk_create(tokens, batch_size=500)


PAGES = (
    "/admin/",
    "/admin/nhi/identity/",
    "/admin/nhi/identity/?kind=agent&q=agent&sort=-last_activity_at&page=3",
    "/admin/nhi/identity/?owner=mara&ends=7",
    "/admin/search/?s=agent",
)


def test_a_page_asks_as_little_of_ten_thousand_rows_as_of_ten(mara: Client) -> None:
    fill(10)
    tabs = [hub(tab=tab) for tab in ("", "access/", "credentials/", "connect/", "changes/")]
    paths = [*PAGES, *tabs, hub("jira__search", "access/")]
    few = {path: queries(mara, path) for path in paths}
    assert {path: count for path, count in few.items() if count > MOST} == {}
    fill(MANY, first=10)
    many = {path: queries(mara, path) for path in paths}
    assert {path: (few[path], count) for path, count in many.items() if count > MOST or count > few[path] + 1} == {}
