"""Seed 001's envelope: a task is sent and asked after in it, by the rules of every other way."""

import json
import uuid
from datetime import datetime
from typing import Any

import pytest

from a2a import endpoint_changes
from a2a.models import Task
from nhi.actors import SYSTEM
from tests.a2a.conftest import Stage
from tests.api.callers import ABSENT, Caller, Reply, calling
from tests.nhi import cast

pytestmark = [pytest.mark.capability("A2A-10"), pytest.mark.both_databases]
MINUTES = {"input": "Summarise the minutes."}


def written(method: str = "execute-agent", params: Any = None, *, to: str = "writer", **more: Any) -> dict[str, Any]:
    context: dict[str, Any] = {
        "from": "planner",
        "to": to,
        "conversationId": "c-1",
        "messageId": "m-1",
        **more.pop("context", {}),
    }
    whole = {"protocol": "a2a", "version": "0.3.0", "id": "e-1", "type": "request", "timestamp": "2026-11-18T10:00:00Z"}
    return {**whole, "context": context, "payload": {"method": method, "params": params or {}}, **more}


def post(caller: Caller, envelope: Any, path: str = "/a2a/envelope", **headers: str) -> Reply:
    return caller.send("POST", path, json.dumps(envelope), **headers)


def result(caller: Caller, envelope: Any, **headers: str) -> Any:
    reply = post(caller, envelope, **headers)
    assert (reply.status, reply.body["type"]) == (200, "response"), reply.body
    return reply.body["payload"]["result"]


def refused(caller: Caller, envelope: Any, **headers: str) -> Any:
    reply = post(caller, envelope, **headers)
    assert (reply.status, reply.body["type"]) == (200, "error"), reply.body
    return reply.body["payload"]["error"]


@pytest.mark.parametrize("path", ["/a2a/envelope", "/api/nhi/a2a/envelope"])
def test_an_envelope_is_answered_with_one(stage: Stage, path: str) -> None:
    body = post(stage.sender, written(params=MINUTES), path).body
    assert set(body) == {"protocol", "version", "id", "type", "timestamp", "inResponseTo", "context", "payload"}
    assert (body["protocol"], body["version"], body["type"], body["inResponseTo"]) == (
        "a2a",
        "0.3.0",
        "response",
        "e-1",
    )
    assert uuid.UUID(body["id"])
    assert datetime.fromisoformat(body["timestamp"]).tzinfo is not None
    assert body["context"] == {"from": "writer", "to": "planner", "conversationId": "c-1", "messageId": "m-1"}
    task = Task.objects.get(pk=body["payload"]["result"]["id"])
    assert (task.agent, task.source, task.context_id) == (stage.writer, stage.planner, "c-1")


def test_what_is_sent_is_worked_on_and_its_status_tells(stage: Stage) -> None:
    given = {"input": {"document": "minutes.md"}, "parameters": {"words": 50}, "taskType": "summarise"}
    sent = result(stage.sender, written(params=given))
    assert (sent["kind"], sent["status"]["state"]) == ("task", "submitted")
    claimed = stage.claims(sent["id"]).body
    assert claimed["input"] == {"input": given["input"], "parameters": given["parameters"]}
    assert Task.objects.get().task_type == "summarise"
    stage.tells(sent["id"], "complete", lease_token=claimed["lease_token"], result={"summary": "All agreed."})
    now = result(stage.sender, written("status", {"id": sent["id"]}))
    assert now["status"]["state"] == "completed"
    assert now["artifacts"][0]["parts"][0]["data"] == {"summary": "All agreed."}


def test_an_agent_is_named_by_its_id_too_and_a_conversation_made_up(stage: Stage) -> None:
    envelope = written(params=MINUTES, to=str(stage.writer.pk), context={"from": "", "conversationId": ""})
    body = post(stage.sender, envelope).body
    assert uuid.UUID(body["context"]["conversationId"])
    assert Task.objects.get().context_id == body["context"]["conversationId"]


@pytest.mark.parametrize("version", ["1.0", "0.3"])
def test_a_whole_message_is_in_the_envelopes_version(stage: Stage, version: str) -> None:
    kind = {"kind": "text"} if version == "0.3" else {}
    role = "user" if version == "0.3" else "ROLE_USER"
    message = {"messageId": "m-7", "role": role, "parts": [{**kind, "text": "Summarise."}]}
    told = result(stage.sender, written(params={"message": message}, version=version))
    task = told["task"] if version == "1.0" else told
    assert task["history"][0]["messageId"] == "m-7"
    assert task["history"][0]["parts"] == [{**kind, "text": "Summarise."}]
    assert (task["contextId"], task["history"][0]["role"]) == ("c-1", role)


