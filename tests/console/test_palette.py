"""The palette: what one may see and do, exactly by id, asked anew each time."""

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from nhi.actors import SYSTEM
from nhi.credentials import credentials
from nhi.models import AuditEvent
from tests.console.conftest import BACKEND, SignedIn, Visit, hub, identity
from tests.nhi.cast import agent, user, user_grant

pytestmark = pytest.mark.capability("CON-06")


def found(client: Client, term: str) -> dict[str, list[str]]:
    groups = client.get("/admin/search/", {"s": term}).context["groups"]
    return {group.title: [hit.title for hit in group.hits] for group in groups}


def test_without_a_term_it_offers_the_pages(mara: Client) -> None:
    assert {"Home", "All identities"} <= set(found(mara, "")["Pages"])


def test_names_that_begin_with_it_come_first_and_six_at_most(mara: Client) -> None:
    for number in range(8):
        agent(f"a-deploy-{number}")
    hits = found(mara, "deploy")["Objects"]
    assert hits[0] == "deploy-bot"
    assert len(hits) <= 12


def test_a_name_offers_its_verbs_and_a_verb_offers_its_objects(mara: Client) -> None:
    assert found(mara, "deploy-bot")["Verbs"] == [
        "Stop deploy-bot now…",
        "Give deploy-bot access…",
        "Issue a credential for deploy-bot…",
        "Why may deploy-bot call…",
    ]
    assert found(mara, "stop triage")["Verbs"] == ["Stop triage-bot now…"]
    assert found(mara, "activate old")["Verbs"] == ["Activate old-scraper…"]
    assert len(found(mara, "stop")["Verbs"]) == 6


def test_a_name_leads_to_the_thing_before_what_can_be_done_to_it(mara: Client) -> None:
    assert list(found(mara, "deploy-bot")) == ["Objects", "Verbs"]
    assert next(iter(found(mara, "stop deploy-bot"))) == "Verbs"


@pytest.mark.parametrize(
    ("term", "first"),
    [
        ("add agent", "Add an agent…"),
        ("add an agent please", "Add an agent…"),
        ("add identity", "Add an agent…"),
        ("register", "Add an agent…"),
        ("new tool", "Add a tool…"),
        ("create person", "Add a person…"),
        ("assign role", "Assign a role…"),
        ("assign role to writer", "Assign a role to writer…"),
        ("assign writer", "Assign a role to writer…"),
        ("rotate deploy-bot", "Rotate a credential of deploy-bot…"),
        ("revoke deploy-bot token", "Revoke a credential of deploy-bot…"),
        ("give deploy-bot access", "Give deploy-bot access…"),
        ("give deploy-bot github.read", "Give deploy-bot access…"),
        ("deploy-bot stop", "Stop deploy-bot now…"),
        ("give", "Give access…"),
    ],
)
def test_what_one_wants_to_do_is_found_in_ones_own_words(mara: Client, term: str, first: str) -> None:
    assert found(mara, term)["Verbs"][0] == first


def test_a_verb_alone_offers_whom_it_could_be_for(mara: Client) -> None:
    for verb in ("rotate", "revoke"):
        assert found(mara, verb)["Verbs"]


def test_people_are_found_by_who_may_open_their_pages(signed_in: SignedIn) -> None:
    assert found(signed_in("mara"), "olga")["Objects"] == ["olga"]
    assert found(signed_in("olga"), "mara") == {}


def test_a_verb_is_not_offered_where_its_page_would_refuse(signed_in: SignedIn) -> None:
    assert "Verbs" not in found(signed_in("olga"), "rotate deploy-bot")
    assert "Verbs" not in found(signed_in("ada"), "add agent")


def test_an_auditor_finds_objects_and_no_verbs(signed_in: SignedIn) -> None:
    hits = found(signed_in("ada"), "deploy-bot")
    assert "Verbs" not in hits
    assert hits["Objects"] == ["deploy-bot"]


def test_ids_lead_straight_there(mara: Client) -> None:
    one = identity()
    public_id = credentials.issue(actor=SYSTEM, holder=one).credential.public_id
    assert found(mara, str(one.pk))["Ids"] == ["deploy-bot"]
    assert found(mara, public_id)["Ids"] == [f"Credential …{public_id[-4:]} of deploy-bot"]
    request_id = AuditEvent.objects.filter(event="identity.created").values_list("request_id", flat=True)[0]
    assert found(mara, str(request_id))["Ids"] == [f"Request {request_id}"]


def test_what_was_taken_away_is_gone_at_once(db: None, client: Client) -> None:
    eve = user("eve", "operator")
    one = agent("secret-bot")
    grant = user_grant(one, eve)
    eve.groups.clear()
    client.force_login(eve, backend=BACKEND)
    assert found(client, "secret")["Objects"] == ["secret-bot"]
    type(grant).objects.filter(pk=grant.pk).update(expires_at=grant.created_at)
    assert found(client, "secret") == {}


@pytest.mark.parametrize("term", ["deploy", "stop d", "nothing-like-this", "01a1ee5e-6f92-771d-8d80-4582557b7411"])
def test_it_takes_eight_queries_at_most(mara: Client, term: str) -> None:
    mara.get("/admin/")
    with CaptureQueriesContext(connection) as queries:
        mara.get("/admin/search/", {"s": term})
    assert len(queries) <= 8 + 3, [query["sql"] for query in queries]  # session, person and rights come before it


@pytest.mark.browser
def test_a_pasted_token_is_cut_to_its_public_id_before_anything_is_sent(visit: Visit) -> None:
    issued = credentials.issue(actor=SYSTEM, holder=identity())
    mara = visit()
    mara.open("/admin/")
    mara.find(issued.token)
    mara.page.get_by_role("option", name=f"Credential …{issued.credential.public_id[-4:]} of deploy-bot").wait_for()
    secret = issued.token.rpartition("_")[2]
    assert not [url for url in mara.requests if secret in url]
    assert mara.page.get_by_role("combobox", name="Find or do").input_value() == issued.credential.public_id


@pytest.mark.browser
def test_arrows_choose_enter_opens_and_escape_gives_the_focus_back(visit: Visit) -> None:
    mara = visit()
    page = mara.page
    mara.open("/admin/nhi/identity/")
    page.get_by_role("button", name="Find or do").click()
    box = page.get_by_role("combobox", name="Find or do")
    box.fill("deploy")
    page.get_by_role("option", name="deploy-bot Agent, active").wait_for()
    page.keyboard.press("ArrowDown")
    chosen = box.get_attribute("aria-activedescendant")
    assert page.locator(f"#{chosen}").get_attribute("aria-selected") == "true"
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.matches('[data-palette]')")
    mara.find("deploy")
    page.get_by_role("option", name="Stop deploy-bot now…").wait_for()
    page.keyboard.press("Enter")
    page.wait_for_url(f"**{hub()}")
    mara.find("stop deploy")
    page.get_by_role("option", name="Stop deploy-bot now…").wait_for()
    page.keyboard.press("Enter")
    page.wait_for_url("**/stop/")
    assert page.evaluate("document.activeElement.closest('[data-dialog-form]') !== null")
