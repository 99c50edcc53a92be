"""Budgets as people set them: what they are on stays what they are on, and a call that one refuses says so."""

from typing import Any

import pytest

from common.errors import InvalidInput
from mcp.limits import budgets
from mcp.models import Budget
from nhi.access import grants
from nhi.actors import SYSTEM
from nhi.models import InvocationLog, ToolPermission
from tests.mcp.peer import Peer
from tests.mcp.scene import Scene, scene
from tests.nhi import cast

pytestmark = [
    pytest.mark.capability("MCP-08"),
    pytest.mark.both_databases,
    pytest.mark.django_db(transaction=True),
]


def grant() -> ToolPermission:
    return ToolPermission.objects.get(revoked_at=None)


def renewed(made: Scene) -> None:
    grants.renew(actor=SYSTEM, grant=grant(), expires_at=None, reason="Still needed")


def with_other_limits(made: Scene) -> None:
    grants.change_limits(actor=SYSTEM, grant=grant(), limits={"max_calls_per_hour": 50}, reason="More of it")


@pytest.mark.parametrize("replaced", [renewed, with_other_limits])
def test_a_budget_on_a_grant_stays_with_it(server: Peer, replaced: Any) -> None:
    made = scene(server.url, budgets=[["grant", "bot echo", {"daily_quota": 2}]])
    assert made.call().status == "success"
    replaced(made)
    assert [made.call().reason for _ in range(3)] == ["", "quota_exceeded", "quota_exceeded"]
    assert Budget.objects.get().target_id == grant().pk


def test_the_row_of_a_call_that_a_budget_refused_names_the_budget(server: Peer) -> None:
    made: Scene = scene(server.url, budgets=[["tool", "echo", {"daily_quota": 1}], ["agent", "bot", {"timeout": 20}]])
    made.call()
    made.call()
    first, second = InvocationLog.objects.order_by("timestamp", "id")
    assert {budget["scope"] for budget in first.details["budgets"]} == {"tool", "agent"}
    assert ["budget", "fail", "quota_exceeded"] in second.details["decision"]
    assert [check for check in second.details["decision"] if check[1] == "fail"] == [
        ["budget", "fail", "quota_exceeded"]
    ]
    assert {budget["scope"]: budget["remaining"] for budget in second.details["budgets"]} == {"tool": 0, "agent": None}


def test_whatever_is_wrong_with_a_budget_is_said_at_once() -> None:
    with pytest.raises(InvalidInput) as refused:
        budgets.create(
            actor=cast.admin(), scope="house", target_id=cast.admin().id, requests_per_second=-1, burst_size=0,
            daily_quota=-5,
        )  # fmt: skip
    assert {problem.field for problem in refused.value.fields} == {
        "scope", "requests_per_second", "burst_size", "daily_quota"
    }  # fmt: skip
