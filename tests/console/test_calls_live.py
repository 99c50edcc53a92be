"""The log of calls while one looks: a row opened beside it, calls over its time, and new ones as they come."""

import re
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import parse_qsl

import pytest
from django.core.cache import cache
from django.db import connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from playwright.sync_api import Page, expect

from common.ids import uuid7
from mcp import rollups
from mcp.admin.calls_strip import Strip
from nhi.models import AuditEvent, CallRollup, Identity, InvocationLog, User
from nhi.record import invocations
from tests.console.axe import violations
from tests.console.calling import call, denied, flight, registered
from tests.console.conftest import NARROW, SignedIn, Visit, Visitor, identity
from tests.console.test_calls_plans import FILL, ROWS, plans

pytestmark = pytest.mark.capability("AUD-02", "CON-05", "CON-06")

LIST = "/admin/nhi/invocationlog/"
TAIL = f"{LIST}tail/"
PART = {"X-Console-Part": "1"}
#: A question every two seconds, on a machine that may have much to do.
SOON = 15_000


def part_of(row: Any) -> str:
    return f"{LIST}{row.pk}/part/"


def link_of(page: Page, row: Any) -> Any:
    return page.locator(f'[data-open][href="{LIST}{row.pk}/"]')


def panel_of(page: Page) -> Any:
    return page.locator("[data-panel]")


# ── A row beside the list ─────────────────────────────────────────────────────────────────────────────────────────
def test_the_panel_is_a_part_with_what_decided_and_the_way_to_the_page(mara: Client) -> None:
    row = denied()
    answer = mara.get(part_of(row), headers=PART)
    said = answer.content.decode()
    assert answer.headers["X-Console-Part"] == "1"
    assert "<html" not in said
    assert f'href="{LIST}{row.pk}/"' in said
    assert "A grant or a role allows it" in said
    assert "deploy-bot has no grant for it." in said
    assert "What would make it pass" in said
    assert "<html" in mara.get(part_of(row)).content.decode()


def test_the_panel_shows_words_of_others_as_such(mara: Client) -> None:
    row = call(tool="list\u202eecalper", status="error", end={"reason": "upstream", "error_message": "<b>x</b>"})
    said = mara.get(part_of(row), headers=PART).content.decode()
    assert "U+202E" in said
    assert "list\u202e" not in said
    assert "&lt;b&gt;x&lt;/b&gt;" in said


def test_the_panel_is_for_those_who_may_open_the_page(seeded: None, signed_in: SignedIn) -> None:
    Identity.objects.update(backup_owner=None)
    own, other = call("writer", "jira", "search"), call()
    User.objects.get(username="olga").groups.clear()
    olga = signed_in("olga")
    assert olga.get(part_of(own), headers=PART).status_code == 200
    assert olga.get(part_of(other), headers=PART).status_code == 404


def test_the_panel_asks_less_than_the_page(mara: Client) -> None:
    registered()
    row = denied()
    cache.clear()
    with CaptureQueriesContext(connection) as seen:
        mara.get(part_of(row), headers=PART)
    assert len(seen) <= 18, [one["sql"][:100] for one in seen]


@pytest.mark.browser
def test_a_row_opens_beside_the_list_and_escape_gives_the_focus_back(visit: Visit) -> None:
    mara = visit("mara")
    row, newer = denied(ago=30), call(ago=10)
    page = mara.settled(LIST)
    link_of(page, row).click()
    heading = panel_of(page).get_by_role("heading", name="create_issue on github by deploy-bot")
    expect(heading).to_be_focused()
    expect(link_of(page, row)).to_contain_text(f"{row.timestamp:%H:%M:%S}")
    expect(panel_of(page)).to_contain_text("deploy-bot has no grant for it.")
    assert page.url.endswith(f"#call={row.pk}")
    page.keyboard.press("k")
    expect(link_of(page, newer)).to_have_attribute("aria-current", "true")
    expect(panel_of(page)).to_contain_text("Every check passed")
    page.keyboard.press("j")
    expect(panel_of(page)).to_contain_text("deploy-bot has no grant for it.")
    page.keyboard.press("Escape")
    expect(panel_of(page)).to_be_hidden()
    expect(link_of(page, row)).to_be_focused()
    assert "#" not in page.url
    assert not mara.complaints


