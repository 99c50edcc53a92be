"""The strip over the log of calls: counts over its time that narrow the list."""

import re
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import parse_qsl

import pytest
from django.core.cache import cache
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from playwright.sync_api import Page, expect

from common.db.clock import start_of_hour
from common.ids import uuid7
from mcp.admin.calls.timeline import Strip
from mcp.gateway import call_statistics
from nhi.models import CallRollup, Identity, User
from tests.console.axe import violations
from tests.console.call_log import LIST, TAIL, fill, on_postgresql, plans
from tests.console.calling import call, denied, registered
from tests.console.conftest import NARROW, SignedIn, Visit, identity

pytestmark = pytest.mark.capability("AUD-02", "CON-05", "CON-06")


def summed(calls: int, *, hours: int, status: str = "success", agent: str = "deploy-bot", tool: str = "search") -> None:
    """An hour that is over."""
    CallRollup.objects.create(
        hour=start_of_hour(timezone.now()) - timedelta(hours=hours), agent_id=identity(agent).pk,
        agent_name=agent, tool_name="jira", method=tool, status=status, calls=calls, duration_sum=1.0,
    )  # fmt: skip


def strip(client: Client, **query: str) -> Strip | None:
    answer = client.get(LIST, query)
    assert answer.status_code == 200
    found: Strip | None = answer.context["strip"]
    return found


def totals(client: Client, **query: str) -> list[int]:
    found = strip(client, **query)
    return [bar.total for bar in found.table] if found else []


@pytest.mark.both_databases
def test_the_strip_counts_closed_hours_by_their_sums_and_open_ones_by_the_log(mara: Client) -> None:
    summed(7, hours=5)
    summed(2, hours=5, status="permission_denied")
    call(ago=2)
    denied(ago=1)
    shown = strip(mara)
    assert shown
    closed, *opened = [(bar.total, bar.refused) for bar in shown.table]
    assert closed == (9, 2)
    assert [sum(each) for each in zip(*opened, strict=True)] == [2, 1]
    assert shown.width == "an hour"
    assert shown.summary.startswith("11 calls, 3 denied. A bar is an hour; the highest, from ")
    assert not shown.notes
    assert all(bar.passed_height + bar.refused_height <= 60 for bar in shown.bars)


def test_hours_that_have_sums_are_not_counted_again(mara: Client) -> None:
    call(ago=60)
    assert totals(mara) == [1]
    hours = int((timezone.now() - timedelta(seconds=60)).hour != timezone.now().hour)
    summed(5, hours=hours)
    assert totals(mara) == [5]


def test_a_bar_leads_to_the_calls_of_its_time_and_keeps_the_other_filters(mara: Client) -> None:
    mara.cookies["zone"] = "Asia/Kathmandu"
    row = call(ago=5)
    call("triage-bot", ago=5)
    for span in ("1h", "24h", "7d", "30d", "all"):
        shown = strip(mara, agent="deploy-bot", span=span)
        assert shown, span
        bar = shown.table[-1]
        assert bar.total == 1, span
        assert bar.url.startswith("?agent=deploy-bot&since="), span
        page = mara.get(LIST + bar.url)
        assert [one["id"] for one in page.context["rows"]] == [str(row.pk)], span


def test_an_hour_is_drawn_by_the_minute_and_a_minute_is_the_end(mara: Client) -> None:
    call(ago=5 * 3600)
    assert call_statistics.roll_up()
    day = strip(mara)
    assert day
    assert (day.width, len(day.table)) == ("an hour", 1)
    hour = strip(mara, **_query(day.table[0].url))
    assert hour
    assert (hour.width, len(hour.bars), len(hour.table)) == ("a minute", 60, 1)
    assert strip(mara, **_query(hour.table[0].url)) is None


def _query(url: str) -> dict[str, str]:
    return dict(parse_qsl(url.removeprefix("?")))


def test_the_strip_is_narrowed_as_the_list_is_or_says_what_it_leaves_out(mara: Client) -> None:
    registered("jira", "search")
    summed(7, hours=5)
    summed(3, hours=5, agent="writer", tool="edit", status="error")
    assert totals(mara) == [10]
    assert totals(mara, agent="writer") == totals(mara, agent=str(identity("writer").pk)) == [3]
    assert totals(mara, owner="olga") == [3]
    assert totals(mara, server="jira") == [10]
    assert totals(mara, server="github") == []
    assert totals(mara, tool="search") == totals(mara, tool="jira__search") == totals(mara, tool="jira.search") == [7]
    assert totals(mara, outcome="error") == [3]
    assert strip(mara, find=str(uuid7())) is None
    assert strip(mara, since="yesterday") is None
    assert strip(mara, until="0001-01-02T00:00") is strip(mara, since="9999-12-31T23:00") is None
    assert totals(mara, since="0001-01-01T00:00") == totals(mara, since="0001-01-01T00:00", span="24h") == [10]
    reason = strip(mara, outcome="error:timeout", slower="1000", agent="writer")
    assert reason
    assert reason.notes == ["Drawn without the filters Outcome, Slower than (ms)."]
    call(ago=1, end={"duration": 1500.0})
    call(ago=1)
    assert totals(mara, span="1h", slower="1000") == [1]
    long = strip(mara, span="all")
    assert long
    assert long.notes == ["Drawn are the last 31 days of it."]


