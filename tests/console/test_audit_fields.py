"""What changed is said wherever a change is told, and what changed nothing is no event."""

from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from mcp.models import Server
from mcp.servers import lifecycle
from nhi.actors import SYSTEM
from nhi.audit import events
from nhi.audit.event_catalogue import EVENTS
from nhi.console import event_sentences
from nhi.identities import identities
from nhi.models import AuditEvent, User
from nhi.people import people
from tests.console.calling import registered
from tests.console.conftest import identity

pytestmark = [pytest.mark.capability("AUD-01", "CON-05"), pytest.mark.django_db]
LIST = "/admin/nhi/auditevent/"


def wrote(event: str, before: dict[str, Any], after: dict[str, Any]) -> AuditEvent:
    return events.write(event, actor=SYSTEM, subject=identity(), before=before, after=after)


@pytest.mark.both_databases
@pytest.mark.parametrize("event", sorted(event_sentences.EVENTS_WITH_FIELDS))
def test_a_change_names_its_fields_in_the_list_and_on_its_page(mara: Client, event: str) -> None:
    wrote(event, {"rate_limit": 1, "same": 1}, {"rate_limit": 2, "same": 1})
    shown = mara.get(LIST, {"event": event}).content.decode()
    assert "</a>: rate limit</span>" in shown


def test_every_event_that_says_no_more_than_changed_names_fields() -> None:
    said = {event for event, words in EVENTS.items() if "changed" in words and words.endswith("{subject}")}
    # Which words were changed is a secret; what runs as it now stands on its page.
    said -= {"person.password_changed", "card.skills_changed"}
    assert said <= event_sentences.EVENTS_WITH_FIELDS | event_sentences.EVENTS_WITH_ROLES


@pytest.mark.both_databases
@pytest.mark.parametrize("event", sorted(event_sentences.EVENTS_WITH_ROLES))
def test_a_change_of_roles_says_which_there_are_now(mara: Client, event: str) -> None:
    wrote(event, {"roles": ["auditor"]}, {"roles": ["approver", "operator"]})
    wrote(event, {"roles": ["approver"]}, {"roles": []})
    html = mara.get(LIST, {"event": event}).content.decode()
    assert ": now approver, operator" in html
    assert ": now none" in html


def test_a_page_asks_once_for_all_its_changes_and_reads_no_large_one(mara: Client) -> None:
    long = "x" * event_sentences.MAX_READ_CHARACTERS
    wrote("identity.changed", {"description": ""}, {"description": long})
    counts = []
    mara.get(LIST)
    for number in range(3):
        with CaptureQueriesContext(connection) as asked:
            html = mara.get(LIST, {"event": "identity.changed"}).content.decode()
        assert long[:200] not in html
        counts.append(len(asked))
        for _ in range(10):
            wrote("identity.changed", {"team": str(number)}, {"team": "Platform"})
    assert html.count(": team") == 20
    assert len(set(counts)) == 1


def test_roles_that_a_person_has_already_are_no_event(mara: Client) -> None:
    tom = User.objects.get(username="tom")
    for _ in range(2):
        people.set_roles(actor=SYSTEM, user=tom, roles=["operator"])
    assert AuditEvent.objects.filter(event="person.roles_changed").count() == 1
    account = identity("nightly-report")
    for _ in range(2):
        identities.set_console_roles(actor=SYSTEM, identity=account, roles=["operator"])
    assert AuditEvent.objects.filter(event="identity.console_roles_changed").count() == 1


def test_a_secret_that_is_set_is_one_event_and_no_change_without_a_field(mara: Client, settings: Any) -> None:
    settings.EGRESS_ALLOW = frozenset({"127.0.0.1:9"})
    registered()
    Server.objects.update(headers={"Authorization": "Bearer ${TOKEN}"}, enabled=False)
    server = Server.objects.get(name="github")
    for value in ("a-canary-of-this-test", "another-canary-of-it"):
        lifecycle.change(actor=SYSTEM, server=server, secret_values={"TOKEN": value})
    assert AuditEvent.objects.filter(event="server.secret_set").count() == 2
    # The first of them is a name more.
    assert [one.after for one in AuditEvent.objects.filter(event="server.changed")] == [{"named_values": ["TOKEN"]}]
