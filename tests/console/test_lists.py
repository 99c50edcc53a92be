"""Lists: search, filters, order, chips, views, bulk, export, and what they say when they are empty."""

import csv
import io

import pytest
from django.test import Client

from nhi.choices import State
from nhi.models import AuditEvent, Identity, SavedView, User
from tests.console.conftest import BACKEND, SignedIn, identity
from tests.nhi.cast import agent, user

pytestmark = pytest.mark.capability("CON-05")
LIST = "/admin/nhi/identity/"


def names(client: Client, query: str = "") -> list[str]:
    return [row["name"] for row in client.get(LIST + query).context["rows"]]


def test_search_and_filters_narrow_the_list_and_stand_above_it_as_chips(mara: Client) -> None:
    page = mara.get(f"{LIST}?kind=agent&q=bot&environment=PROD")
    assert [row["name"] for row in page.context["rows"]] == ["deploy-bot", "triage-bot"]
    html = page.content.decode()
    assert "Kind: Agent" in html
    assert "Search: bot" in html
    assert "Environment: PROD" in html
    assert "Clear" in html


@pytest.mark.parametrize(
    ("query", "some"),
    [
        ("?state=suspended", {"old-scraper"}),
        ("?ends=7", {"writer"}),
        ("?team=research", {"old-scraper"}),
        ("?tag=staging", {"writer"}),
        ("?owner=olga&kind=agent", {"writer"}),
        ("?unused=30&kind=service_account", {"nightly-report", "ci"}),
    ],
)
def test_each_filter(mara: Client, query: str, some: set[str]) -> None:
    assert set(names(mara, query)) == some


def test_the_order_is_the_one_that_was_asked_for_and_nothing_else(mara: Client) -> None:
    assert names(mara, "?sort=-name") == sorted(names(mara), reverse=True)
    assert names(mara, "?sort=owner__password") == names(mara)


def test_an_unknown_value_of_a_filter_filters_nothing(mara: Client) -> None:
    assert names(mara, "?state=nonsense&page=99999") == names(mara)


@pytest.mark.parametrize(
    ("who", "query", "words"),
    [
        ("mara", "?q=nobody-has-this-name&kind=agent", "Nothing matches the search and this filter"),
        ("mara", "?state=archived", "Nothing matches this filter"),
    ],
)
def test_an_empty_list_says_why(signed_in: SignedIn, who: str, query: str, words: str) -> None:
    assert words in signed_in(who).get(LIST + query).content.decode()


def test_an_empty_register_teaches(db: None, client: Client) -> None:
    client.force_login(user("mara", "security-admin"), backend=BACKEND)
    html = client.get(LIST).content.decode()
    assert "Nothing here yet" in html
    assert "Add agent" in html
    assert "api/nhi/identities" in html


def test_a_view_is_saved_shared_shown_as_a_tab_and_removed(signed_in: SignedIn) -> None:
    mara, tom = signed_in("mara"), signed_in("tom")
    query = "kind=agent&state=active"
    saved = mara.post(
        f"/admin/nhi/savedview/nhi_identity_changelist/add/?{query}", {"name": "Live agents", "shared": "on"}
    )
    assert saved.status_code == 302
    assert query in saved["Location"]
    view = SavedView.objects.get(name="Live agents")
    for client in (mara, tom):
        tabs = client.get(f"{LIST}?{query}").context["views"]
        assert [tab.label for tab in tabs if tab.current] == ["Live agents"]
    remove = f"/admin/nhi/savedview/{view.pk}/remove/"
    assert tom.post(remove).status_code == 404
    assert mara.post(remove).status_code == 302
    assert not SavedView.objects.exists()
    assert set(AuditEvent.objects.filter(event__startswith="saved_view").values_list("event", flat=True)) == {
        "saved_view.created",
        "saved_view.removed",
    }


def test_the_export_keeps_the_filter_is_on_record_and_holds_no_formula(mara: Client) -> None:
    Identity.objects.filter(name="deploy-bot").update(team="=HYPERLINK(1)")
    answer = mara.post(f"{LIST}?kind=agent", {"export": "csv"})
    rows = list(csv.DictReader(io.StringIO(answer.content.decode())))
    assert {row["Name"] for row in rows} == set(Identity.objects.filter(kind="agent").values_list("name", flat=True))
    assert next(row for row in rows if row["Name"] == "deploy-bot")["Team"] == "'=HYPERLINK(1)"
    event = AuditEvent.objects.get(event="export.made")
    assert event.details == {"rows": len(rows), "query": "kind=agent"}


def test_only_who_may_export_does(signed_in: SignedIn) -> None:
    olga = signed_in("olga")
    assert "Export CSV" not in olga.get(LIST).content.decode()
    assert olga.post(LIST, {"export": "csv"}).status_code == 403
    # An auditor changes nothing, not by a POST either: for them the same file comes by a link.
    assert signed_in("ada").get(f"{LIST}?export=csv")["Content-Type"].startswith("text/csv")


def test_bulk_suspend_counts_first_then_says_what_became_of_each(mara: Client) -> None:
    chosen = [identity(name) for name in ("deploy-bot", "triage-bot", "old-scraper")]
    url = "/admin/nhi/identity/bulk/suspend/?" + "&".join(f"id={one.pk}" for one in chosen)
    dialog = mara.get(url)
    html = dialog.content.decode()
    assert "Suspend 2 identities" in html
    assert "old-scraper: is suspended" in html
    seen = dialog.context["seen"]
    done = mara.post(url, {"reason": "Leaked token", "seen": seen})
    results = {item.name: item.result for item in done.context["results"]}
    assert results == {"deploy-bot": "done", "triage-bot": "done", "old-scraper": "skipped"}
    assert identity("deploy-bot").state == State.SUSPENDED


def test_bulk_reassigns_and_tags_through_the_verb(mara: Client) -> None:
    chosen = "&".join(f"id={identity(name).pk}" for name in ("deploy-bot", "planner"))
    olga = User.objects.get(username="olga")
    assert mara.post(f"/admin/nhi/identity/bulk/owner/?{chosen}", {"owner": "olga"}).status_code == 200
    assert mara.post(f"/admin/nhi/identity/bulk/tag/?{chosen}", {"tags": "q4, critical"}).status_code == 200
    for name in ("deploy-bot", "planner"):
        assert identity(name).owner == olga
        assert {"q4", "critical"} <= set(identity(name).tags)
        assert AuditEvent.objects.filter(event="identity.changed", subject_name=name).count() == 2


def test_more_than_twenty_must_be_typed(mara: Client) -> None:
    many = [agent(f"bulk-{number}") for number in range(21)]
    url = "/admin/nhi/identity/bulk/suspend/?" + "&".join(f"id={one.pk}" for one in many)
    seen = mara.get(url).context["seen"]
    refused = mara.post(url, {"reason": "Leaked token", "seen": seen})
    assert refused.status_code == 422
    assert not Identity.objects.filter(name__startswith="bulk-", state=State.SUSPENDED).exists()
    done = mara.post(url, {"reason": "Leaked token", "seen": seen, "typed": "21"})
    assert done.status_code == 200
    assert Identity.objects.filter(name__startswith="bulk-", state=State.SUSPENDED).count() == 21


def test_names_link_to_the_hub_and_ids_are_not_shown(mara: Client) -> None:
    html = mara.get(LIST).content.decode()
    one = identity("deploy-bot")
    assert f'href="/admin/nhi/identity/{one.pk}/"' in html
    assert f">{one.pk}<" not in html
