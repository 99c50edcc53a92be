"""A person's yes is for one call of one agent with these arguments, and for nothing else."""

from datetime import timedelta
from typing import Any

import pytest

from common.db import clock
from mcp.approvals import decisions
from mcp.approvals.decisions import ApprovalNotWaiting
from mcp.gateway import dry_run
from mcp.limits import budgets
from mcp.models import Breaker, CallApproval, Tool
from nhi.access import grants, roles
from nhi.actors import SYSTEM
from nhi.models import AuditEvent, Identity, InvocationLog, ToolPermission
from tests.mcp.peer import Peer
from tests.mcp.scene import Scene, scene
from tests.nhi import cast

pytestmark = [
    pytest.mark.capability("NHI-14"),
    pytest.mark.both_databases,
    pytest.mark.django_db(transaction=True),
]
CANARY = "ghp_" + "a1B2c3D4e5" * 3 + "F6a7b8"


@pytest.fixture
def made(server: Peer) -> Scene:
    return scene(server.url, agents=["bot", "other"], requires_approval=True)


def tom() -> Any:
    return cast.acting("tom", "approver")


def approved(made: Scene, arguments: dict[str, Any] | None = None) -> CallApproval:
    outcome = made.call("echo", arguments)
    assert outcome.status == "pending_approval"
    waiting = CallApproval.objects.get(pk=outcome.call_id)
    return decisions.approve(actor=tom(), approval=waiting, reason="Looked at it")


def state(approval: CallApproval) -> str:
    approval.refresh_from_db()
    return approval.state


def test_it_is_used_up_by_one_call(made: Scene, server: Peer) -> None:
    permit = approved(made, {"n": 1})
    assert server.calls == []
    first, second = made.call("echo", {"n": 1}), made.call("echo", {"n": 1})
    assert (first.status, second.status) == ("success", "pending_approval")
    assert len(server.calls) == 1
    assert state(permit) == "used"
    assert permit.used_by == first.call_id
    assert InvocationLog.objects.get(pk=first.call_id).details["approval_id"] == str(permit.pk)


@pytest.mark.parametrize("other", [{"n": 2}, {"n": "1"}, {"n": 1, "m": None}, {}, {"N": 1}, {"n": [1]}, {"n": 1.5}])
def test_it_is_for_these_arguments(made: Scene, server: Peer, other: dict[str, Any]) -> None:
    permit = approved(made, {"n": 1})
    assert made.call("echo", other).status == "pending_approval"
    assert server.calls == []
    assert state(permit) == "approved"


def test_the_same_arguments_in_other_words_are_the_same(made: Scene) -> None:
    approved(made, {"a": 1, "b": [1.0, "ä"]})
    assert made.call("echo", {"b": [1, "ä"], "a": 1.0}).status == "success"


def test_it_is_for_this_agent(made: Scene, server: Peer) -> None:
    approved(made, {"n": 1})
    assert made.call("echo", {"n": 1}, agent="other").status == "pending_approval"
    assert server.calls == []


def test_it_ends(made: Scene) -> None:
    permit = approved(made)
    CallApproval.objects.filter(pk=permit.pk).update(expires_at=clock.database_now() - timedelta(seconds=1))
    again = made.call()
    assert again.status == "pending_approval"
    assert again.call_id != permit.pk
    assert state(permit) == "expired"


def test_what_nobody_decided_in_time_cannot_be_decided_any_more(made: Scene) -> None:
    outcome = made.call()
    waiting = CallApproval.objects.get(pk=outcome.call_id)
    CallApproval.objects.update(expires_at=clock.database_now() - timedelta(seconds=1))
    with pytest.raises(ApprovalNotWaiting):
        decisions.approve(actor=tom(), approval=waiting, reason="Looked at it")
    assert decisions.expire_overdue() == 1
    assert state(waiting) == "expired"
    assert waiting.sealed_arguments == ""


def test_a_no_is_for_this_attempt(made: Scene, server: Peer) -> None:
    waiting = CallApproval.objects.get(pk=made.call().call_id)
    decisions.refuse(actor=tom(), approval=waiting, reason="Not today")
    with pytest.raises(ApprovalNotWaiting):
        decisions.approve(actor=tom(), approval=waiting, reason="After all")
    assert made.call().status == "pending_approval"
    assert CallApproval.objects.count() == 2
    assert server.calls == []


def test_a_yes_outlasts_no_revoke(made: Scene, server: Peer) -> None:
    permit = approved(made)
    grant = ToolPermission.objects.get(pk=made.made["grants"]["bot echo"])
    grants.revoke(actor=SYSTEM, grant=grant, reason="No longer needed")
    assert made.call().reason == "grant_revoked"
    assert state(permit) == "approved", "it was not used"
    assert server.calls == []


