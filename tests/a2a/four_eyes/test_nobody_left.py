"""When everybody who may decide stands behind a call, it says so at once, and superusers see it."""

from typing import Any

import pytest
from django.core.cache import cache

from mcp.gateway import pipeline
from mcp.models import CallApproval
from nhi.actors import SYSTEM
from nhi.models import User
from nhi.people import people
from tests.a2a.four_eyes.office import TOOL, Office, claimed_token
from tests.api.callers import Caller, calling
from tests.front import asking, door
from tests.mcp.scene import run
from tests.nhi import cast

pytestmark = [
    pytest.mark.capability("NHI-14"),
    pytest.mark.both_databases,
    pytest.mark.django_db(transaction=True),
]
SAID = "No one who holds the role approver or security-admin may decide about this call"
CARD = "1 waiting call needs a superuser: nobody else may decide"


@pytest.fixture
def alone(office: Office) -> Office:
    """Tom is the only approver, and runs the agent himself."""
    for user in User.objects.all():
        user.groups.clear()
    office.execute("tom", office.agent())
    office.people["root"] = calling(people.create(actor=SYSTEM, username="root", superuser=True).user)
    return office


def over_mcp(token: str) -> Any:
    message: Any = asking.message(name=TOOL, arguments={"name": "all"})
    client = door.Client(pipeline)  # type: ignore[arg-type]  # the real one
    return run(client.post(message, authorization=f"Bearer {token}")).answer["result"]


def cards(office: Office, name: str) -> list[str]:
    cache.clear()
    return [card["words"] for card in office.console(name).get("/admin/").context["cards"]]


def test_the_caller_is_told_which_roles_could_decide(alone: Office) -> None:
    token = claimed_token()
    answer = alone.call(token)
    assert answer.status == 202
    assert SAID in answer.body["message"]
    call = Caller(token).get(f"mcp/calls/{answer.body['call_id']}").body
    assert call["status"] == "pending"
    assert SAID in call["message"]
    again = over_mcp(token)
    assert again["isError"] is True
    assert SAID in again["content"][0]["text"]
    for name in ("tom", "root"):
        assert name not in answer.body["message"] + call["message"] + again["content"][0]["text"], name


def test_superusers_see_it_at_home_and_decide(alone: Office) -> None:
    approval = alone.waiting_call(claimed_token())
    assert approval.needs_superuser
    assert alone.person("root").get(f"approvals/{approval.pk}").body["needs_superuser"] is True
    assert CARD in cards(alone, "root")
    assert CARD not in cards(alone, "tom")
    listed = alone.console("root").get("/admin/mcp/callapproval/?decide=superuser").context["rows"]
    assert [row["id"] for row in listed] == [str(approval.pk)]
    page = alone.console("tom").get(f"/admin/mcp/callapproval/{approval.pk}/").content.decode()
    assert SAID in page
    assert alone.is_barred("tom", approval)
    assert alone.decide("root", approval).status == 200
    assert CARD not in cards(alone, "root")


@pytest.mark.parametrize("who", ["another approver", "a security admin"])
def test_where_somebody_is_left_nothing_is_said_of_it(alone: Office, who: str) -> None:
    alone.person("ann" if who == "another approver" else "mallory")
    answer = alone.call(claimed_token())
    assert set(answer.body) == {"call_id", "status", "expires_at"}
    assert not CallApproval.objects.get().needs_superuser


@pytest.mark.parametrize("left", ["auditor", "inactive"])
def test_who_only_reads_or_has_left_is_nobody_who_decides(alone: Office, left: str) -> None:
    ann = cast.user("ann", "approver", *(["auditor"] if left == "auditor" else []))
    if left == "inactive":
        type(ann).objects.filter(pk=ann.pk).update(is_active=False)
    assert SAID in alone.call(claimed_token()).body["message"]


def test_a_new_approver_ends_it_with_the_next_look(alone: Office) -> None:
    token = claimed_token()
    approval = alone.waiting_call(token)
    assert approval.needs_superuser
    alone.person("ann")
    assert "message" not in alone.call(token).body
    assert CARD not in cards(alone, "root")
    assert alone.decide("ann", approval).status == 200
    approval.refresh_from_db()
    assert (approval.state, approval.needs_superuser) == ("approved", False)
