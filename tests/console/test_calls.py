"""The log of calls at the console: found fast, opened whole, exported safely, and nobody's to change."""

import csv
import io
import json
from typing import Any

import pytest
from django.core.cache import cache
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from nhi.models import AuditEvent, Identity, InvocationLog, User
from tests.console.axe import violations
from tests.console.call_log import EXPORT, LIST
from tests.console.calling import call, denied, flight, registered
from tests.console.conftest import NARROW, SignedIn, Visit, hub, identity
from tests.console.reading import text

pytestmark = pytest.mark.capability("AUD-02", "CON-05")


def shown(client: Client, **query: str) -> list[Any]:
    """The ids of the rows that the list shows."""
    answer = client.get(LIST, query)
    assert answer.status_code == 200
    return [row["id"] for row in answer.context_data["rows"]]


def test_each_call_is_a_line_newest_first_with_what_became_of_it(mara: Client) -> None:
    older, newer = call(ago=120, end={"redaction_applied": True}), denied(ago=5)
    assert shown(mara) == [str(newer.pk), str(older.pk)]
    page = text(mara, LIST)
    assert "github.create_issue" in page
    assert "Denied" in page
    assert '<code class="gh-subtle">no_grant</code>' in page
    assert "redacted" in page
    assert f"{newer.timestamp:%H:%M:%S}.{newer.timestamp.microsecond // 1000:03d} UTC" in page


def test_without_a_word_about_time_it_is_the_last_day(mara: Client) -> None:
    young, old = call(), call(ago=25 * 3600)
    assert shown(mara) == [str(young.pk)]
    assert shown(mara, span="24h") == [str(young.pk)]
    assert shown(mara, span="7d") == shown(mara, span="all") == [str(young.pk), str(old.pk)]
    assert shown(mara, span="1h", agent="deploy-bot") == [str(young.pk)]
    assert shown(mara, find=str(old.pk)) == [str(old.pk)]


def test_it_is_narrowed_by_each_of_its_filters(mara: Client) -> None:
    registered()
    first = denied(ago=50)
    second = call("triage-bot", "jira", "search", ago=40, end={"duration": 1500.0})
    third = call(status="error", ago=30, end={"reason": "timeout", "error_message": "No answer."})
    expected: list[tuple[dict[str, str], list[InvocationLog]]] = [
        ({"agent": "triage-bot"}, [second]),
        ({"agent": str(identity().pk)}, [third, first]),
        ({"agent": "nobody"}, []),
        ({"server": "jira"}, [second]),
        ({"tool": "jira__search"}, [second]),
        ({"tool": "github.create_issue"}, [third, first]),
        ({"tool": "create_issue"}, [third, first]),
        ({"outcome": "permission_denied"}, [first]),
        ({"outcome": "permission_denied:no_grant"}, [first]),
        ({"outcome": "permission_denied:grant_expired"}, []),
        ({"outcome": "error:timeout"}, [third]),
        ({"slower": "1000"}, [second]),
        ({"slower": "nan"}, []),
        ({"owner": "tom"}, [second]),
        ({"find": str(third.request_id)}, [third]),
        ({"find": "triage"}, [second]),
        ({"find": "create_is"}, [third, first]),
        ({"find": "githu"}, [third, first]),
        ({"find": "nothing-of-this"}, []),
    ]
    for query, rows in expected:
        assert shown(mara, **query) == [str(row.pk) for row in rows], query


def test_a_filter_whose_value_says_nothing_is_named(mara: Client) -> None:
    row = call()
    wrong = {"span": "a year", "outcome": "permission_denied:maybe", "slower": "fast", "since": "yesterday"}
    said = mara.get(LIST, wrong).context["misread"]
    assert [one.partition(":")[0] for one in said] == ["Time", "From", "Outcome", "Slower than (ms)"]
    page = mara.get(LIST, {"outcome": "permission_denied:maybe"})
    assert "Outcome: permission_denied:maybe is not known here, so this filter is left out." in page.content.decode()
    assert [one["id"] for one in page.context["rows"]] == [str(row.pk)]
    fine = {"span": "24h", "outcome": "error:timeout", "slower": "1.5", "since": "2026-11-18T10:00"}
    assert mara.get(LIST, fine).context["misread"] == []


