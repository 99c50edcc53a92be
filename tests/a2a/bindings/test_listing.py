"""How many tasks a list of the protocol says there are: all of the caller's own at this agent, on every page of it."""

from functools import partial

import pytest

from a2a import tallies
from a2a.choices import TaskState
from a2a.models import Tally
from tests.a2a.bindings.conftest import AT_ONCE, Agent, in_loop, run_in_thread, says

pytestmark = [pytest.mark.capability("A2A-03"), pytest.mark.both_databases]


def test_the_number_is_exact_by_state_and_conversation_before_and_after_tasks_are_tallied(agent: Agent) -> None:
    async def whole() -> None:
        sent = [(await agent.call("SendMessage", AT_ONCE))["task"] for _ in range(4)]
        for task in sent[:2]:
            await run_in_thread(partial(says, task["id"], TaskState.REJECTED))
        await agent.call("CancelTask", {"id": sent[2]["id"]})
        # Of a person, and no task of this caller's.
        await agent.call("SendMessage", AT_ONCE, token=agent.stage.admin.token)

        async def number(**asked: object) -> int:
            return int((await agent.call("ListTasks", {"pageSize": 1, **asked}))["totalSize"])

        for _ in range(2):
            assert await number() == 4
            assert await number(status="TASK_STATE_REJECTED") == 2
            assert await number(status="TASK_STATE_SUBMITTED") == 1
            assert await number(contextId=sent[0]["contextId"]) == 1
            assert await number(statusTimestampAfter=sent[1]["status"]["timestamp"]) == 4
            assert (await agent.call("ListTasks", token=agent.stage.admin.token))["totalSize"] == 1
            await run_in_thread(tallies.add_up)
        assert await run_in_thread(lambda: sum(Tally.objects.values_list("tasks", flat=True))) == 3

    in_loop(whole())
