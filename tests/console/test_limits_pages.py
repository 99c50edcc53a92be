"""Budgets and breakers at the console: what is used now, what is left alone now, and the verbs for them."""

from datetime import timedelta
from typing import Any

import pytest
from django.core.cache import cache
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from mcp.choices import BreakerState
from mcp.models import Budget, HealthReport
from nhi.models import AuditEvent, ToolPermission
from tests.console.axe import violations
from tests.console.calling import call, registered
from tests.console.conftest import NARROW, SignedIn, Visit, identity
from tests.console.limits import breaker, budget, spend
from tests.console.reading import text

pytestmark = [pytest.mark.capability("MCP-08", "CON-05")]
breaking = pytest.mark.capability("MCP-09", "CON-05")
BUDGETS, BREAKERS = "/admin/mcp/budget/", "/admin/mcp/breaker/"
CHECKS = "/admin/mcp/healthreport/"


def test_what_is_used_now_stands_as_a_bar_and_as_text(mara: Client) -> None:
    one = budget(calls_per_hour=60, daily_quota=1000, concurrency_limit=4, requests_per_second=5.0, timeout=10.0)
    spend(one, hour=48, day=812, slots=4)
    page = text(mara, BUDGETS)
    for words in ("48 of 60 this hour", "812 of 1,000 today", "4 of 4 in flight", "5 a second", "10 s a call"):
        assert words in page, words
    assert 'value="80" aria-label="48 of 60 this hour"' in page
    assert "gh-bar--full" in page
    assert "gh-bar--near" in page


def test_a_grants_own_limit_is_the_one_that_holds_when_it_is_lower(mara: Client) -> None:
    grant = ToolPermission.objects.get(agent=identity(), tool=identity("github__create_issue"))
    ToolPermission.objects.filter(pk=grant.pk).update(max_calls_per_hour=10)
    spend(budget("grant", grant, calls_per_hour=60), hour=3)
    assert "3 of 10 this hour" in text(mara, f"{BUDGETS}?scope=grant")


def test_refusals_of_today_are_counted_for_what_they_count_against(mara: Client) -> None:
    tool = registered()
    one, server = budget(calls_per_hour=1), budget("server", tool.server, daily_quota=1)
    for _ in range(3):
        call(status="rate_limited", end={"reason": "quota_exceeded"})
    call("triage-bot", "jira", "search", status="rate_limited", end={"reason": "quota_exceeded"})
    rows = {row["id"]: row["cells"] for row in mara.get(BUDGETS).context_data["rows"]}
    assert rows[str(one.pk)][5]["html"] == rows[str(server.pk)][5]["html"] == 3


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"scope": "agent", "agent": "deploy-bot"}, "deploy-bot"),
        ({"scope": "server", "server": "github"}, "github"),
        ({"scope": "tool", "tool": "github__create_issue"}, "github__create_issue"),
        ({"scope": "grant", "agent": "deploy-bot", "tool": "github__create_issue"}, ""),
    ],
)
def test_a_budget_is_set_by_naming_what_it_is_about(mara: Client, given: dict[str, str], name: str) -> None:
    registered()
    answer = mara.post(f"{BUDGETS}add/", {**given, "calls_per_hour": "60"})
    assert answer.status_code == 302, answer.content.decode()
    made = Budget.objects.get()
    assert (made.scope, made.calls_per_hour, made.daily_quota) == (given["scope"], 60, 0)
    assert name in made.target_name
    assert AuditEvent.objects.filter(event="budget.set").exists()
    twice = mara.post(f"{BUDGETS}add/", {**given, "calls_per_hour": "60"})
    assert twice.status_code == 409
    assert "change that one" in twice.content.decode()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"scope": "agent", "calls_per_hour": "60"}, "Name the agent."),
        ({"scope": "agent", "agent": "nobody", "calls_per_hour": "60"}, "There is no agent"),
        ({"scope": "agent", "agent": "deploy-bot"}, "Set at least one limit."),
        (
            {"scope": "agent", "agent": "deploy-bot", "calls_per_hour": "0"},
            "a whole number from 1 to 2,000,000,000 for “Calls per hour”",
        ),
        ({"scope": "agent", "agent": "deploy-bot", "burst_size": "3"}, "set “Calls per second” too"),
        ({"scope": "agent", "agent": "deploy-bot", "timeout": "900"}, "0.1 to 600 for “Seconds a call may take”"),
        (
            {"scope": "agent", "agent": "deploy-bot", "requests_per_second": "nan"},
            "0.001 to 100,000 for “Calls per second”",
        ),
        ({"scope": "grant", "agent": "planner", "tool": "jira__edit", "calls_per_hour": "1"}, "There is no grant"),
        ({"scope": "galaxy"}, "galaxy is not one of the available choices"),
    ],
)
def test_what_is_wrong_is_said_beside_its_field(mara: Client, given: dict[str, str], said: str) -> None:
    answer = mara.post(f"{BUDGETS}add/", given)
    assert answer.status_code in (400, 409, 422)
    assert said in answer.content.decode()
    assert not Budget.objects.exists()


