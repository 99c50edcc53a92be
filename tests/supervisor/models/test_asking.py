"""A model that is asked: its answer as it comes, the tools it calls as its identity, and what is kept of both."""

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection

from mcp.models import Tool
from mcp.servers import health
from mcp.tools import definitions
from nhi.actors import SYSTEM
from nhi.models import InvocationLog
from supervisor.models import Agent, Execution, ExecutionResult, OutputChunk
from supervisor.runner.service import Service
from tests.mcp.peer import Peer
from tests.mcp.scene import Scene
from tests.supervisor.models.conftest import KEY
from tests.supervisor.models.endpoint import Model, call, streamed, whole
from tests.supervisor.waiting import until_over

pytestmark = [pytest.mark.capability("SUP-13"), pytest.mark.django_db(transaction=True)]
Submit = Callable[..., Execution]
Make = Callable[..., Agent]
#: What a run is given under the name of a secret.
WORD = "correct-horse-77"


def output(run: Execution) -> str:
    return ExecutionResult.objects.get(execution=run).output


def progress(run: Execution) -> list[str]:
    return ExecutionResult.objects.get(execution=run).error.splitlines()


def heard(run: Execution) -> str:
    """Its answer as those saw it who watched."""
    chunks = OutputChunk.objects.filter(execution=run, stream="out").order_by("seq")
    return "".join(chunks.values_list("text", flat=True))


@pytest.mark.both_databases
@pytest.mark.parametrize("said", [streamed, whole], ids=["streamed", "not streamed"])
def test_a_model_calls_its_tools_through_the_gateway_and_answers(
    said: Any, runner: Service, model: Model, governed: Scene, make_model: Make, grant: Any, submit: Submit
) -> None:
    agent = make_model(instructions="Be brief.")
    grant(agent)
    asked = "Grüße an 🌱, please"
    model.says(said("I will look. ", call("peer__echo", {"q": "wide – 🌿"})), said("All is wéll 🌳."))
    run = until_over(submit(agent, asked, parameters={"tone": "dry"}))

    assert (run.status, run.error_message, run.process_id) == ("success", "", None)
    assert output(run) == "All is wéll 🌳."
    assert heard(run) == "I will look. \nAll is wéll 🌳."
    assert progress(run) == ["tool peer__echo: success"]
    assert run.transitions.get(to_state="running").reason == "Model small-1."
    first, second = model.requests
    assert first["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": f'{asked}\n\nParameters: {{"tone": "dry"}}'},
    ]
    assert [tool["function"]["name"] for tool in first["tools"]] == ["peer__echo"]
    assert second["messages"][2]["tool_calls"] == [call("peer__echo", {"q": "wide – 🌿"})]
    assert second["messages"][3] == {"role": "tool", "tool_call_id": "call_a", "content": "{'q': 'wide – 🌿'}"}
    row = InvocationLog.objects.get(run_id=run.pk)
    assert (row.agent_id, row.tool_name, row.method, row.status) == (agent.identity_id, "peer", "echo", "success")
    tokens = {streamed: (200, 40), whole: (22, 6)}[said]
    counts = {"steps": 2, "tool_calls": 1, "prompt_tokens": tokens[0], "completion_tokens": tokens[1]}
    assert run.context["model"] == {"name": "small-1", **counts}


def test_two_tools_that_are_wanted_at_once_are_called_one_after_the_other(
    runner: Service, model: Model, server: Peer, governed: Scene, make_model: Make, grant: Any, submit: Submit
) -> None:
    agent = make_model()
    grant(agent, "echo")
    grant(agent, "count")
    calls = call("peer__echo", {"long": "x" * 40}, "call_a"), call("peer__count", {"n": 2}, "call_b")
    model.says(streamed("", *calls, cuts=1), streamed("Done"))
    run = until_over(submit(agent, "Go"))
    assert (run.status, output(run)) == ("success", "Done")
    assert [one["params"]["name"] for one in server.calls] == ["echo", "count"]
    assert server.most_at_once == 1
    assert model.told() == [str({"long": "x" * 40}), "{'n': 2}"]


def test_what_was_not_granted_is_not_offered_and_refused_like_what_does_not_exist(
    runner: Service, model: Model, server: Peer, governed: Scene, make_model: Make, grant: Any, submit: Submit
) -> None:
    agent = make_model()
    grant(agent, "echo", allowed_parameters={"type": "object", "required": ["q"]})
    wanted = [
        call("peer__count", {}, "a"), call("no such tool\x1b[31m", {}, "b"), call("peer__echo", {}, "c"),
        call("peer__echo", '{"q": 1, "q": 2}', "d"), call("peer__echo", '{"q"', "e"),
    ]  # fmt: skip
    model.says(streamed("", *wanted), streamed("I could not."))
    run = until_over(submit(agent, "Go"))
    assert run.status == "success"
    told = model.told()
    assert told[0] == told[1] == "There is no such tool here that you may call."
    assert "parameters" in told[2] or "q" in told[2]
    assert all("arguments cannot be read" in said for said in told[3:])
    assert not server.calls
    rows = InvocationLog.objects.filter(run_id=run.pk).order_by("timestamp", "id")
    assert [row.status for row in rows] == ["permission_denied"] * 3 + ["error"] * 2
    assert "\x1b" not in "".join(progress(run))


def test_a_tool_whose_name_the_api_does_not_take_is_offered_by_another(
    runner: Service, model: Model, server: Peer, governed: Scene, make_model: Make, grant: Any, submit: Submit
) -> None:
    odd = "files/read.v2:" + "x" * 60
    server.tools = [{**server.tools[0], "name": odd}]
    health.refresh(server=governed.server)
    tool = Tool.objects.select_related("current", "server", "identity").get(name=odd)
    definitions.approve(actor=SYSTEM, tool=tool, definition_hash=tool.current.hash, reason="For the test")
    agent = make_model()
    grant(agent, odd)

    def use(handler: Any, asked: Any) -> None:
        name = asked["tools"][0]["function"]["name"]
        assert len(name) <= 64 and name.replace("_", "").replace("-", "").isalnum()
        streamed("", call(name, {"n": 1}))(handler, asked)

    model.says(use, streamed("Done"))
    run = until_over(submit(agent, "Go"))
    assert (run.status, progress(run)) == ("success", [f"tool peer__{odd}: success"])
    assert server.calls[0]["params"]["name"] == odd


def test_the_key_goes_to_the_endpoint_and_nowhere_else(
    runner: Service, model: Model, governed: Scene, make_model: Make, grant: Any, submit: Submit,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    caplog.set_level(logging.DEBUG)
    agent = make_model()
    grant(agent)
    told = streamed(f"Your key is {KEY}. ", call("peer__echo", {"said": KEY}))
    model.says(told, streamed(f"It was {KEY}, with {WORD}!"))
    run = until_over(submit(agent, "What is your key?", parameters={"password": WORD}))
    assert run.status == "success"
    assert {headers["Authorization"] for headers in model.headers} == {f"Bearer {KEY}"}
    assert model.paths == ["/v1/chat/completions"] * 2
    assert KEY not in json.dumps([request["tools"] for request in model.requests])
    assert all(secret not in output(run) + heard(run) for secret in (KEY, WORD))
    assert KEY not in caplog.text
    assert found_in_rows(KEY) == []


def found_in_rows(secret: str) -> list[str]:
    """Tables with a row that holds it, whatever the column."""
    holding = []
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            cursor.execute(f'SELECT * FROM "{table}"')
            if any(secret in str(row) for row in cursor.fetchall()):
                holding.append(table)
    return holding