def test_a_yes_beside_a_role_needs_no_grant_that_has_ended(made: Scene, server: Peer) -> None:
    """And a dry run says of it what the call meets."""
    bot, tool = Identity.objects.get(kind="agent", name="bot"), made.tool()
    given = roles.create(actor=SYSTEM, name="reader", patterns=["peer.*"])
    roles.assign(actor=SYSTEM, role=given, identity=bot, reason="For the test")
    grants.revoke(actor=SYSTEM, grant=ToolPermission.objects.get(agent=bot, tool=tool.pk), reason="By role now")
    approved(made)
    said = {one.name: one.ok for one in dry_run.find_conditions(bot.pk, tool.pk, {})}
    assert said["approval"]
    assert made.call().status == "success"


def test_a_yes_is_no_way_around_a_changed_definition(made: Scene) -> None:
    approved(made)
    Tool.objects.update(state="quarantined")
    assert made.call().reason == "definition_changed"


@pytest.mark.parametrize("what", ["budget", "breaker"])
def test_a_call_that_is_turned_away_keeps_its_yes(made: Scene, what: str) -> None:
    permit = approved(made)
    if what == "breaker":
        Breaker.objects.update(state="OPEN", last_state_change=clock.database_now())
    else:
        agent = made.made["agents"]["bot"]
        budget = budgets.create(actor=cast.admin(), scope="agent", target_id=agent, calls_per_hour=1)
        type(budget).objects.update(day_used=0)
        from mcp.limits.budget_state import floor_to_minute
        from mcp.models import BudgetWindow

        BudgetWindow.objects.create(budget=budget, minute=floor_to_minute(clock.database_now()), used=1)
    assert made.call().reason == {"breaker": "breaker_open", "budget": "quota_exceeded"}[what]
    assert state(permit) == "approved"
    Breaker.objects.update(state="CLOSED")
    for budget in list(budgets.Budget.objects.all()):
        budgets.remove(actor=cast.admin(), budget=budget)
    assert made.call().status == "success"
    assert state(permit) == "used"


def test_what_was_asked_is_kept_sealed_and_then_without_secrets(made: Scene) -> None:
    outcome = made.call("echo", {"token": CANARY, "text": f"use {CANARY}"})
    waiting = CallApproval.objects.get(pk=outcome.call_id)
    assert CANARY not in waiting.sealed_arguments
    assert decisions.read_arguments(waiting) == {"token": CANARY, "text": f"use {CANARY}"}, "who decides sees it all"
    decisions.approve(actor=tom(), approval=waiting, reason="Looked at it")
    waiting.refresh_from_db()
    assert waiting.sealed_arguments == ""
    assert CANARY not in str(decisions.read_arguments(waiting))
    assert CANARY not in str(list(AuditEvent.objects.values()))


def test_who_owns_the_agent_does_not_decide_about_its_calls(made: Scene) -> None:
    waiting = CallApproval.objects.get(pk=made.call().call_id)
    owner = cast.user("owner")
    assert waiting.owner_id == owner.pk
    from django.contrib.auth.models import Group

    from nhi.actors import person

    owner.groups.add(Group.objects.get(name__iexact="approver"))
    fresh = type(owner).objects.get(pk=owner.pk)
    assert decisions.why_not_decide(person(fresh), waiting).startswith("bot is in your hands")
    with pytest.raises(decisions.OwnCallApproval):
        decisions.approve(actor=person(fresh), approval=waiting, reason="Mine")


@pytest.mark.parametrize(
    "limits",
    [
        {"daily_quota": 10**12}, {"calls_per_hour": 10**12}, {"burst_size": 10**12, "requests_per_second": 1.0},
        {"concurrency_limit": 10**12}, {"requests_per_second": float("nan")}, {"requests_per_second": float("inf")},
        {"requests_per_second": 0.0}, {"requests_per_second": -1.0}, {"timeout": 0.0}, {"timeout": float("nan")},
        {"calls_per_hour": 0}, {"concurrency_limit": 0}, {"burst_size": 5}, {"daily_quota": -1}, {}, {"daily_quota": 0},
        {"daily_quota": None},
    ],
)  # fmt: skip
def test_a_budget_that_means_nothing_is_refused_by_name(made: Scene, limits: dict[str, Any]) -> None:
    from common.errors import Duplicate, InvalidInput

    with pytest.raises(InvalidInput) as refused:
        budgets.create(actor=cast.admin(), scope="agent", target_id=made.made["agents"]["bot"], **limits)
    assert refused.value.fields
    assert not isinstance(refused.value, Duplicate)