def test_all_that_is_wrong_with_a_budget_is_said_at_once(mara: Client) -> None:
    given = {"scope": "grant", "agent": "planner", "tool": "jira__edit", "calls_per_hour": "0", "burst_size": "2"}
    errors = mara.post(f"{BUDGETS}add/", {**given, "timeout": "soon"}).context["form"].errors
    assert set(errors) == {"tool", "calls_per_hour", "burst_size", "timeout"}
    assert "requests_per_second" not in str(errors)
    one = budget(calls_per_hour=60)
    twice = {"scope": "agent", "agent": one.target_name, "concurrency_limit": "-1"}
    assert set(mara.post(f"{BUDGETS}add/", twice).context["form"].errors) == {"agent", "concurrency_limit"}


def test_a_budget_is_changed_and_removed_by_who_may(mara: Client, signed_in: SignedIn) -> None:
    one = budget(calls_per_hour=60)
    assert 'value="60"' in text(mara, f"{BUDGETS}{one.pk}/change/")
    assert mara.post(f"{BUDGETS}{one.pk}/change/", {"calls_per_hour": "90"}).status_code == 302
    one.refresh_from_db()
    assert one.calls_per_hour == 90
    for name in ("olga", "tom", "ada"):
        somebody = signed_in(name)
        page = text(somebody, BUDGETS)
        assert "deploy-bot" in page
        assert f"{one.pk}/change/" not in page
        assert somebody.post(f"{BUDGETS}{one.pk}/remove/").status_code == 403, name
    assert mara.post(f"{BUDGETS}{one.pk}/remove/").status_code == 302
    assert not Budget.objects.exists()
    assert AuditEvent.objects.filter(event="budget.removed").exists()


def test_many_budgets_ask_no_more_than_a_few(mara: Client) -> None:
    budget(calls_per_hour=60)
    counts = []
    for _ in range(2):
        cache.clear()
        with CaptureQueriesContext(connection) as seen:
            text(mara, BUDGETS)
        counts.append(len(seen))
        for name in ("planner", "writer", "triage-bot", "ci"):
            if not Budget.objects.filter(target_name=name).exists():
                budget(target=identity(name), calls_per_hour=10)
    assert counts[1] <= counts[0] <= 15


@breaking
def test_a_breaker_shows_what_seed_004_shows(mara: Client) -> None:
    registered()
    breaker(recovery_timeout=30)
    page = text(mara, BREAKERS)
    for words in ("github", "Open, calls refused", "5 of 5", "30 s"):
        assert words in page, words
    answer = mara.post(BREAKERS, {"export": "csv"})
    assert "PT30S" in answer.content.decode()


