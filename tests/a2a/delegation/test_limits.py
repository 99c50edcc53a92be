"""What a principal's access allows limits what is done on its behalf: arguments, and how often."""

import pytest

from mcp.models import BudgetWindow
from tests.a2a.delegation.town import WAYS, Line, line
from tests.mcp.peer import Peer
from tests.mcp.scene import Scene, scene
from tests.nhi import cast

pytestmark = [
    pytest.mark.capability("NHI-20"),
    pytest.mark.both_databases,
    pytest.mark.django_db(transaction=True),
]
OURS = {"properties": {"repo": {"enum": ["acme/site"]}}, "required": ["repo"]}


@pytest.fixture
def made(server: Peer) -> Scene:
    return scene(server.url, agents=[])


def delegated(made: Scene, links: str = "delegate", **limits: object) -> Line:
    """`a` has a limit; who acts for it has none."""
    who = links.split()
    asked = line(made, who, holds="abc"[1 : len(who) + 1])
    cast.tool_grant(asked.who[0], made.tool().identity, **limits)
    return asked


@pytest.mark.parametrize("way", WAYS)
def test_arguments_that_a_principal_may_not_use_are_refused(made: Scene, way: str) -> None:
    asked = delegated(made, "delegate delegate", allowed_parameters=OURS)
    assert asked.calls(way, {"repo": "acme/site"}) == ""
    assert asked.calls(way, {"repo": "other/site"}) == "chain_not_allowed"
    assert "on behalf of a, who may not do it: `repo`" in asked.row().error_message


def test_of_one_that_acts_by_itself_they_are_not_asked(made: Scene) -> None:
    asked = delegated(made, "call", allowed_parameters=OURS)
    assert asked.calls("rest", {"repo": "other/site"}) == ""


def test_the_hour_of_a_principals_grant_is_charged(made: Scene) -> None:
    asked = delegated(made, max_calls_per_hour=2)
    assert [asked.calls("rest") for _ in range(3)] == ["", "", "quota_exceeded"]
    assert sum(BudgetWindow.objects.values_list("used", flat=True)) == 2
    assert made.call("echo", agent=asked.token(asked.last)).status == "success", "by itself it has no limit"
