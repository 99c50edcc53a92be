"""A model's endpoint that does not answer as it should: what is said of it, tried again, left alone."""

import asyncio
import json
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db.models import F

from mcp.choices import BreakerState
from mcp.limits import breakers
from mcp.models import Breaker
from nhi.models import InvocationLog
from supervisor.chat import endpoint as way
from supervisor.models import Agent, Attempt, Execution, ExecutionResult
from supervisor.runner import run as running
from supervisor.runner.guarding import guarded
from supervisor.runner.service import Service
from tests.mcp.peer import Peer
from tests.mcp.scene import Scene
from tests.nhi import cast
from tests.supervisor.models.endpoint import Handler, Model, Script, call, delta, error, event, raw, streamed, whole
from tests.supervisor.waiting import LONGEST, until_over

pytestmark = [pytest.mark.capability("SUP-13"), pytest.mark.django_db(transaction=True)]
Submit = Callable[..., Execution]
Make = Callable[..., Agent]
T, P, A = "Transient", "Permanent", "AgentError"
GARBAGE = event(delta({"content": "So"})) + b"data: {not json\n\n"
BROKEN_OFF = event(delta({"content": "So"})) + event({"error": {"message": "overloaded"}})
#: What it says, the category of the run's error, words of its message, and whether it counts against the endpoint.
CASES: dict[str, tuple[Script, str, str, bool]] = {
    "server error": (error(500), T, "status 500. It said: out of order", True),
    "overloaded": (error(503), T, "status 503", True),
    "too many requests": (error(429), T, "status 429", True),
    "wrong key": (error(401), P, "refused the agent's key", False),
    "not allowed": (error(403), P, "refused the agent's key", False),
    "no such model": (error(404), P, "status 404", False),
    "bad request": (error(400, "no tools\nhere"), P, "It said: no tools here", False),
    "elsewhere": (error(307, Location="http://127.0.0.1:9/"), P, "redirect", False),
    "cut off": (raw(event(delta({"content": "So"}))), T, "stopped before its end", True),
    "broken off": (raw(BROKEN_OFF), T, "It said: overloaded", True),
    "garbage": (raw(GARBAGE), A, "is not JSON", True),
    "a page": (raw(b"<html>Welcome</html>", "text/html"), A, "is not JSON", True),
    "a number": (raw(b"7", "application/json"), A, "no JSON object", True),
    "no choices": (raw(b'{"id": 1}', "application/json"), A, "no list of choices", True),
    "odd text": (raw(event(delta({"content": {"a": 1}}))), A, "where it should have text", True),
    "odd calls": (raw(event(delta({"tool_calls": [7]}))), A, "a tool call that is none", True),
    "endless": (streamed("x" * (way.LONGEST + 1), cuts=1 << 20), A, "longer than 1 MiB", True),
    "one endless event": (raw(b"data: " + b"x" * (way.MOST_WHOLE + 1)), A, "larger than one can be", True),
    "too many calls": (streamed("", *[call("t", {}, f"c{n}") for n in range(70)]), A, "more than 64 tools", True),
}


def by_case(handler: Handler, asked: dict[str, Any]) -> None:
    CASES[asked["model"]][0](handler, asked)


def breaker(agent: Agent) -> Breaker:
    return Breaker.objects.get(service_name=f"model:{agent.name}")


def test_each_failure_is_told_apart_and_only_the_endpoints_own_count_against_it(
    runner: Service, model: Model, make_model: Make, submit: Submit
) -> None:
    model.says(by_case)
    made = {name: make_model(name=f"case-{number}", model=name) for number, name in enumerate(CASES)}
    runs = {name: submit(agent, "Go") for name, agent in made.items()}
    found = {}
    for name, asked in runs.items():
        run = until_over(asked)
        counted = breaker(made[name]).failure_count == 1
        found[name] = run.status, run.error_category, CASES[name][2] in run.error_message or run.error_message, counted
    assert found == {name: ("failure", category, True, counts) for name, (_, category, _, counts) in CASES.items()}
    assert "So" in ExecutionResult.objects.get(execution=runs["garbage"]).output, "what came before stays"


def test_an_endpoint_that_is_not_there_may_be_back_and_one_that_may_not_be_called_stays_so(
    runner: Service, model: Model, make_model: Make, submit: Submit, settings: Any
) -> None:
    settings.EGRESS_ALLOW = settings.EGRESS_ALLOW | {"127.0.0.1:9"}
    gone = make_model(name="gone", base_url="http://127.0.0.1:9/v1")
    closed = make_model(name="closed")
    model.says(whole("Hello"))
    settings.EGRESS_ALLOW = frozenset({"127.0.0.1:9"})
    absent, forbidden = until_over(submit(gone, "Go")), until_over(submit(closed, "Go"))
    assert (absent.error_category, breaker(gone).failure_count) == (T, 1)
    assert "No connection to the endpoint" in absent.error_message
    assert (forbidden.error_category, breaker(closed).failure_count) == (P, 0)
    assert "EGRESS_ALLOW" in forbidden.error_message
    assert not model.requests


