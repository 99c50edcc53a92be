"""What hostile callers and agents send leaves nothing undone, unrecorded or unanswered."""

import asyncio
import json
from typing import Any
from unittest.mock import patch

import pytest
from django.db import DatabaseError
from django.db import connection as db_connection

from a2a.choices import TaskState
from a2a.models import SentOnce, Task
from a2a.operations import asking, reading
from a2a.operations.desk import _sound
from a2a.wire.faults import Fault, Kind
from nhi.actors import SYSTEM
from nhi.credentials import credentials, tokens
from nhi.decisions.delegation import ChainLink, DelegationChain
from nhi.models import AuditEvent, Credential
from tests.a2a.bindings.conftest import AT_ONCE, SENT, Agent, heard, in_loop, run_in_thread, says
from tests.nhi import cast
from tests.nhi.tokens import of_run
from tests.supervisor.waiting import until

pytestmark = [pytest.mark.capability("A2A-08", "A2A-03"), pytest.mark.both_databases]
HUGE = 99_999_999_999_999_999_999


def refusals() -> int:
    return AuditEvent.objects.filter(event="task.refused").count()


def test_a_refusal_under_a_key_is_on_record(agent: Agent) -> None:
    agent.stage.grant.allowed_actions = ["ok"]
    agent.stage.grant.save()
    wrong = {**AT_ONCE, "metadata": {"task_type": "bad"}}

    async def whole() -> None:
        for number, headers in enumerate(({}, {"idempotency_key": "k-1"}), 1):
            assert await agent.fault("SendMessage", wrong, **headers) == (403, -32012)
            assert await run_in_thread(refusals) == number

    in_loop(whole())
    reply = agent.stage.sends(key="k-2", task_type="bad")
    assert (reply.status, refusals(), SentOnce.objects.count()) == (403, 3, 0)
    foreign = agent.stage.sends(source_agent_id=str(cast.agent("foreign").pk))
    assert (foreign.status, foreign.reason, refusals()) == (403, "source_not_yours", 4)


def test_a_key_is_no_place_for_a_token(agent: Agent) -> None:
    async def whole() -> None:
        assert await agent.fault("SendMessage", AT_ONCE, idempotency_key=agent.token) == (200, -32602)

    in_loop(whole())


def test_numbers_that_few_can_read_are_refused_and_told_where_they_were_kept(agent: Agent) -> None:
    async def whole() -> None:
        body = {**AT_ONCE["message"], "parts": [{"data": {"n": HUGE}}]}
        assert await agent.fault("SendMessage", {"message": body}) == (200, -32700)
        task_id = (await agent.call("SendMessage", AT_ONCE))["task"]["id"]
        await run_in_thread(lambda: Task.objects.filter(pk=task_id).update(metadata={"n": HUGE}))
        assert (await agent.call("GetTask", {"id": task_id}))["metadata"] == {"n": HUGE}

    in_loop(whole())


ODD = (
    "&".join(f"a{number}=1" for number in range(99)),
    "statusTimestampAfter=0001-01-01T00:00:00%2B14:00",
    "contextId=%00",
)


@pytest.mark.parametrize("query", ODD)
def test_odd_queries_are_answered_in_the_protocols_words(agent: Agent, query: str) -> None:
    async def whole() -> None:
        for token, statuses in ((agent.token, {200, 400}), ("", {401})):
            answer = await agent.rest("GET", "tasks", token=token, query=query)
            assert answer.status in statuses
            json.loads(await answer.text())

    in_loop(whole())


def test_much_is_read_from_those_alone_who_may_ask(agent: Agent) -> None:
    made_up = tokens.make_credential_token("agt").token

    async def whole() -> None:
        many = b'{"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"x": [' + b"[]," * 250_000 + b"[]]}}"
        how: dict[str, Any] = {
            "content_type": "application/json",
            "content_length": str(len(many)),
            "a2a_version": "1.0",
        }
        answer = await agent.ask("POST", "/agents/writer/", made_up, "", many, **how)
        assert answer.status == 401
        assert (await answer.json())["error"]["code"] == -32011
        told = await (await agent.ask("POST", "/agents/writer/", agent.token, "", many, **how)).json()
        assert (told["error"]["code"], "values" in told["error"]["message"]) == (-32700, True)

    in_loop(whole())


def test_metadata_is_kept_without_its_secrets(agent: Agent) -> None:
    secret = f"ghp_{'H' * 36}"

    async def whole() -> None:
        sent = {**AT_ONCE, "metadata": {"password": "hunter2hunter2", "note": secret, "error_code": "made_up"}}
        task = (await agent.call("SendMessage", sent))["task"]
        assert secret not in json.dumps(task)
        assert "hunter2" not in json.dumps(task)
        assert "error_code" not in task["metadata"]

    in_loop(whole())