def test_tokens_that_do_not_hold_are_said_to_be_counted_elsewhere(mara: Client, signed_in: SignedIn) -> None:
    where = "/admin/nhi/refusedauthentication/"
    assert f'<a href="{where}">Refused tokens</a>' in text(mara, LIST)
    assert f'<a href="{where}">Refused tokens</a>' in text(mara, f"{LIST}?agent=deploy-bot")
    assert f'<a href="{where}">Refused tokens</a>' not in text(signed_in("olga"), LIST)
    offered = dict(mara.get(LIST).context["listing"].drawn[6].options)
    assert "permission_denied:no_grant" in offered
    assert "error:revoked_in_flight" in offered
    assert not [value for value in offered if "caller_" in value or "credential_" in value or "token_" in value]
    call()
    assert "Refused tokens" not in text(mara, LIST)


def test_its_views_are_denied_errors_slow_and_mine(mara: Client) -> None:
    call()
    views = {tab.label: tab.url for tab in mara.get(LIST).context_data["views"]}
    assert list(views) == ["All", "Denied", "Errors", "Rate limited", "Slow", "Mine"]
    for url in views.values():
        assert mara.get(LIST + url).status_code == 200
    assert mara.get(LIST + views["Mine"]).context_data["rows"]


def test_pages_go_by_time_and_are_never_counted(mara: Client) -> None:
    made = [call(ago=number) for number in range(1, 56)]
    with CaptureQueriesContext(connection) as seen:
        page = mara.get(LIST)
    counted = [one["sql"] for one in seen if "COUNT(" in one["sql"] and "nhi_invocation_log" in one["sql"]]
    assert not [sql for sql in counted if "GROUP BY" not in sql]
    assert len(page.context_data["rows"]) == 50
    rest = shown(mara, before=page.context_data["keyset"].older)
    assert rest == [str(row.pk) for row in made[50:]]


def test_calls_under_way_stand_above_the_first_page(mara: Client, signed_in: SignedIn) -> None:
    ended, going = call(), flight()
    assert shown(mara) == [str(going.pk), str(ended.pk)]
    assert "In flight" in text(mara, LIST)
    assert shown(mara, outcome="permission_denied") == []
    assert shown(mara, agent="triage-bot") == []
    assert shown(mara, agent="deploy-bot", tool="github__create_issue") == [str(going.pk), str(ended.pk)]


def test_a_call_under_way_leads_to_what_stops_its_agent(mara: Client, signed_in: SignedIn) -> None:
    flight()
    stop = hub(tab="stop/")
    for path in (LIST, hub(tab="activity/")):
        assert f'href="{stop}" data-dialog' in text(mara, path), path
        assert stop not in text(signed_in("ada"), path), path
    assert "Ends 1 call" in text(mara, stop)
    Identity.objects.update(backup_owner=None)
    assert stop not in text(signed_in("tom"), LIST)


def test_owners_see_the_calls_of_theirs_and_nobody_elses(seeded: None, signed_in: SignedIn) -> None:
    Identity.objects.update(backup_owner=None)
    own, other = call("writer", "jira", "search"), call()
    flight()
    User.objects.get(username="olga").groups.clear()
    olga = signed_in("olga")
    assert shown(olga) == [str(own.pk)]
    assert olga.get(f"{LIST}{own.pk}/").status_code == 200
    assert olga.get(f"{LIST}{other.pk}/").status_code == 404
    assert olga.get(LIST, {"find": str(other.pk)}).context_data["rows"] == []


def test_names_that_callers_made_up_are_shown_with_their_hidden_marks(mara: Client) -> None:
    made_up = {"server": "git\u200bhub", "tool": "list\u202eecalper"}
    row = call(**made_up, ago=10)
    other = denied(**made_up, ago=5)
    raw = ("git\u200bhub", "list\u202e")
    paths = (
        LIST, f"{LIST}{row.pk}/", hub(tab="activity/"), hub(tab="connect/"), f"/admin/search/?s={row.pk}",
        "/admin/charts/",
    )  # fmt: skip
    for path in paths:
        page = text(mara, path)
        assert not any(name in page for name in raw), path
        assert "U+202E" in page, path
    assert "git[U+200B]hub" in mara.get(f"{LIST}{other.pk}/").context["title"]


