"""Whose log a call stands in: that of the run whose token made it, whatever its caller says."""

import re
from uuid import UUID

import pytest
from django.test import Client
from django.urls import reverse

from a2a import tracing
from common.db import clock
from common.ids import uuid7
from mcp.admin.calls import run_links
from mcp.gateway import pipeline
from nhi.audit import invocations, row_macs
from nhi.models import InvocationLog
from supervisor import submitting
from supervisor.access import Caller as Asking
from supervisor.models import Execution
from supervisor.runner import claiming
from tests.api.callers import Caller
from tests.api.conftest import Stage, open_stage
from tests.api.mcp.conftest import added, approved, clerk, peer, tool_of
from tests.api.mcp.doors import Asked, Doors
from tests.front import door as front
from tests.front.asking import message
from tests.mcp.peer import Peer
from tests.mcp.scene import run as to_its_end
from tests.nhi import cast
from tests.supervisor import rows

__all__ = ["clerk", "open_stage", "peer"]
pytestmark = [
    pytest.mark.capability("AUD-02"),
    pytest.mark.django_db(transaction=True),
    pytest.mark.both_databases,
    pytest.mark.usefixtures("clerk"),
]
#: Where a page leads to a call.
LINK = re.compile(r"/admin/nhi/invocationlog/([0-9a-f-]{36})/")
DOORS = ["past_django", "through_django", "mcp"]


@pytest.fixture
def bot(open_stage: Stage, peer: Peer) -> Stage:
    """An agent that may call a tool, by its credential and in runs."""
    added(open_stage, peer)
    approved(open_stage)
    cast.tool_grant(open_stage.bot, tool_of().identity)
    return open_stage


def claimed_run(bot: Stage) -> tuple[Execution, str]:
    """A run with its token, as its worker is given it."""
    agent = rows._agent(bot.bot, f"cli-{uuid7().hex[-6:]}")
    run = submitting.submit(caller=Asking(cast.admin()), agent=agent, wish=submitting.Wish(input="x")).execution
    [token] = [one.token for one in claiming.claim(runner_id=uuid7(), room=9) if one.run.pk == run.pk]
    return run, token


def call(door: str, token: str, request_id: UUID) -> InvocationLog:
    """One call with this `X-Request-ID`; the row of it."""
    said = str(request_id)
    if door == "mcp":
        of = message(name="peer__echo", arguments={"x": 1})
        client = front.Client(pipeline, "/mcp").post(of, authorization=f"Bearer {token}", x_request_id=said)  # type: ignore[arg-type]  # the real one
        assert to_its_end(client).status == 200
    else:
        doors, asked = Doors(), Asked(token, more=[(b"x-request-id", said.encode())])
        assert (doors.past(asked) if door == "past_django" else doors.through(asked)).status == 200
        assert not doors.handed_over
    return InvocationLog.objects.latest("timestamp", "id")


def on_page(run: Execution) -> set[str]:
    """The calls that the pages of a run list, for one who reads the whole log."""
    client = Client()
    client.force_login(cast.user("ada", "security-admin"))
    pages = [client.get(reverse(f"admin:supervisor_execution_{tab}", args=[run.pk])) for tab in ("hub", "calls")]
    assert [page.status_code for page in pages] == [200, 200]
    return {found for page in pages for found in LINK.findall(page.content.decode())}


@pytest.mark.parametrize("door", DOORS)
def test_the_id_of_a_run_as_request_id_leads_into_no_runs_log(bot: Stage, door: str) -> None:
    """The exploit: who knows a run's id puts calls of its own onto that run's page, into its count and its trace."""
    run, token = claimed_run(bot)
    other, other_token = claimed_run(bot)
    made = call(door, token, uuid7())
    forged = [call(door, caller, run.pk) for caller in (bot.agent.token, other_token)]
    assert [row.request_id for row in forged] == [run.pk, run.pk], "the request id stays the caller's"
    assert [row.run_id for row in (made, *forged)] == [run.pk, forged[0].pk, other.pk]
    assert on_page(run) == {str(made.pk)}
    assert on_page(other) == {str(forged[1].pk)}
    mara = cast.acting("mara", "security-admin")
    assert [row.pk for row in tracing.of_run(mara, run).calls] == [made.pk]
    assert run_links.of(mara, [forged[0]]) == {}
    listed = bot.admin.get("mcp/invocations", run_id=str(run.pk)).body["invocations"]
    assert [row["id"] for row in listed] == [str(made.pk)]
    assert row_macs.is_intact(made)


def test_a_run_that_sends_its_own_id_as_request_id_hides_nothing(bot: Stage) -> None:
    run, token = claimed_run(bot)
    made = call("past_django", token, run.pk)
    assert (made.run_id, made.request_id, made.execution_id) == (run.pk, run.pk, run.pk)
    assert on_page(run) == {str(made.pk)}


def test_rows_of_before_that_a_caller_named_stand_on_no_page(bot: Stage) -> None:
    """They cannot be changed; whoever reads them knows by their version what their run id is worth."""
    run, _ = claimed_run(bot)
    true, forged = (_written_before(bot, run.pk, request_id) for request_id in (uuid7(), run.pk))
    assert [(row.row_version, row.run_id) for row in (true, forged)] == [(1, run.pk), (1, run.pk)]
    assert [row.execution_id for row in (true, forged)] == [run.pk, None]
    assert on_page(run) == {str(true.pk)}
    assert [row_macs.is_intact(row) for row in (true, forged)] == [True, True]
    for row in (true, forged):
        assert bot.admin.get(f"mcp/invocations/{row.pk}").body["run_id"] == str(run.pk)
    listed = bot.admin.get("mcp/invocations", run_id=str(run.pk)).body["invocations"]
    assert [row["id"] for row in listed] == [str(true.pk)]


def test_a_call_that_began_before_an_upgrade_ends_as_a_row_of_before(bot: Stage) -> None:
    lease = invocations.as_json(_begun(bot, uuid7(), uuid7()))
    del lease["row_version"]
    row = InvocationLog(**invocations.end(invocations.from_json(lease), status="error", reason="lost"))
    assert (row.row_version, row_macs.is_intact(row)) == (1, True)


def test_the_last_runs_token_reads_its_own_calls_alone(bot: Stage) -> None:
    run, token = claimed_run(bot)
    _, other_token = claimed_run(bot)
    made, foreign = call("past_django", token, uuid7()), call("past_django", other_token, run.pk)
    own = call("past_django", bot.agent.token, run.pk)
    reader = Caller(token)
    assert [row["id"] for row in reader.get("mcp/invocations").body["invocations"]] == [str(made.pk)]
    for path in ("mcp/invocations", "mcp/calls"):
        assert reader.get(f"{path}/{made.pk}").status == 200
        assert [reader.get(f"{path}/{row.pk}").status for row in (foreign, own)] == [404, 404]
        assert bot.agent.get(f"{path}/{foreign.pk}").status == 200


def _begun(bot: Stage, run_id: UUID, request_id: UUID) -> invocations.InvocationRow:
    return invocations.begin(
        call_id=uuid7(), at=clock.database_now(), agent=(bot.bot.pk, "bot"), tool_id=None, tool_name="peer",
        method="echo", args_hash="0" * 64, request_id=request_id, run_id=run_id, source="192.0.2.7",
    )  # fmt: skip


def _written_before(bot: Stage, run_id: UUID, request_id: UUID) -> InvocationLog:
    row = InvocationLog(**invocations.end({**_begun(bot, run_id, request_id), "row_version": 1}, status="success"))
    row.save()
    return InvocationLog.objects.get(pk=row.pk)
