"""The end of a model's run before its answer: by the clock, by a person, by the kill switch, with its worker."""

from collections.abc import Callable
from typing import Any

import pytest

from nhi import actors
from nhi.identities import lifecycle
from nhi.models import Identity, InvocationLog
from supervisor import cancelling
from supervisor.models import Agent, Execution, ExecutionResult
from supervisor.runner.service import Service
from tests.mcp.peer import Peer
from tests.mcp.scene import Scene
from tests.nhi import cast
from tests.supervisor.models.endpoint import Model, call, held, streamed
from tests.supervisor.waiting import until, until_over

pytestmark = [pytest.mark.capability("SUP-13"), pytest.mark.django_db(transaction=True)]
Submit = Callable[..., Execution]
Make = Callable[..., Agent]
LONGEST = 15


def test_a_model_that_takes_too_long_is_hung_up_on_and_what_it_said_is_kept(
    runner: Service, model: Model, make_model: Make, submit: Submit
) -> None:
    model.says(held("So far"))
    run = until_over(submit(make_model(timeout=1), "Go"))
    assert (run.status, run.error_message) == ("timeout", "It did not answer within 1 s.")
    assert ExecutionResult.objects.get(execution=run).output == "So far"
    assert model.left.wait(LONGEST)


def test_a_cancel_ends_the_call_that_is_under_way_with_a_row_of_it(
    runner: Service, model: Model, server: Peer, governed: Scene, make_model: Make, grant: Any, submit: Submit
) -> None:
    agent = make_model()
    grant(agent)
    server.hold()
    model.says(streamed("", call("peer__echo", {})))
    run = submit(agent, "Go")
    until(lambda: server.calls, "the tool was called")
    runner.poke()
    cancelling.cancel(actor=actors.person(cast.user("oscar", "operator")), execution=run, reason="Enough")
    run = until_over(run)
    assert (run.status, len(model.requests)) == ("cancelled", 1)
    assert run.transitions.get(to_state="cancelled").reason == "oscar: Enough"
    row = InvocationLog.objects.get(run_id=run.pk)
    assert (row.status, row.reason) == ("error", "cancelled")
    until(lambda: server.cancelled, "the server was told")


def test_the_kill_switch_ends_it_and_its_token(runner: Service, model: Model, make_model: Make, submit: Submit) -> None:
    agent = make_model()
    model.says(held())
    run = submit(agent, "Go")
    assert model.waits.wait(LONGEST)
    identity = Identity.objects.get(pk=agent.identity_id)
    lifecycle.suspend(actor=cast.admin(), identity=identity, reason="It does odd things")
    assert until_over(run).status == "cancelled"
    assert model.left.wait(LONGEST)


def test_it_ends_with_its_worker(runner: Service, model: Model, make_model: Make, submit: Submit) -> None:
    model.says(held())
    run = submit(make_model(), "Go")
    assert model.waits.wait(LONGEST)
    runner.stop()
    run.refresh_from_db()
    assert (run.status, run.error_category) == ("failure", "SystemError")
    assert model.left.wait(LONGEST)
