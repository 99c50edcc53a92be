"""The page of one call: what decided, where the time went, what was near it, and whether it is as written."""

import pytest
from django.test import Client

from common.ids import uuid7
from nhi.models import InvocationLog, ToolPermission
from tests.console.call_log import LIST
from tests.console.calling import call, denied, registered
from tests.console.conftest import Visit, identity
from tests.console.reading import text

pytestmark = pytest.mark.capability("AUD-02", "CON-05")


def test_a_call_page_says_which_check_decided_and_what_would_make_it_pass(mara: Client) -> None:
    registered()
    row = denied()
    page = text(mara, f"{LIST}{row.pk}/")
    assert "create_issue on github by deploy-bot" in page
    assert "A grant or a role allows it" in page
    assert "deploy-bot has no grant for it." in page
    assert "Give deploy-bot access to github.create_issue" in page
    assert f"/admin/explain/?caller={row.agent_id}&amp;target={row.tool_id}" in page
    assert "Today it would be" in page
    assert "As written" in page
    assert row.args_hash in page


def test_a_call_page_shows_where_the_time_went_and_what_let_it_pass(mara: Client) -> None:
    grant = ToolPermission.objects.get(agent=identity(), tool=identity("github__create_issue"))
    stood = {"budgets": [{"scope": "agent", "name": "deploy-bot", "remaining": 48, "in_flight": 1}]}
    spent = {"decide_ms": 1.0, "upstream_ms": 30.0, "breaker": {"state": "CLOSED", "failures": 0}, **stood}
    row = call(grant_id=grant.pk, end={"duration": 40.0, "details": spent})
    page = text(mara, f"{LIST}{row.pk}/")
    assert "which checks there are is written as of now" in page
    passed = {check.asks: (check.fact, check.surely) for check in mara.get(f"{LIST}{row.pk}/").context["passed"]}
    assert passed["A grant or a role allows it"] == ("by a grant", True)
    assert passed["The server's breaker lets calls through"][1]
    assert passed["Approved by a person, where one must"] == ("", False)
    assert "Action fits the grant" not in passed
    assert mara.get(f"{LIST}{denied().pk}/").context["passed"] == []
    assert f"/admin/nhi/toolpermission/{grant.pk}/" in page
    assert "the server: 30 ms" in page
    assert "agent deploy-bot: 48 left, 1 in flight" in page
    assert "Closed, calls flow" in page


def test_words_of_servers_are_shown_as_outside_text(mara: Client) -> None:
    row = call(status="error", end={"reason": "upstream", "error_message": "<b>x</b> \u202eevil"})
    page = text(mara, f"{LIST}{row.pk}/")
    assert "&lt;b&gt;x&lt;/b&gt;" in page
    assert "U+202E" in page


def test_a_call_leads_to_its_tool_and_says_each_budget_once(mara: Client) -> None:
    grants = [{"scope": "grant", "name": "the grant of deploy-bot for github__create_issue", "remaining": 3}]
    row = call(end={"details": {"budgets": grants}})
    page = text(mara, f"{LIST}{row.pk}/")
    assert f"/admin/nhi/identity/{row.tool_id}/" in page
    assert "grant the grant" not in page
    assert "the grant of deploy-bot for github__create_issue: 3 left" in page
    registered()
    assert f"/admin/mcp/tool/{row.tool_id}/" in text(mara, f"{LIST}{row.pk}/")


def test_neighbours_are_the_same_agents_calls_of_half_a_minute(mara: Client) -> None:
    row, near, far, others = call(ago=100), denied(ago=90), call(ago=200), call("triage-bot", ago=99)
    page = text(mara, f"{LIST}{row.pk}/")
    assert str(near.pk) in page
    assert "10.0 s after" in page
    assert str(far.pk) not in page
    assert str(others.pk) not in page


def test_a_row_that_was_changed_behind_the_record_is_told(mara: Client) -> None:
    row = call()
    broken = InvocationLog.objects.get(pk=row.pk)
    broken.pk, broken.writer_seq, broken.status = uuid7(), broken.writer_seq + 10_000, "error"
    broken._state.adding = True
    broken.save()
    assert "Not as written" in text(mara, f"{LIST}{broken.pk}/")


@pytest.mark.browser
def test_why_a_call_was_denied_takes_two_steps(visit: Visit) -> None:
    mara = visit("mara")
    denied("grant_revoked", agent="planner", server="jira", tool="edit")
    mara.open(LIST)
    mara.step(mara.page.locator("[data-row] [data-open]").first)
    mara.page.get_by_text("A grant or a role allows it").wait_for()
    mara.step(mara.page.get_by_role("link", name="What would make it pass"))
    mara.page.get_by_role("heading", name="Why may planner not call jira__edit?").wait_for()
    assert mara.steps <= 2
    assert not mara.complaints
