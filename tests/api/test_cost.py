"""What a request costs does not grow with what it lists."""

from typing import Any

import pytest

from tests.api.conftest import Stage
from tests.api.mcp import rows
from tests.nhi import cast
from tests.supervisor import rows as runs

pytestmark = pytest.mark.capability("NHI-01", "NHI-08")

#: Three for who calls and with which rights, two for the rows and their total, one for what hangs on the rows.
COSTS = {
    "me": 4,
    "people": 6,
    "identities": 5,
    "permissions/tools": 5,
    "permissions/nhi": 5,
    "permissions/users": 5,
    "roles": 6,
    "role-assignments": 5,
    "audit-events": 4,
    "mcp/servers": 7,
    "mcp/tools": 5,
    "mcp/invocations": 4,
    "mcp/budgets": 8,
    "mcp/breakers": 5,
    "mcp/health-reports": 5,
    "approvals": 5,
    "supervisor/agents": 5,
    "supervisor/executions": 5,
    # One asks the database for its time, after which the next due times are computed.
    "supervisor/schedules": 7,
    "supervisor/sessions": 5,
}


@pytest.mark.parametrize("path, queries", COSTS.items())
def test_a_list_costs_the_same_however_long(
    stage: Stage, path: str, queries: int, django_assert_num_queries: Any
) -> None:
    for marks in ("a", "bc"):
        for mark in marks:
            fill(stage, mark)
        with django_assert_num_queries(queries):
            assert stage.admin.get(path, limit=100).status == 200


def fill(stage: Stage, mark: str) -> None:
    agent, tool = cast.agent(f"agent-{mark}"), cast.tool(f"server-{mark}__tool")
    cast.tool_grant(agent, tool)
    cast.nhi_grant(agent, stage.bot)
    cast.user_grant(agent, cast.user(f"person-{mark}", "operator"))
    role = stage.admin.post("roles", {"name": f"role-{mark}", "capabilities": ["a.b", "*.*"]}).body
    stage.admin.post("role-assignments", {"role_id": role["id"], "identity_id": str(agent.pk)})
    rows.keep(stage.mara, agent, f"kept-{mark}")
    runs.keep(agent, f"kept-{mark}")