def test_a_page_of_calls_asks_little(mara: Client) -> None:
    registered()
    rows = [denied(ago=number) for number in range(1, 60)]
    for path, most in ((LIST, 12), (f"{LIST}?find=github&tool=create_issue&agent=deploy-bot", 15)):
        cache.clear()
        with CaptureQueriesContext(connection) as seen:
            text(mara, path)
        assert len(seen) <= most, path
    cache.clear()
    with CaptureQueriesContext(connection) as seen:
        text(mara, f"{LIST}{rows[9].pk}/")
    assert len(seen) <= 17


def test_a_pasted_id_leads_to_the_call_or_to_its_request(mara: Client) -> None:
    row = call()
    groups = mara.get("/admin/search/", {"s": str(row.pk)}).context["groups"]
    assert groups[-1].hits[0].url == f"{LIST}{row.pk}/"
    call(request_id=row.request_id)
    groups = mara.get("/admin/search/", {"s": str(row.request_id)}).context["groups"]
    assert groups[-1].hits[0].url == f"{LIST}?find={row.request_id}"


#: Higher apps have tabs of their own between these.
WITH_CALLS = ["Overview", "Access", "Credentials", "Connect", "Activity", "Runs", "Changes"]


def test_an_identitys_page_has_its_calls_and_where_it_connects_its_last_refusals(mara: Client) -> None:
    made, other, refused = call(), call("triage-bot", "jira", "search"), denied()
    going = flight()
    page = text(mara, hub(tab="activity/"))
    assert str(made.pk) in page
    assert str(refused.pk) in page
    assert str(other.pk) not in page
    assert "In flight" in page
    assert str(going.pk) not in page
    assert str(made.pk) not in text(mara, hub(tab="activity/?outcome=permission_denied"))
    assert str(other.pk) in text(mara, hub("jira__search", "activity/"))
    connect = text(mara, hub(tab="connect/"))
    assert "deploy-bot has no grant for it." in connect
    assert "Give deploy-bot access to github.create_issue" in connect
    labels = [tab.label for tab in mara.get(hub()).context["tabs"]]
    assert [one for one in labels if one in WITH_CALLS] == WITH_CALLS


def test_the_export_streams_what_the_filters_leave_and_goes_on_record(mara: Client) -> None:
    call()
    row = denied(end={"reason": "no_grant", "error_message": "=HYPERLINK(1)"})
    answer = mara.post(f"{EXPORT}?outcome=permission_denied", {"format": "csv"})
    lines = list(csv.DictReader(io.StringIO(b"".join(answer.streaming_content).decode())))
    assert [line["id"] for line in lines] == [str(row.pk)]
    assert lines[0]["error_message"] == "'=HYPERLINK(1)"
    answer = mara.post(EXPORT, {"format": "jsonl"})
    whole = [json.loads(line) for line in b"".join(answer.streaming_content).decode().splitlines()]
    assert len(whole) == 2
    assert whole[0]["row_mac"]
    assert AuditEvent.objects.filter(event="export.made", subject_name="calls").count() == 2


def test_an_auditor_reads_the_log_and_takes_it_by_link(signed_in: SignedIn) -> None:
    ada = signed_in("ada")
    row = call()
    assert shown(ada) == [str(row.pk)]
    assert "Save this view" not in text(ada, f"{LIST}?agent=deploy-bot")
    assert ada.get(EXPORT, {"format": "csv"}).headers["Content-Type"].startswith("text/csv")
    assert ada.post(EXPORT, {"format": "csv"}).status_code == 403


@pytest.mark.browser
@pytest.mark.parametrize("options", [{}, {"viewport": NARROW, "color_scheme": "dark"}], ids=["light", "narrow, dark"])
def test_log_and_call_are_accessible_and_fit(visit: Visit, options: dict[str, Any]) -> None:
    mara = visit("mara", **options)
    row = denied()
    call(end={"duration": 40.0, "details": {"decide_ms": 1.0, "upstream_ms": 30.0}})
    flight()
    for path in (LIST, f"{LIST}{row.pk}/", EXPORT, hub(tab="activity/"), hub(tab="connect/")):
        mara.settled(path)
        assert not violations(mara.page), path
        assert mara.page.evaluate("document.documentElement.scrollWidth === innerWidth"), path
    assert not mara.complaints