@breaking
def test_a_breaker_is_reset_with_a_reason_by_who_may(signed_in: SignedIn, mara: Client) -> None:
    one = breaker("llm-api")
    where = f"{BREAKERS}{one.pk}/reset/"
    for name in ("tom", "ada"):
        assert "reset/" not in text(signed_in(name), BREAKERS)
        assert signed_in(name).post(where, {"reason": "Back"}).status_code == 403
    olga = signed_in("olga")
    assert where in text(olga, BREAKERS)
    assert olga.post(where, {"reason": ""}).status_code == 422
    assert olga.post(where, {"reason": "The service is back"}).status_code == 302
    one.refresh_from_db()
    assert (one.state, one.failure_count) == (BreakerState.CLOSED, 0)
    assert AuditEvent.objects.filter(event="breaker.reset", reason="The service is back").exists()
    assert mara.post(where, {"reason": "Again"}).status_code == 409


@breaking
def test_home_names_the_breakers_that_are_open(signed_in: SignedIn) -> None:
    breaker("llm-api")
    breaker("closed", state=BreakerState.CLOSED, failure_count=0)
    pages = {name: signed_in(name).get("/admin/") for name in ("olga", "ada")}
    cards = {name: [card["words"] for card in page.context["cards"]] for name, page in pages.items()}
    assert "1 breaker open: llm-api" in cards["olga"]
    assert cards["ada"] == []


@pytest.mark.capability("MCP-10")
def test_the_history_of_checks_is_narrowed_by_server_and_by_what_was_found(mara: Client, signed_in: SignedIn) -> None:
    report = {"server": registered().server, "handshake_success": False}
    bad = HealthReport.objects.create(status="Unhealthy", error_message="refused \u202e here", **report)
    good = HealthReport.objects.create(status="Healthy", handshake_latency_ms=12.0, **report)
    old = HealthReport.objects.create(status="Healthy", timestamp=timezone.now() - timedelta(hours=30), **report)

    def shown(**query: str) -> list[str]:
        return [row["id"] for row in mara.get(CHECKS, query).context_data["rows"]]

    assert shown() == [str(good.pk), str(bad.pk)]
    assert shown(span="7d", server="github") == [str(good.pk), str(bad.pk), str(old.pk)]
    assert shown(status="Unhealthy") == [str(bad.pk)]
    assert shown(server="jira") == []
    assert "U+202E" in text(mara, CHECKS)
    assert "Checks" in text(mara, BREAKERS)


@pytest.mark.browser
@pytest.mark.parametrize("options", [{}, {"viewport": NARROW, "color_scheme": "dark"}], ids=["light", "narrow, dark"])
def test_budgets_and_breakers_are_accessible_and_fit(visit: Visit, options: dict[str, Any]) -> None:
    mara = visit("mara", **options)
    registered()
    one = budget(calls_per_hour=60, daily_quota=1000, concurrency_limit=4)
    spend(one, hour=60, day=812, slots=1)
    stuck = breaker()
    paths = (BUDGETS, f"{BUDGETS}add/", f"{BUDGETS}{one.pk}/change/", BREAKERS, f"{BREAKERS}{stuck.pk}/reset/", CHECKS)
    for path in paths:
        mara.settled(path)
        assert not violations(mara.page), path
        assert mara.page.evaluate("document.documentElement.scrollWidth === innerWidth"), path
    assert not mara.complaints


@pytest.mark.browser
def test_the_form_asks_only_for_what_the_scope_needs(visit: Visit) -> None:
    mara = visit("mara")
    mara.open(BUDGETS)
    mara.page.get_by_role("link", name="Set a budget").first.click()
    dialog = mara.page.get_by_role("dialog")
    dialog.get_by_text("Grant", exact=True).click()
    assert dialog.get_by_label("Agent", exact=True).last.is_visible()
    assert not dialog.get_by_role("combobox", name="Server").is_visible()
    assert not mara.complaints
