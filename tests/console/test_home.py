"""Home: what needs this person, what they own, what was changed, and the first steps of a new house."""

import pytest
from django.core.cache import cache
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from nhi.access import roles
from nhi.actors import SYSTEM
from nhi.console import attention_counts
from nhi.identities import lifecycle
from nhi.models import User
from tests.console.conftest import BACKEND, SignedIn, hub, identity
from tests.nhi.cast import acting, agent, tool, tool_grant, user

pytestmark = pytest.mark.capability("CON-02", "CON-05")


def cards(client: Client) -> list[str]:
    return [card["words"] for card in client.get("/admin/").context["cards"]]


def test_an_admin_sees_what_waits_for_anyone_and_an_owner_what_is_theirs(signed_in: SignedIn) -> None:
    assert "1 identity ends within 7 days" in cards(signed_in("mara"))
    assert "1 identity is suspended" in cards(signed_in("tom"))
    assert "1 identity ends within 7 days" in cards(signed_in("olga"))
    assert "1 identity is suspended" not in cards(signed_in("olga"))


def test_nothing_needs_who_can_only_read(signed_in: SignedIn) -> None:
    page = signed_in("ada").get("/admin/")
    assert page.context["cards"] == []
    assert "Needs you" not in page.content.decode()


def test_an_agent_can_always_be_added_from_home_by_who_may(signed_in: SignedIn) -> None:
    for username, labels in (("mara", ["Add agent"]), ("tom", []), ("ada", [])):
        page = signed_in(username).get("/admin/")
        assert [control.label for control in page.context["controls"]] == labels


def test_a_wildcard_waits_for_somebody_else_than_who_asked(db: None, client: Client) -> None:
    roles.create(actor=acting("mara", "security-admin"), name="break-glass", patterns=["*.*"])
    for name, waits in (("mara", []), ("nora", ["1 role wildcard waits for your approval"])):
        client.force_login(user(name, "security-admin"), backend=BACKEND)
        assert cards(client) == waits


def test_everything_is_counted_in_one_statement_and_up_to_a_bound(db: None) -> None:
    owner = user("mara", "security-admin")
    reached = tool()
    for number in range(3):
        one = agent(f"bot-{number}", owner=owner)
        tool_grant(one, reached)
        lifecycle.suspend(actor=SYSTEM, identity=one, reason="Test")
    with CaptureQueriesContext(connection) as queries:
        found = attention_counts.count_items(acting("mara"))
    assert found["suspended"] == 3
    assert len(queries) - 2 <= 1 + 2  # the person and their rights come before it
    assert attention_counts.all_items()[0].said(100, SYSTEM).startswith("99+")


def test_counts_are_kept_for_a_few_seconds_a_person(mara: Client) -> None:
    before = cards(mara)
    lifecycle.suspend(actor=SYSTEM, identity=identity("planner"), reason="Test")
    assert cards(mara) == before
    cache.clear()
    assert "2 identities are suspended" in cards(mara)


def test_my_agents_lead_to_how_they_connect(signed_in: SignedIn) -> None:
    page = signed_in("olga").get("/admin/")
    assert [one.name for one in page.context["mine"]] == ["writer"]
    assert f'href="{hub("writer", "connect/")}"' in page.content.decode()


def test_changes_read_as_sentences_with_names_of_their_time(mara: Client) -> None:
    lifecycle.suspend(actor=SYSTEM, identity=identity(), reason="Leaked token")
    first = mara.get("/admin/").context["recent"][0]
    assert first.text == "Gatehouse suspended deploy-bot"
    assert hub() in first.html
    assert "Leaked token" in mara.get("/admin/").content.decode()


def test_the_first_steps_tick_themselves(db: None, client: Client) -> None:
    client.force_login(user("mara", "security-admin"), backend=BACKEND)
    page = client.get("/admin/")
    assert page.context["first_run"]
    assert [step.done for step in page.context["steps"]] == [False] * 6
    assert "Needs you" not in page.content.decode()
    one, other = agent(), tool()
    tool_grant(one, other)
    page = client.get("/admin/")
    assert [step.done for step in page.context["steps"]] == [True, False, False, False, True, False]
    assert not page.context["first_run"]


def test_first_steps_are_for_who_can_take_them(db: None, client: Client) -> None:
    for role in ("auditor", "operator", "approver"):
        client.force_login(user(f"some-{role}", role), backend=BACKEND)
        assert client.get("/admin/").context["steps"] == []


def test_who_may_not_see_credentials_is_not_told_that_there_are_none(signed_in: SignedIn) -> None:
    olga = signed_in("olga")
    assert User.objects.get(username="olga") != identity().owner
    assert "Credentials" not in [tab.label for tab in olga.get(hub()).context["tabs"]]
    for tab in ("credentials/", "connect/"):
        assert olga.get(hub(tab=tab)).status_code == 403
        assert olga.get(hub("writer", tab)).status_code == 200