@pytest.mark.browser
def test_enter_opens_the_panel_and_enter_again_the_page(visit: Visit) -> None:
    mara = visit("mara")
    row = denied()
    page = mara.settled(LIST)
    page.get_by_role("region", name="Calls", exact=True).focus()
    page.keyboard.press("j")
    expect(link_of(page, row)).to_be_focused()
    page.keyboard.press("Enter")
    expect(panel_of(page).locator("[data-panel-title]")).to_be_focused()
    assert page.url.partition("#")[0] == mara.base + LIST
    page.keyboard.press("Enter")
    page.wait_for_url(f"**{LIST}{row.pk}/")
    page.go_back()
    expect(panel_of(page)).to_contain_text("deploy-bot has no grant for it.")
    panel_of(page).get_by_role("link", name="Open the page").click()
    page.wait_for_url(f"**{LIST}{row.pk}/")
    assert not mara.complaints


@pytest.mark.browser
@pytest.mark.parametrize("options", [{"viewport": NARROW}, {"java_script_enabled": False}], ids=["narrow", "no script"])
def test_without_room_or_script_a_row_leads_to_its_page(visit: Visit, options: dict[str, Any]) -> None:
    mara = visit("mara", **options)
    row = denied()
    mara.open(LIST)
    link_of(mara.page, row).click()
    mara.page.wait_for_url(f"**{LIST}{row.pk}/")


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_open_panel_is_accessible_and_fits(visit: Visit, scheme: str) -> None:
    mara = visit("mara", color_scheme=scheme)
    row = denied()
    call(end={"duration": 40.0, "details": {"decide_ms": 1.0, "upstream_ms": 30.0}})
    page = mara.settled(LIST)
    link_of(page, row).click()
    expect(panel_of(page)).to_be_visible()
    assert not violations(page)
    for width in (1280, 1200):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth === innerWidth"), width
    assert not mara.complaints


