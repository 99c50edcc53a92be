"""What the sidebar and Home count of calls that wait, and what the list behind them holds."""

import pytest
from django.core.cache import cache
from django.test import Client
from django.utils import timezone

from mcp.choices import ApprovalState
from mcp.models import CallApproval
from nhi.console import attention_counts
from nhi.models import User
from tests.console.calling import asked
from tests.console.conftest import SignedIn, identity
from tests.console.test_approvals import LIST
from tests.console.test_approvals import _in_nobody_elses_hands as _in_nobody_elses_hands

pytestmark = [pytest.mark.capability("NHI-14", "CON-05"), pytest.mark.django_db]
MINE = f"{LIST}?decide=me"


def counted(client: Client) -> int:
    cache.clear()
    return attention_counts.counts_for_request(client.get("/admin/").wsgi_request).get("approvals_waiting", 0)


@pytest.mark.both_databases
@pytest.mark.parametrize("name", ["admin", "tom", "mara", "olga", "ada"])
def test_the_list_behind_the_number_holds_as_many(signed_in: SignedIn, name: str) -> None:
    asked()
    asked("triage-bot", arguments={"title": "Other"})
    third = asked("triage-bot", arguments={"title": "Third"})
    CallApproval.objects.filter(pk=third.pk).update(owner_id=User.objects.get(username="tom").pk)
    asked("planner", ago=3600)
    asked("planner", state=ApprovalState.REFUSED, decided_at=timezone.now(), decided_by_name="mara")
    client = signed_in(name)
    rows = client.get(MINE).context["rows"]
    assert len(rows) == counted(client)
    assert len(rows) == {"admin": 3, "tom": 1}.get(name, 0)


def test_the_number_and_the_card_lead_there(signed_in: SignedIn) -> None:
    own = identity("triage-bot")
    own.owner = User.objects.get(username="tom")
    own.save()
    asked("triage-bot", ago=600)
    asked(ago=60)
    tom = signed_in("tom")
    html = tom.get("/admin/").content.decode()
    assert html.count(f'href="{MINE}"') == 2
    # How long the oldest of them has waited, not one that others decide about.
    assert "1 call waits for approval · oldest 1 min" in html
    assert "For me to decide" in tom.get(LIST).content.decode()


def test_who_may_not_decide_is_offered_no_such_list(signed_in: SignedIn) -> None:
    assert "For me to decide" not in signed_in("ada").get(LIST).content.decode()


def test_a_decision_counts_at_once(signed_in: SignedIn) -> None:
    waiting = asked()
    tom = signed_in("tom")
    assert counted(tom) == 1
    tom.post(f"{LIST}{waiting.pk}/refuse/", {"reason": "Not now"})
    assert attention_counts.counts_for_request(tom.get("/admin/").wsgi_request)["approvals_waiting"] == 0