def test_a_conversation_is_named_once(stage: Stage) -> None:
    message = {"messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "a"}], "contextId": "c-2"}
    error = refused(stage.sender, written(params={"message": message}))
    assert error["code"] == -32602
    assert violations(error) == ["context.conversationId"]


@pytest.mark.parametrize(
    ("changed", "code", "fields"),
    [
        ({"protocol": "mcp"}, -32600, ["protocol"]),
        ({"version": "2.0"}, -32600, ["version"]),
        ({"type": "response"}, -32600, ["type"]),
        ({"timestamp": "yesterday"}, -32600, ["timestamp"]),
        ({"id": ""}, -32600, ["id"]),
        ({"id": 7, "context": []}, -32600, ["id", "context"]),
        ({"payload": {}}, -32600, ["payload.method"]),
        ({"payload": {"method": "stop"}}, -32601, []),
        ({"payload": {"method": "execute-agent"}}, -32602, ["payload.params.input"]),
        ({"payload": {"method": "execute-agent", "params": {"input": 7}}}, -32602, ["payload.params.input"]),
        (
            {"payload": {"method": "execute-agent", "params": {"message": {"parts": []}}}},
            -32602,
            ["payload.params.message.messageId", "payload.params.message.role"],
        ),
        ({"payload": {"method": "status", "params": {"id": 5}}}, -32602, ["payload.params.id"]),
    ],
)  # fmt: skip
def test_what_cannot_be_taken_is_told_with_its_place(stage: Stage, changed: Any, code: int, fields: list[str]) -> None:
    error = refused(stage.sender, {**written(params=MINUTES), **changed})
    assert error["code"] == code
    assert set(fields) <= set(violations(error))
    assert not Task.objects.exists()


def violations(error: Any) -> list[str]:
    return [one["field"] for part in error["data"] for one in part.get("fieldViolations", [])]


def test_nobody_writes_in_anothers_name(stage: Stage) -> None:
    """Not even who may send in the name of others elsewhere: told alike whether or not there is such a one."""
    others = [
        refused(caller, written(params=MINUTES, context={"from": name}))
        for caller in (stage.sender, stage.admin)
        for name in (str(stage.writer.pk), "other", "nobody", ABSENT)
    ]
    assert others[0]["code"] == -32012
    assert all(one == others[0] for one in others)
    own = written(params=MINUTES, context={"from": str(stage.planner.pk)})
    assert result(stage.sender, own)["id"]


def test_unknown_and_hidden_agents_are_told_alike(stage: Stage) -> None:
    cast.agent("elsewhere")
    for method, params in (("execute-agent", MINUTES), ("status", {"id": ABSENT}), ("status", {})):
        told = [
            refused(stage.stranger, written(method, params, to=to, context={"from": ""}))
            for to in ("writer", str(stage.writer.pk), "elsewhere", "nobody", ABSENT)
        ]
        assert told[0]["code"] == -32010
        assert all(one == told[0] for one in told)


def test_a_task_of_another_is_told_as_none(stage: Stage) -> None:
    sent = result(stage.sender, written(params=MINUTES))
    third = cast.agent("third")
    cast.nhi_grant(third, stage.writer)
    asks = calling(third)
    theirs = [refused(asks, written("status", {"id": one}, context={"from": ""})) for one in (sent["id"], ABSENT)]
    assert theirs[0]["code"] == -32001
    assert theirs[0] == theirs[1]


def test_grants_and_settings_of_the_agent_hold_here(stage: Stage) -> None:
    stage.grant.allowed_actions = ["translate"]
    stage.grant.save()
    assert refused(stage.sender, written(params={**MINUTES, "taskType": "summarise"}))["code"] == -32012
    endpoint_changes.change(actor=SYSTEM, identity=stage.writer, transports=["json_rpc"])
    assert refused(stage.sender, written(params={**MINUTES, "taskType": "translate"}))["code"] == -32004
    endpoint_changes.change(actor=SYSTEM, identity=stage.writer, transports=["http_json"], max_input_size=10)
    assert refused(stage.sender, written(params={**MINUTES, "taskType": "translate"}))["code"] == -32014


def test_the_same_key_is_the_same_task(stage: Stage) -> None:
    key = {"Idempotency-Key": "k-1"}
    first, again = (result(stage.sender, written(params=MINUTES), **key) for _ in range(2))
    assert first["id"] == again["id"]
    assert refused(stage.sender, written(params={"input": "Another."}), **key)["code"] == -32013


def test_what_was_never_an_envelope_is_refused_as_everywhere(stage: Stage) -> None:
    assert post(Caller(), written()).is_refused(401, "Unauthorized", "no_credential")
    assert stage.sender.send("POST", "/a2a/envelope", "{").is_refused(400, "InvalidParameters", "bad_json")
    assert refused(stage.sender, [])["code"] == -32600
    auditor = cast.user("ada", "auditor")
    assert post(calling(auditor), written()).is_refused(403, "Unauthorized", "only_reads")


@pytest.mark.parametrize("path", ["/a2a/status", "/api/nhi/a2a/status"])
def test_the_status_counts_what_the_caller_has_open(stage: Stage, path: str) -> None:
    ended, running, _ = stage.sent(), stage.sent(), stage.sent()
    stage.sender.post(f"a2a/tasks/{ended}/cancel")
    stage.claimed(running)
    open_tasks = {"pending": 1, "running": 1}
    assert stage.sender.get(path).body == {
        "versions": ["1.0", "0.3"],
        "bindings": ["JSONRPC", "HTTP+JSON", "GRPC"],
        "methods": ["execute-agent", "status"],
        "open_tasks": open_tasks,
    }
    nothing = {"pending": 0, "running": 0}
    assert stage.stranger.get(path).body["open_tasks"] == stage.worker.get(path).body["open_tasks"] == nothing
    assert result(stage.sender, written("status", to=""))["openTasks"] == open_tasks
    assert result(stage.sender, written("status"))["openTasks"] == open_tasks
    assert Caller().get(path).is_refused(401, "Unauthorized", "no_credential")
