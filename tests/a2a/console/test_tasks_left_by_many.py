"""Revoking several grants between identities says of all their tasks what revoking one says of its own."""

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from nhi.access.grants import give_nhi
from nhi.actors import SYSTEM
from nhi.models import NhiPermission
from tests.a2a import rows
from tests.console.conftest import identity
from tests.supervisor.console.scene import main_of, text

pytestmark = [pytest.mark.capability("A2A-08", "CON-05"), pytest.mark.django_db]
REVOKE = "/admin/nhi/nhipermission/bulk/revoke/"


def given(caller: str, target: str) -> NhiPermission:
    give_nhi(
        actor=SYSTEM, source=identity(caller), target=identity(target), permission_type="call", reason="For the test"
    )
    return NhiPermission.objects.get(source__name=caller, target__name=target)


def sent(caller: str, target: str) -> None:
    rows.sent(identity(target), source_agent_id=identity(caller).pk)


def ticked(*grants: NhiPermission) -> str:
    return f"{REVOKE}?{'&'.join(f'id={grant.pk}' for grant in grants)}"


@pytest.mark.both_databases
def test_all_tasks_by_the_grants_are_counted_and_no_others(seeded: None, mara: Client) -> None:
    first, second = given("deploy-bot", "triage-bot"), given("writer", "planner")
    assert "open task" not in main_of(text(mara, ticked(first, second)))
    sent("deploy-bot", "triage-bot")
    for other in (("deploy-bot", "planner"), ("writer", "triage-bot")):
        given(*other)
        sent(*other)
    shown = main_of(text(mara, ticked(first, second)))
    assert "1 open task by these grants goes on; cancel it on its page</a>" in shown
    sent("writer", "planner")
    shown = main_of(text(mara, ticked(first, second)))
    assert "2 open tasks by these grants go on; cancel them in their list</a>" in shown
    assert 'href="/admin/a2a/task/?state=open"' in shown


def test_of_one_caller_or_one_target_the_list_is_narrowed_to_it(seeded: None, mara: Client) -> None:
    first, second = given("deploy-bot", "triage-bot"), given("deploy-bot", "writer")
    sent("deploy-bot", "triage-bot")
    sent("deploy-bot", "writer")
    shown = main_of(text(mara, ticked(first, second)))
    assert "2 open tasks of deploy-bot go on; cancel them in their list</a>" in shown
    assert f"?state=open&amp;from={identity('deploy-bot').pk}" in shown


def test_more_tasks_than_the_dialog_said_bring_it_back(seeded: None, mara: Client) -> None:
    grant = given("deploy-bot", "triage-bot")
    mara.get(ticked(grant))
    sent("deploy-bot", "triage-bot")
    answer = mara.post(ticked(grant), {"reason": "No longer needed", "seen": "grants:1,holders:1,open_tasks:0"})
    assert answer.status_code == 409
    grant.refresh_from_db()
    assert grant.revoked_at is None


def test_many_ask_no_more_than_a_few(seeded: None, mara: Client) -> None:
    grants = [given(caller, "triage-bot") for caller in ("deploy-bot", "writer", "planner", "ci")]
    mara.get(ticked(*grants))
    counts = []
    for some in (grants[:2], grants):
        with CaptureQueriesContext(connection) as asked:
            assert mara.get(ticked(*some)).status_code == 200
        counts.append(len(asked))
    assert counts[0] == counts[1]
