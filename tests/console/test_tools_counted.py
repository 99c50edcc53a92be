"""What the sidebar and Home count of tools, and what the lists behind them hold."""

import pytest
from django.core.cache import cache

from mcp.models import Tool
from nhi.console import attention_counts
from tests.console.conftest import SignedIn

pytestmark = [pytest.mark.capability("MCP-04", "CON-05"), pytest.mark.django_db]
LIST = "/admin/mcp/tool/"


@pytest.mark.both_databases
@pytest.mark.parametrize("name", ["admin", "tom", "mara", "olga", "ada"])
def test_the_list_behind_the_number_holds_as_many(changed: Tool, signed_in: SignedIn, name: str) -> None:
    client = signed_in(name)
    cache.clear()
    known = attention_counts.counts_for_request(client.get("/admin/").wsgi_request)
    for state in ("quarantined", "pending"):
        rows = client.get(f"{LIST}?state={state}&approve=me").context["rows"]
        assert len(rows) == known[f"tools_{state}"], state
    # She approved what changed since, so somebody else looks at it.
    assert known["tools_quarantined"] == {"admin": 1, "tom": 1}.get(name, 0)
    assert known["tools_pending"] == {"admin": 1, "tom": 1, "mara": 1}.get(name, 0)


def test_the_number_and_the_card_lead_there(changed: Tool, signed_in: SignedIn) -> None:
    html = signed_in("tom").get("/admin/").content.decode()
    assert html.count(f'href="{LIST}?state=quarantined&amp;approve=me"') == 2
