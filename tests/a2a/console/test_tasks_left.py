"""What a stop and a revoked grant say of tasks: who ended them and why, and which go on."""

import re

import pytest
from django.test import Client

from a2a import cancelling
from nhi.access.grants import give_nhi
from nhi.actors import SYSTEM
from nhi.models import Identity, NhiPermission
from tests.a2a import rows
from tests.console.conftest import identity
from tests.console.reading import main_of, text

pytestmark = [pytest.mark.capability("A2A-08", "CON-05"), pytest.mark.django_db]


@pytest.fixture
def pair(seeded: None) -> tuple[Identity, Identity]:
    caller, target = identity("deploy-bot"), identity("triage-bot")
    give_nhi(actor=SYSTEM, source=caller, target=target, permission_type="call", reason="For the test")
    return caller, target


def test_revoking_a_grant_says_which_tasks_go_on_and_where_they_are(
    pair: tuple[Identity, Identity], mara: Client
) -> None:
    caller, target = pair
    grant = NhiPermission.objects.get(source=caller, target=target)
    revoke = f"/admin/nhi/nhipermission/{grant.pk}/revoke/"
    assert "open task" not in text(mara, revoke)
    task = rows.sent(target, source_agent_id=caller.pk)
    dialog = text(mara, revoke)
    assert "1 open task of deploy-bot at triage-bot goes on; cancel it on its page</a>" in dialog
    listed = text(mara, f"/admin/a2a/task/?state=open&from={caller.pk}&agent={target.pk}")
    assert task.short_id in main_of(listed)


def test_the_page_of_a_task_says_who_ended_it_and_why(pair: tuple[Identity, Identity], mara: Client) -> None:
    caller, target = pair
    task = rows.sent(target, source_agent_id=caller.pk)
    Identity.objects.filter(pk=caller.pk).update(state="suspended", state_by="mara", state_reason="Emergency stop")
    assert cancelling.stop(Identity.objects.get(pk=caller.pk)) == 1
    page = main_of(text(mara, f"/admin/a2a/task/{task.pk}/"))
    assert "Cancelled, since deploy-bot was stopped." in page
    said = re.sub(r"<[^>]+>", "", page)
    assert "cancelled by Gatehouse: “deploy-bot was suspended by mara: Emergency stop”" in said
    assert "so far" not in page


def test_a_task_that_goes_on_has_lasted_so_far(pair: tuple[Identity, Identity], mara: Client) -> None:
    caller, target = pair
    rows.sent(target, source_agent_id=caller.pk)
    assert "so far" in main_of(text(mara, "/admin/a2a/task/"))
