"""The live tail of the log of calls: new ones as they come, while one looks."""

import re
from typing import Any

import pytest
from django.db import connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext
from playwright.sync_api import Page, expect

from nhi.audit import invocations
from nhi.models import AuditEvent, Identity, InvocationLog, User
from tests.console.axe import violations
from tests.console.call_log import LIST, PART, TAIL, link_of
from tests.console.calling import call, denied, flight
from tests.console.conftest import NARROW, SignedIn, Visit, Visitor

pytestmark = pytest.mark.capability("AUD-02", "CON-05", "CON-06")
#: A question every two seconds, on a machine that may have much to do.
SOON = 15_000


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
