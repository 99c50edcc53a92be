"""`decisions/check`, `decisions/explain` and the call itself: one question, one answer, whatever stands in the way."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from common.db import clock
from mcp.choices import BreakerState
from mcp.limits import budgets
from mcp.models import Breaker, Budget, CallSlot, Server, Tool
from mcp.servers import lifecycle as servers
from nhi.access import grants
from nhi.authorization import oauth
from nhi.credentials import tokens
from nhi.identities import lifecycle
from nhi.models import Identity, InvocationLog, ToolPermission
from tests.api.callers import Caller
from tests.api.conftest import Stage
from tests.api.mcp.conftest import call, tool_of
from tests.mcp.peer import Peer
from tests.nhi import cast

pytestmark = [
    pytest.mark.capability("NHI-10", "NHI-06"),
    pytest.mark.both_databases,
    pytest.mark.usefixtures("clerk"),
    pytest.mark.django_db(transaction=True),
]
EVEN = {"type": "object", "properties": {"n": {"type": "integer"}}, "additionalProperties": False}


def held_grant() -> ToolPermission:
    return ToolPermission.objects.select_related("agent", "tool").get(revoked_at=None)


def nothing(_: Stage) -> None:
    """Nothing stands in the way."""


def disabled(_: Stage) -> None:
    servers.disable(actor=cast.acting("oskar", "operator"), server=Server.objects.get(), reason="For the test")


def definition(state: str) -> Callable[[Stage], None]:
    return lambda _: (Tool.objects.filter(pk=tool_of().pk).update(state=state), None)[1]


def suspended_tool(_: Stage) -> None:
    lifecycle.suspend(actor=cast.admin(), identity=tool_of().identity, reason="For the test")


def expired_tool(_: Stage) -> None:
    Identity.objects.filter(pk=tool_of().pk).update(expires_at=clock.database_now() - timedelta(seconds=1))


def revoked(_: Stage) -> None:
    grants.revoke(actor=cast.admin(), grant=held_grant(), reason="For the test")


def expired(_: Stage) -> None:
    ends = clock.database_now() - timedelta(seconds=1)
    rows = ToolPermission.objects.filter(pk=held_grant().pk)
    rows.update(created_at=ends - timedelta(days=1), expires_at=ends)


def limited(**limits: Any) -> Callable[[Stage], None]:
    def change(_: Stage) -> None:
        grants.change_limits(actor=cast.admin(), grant=held_grant(), limits=limits, reason="For the test")

    return change


def every_call_approved(_: Stage) -> None:
    Tool.objects.filter(pk=tool_of().pk).update(requires_approval=True)


def broken(_: Stage) -> None:
    now = clock.database_now()
    opened = {"state": BreakerState.OPEN, "failure_count": 5, "last_state_change": now}
    Breaker.objects.update_or_create(server=Server.objects.get(), defaults={**opened, "service_name": "peer"})


def used_up(scope: str, **limits: Any) -> Callable[[Stage], None]:
    """A budget that one call has used up, at whatever it is about."""

    def spend(stage: Stage) -> None:
        places = {"tool": tool_of().pk, "agent": stage.bot.pk, "grant": held_grant().pk, "server": tool_of().server_id}
        budgets.create(actor=cast.admin(), scope=scope, target_id=places[scope], **limits)
        assert call(stage.agent, parameters={"n": 1}).status == 200

    return spend


def all_under_way(_: Stage) -> None:
    made = budgets.create(actor=cast.admin(), scope="tool", target_id=tool_of().pk, concurrency_limit=1)
    ends = clock.database_now() + timedelta(minutes=1)
    CallSlot.objects.create(budget_id=made.pk, call_id=made.pk, deadline=ends)


def hour_of_the_grant(stage: Stage) -> None:
    limited(max_calls_per_hour=1)(stage)
    assert call(stage.agent, parameters={"n": 1}).status == 200


@dataclass(frozen=True)
class Case:
    prepare: Callable[[Stage], None]
    #: The reason of all three; "granted" where they allow.
    reason: str
    parameters: dict[str, Any] = field(default_factory=lambda: {"n": 1})
    target: str = "peer__echo"


CASES = {
    "nothing": Case(nothing, "granted"),
    "no server": Case(nothing, "target_unusable", target="github__read"),
    "never held": Case(nothing, "no_grant", target="peer__other"),
    "server disabled": Case(disabled, "server_disabled"),
    "pending": Case(definition("pending"), "definition_pending"),
    "quarantined": Case(definition("quarantined"), "definition_changed"),
    "withdrawn": Case(definition("withdrawn"), "definition_withdrawn"),
    "tool suspended": Case(suspended_tool, "target_unusable"),
    "tool expired": Case(expired_tool, "target_expired"),
    "grant revoked": Case(revoked, "grant_revoked"),
    "grant expired": Case(expired, "grant_expired"),
    "arguments past the grant": Case(
        limited(allowed_parameters={"properties": {"n": {"maximum": 5}}}), "parameters_not_allowed", {"n": 6}
    ),
    "arguments past the tool": Case(nothing, "invalid_parameters", {"n": "six"}),
    "an argument that it has not": Case(nothing, "invalid_parameters", {"m": 6}),
    "grant asks": Case(limited(requires_approval=True), "approval_required"),
    "tool asks": Case(every_call_approved, "approval_required"),
    "breaker": Case(broken, "breaker_open"),
    "day": Case(used_up("tool", daily_quota=1), "quota_exceeded"),
    "hour": Case(used_up("agent", calls_per_hour=1), "quota_exceeded"),
    "hour of the grant": Case(hour_of_the_grant, "quota_exceeded"),
    "rate": Case(used_up("server", requests_per_second=0.001), "rate_exceeded"),
    "under way": Case(all_under_way, "concurrency_exceeded"),
}


@pytest.fixture
def world(held: Stage, peer: Peer) -> Stage:
    """The bot holds echo, which takes one number, and a tool that no server offers."""
    for tool in peer.tools:
        tool["inputSchema"] = EVEN
    held.admin.post(f"mcp/servers/{tool_of().server_id}/refresh")
    current = tool_of()
    assert current.current is not None
    Tool.objects.filter(pk=current.pk).update(state="approved", approved=current.current)
    return held


@pytest.mark.parametrize("name", CASES)
def test_check_explain_and_the_call_say_the_same(world: Stage, name: str) -> None:
    case = CASES[name]
    if case.target == "github__read":
        cast.tool_grant(world.bot, world.read)
    case.prepare(world)
    target = str(Identity.objects.get(name=case.target).pk)
    asked = {"target_id": target, "parameters": case.parameters}
    budgeted = list(Budget.objects.values("day_used", "tokens"))
    checked = world.agent.post("decisions/check", asked).body
    explained = world.admin.post("decisions/explain", {**asked, "caller_id": str(world.bot.pk)}).body
    assert list(Budget.objects.values("day_used", "tokens")) == budgeted, "asking costs nothing"
    called = called_reason(call(world.agent, case.target, case.parameters))
    assert [checked["reason"], explained["reason"], called] == [case.reason] * 3
    assert checked["decision"] == explained["decision"] == ("allow" if case.reason == "granted" else "deny")


def test_a_narrowed_token_is_checked_as_it_calls(world: Stage) -> None:
    """Explain is asked by people, who show no token."""
    parsed = tokens.parse(world.agent.token)
    assert isinstance(parsed, tokens.ParsedCredentialToken)
    exchanged = oauth.exchange(client_id=parsed.public_id, secret=world.agent.token, scope="jira.*")
    narrowed = Caller(exchanged.token)
    checked = narrowed.post("decisions/check", {"target_id": str(tool_of().pk), "parameters": {"n": 1}}).body
    assert checked["reason"] == called_reason(call(narrowed, parameters={"n": 1})) == "scope_not_allowed"


def test_a_tool_of_another_agent_without_a_server_is_as_one_that_is_not_there(world: Stage) -> None:
    """That no server offers it is told to whoever holds it alone."""
    answer = world.stranger.post("decisions/check", {"target_id": str(world.read.pk), "parameters": {}})
    assert (answer.body["decision"], answer.body["reason"]) == ("deny", "no_grant")
    assert called_reason(call(world.stranger, "github__read")) == "no_grant"


def test_arguments_past_the_grant_are_named(world: Stage) -> None:
    limited(allowed_parameters={"properties": {"n": {"maximum": 5}}})(world)
    answer = call(world.agent, parameters={"n": 6})
    assert answer.is_refused(403, "Unauthorized", "parameters_not_allowed")
    assert answer.fields == ["parameters.n"]
    assert "`n`" in answer.body["message"]


def called_reason(answer: Any) -> str:
    """As the call's row says it; a success has none."""
    row = InvocationLog.objects.get(pk=answer.headers["X-Call-ID"])
    assert (answer.status == 200) == (row.reason == "")
    return str(row.reason) or "granted"
