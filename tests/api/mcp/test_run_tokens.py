"""A run's token at every door: what it does is logged under the run's id, and when the run ends no door opens."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pytest

from common.db import clock
from common.ids import uuid7
from mcp.gateway import pipeline
from mcp.models import Tool
from nhi.credentials import run_tokens
from nhi.identities import lifecycle
from nhi.models import Credential, InvocationLog
from supervisor.runner import claiming
from tests.api.callers import Caller
from tests.api.conftest import Stage
from tests.api.mcp.conftest import added, approved, tool_of
from tests.api.mcp.doors import Asked, Doors
from tests.front.asking import message
from tests.front.door import Client
from tests.mcp.peer import Peer
from tests.mcp.scene import run as to_its_end
from tests.nhi import cast
from tests.nhi.tokens import of_run
from tests.supervisor import rows as supervised

pytestmark = [
    pytest.mark.capability("SUP-11"),
    pytest.mark.django_db(transaction=True),
    pytest.mark.both_databases,
    pytest.mark.usefixtures("clerk"),
]
Answer = tuple[int, str]
OTHER = "/api/nhi/mcp/tools/peer__other/call"


@dataclass
class Run:
    stage: Stage
    id: UUID
    token: str


@pytest.fixture
def run(open_stage: Stage, peer: Peer) -> Run:
    """Of an agent that holds one of two tools."""
    added(open_stage, peer)
    approved(open_stage)
    cast.tool_grant(open_stage.bot, tool_of().identity)
    run = uuid7()
    return Run(open_stage, run, opened(open_stage, run))


def opened(stage: Stage, run: UUID, seconds: float = 600) -> str:
    return of_run(identity=stage.bot, execution_id=run, seconds=seconds, actor=cast.acting("olga"))


def past_django(token: str, **odd: Any) -> Answer:
    doors = Doors()
    said = doors.past(Asked(token, **odd))
    assert not doors.handed_over
    return said.status, said.body.get("details", {}).get("reason", "")


def through_django(token: str, **odd: Any) -> Answer:
    said = Doors().through(Asked(token, **odd))
    return said.status, said.body.get("details", {}).get("reason", "")


def over_mcp(token: str, of: Any = None) -> Answer:
    of = message(name="peer__echo", arguments={"x": 1}) if of is None else of
    found = to_its_end(Client(pipeline, "/mcp").post(of, authorization=f"Bearer {token}"))
    return found.status, found.answer.get("error", {}).get("data", {}).get("reason", "")


def listing(token: str) -> Answer:
    return over_mcp(token, message("tools/list"))


def about_itself(token: str) -> Answer:
    found = Caller(token).get("me")
    return found.status, found.body.get("details", {}).get("reason", "")


def asking(token: str) -> Answer:
    found = Caller(token).post("decisions/check", {"target_id": str(tool_of().pk)})
    return found.status, found.body.get("details", {}).get("reason", "")


CALLS: list[Callable[..., Answer]] = [past_django, through_django, over_mcp]
DOORS: list[Callable[..., Answer]] = [*CALLS, listing, about_itself, asking]


def test_every_call_of_a_run_is_logged_under_its_id(run: Run) -> None:
    assert {door.__name__: door(run.token) for door in DOORS} == {door.__name__: (200, "") for door in DOORS}
    for refused in (past_django, through_django):
        assert refused(run.token, path=OTHER)[0] == 404
    assert over_mcp(run.token, message(name="peer__other"))[0] == 400
    assert past_django(run.stage.agent.token) == (200, "")
    rows = list(InvocationLog.objects.order_by("timestamp", "id"))
    *of_run, own = [row.run_id for row in rows]
    assert of_run == [run.id] * 6
    assert own == rows[-1].pk, "no run made the last one"
    assert {row.status for row in rows[3:6]} == {"permission_denied"}
    found = run.stage.agent.get("mcp/invocations", run_id=str(run.id)).body["invocations"]
    assert {(row["run_id"], row["agent_name"]) for row in found} == {(str(run.id), "bot")}
    assert len(found) == 6
    assert Caller(run.token).get("me").body["token"]["execution_id"] == str(run.id)


@pytest.mark.parametrize("end", ["closed", "suspended", "over"])
def test_no_door_opens_once_it_has_ended(run: Run, end: str) -> None:
    token = run.token
    if end == "closed":
        run_tokens.close(execution_ids=[run.id], at=clock.database_now())
    elif end == "suspended":
        lifecycle.suspend(actor=cast.admin(), identity=run.stage.bot, reason="Odd calls")
    else:
        token = opened(run.stage, uuid7(), seconds=0)
    reason = {"closed": "credential_revoked", "suspended": "token_stopped", "over": "token_expired"}[end]
    assert {door.__name__: door(token) for door in DOORS} == {door.__name__: (401, reason) for door in DOORS}
    assert not InvocationLog.objects.exists()


def test_nobody_handles_it_and_it_handles_nothing(run: Run) -> None:
    row = Credential.runs.get(execution_id=run.id)
    for caller in (run.stage.admin, run.stage.agent, run.stage.person("olga")):
        listed = caller.get(f"identities/{run.stage.bot.pk}/credentials").body["credentials"]
        assert row.public_id not in {one["public_id"] for one in listed}
        for verb in ("rotate", "revoke"):
            assert caller.post(f"credentials/{row.pk}/{verb}", {"reason": "Trying"}).status == 404
    itself = Caller(run.token)
    assert itself.post(f"identities/{run.stage.bot.pk}/credentials", {}).is_refused(403, "Unauthorized")
    assert past_django(run.token) == (200, "")


def test_who_started_a_run_does_not_approve_its_calls(run: Run) -> None:
    """The token is the one that a worker is given for the run."""
    Tool.objects.update(requires_approval=True)
    stage, tom = run.stage, run.stage.person("tom", "approver", "operator")
    agent = supervised._agent(stage.bot, "bot")
    asked = tom.post(f"supervisor/agents/{agent.pk}/execute", {"input": "Go"})
    assert asked.status == 202, asked.body
    (claimed,) = claiming.claim(runner_id=uuid7(), room=1)
    assert str(claimed.run.pk) == asked.body["id"]
    waits = Caller(claimed.token).post("mcp/tools/peer__echo/call", {"parameters": {"x": 1}})
    place = f"approvals/{waits.body['call_id']}/approve"
    refused = tom.post(place, {"reason": "Mine"})
    assert refused.is_refused(403, "Unauthorized", "own_request")
    assert refused.body["message"].startswith("You asked for the run that makes this call")
    assert stage.person("ann", "approver").post(place, {"reason": "Looked at it"}).status == 200
