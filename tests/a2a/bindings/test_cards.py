"""What endpoints refuse in every binding over HTTP, and the card for one caller."""

from typing import Any

import pytest

from a2a import card_changes, endpoint_changes
from nhi.actors import SYSTEM
from tests.a2a.bindings.conftest import AT_ONCE, Agent, in_loop
from tests.a2a.cards.reading import fitting, keys

pytestmark = [pytest.mark.capability("A2A-04", "A2A-09", "A2A-08"), pytest.mark.both_databases]
METHODS = {"1.0": "GetExtendedAgentCard", "0.3": "agent/getAuthenticatedExtendedCard"}
PATHS = {"1.0": "extendedAgentCard", "0.3": "v1/card"}


def limited(agent: Agent, **limits: Any) -> None:
    endpoint_changes.change(actor=SYSTEM, identity=agent.stage.writer, **limits)


@pytest.mark.parametrize("version", METHODS)
def test_a_caller_reads_its_own_card_in_each_binding_and_version(agent: Agent, version: str) -> None:
    skills = [{"skill_id": "draft", "name": "Draft"}, {"skill_id": "hidden", "name": "Hidden", "public": False}]
    card_changes.change(actor=SYSTEM, identity=agent.stage.writer, skills=skills)

    async def read() -> list[Any]:
        said = {"version": version} if version == "1.0" else {"version": ""}
        over_http = await agent.rest("GET", PATHS[version], a2a_version=version)
        return [await agent.call(METHODS[version], **said), await over_http.json()]

    for card in in_loop(read()):
        assert [skill["id"] for skill in card["skills"]] == ["draft", "hidden"]
        assert ("supportedInterfaces" in card) == (version == "1.0")
        assert fitting(card, keys()) == ["t1"]


def test_strangers_are_told_of_no_agent(agent: Agent) -> None:
    async def read() -> Any:
        return await agent.fault(METHODS["1.0"], token=agent.stage.stranger.token)

    assert in_loop(read())[1] == -32010


def test_a_way_in_that_is_off_is_off_and_the_other_one_is_not(agent: Agent) -> None:
    limited(agent, transports=["http_json"])

    async def ask() -> Any:
        return await agent.fault("ListTasks"), (await agent.rest("GET", "tasks")).status

    assert in_loop(ask()) == ((200, -32004), 200)


def test_operations_types_and_sizes_are_those_of_the_endpoint(agent: Agent) -> None:
    async def ask() -> list[Any]:
        streams = {**AT_ONCE, "message": {**AT_ONCE["message"], "parts": [{"data": {"a": 1}}]}}
        return [
            await agent.fault("SendStreamingMessage", AT_ONCE),
            await agent.fault("CancelTask", {"id": "0193"}),
            await agent.fault("SendMessage", streams),
        ]

    kept = ["SendMessage", "SendStreamingMessage", "GetTask"]
    limited(agent, streaming=False, supported_methods=kept, content_types=["text/plain"])
    assert in_loop(ask()) == [(200, -32004), (200, -32004), (200, -32005)]
    limited(agent, content_types=[], max_input_size=50)

    async def send() -> Any:
        return await agent.fault("SendMessage", AT_ONCE)

    assert in_loop(send())[1] == -32014


def test_a_full_agent_says_when_to_come_again(agent: Agent) -> None:
    limited(agent, tasks_per_hour=1)

    async def send() -> Any:
        await agent.call("SendMessage", AT_ONCE)
        full = await agent.rest("POST", "message:send", AT_ONCE)
        return full.status, await full.json()

    status, told = in_loop(send())
    assert status == 429
    assert "endpoint_rate_limited" in str(told)