def test_another_try_goes_on_where_the_one_before_broke_off_and_waits_as_it_was_told(
    runner: Service, model: Model, server: Peer, governed: Scene, make_model: Make, grant: Any, submit: Submit,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(running, "WAITS", (0.05,))
    monkeypatch.setattr(way, "LONGEST_WAIT", 0.2)
    agent = make_model(max_retries=2)
    grant(agent)
    calls = streamed("", call("peer__echo", {"n": 1}))
    model.says(calls, error(503, Retry_After="90"), error(503), streamed("Done"))
    run = until_over(submit(agent, "Go"))
    assert (run.status, run.retry_count, run.context["model"]["steps"]) == ("success", 2, 2)
    assert len(server.calls) == 1, "no tool is called again"
    assert InvocationLog.objects.filter(run_id=run.pk).count() == 1
    assert [len(request["messages"]) for request in model.requests] == [1, 3, 3, 3]
    reasons = run.transitions.filter(to_state="failed").values_list("reason", flat=True)
    assert [reason.rpartition(" in ")[2] for reason in reasons] == ["0.2 s.", "0.05 s."]
    assert list(Attempt.objects.filter(execution=run).values_list("error_category", flat=True)) == [T, T]


@pytest.mark.both_databases
def test_after_three_failures_in_a_row_it_is_left_alone_until_somebody_resets_it_or_a_minute_has_passed(
    runner: Service, model: Model, make_model: Make, submit: Submit, monkeypatch: pytest.MonkeyPatch, client: Any
) -> None:
    monkeypatch.setattr(running, "WAITS", (0.01,))
    agent = make_model(max_retries=5)
    model.says(error(500), error(500), error(500), whole("Back"))
    run = until_over(submit(agent, "Go"))
    assert (run.error_category, run.retry_count, len(model.requests)) == (T, 3, 3)
    assert run.error_message.startswith("model:thinker failed 3 times in a row; the next try is in ")
    assert until_over(submit(agent, "Again")).retry_count == 0
    assert len(model.requests) == 3, "nobody asks it meanwhile"

    client.force_login(cast.user("zoe", "security-admin"))
    assert b"model:thinker" in client.get("/admin/mcp/breaker/").content
    path = "/api/nhi/mcp/breakers"
    listed = client.get(path).json()["breakers"]
    assert [(one["service_name"], one["state"], one["failure_threshold"]) for one in listed] == [
        ("model:thinker", "OPEN", 3)
    ]
    reset = client.post(f"{path}/model:thinker/reset", {"reason": "It is back"}, "application/json")
    assert reset.status_code == 200
    assert until_over(submit(agent, "Now?")).status == "success"

    Breaker.objects.update(state="OPEN", failure_count=3, last_state_change=F("last_state_change"))
    Breaker.objects.update(last_state_change=F("last_state_change") - timedelta(seconds=61))
    assert until_over(submit(agent, "And now?")).status == "success"
    assert breaker(agent).state == "CLOSED"


def test_who_is_stopped_while_it_becomes_the_probe_gives_that_back(monkeypatch: pytest.MonkeyPatch) -> None:
    Breaker.objects.create(service_name="model:m", state="OPEN", last_state_change=cast.past(minutes=5))
    entered, go_on, enter = threading.Event(), threading.Event(), breakers.admit_call

    def slowly(*which: Any, **how: Any) -> breakers.GuardedCall:
        passage = enter(*which, **how)
        entered.set()
        assert go_on.wait(LONGEST)
        return passage

    async def stopped() -> None:
        entering = asyncio.create_task(guarded("model:m").__aenter__())
        assert await asyncio.to_thread(entered.wait, LONGEST)
        entering.cancel()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await entering

    monkeypatch.setattr(breakers, "admit_call", slowly)
    asyncio.run(stopped())
    assert enter("model:m").breaker.state == BreakerState.HALF_OPEN


def test_a_model_that_only_calls_tools_is_ended_after_its_steps(
    runner: Service, model: Model, server: Peer, governed: Scene, make_model: Make, grant: Any, submit: Submit
) -> None:
    agent = make_model(max_steps=3)
    grant(agent)
    model.says(streamed("", call("peer__echo", {})))
    run = until_over(submit(agent, "Go"))
    assert (run.status, run.error_category) == ("failure", A)
    assert run.error_message == "It came to no answer within 3 steps."
    assert (len(model.requests), len(server.calls)) == (3, 2), "no call whose result nobody reads"


def test_an_endpoint_that_cannot_count_tokens_is_asked_without(
    runner: Service, model: Model, make_model: Make, submit: Submit
) -> None:
    def picky(handler: Handler, asked: dict[str, Any]) -> None:
        refuses = "stream_options" in json.dumps(asked)
        (error(400, "Unknown argument: stream_options") if refuses else streamed("Fine"))(handler, asked)

    model.says(picky)
    run = until_over(submit(make_model(), "Go"))
    assert (run.status, ExecutionResult.objects.get(execution=run).output) == ("success", "Fine")