def test_who_was_stopped_is_told_nothing_more(agent: Agent) -> None:
    def revoke() -> None:
        found = Credential.objects.get(identity=agent.stage.planner)
        credentials.revoke(actor=SYSTEM, credential=found, reason="leaked")

    async def whole() -> None:
        waiting = asyncio.create_task(agent.rpc("SendMessage", SENT))
        task_id = await run_in_thread(_first)
        following = await agent.rpc("SubscribeToTask", {"id": task_id})
        await run_in_thread(revoke)
        await asyncio.sleep(1.1)  # the second for which the judgement before it holds
        await run_in_thread(lambda: says(task_id, TaskState.WORKING, "something private"))
        *events, last = await heard(following)
        assert (last.name, "private" in str(events)) == ("error", False)
        await run_in_thread(lambda: says(task_id, TaskState.COMPLETED))
        assert (await waiting).status == 401

    def _first() -> str:
        until(Task.objects.exists, "the task was written")
        return str(Task.objects.get().pk)

    in_loop(whole())


def test_a_stream_begins_and_ends_whatever_its_caller_says_to_have_seen(agent: Agent) -> None:
    async def whole() -> None:
        task_id = (await agent.call("SendMessage", AT_ONCE))["task"]["id"]
        # Long before its caller is judged again: there is nothing to tell yet.
        async with asyncio.timeout(asking.JUDGED_EVERY / 2):
            following = await agent.rpc("SubscribeToTask", {"id": task_id}, last_event_id="99999999")
        await run_in_thread(lambda: says(task_id, TaskState.CANCELED))
        assert [event.id for event in await heard(following)] == ["2"]

    in_loop(whole())


def test_a_run_that_acts_for_others_says_nothing_in_tasks_of_before(agent: Agent) -> None:
    """What it may not ask of an agent by a new task it may not ask by an answer in an old one."""
    stage, lead = agent.stage, cast.agent("lead")
    says(stage.sent(), TaskState.INPUT_REQUIRED, "Which?")
    task_id = str(Task.objects.get().pk)
    run = of_run(
        identity=stage.planner, execution_id=Task.objects.get().pk, seconds=60, actor=SYSTEM,
        chain=DelegationChain((ChainLink(lead.pk, lead.name),), principal_count=1),
    )  # fmt: skip
    more = {"message": {**SENT["message"], "taskId": task_id}, "configuration": {"returnImmediately": True}}

    async def whole() -> None:
        # A run's token does not even see a task that is none of its run's.
        assert await agent.fault("SendMessage", more, token=run) == (200, -32001)
        assert (await agent.call("SendMessage", more))["task"]["status"]["state"] == "TASK_STATE_WORKING"

    in_loop(whole())


def test_who_follows_too_much_has_sent_nothing_by_asking(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "MOST_STREAMS", 1)

    async def whole() -> None:
        task_id = (await agent.call("SendMessage", AT_ONCE))["task"]["id"]
        following = await agent.rpc("SubscribeToTask", {"id": task_id})
        crowded = await agent.rpc("SendStreamingMessage", SENT)
        assert crowded.status == 429
        assert await run_in_thread(Task.objects.count) == 1
        await run_in_thread(lambda: says(task_id, TaskState.CANCELED))
        await heard(following)
        # Its place is free again.
        again = await agent.rpc("SendStreamingMessage", SENT)
        assert again.status == 200
        await again.leave()

    in_loop(whole())


def test_a_refusal_costs_no_connection(transactional_db: None) -> None:
    def refused() -> None:
        raise Fault(Kind.NOT_FOUND, "There is nothing here.")

    def broken() -> None:
        # What was rolled back in good order has left a connection that works.
        with db_connection.cursor() as cursor:
            cursor.execute("SELECT nothing FROM nowhere")

    db_connection.ensure_connection()
    before = db_connection.connection
    with pytest.raises(Fault):
        _sound(refused)
    assert db_connection.connection is before
    with patch.object(db_connection, "close") as closed, pytest.raises(DatabaseError):
        _sound(broken)
    closed.assert_called_once()


def test_a_page_of_a_list_is_no_larger_than_can_be_held(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MOST_BYTES", 2000)
    large = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x" * 900}]}

    async def whole() -> None:
        sent = [(await agent.call("SendMessage", {**AT_ONCE, "message": large}))["task"]["id"] for _ in range(4)]
        found, token, pages = [], "", 0
        while token or not pages:
            page = await agent.call("ListTasks", {"includeArtifacts": True, "pageToken": token})
            found += [task["id"] for task in page["tasks"]]
            token, pages = page["nextPageToken"], pages + 1
        assert (found, pages > 1) == (sent[::-1], True)
        # Without what makes them large, all of them fit.
        assert len((await agent.call("ListTasks", {}))["tasks"]) == 4

    in_loop(whole())