# ── The strip ─────────────────────────────────────────────────────────────────────────────────────────────────────
def summed(calls: int, *, hours: int, status: str = "success", agent: str = "deploy-bot", tool: str = "search") -> None:
    """An hour that is over."""
    CallRollup.objects.create(
        hour=rollups.hour_of(timezone.now()) - timedelta(hours=hours), agent_id=identity(agent).pk, agent_name=agent,
        tool_name="jira", method=tool, status=status, calls=calls, duration_sum=1.0,
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
    assert rollups.roll_up()
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
    assert rollups.roll_up()
    assert totals(mara) == [1, 1, 1]
    assert not strip(mara).notes  # type: ignore[union-attr] # drawn just above


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


@pytest.mark.skipif("connection.vendor != 'postgresql'", reason="The plans pinned here are PostgreSQL's")
def test_strip_and_tail_never_read_the_log_from_end_to_end(mara: Client) -> None:
    registered()
    summed(3, hours=30)
    with connection.cursor() as cursor:
        cursor.execute(FILL, [identity().pk, uuid7(), ROWS])
        cursor.execute("ANALYZE nhi_invocation_log")
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


# ── Live tail ─────────────────────────────────────────────────────────────────────────────────────────────────────
def tail(client: Client, **query: str) -> Any:
    answer = client.get(TAIL, query, headers=PART)
    assert answer.status_code in (200, 204)
    return answer


def tailed(client: Client, **query: str) -> list[str]:
    return [row["id"] for row in tail(client, **query).context["rows"]]


def test_the_tail_holds_the_newest_calls_and_nothing_while_they_were_seen(mara: Client) -> None:
    old, new = call(ago=30), denied(ago=1)
    call(ago=3600)
    first = tail(mara)
    assert [row["id"] for row in first.context["rows"]] == [str(new.pk), str(old.pk)]
    seen = first.context["seen"]
    assert f'data-seen="{seen}"' in first.content.decode()
    assert tail(mara, seen=seen).status_code == 204
    between = call(ago=10)
    assert tailed(mara, seen=seen) == [str(new.pk), str(between.pk), str(old.pk)]


def test_the_tail_is_narrowed_and_guarded_as_the_list_is(mara: Client, signed_in: SignedIn) -> None:
    Identity.objects.update(backup_owner=None)
    own, other = call("writer", "jira", "search"), denied(ago=2)
    assert tailed(mara, outcome="permission_denied") == [str(other.pk)]
    assert tailed(mara, agent="writer") == [str(own.pk)]
    User.objects.get(username="olga").groups.clear()
    assert tailed(signed_in("olga")) == [str(own.pk)]
    page = mara.get(LIST, {"agent": "writer"})
    assert page.context["tail_url"] == f"{TAIL}?agent=writer"
    for query in ({"before": "x"}, {"after": "x"}, {"until": "2026-01-01T00:00"}):
        assert mara.get(LIST, query).context["tail_url"] == ""


def test_each_question_of_the_tail_is_one_bounded_query(mara: Client) -> None:
    for ago in range(60):
        denied(ago=ago)
    with CaptureQueriesContext(connection) as seen:
        answer = tail(mara)
    asked = [one["sql"] for one in seen if "nhi_invocation_log" in one["sql"]]
    assert len(asked) == 1
    assert 'timestamp" >=' in asked[0]
    assert "LIMIT 51" in asked[0]
    assert len(answer.context["rows"]) == 50
    assert "data-full" in answer.content.decode()


def test_an_auditors_tail_is_on_record_when_it_shows_something(signed_in: SignedIn) -> None:
    ada = signed_in("ada")
    call()
    opened = AuditEvent.objects.filter(event="page.opened", subject_name="New calls")
    seen = tail(ada).context["seen"]
    assert opened.count() == 1
    for _ in range(3):
        assert tail(ada, seen=seen).status_code == 204
    assert opened.count() == 1


def live(visitor: Visitor, path: str = LIST) -> Page:
    page = visitor.settled(path)
    with page.expect_response(lambda answer: "/tail/" in answer.url):
        page.get_by_role("button", name="Live tail: off").click()
    return page


@pytest.mark.browser
def test_a_new_call_comes_by_itself_and_at_its_place(visit: Visit) -> None:
    mara = visit("mara")
    old, lease = call(ago=30), flight(ago=8)
    page = live(mara)
    rows = page.locator("[data-list] tbody [data-row]")
    expect(rows).to_have_count(2, timeout=SOON)
    new = denied(ago=1)
    expect(link_of(page, new)).to_be_visible(timeout=SOON)
    late = call(ago=20)
    expect(link_of(page, late)).to_be_visible(timeout=SOON)
    hrefs = "rows => rows.map(row => row.querySelector('[data-open]')?.pathname.split('/').at(-2) || '')"
    assert rows.evaluate_all(hrefs) == ["", str(new.pk), str(late.pk), str(old.pk)]
    expect(page.get_by_role("status").filter(has_text=re.compile("^Live since .*: 2 calls came.$"))).to_be_visible(
        timeout=SOON
    )
    ended = InvocationLog(**invocations.end(invocations.from_json(lease.row), status="success", duration=5000.0))
    lease.delete()
    ended.save()
    expect(link_of(page, ended)).to_be_visible(timeout=SOON)
    assert rows.evaluate_all(hrefs) == [str(new.pk), str(ended.pk), str(late.pk), str(old.pk)]
    page.get_by_role("button", name="Live tail: on").click()
    expect(page.get_by_role("button", name="Live tail: off")).to_be_visible(timeout=SOON)
    expect(page.locator("[data-tail-bar]")).to_be_hidden(timeout=SOON)
    assert not mara.complaints


@pytest.mark.browser
def test_new_calls_wait_while_one_reads_the_table(visit: Visit) -> None:
    mara = visit("mara")
    old = call(ago=30)
    page = live(mara)
    link_of(page, old).focus()
    new = [denied(ago=3), denied(ago=2)]
    page.get_by_role("button", name="2 new, show").wait_for()
    expect(link_of(page, new[0])).to_have_count(0, timeout=SOON)
    expect(link_of(page, old)).to_be_focused(timeout=SOON)
    page.get_by_role("button", name="2 new, show").click()
    expect(link_of(page, new[0])).to_be_visible(timeout=SOON)
    expect(page.get_by_role("button", name="Live tail: on")).to_be_focused(timeout=SOON)
    expect(page.locator("[data-tail-show]")).to_be_hidden(timeout=SOON)
    assert not mara.complaints


@pytest.mark.browser
def test_more_than_an_answer_holds_leads_to_the_page_itself(visit: Visit) -> None:
    mara = visit("mara")
    call(ago=600)
    page = live(mara)
    link_of(page, InvocationLog.objects.get()).focus()
    with transaction.atomic():
        made = [denied(ago=1 + number / 100) for number in range(60)]
    page.get_by_role("button", name="Many new, show the newest").click()
    expect(link_of(page, made[30])).to_be_visible(timeout=SOON)
    expect(page.get_by_role("button", name="Live tail: on")).to_be_visible(timeout=SOON)


@pytest.mark.browser
def test_a_list_without_rows_offers_the_first_one(visit: Visit) -> None:
    mara = visit("mara")
    page = live(mara)
    new = call(ago=1)
    page.get_by_role("button", name="1 new, show").click()
    expect(link_of(page, new)).to_be_visible(timeout=SOON)


@pytest.mark.browser
def test_a_tail_that_breaks_says_since_when_and_goes_on_by_itself(visit: Visit) -> None:
    mara = visit("mara")
    call(ago=30)
    page = live(mara)
    page.route("**/tail/**", lambda route: route.abort())
    status = page.locator("[data-tail-said]")
    expect(status).to_have_text(re.compile(r"^Paused \d\d:\d\d:\d\d, reconnecting$"), timeout=SOON)
    expect(page.locator("[data-list][data-stale]")).to_be_visible(timeout=SOON)
    assert not violations(page)
    page.unroute("**/tail/**")
    new = call(ago=1)
    expect(link_of(page, new)).to_be_visible(timeout=SOON)
    expect(status).to_have_text(re.compile("^Live again since"), timeout=SOON)
    expect(page.locator("[data-stale]")).to_have_count(0, timeout=SOON)


@pytest.mark.browser
def test_a_tail_ends_with_the_session_and_rests_while_nobody_looks(visit: Visit) -> None:
    mara = visit("mara")
    call(ago=30)
    page = live(mara)
    hide = "is => { Object.defineProperty(document, 'hidden', { value: is, configurable: true });"
    hide += " document.dispatchEvent(new Event('visibilitychange')); }"
    page.evaluate(hide, True)
    before = len(mara.requests)
    page.wait_for_timeout(3000)
    assert len(mara.requests) == before
    page.context.clear_cookies()
    with page.expect_response(lambda answer: "/tail/" in answer.url):
        page.evaluate(hide, False)
    expect(page.locator("[data-tail-said]")).to_have_text(
        re.compile("^Stopped .* Load it again to sign in"), timeout=SOON
    )
    expect(page.get_by_role("button", name="Live tail: off")).to_be_visible(timeout=SOON)


@pytest.mark.browser
@pytest.mark.parametrize("options", [{}, {"viewport": NARROW, "color_scheme": "dark"}], ids=["light", "narrow, dark"])
def test_the_tail_is_accessible_and_fits(visit: Visit, options: dict[str, Any]) -> None:
    mara = visit("mara", **options)
    old = call(ago=30)
    page = live(mara)
    link_of(page, old).focus()
    denied(ago=1)
    page.get_by_role("button", name="1 new, show").wait_for()
    assert not violations(page)
    page.get_by_role("button", name="1 new, show").click()
    assert page.evaluate("document.documentElement.scrollWidth === innerWidth")
    assert not mara.complaints