@pytest.mark.both_databases
def test_the_strip_says_that_hours_are_not_summed_yet(mara: Client) -> None:
    summed(1, hours=20)
    call(ago=6 * 3600)
    call(ago=1)
    shown = strip(mara)
    assert shown
    assert [bar.total for bar in shown.table] == [1, 1]
    assert [note.partition(" on are missing")[2] for note in shown.notes] == [": their hours are not summed yet."]
    assert call_statistics.roll_up()
    assert totals(mara) == [1, 1, 1]
    assert not strip(mara).notes  # type: ignore[union-attr]  # drawn just above


def test_owners_see_the_strip_of_theirs_only(seeded: None, signed_in: SignedIn) -> None:
    Identity.objects.update(backup_owner=None)
    summed(7, hours=5)
    summed(3, hours=5, agent="writer")
    User.objects.get(username="olga").groups.clear()
    assert totals(signed_in("olga")) == [3]


def test_the_strip_is_one_query_more_and_none_of_it_goes_without_a_limit(mara: Client) -> None:
    registered()
    for ago in range(60):
        denied(ago=ago)
    for query in ("", "?span=1h", "?span=all", "?find=github&tool=create_issue&agent=deploy-bot&span=7d"):
        cache.clear()
        with CaptureQueriesContext(connection) as seen:
            assert mara.get(LIST + query).context["strip"]
        counting = [one["sql"] for one in seen if "GROUP BY" in one["sql"]]
        assert len(counting) == 1, query
        assert counting[0].count('"nhi_invocation_log"."timestamp" >=') >= 1
        assert len(seen) <= 15, query


@on_postgresql
def test_strip_and_tail_never_read_the_log_from_end_to_end(mara: Client) -> None:
    registered()
    summed(3, hours=30)
    fill()
    wanted = (
        "", "span=1h", "span=all", "span=30d&agent=deploy-bot", "owner=mara&tool=tool7", "outcome=error&server=jira",
        "span=1h&slower=100&owner=mara",
    )  # fmt: skip
    found = {query: [plan for plan in plans(mara, query) if "Aggregate" in plan] for query in wanted}
    assert all(found.values()), found
    scanned = {query: plan for query, all_of in found.items() for plan in all_of if "Seq Scan on nhi_invoc" in plan}
    assert not scanned, scanned
    asked = [plan for query in (*wanted, "find=deploy") for plan in plans(mara, query, TAIL)]
    assert not [plan for plan in asked if "Seq Scan on nhi_invoc" in plan]


@pytest.mark.browser
def test_the_strip_narrows_the_list_by_keys_and_by_its_bars(visit: Visit) -> None:
    mara = visit("mara")
    summed(7, hours=5)
    row = denied(ago=1)
    page = mara.settled(LIST)
    bars = page.locator("[data-strip] svg a")
    bars.last.focus()
    page.keyboard.press("ArrowLeft")
    expect(bars.nth(bars.count() - 2)).to_be_focused()
    page.keyboard.press("End")
    expect(bars.last).to_be_focused()
    page.keyboard.press("Enter")
    page.wait_for_url("**?since=**")
    expect(page.locator(f'[data-open][href="{LIST}{row.pk}/"]')).to_be_visible()
    page.go_back()
    bars.nth(bars.count() - 6).click()
    page.wait_for_url("**?since=**")
    expect(page.get_by_text("Nothing matches")).to_be_visible()
    assert not mara.complaints


def _span(page: Page) -> float:
    """How many hours the list is narrowed to."""
    page.wait_for_url(re.compile("[?&]since="))
    asked = _query(page.url.partition("?")[2])
    times = [datetime.fromisoformat(asked[name]) for name in ("since", "until")]
    return (times[1] - times[0]).total_seconds() / 3600


@pytest.mark.browser
def test_several_bars_are_chosen_by_a_drag_or_with_shift(visit: Visit) -> None:
    mara = visit("mara")
    summed(7, hours=5)
    denied(ago=1)
    page = mara.settled(f"{LIST}?agent=deploy-bot")
    bars = page.locator("[data-strip] svg a")
    last = bars.count() - 1
    begin, end = (bars.nth(at).bounding_box() for at in (last - 2, last - 8))
    assert begin
    assert end
    page.mouse.move(begin["x"] + 5, begin["y"] + 20)
    page.mouse.down()
    page.mouse.move(end["x"] + 5, end["y"] + 20, steps=5)
    expect(page.locator("[data-strip] a[data-chosen]")).to_have_count(7)
    page.mouse.up()
    page.wait_for_url(re.compile("since="))
    assert "agent=deploy-bot" in page.url
    assert _span(page) == 7
    page = mara.settled(LIST)
    bars.last.focus()
    for key in ("ArrowLeft", "Shift+ArrowLeft", "Shift+ArrowLeft"):
        page.keyboard.press(key)
    expect(page.locator("#gh-live")).to_have_text(re.compile("^From .* on, 3 bars"))
    page.keyboard.press("Enter")
    assert _span(page) == 3
    assert not mara.complaints


@pytest.mark.browser
@pytest.mark.parametrize("options", [{}, {"viewport": NARROW, "color_scheme": "dark"}], ids=["light", "narrow, dark"])
def test_the_strip_is_accessible_and_fits(visit: Visit, options: dict[str, Any]) -> None:
    mara = visit("mara", **options)
    summed(7, hours=5)
    denied(ago=1)
    for path in (LIST, f"{LIST}?span=1h"):
        page = mara.settled(path)
        page.get_by_text("The numbers").click()
        assert not violations(page)
        assert page.evaluate("document.documentElement.scrollWidth === innerWidth"), path
    assert not mara.complaints
