"""Calls over gRPC: which operation they reach, for whom, of which agent, and how they are refused."""

import asyncio
from collections import deque
from typing import Any

import grpc
import pytest

from a2a.grpc_door import heads, refusals
from a2a.wire.faults import Fault, Kind, invalid
from a2a.wire.protobuf import Rpc
from tests.a2a.grpc.door import (
    DONE,
    NEW,
    OLD,
    TASK,
    TOKEN,
    WRITER,
    Client,
    Metadata,
    Refused,
    Scripted,
    refused_by,
    served,
)  # fmt: skip

pytestmark = pytest.mark.capability("A2A-03")

MESSAGE = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "Hello"}]}
OLD_MESSAGE = {"messageId": "m", "role": "ROLE_USER", "content": [{"text": "Hello"}]}
CONFIG = {"taskId": "t", "id": "c", "url": "https://a.example/hook"}
OLD_CONFIG = {
    "name": "tasks/t/pushNotificationConfigs/c",
    "pushNotificationConfig": {"id": "c", "url": "https://a.example/hook"},
}
LISTED = {"tasks": [TASK], "nextPageToken": "n", "pageSize": 1, "totalSize": 2}
CONFIGS, SENT = {"configs": [CONFIG]}, {"message": MESSAGE}
CARD = {"name": "writer", "version": "1"}
BEARER = WRITER[:1]

#: What is sent, what the operation is asked, what it answers, and what is told.
UNARY: list[tuple[Rpc, Any, Any, Any, Any]] = [
    (NEW["SendMessage"], {"message": MESSAGE}, {"message": MESSAGE}, {"task": TASK}, {"task": TASK}),
    (NEW["GetTask"], {"id": "t", "historyLength": 0}, {"id": "t", "historyLength": 0}, TASK, TASK),
    (NEW["ListTasks"], {"pageSize": 1}, {"pageSize": 1}, LISTED, LISTED),
    (NEW["CancelTask"], {"id": "t"}, {"id": "t"}, TASK, TASK),
    (NEW["CreateTaskPushNotificationConfig"], CONFIG, CONFIG, CONFIG, CONFIG),
    (NEW["GetTaskPushNotificationConfig"], {"taskId": "t", "id": "c"}, {"taskId": "t", "id": "c"}, CONFIG, CONFIG),
    (
        NEW["ListTaskPushNotificationConfigs"],
        {"taskId": "t"},
        {"taskId": "t"},
        CONFIGS,
        CONFIGS,
    ),
    (NEW["DeleteTaskPushNotificationConfig"], {"taskId": "t", "id": "c"}, {"taskId": "t", "id": "c"}, {}, {}),
    (NEW["GetExtendedAgentCard"], {}, {}, CARD, CARD),
    (OLD["SendMessage"], {"message": OLD_MESSAGE}, SENT, SENT, {"message": OLD_MESSAGE}),
    (OLD["GetTask"], {"name": "tasks/t"}, {"id": "t"}, TASK, TASK),
    (OLD["CancelTask"], {"name": "tasks/t"}, {"id": "t"}, TASK, TASK),
    (
        OLD["CreateTaskPushNotificationConfig"],
        {"parent": "tasks/t", "configId": "c", "config": OLD_CONFIG},
        CONFIG,
        CONFIG,
        OLD_CONFIG,
    ),
    (
        OLD["GetTaskPushNotificationConfig"],
        {"name": "tasks/t/pushNotificationConfigs/c"},
        {"taskId": "t", "id": "c"},
        CONFIG,
        OLD_CONFIG,
    ),
    (
        OLD["ListTaskPushNotificationConfigs"],
        {"parent": "tasks/t"},
        {"taskId": "t"},
        {"configs": [CONFIG]},
        {"configs": [OLD_CONFIG]},
    ),
    (
        OLD["DeleteTaskPushNotificationConfig"],
        {"name": "tasks/t/pushNotificationConfigs/c"},
        {"taskId": "t", "id": "c"},
        {},
        {},
    ),
    (OLD["GetExtendedAgentCard"], {}, {}, CARD, CARD),
]


def test_every_call_reaches_its_operation_and_is_answered() -> None:
    async def run() -> None:
        operations = Scripted(deque(answer for _, _, _, answer, _ in UNARY))
        async with served(operations) as (_, client):
            for rpc, sent, params, _, told in UNARY:
                assert await client.ask(rpc, sent) == told, rpc.path
                asked = operations.asked[-1]
                assert (asked.operation, asked.version, asked.params) == (rpc.operation, rpc.version, params)
                assert (asked.agent, asked.shown.token, asked.transport) == ("writer", TOKEN, "grpc")
                assert asked.source == "127.0.0.1"
        every = (*NEW.values(), *OLD.values())
        assert {rpc.path for rpc, *_ in UNARY} == {rpc.path for rpc in every if not rpc.streams}

    asyncio.run(run())


STREAMS = [
    (NEW["SendStreamingMessage"], {"message": MESSAGE}),
    (NEW["SubscribeToTask"], {"id": "t"}),
    (OLD["SendStreamingMessage"], {"message": OLD_MESSAGE}),
    (OLD["SubscribeToTask"], {"name": "tasks/t"}),
]


@pytest.mark.parametrize(("rpc", "sent"), STREAMS, ids=lambda one: one.path if isinstance(one, Rpc) else "")
def test_streams_tell_every_item_in_order(rpc: Rpc, sent: Any) -> None:
    async def run() -> list[Any]:
        operations = Scripted(items=[{"task": TASK}, None, {"statusUpdate": DONE}])
        async with served(operations) as (_, client):
            return await client.items(rpc, sent)

    last = {**DONE, "final": True} if rpc.version == "0.3" else DONE
    assert asyncio.run(run()) == [{"task": TASK}, {"statusUpdate": last}]


def asking(rpc: Rpc, params: Any, metadata: Metadata, *, operations: Scripted | None = None, usual: str = "") -> Any:
    """What the operation was asked, or how the call was refused."""

    async def run() -> Any:
        scripted = operations or Scripted(deque([TASK]))
        async with served(scripted, usual=usual) as (_, client):
            try:
                await client.ask(rpc, params, metadata)
            except grpc.aio.AioRpcError as error:
                return refused_by(error)
            return scripted.asked[-1]

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("metadata", "tenant", "usual", "agent"),
    [
        (WRITER, "", "", "writer"),
        (BEARER, "writer", "", "writer"),
        (WRITER, "writer", "", "writer"),
        (BEARER, "", "tck", "tck"),
        (WRITER, "", "tck", "writer"),
    ],
)
def test_the_agent_is_named_by_metadata_or_tenant(metadata: Metadata, tenant: str, usual: str, agent: str) -> None:
    asked = asking(NEW["GetTask"], {"id": "t", "tenant": tenant}, metadata, usual=usual)
    assert asked.agent == agent
    assert asked.params == {"id": "t"}


@pytest.mark.parametrize(("metadata", "tenant"), [(BEARER, ""), (WRITER, "another")])
def test_a_call_for_nobody_or_for_two_is_refused(metadata: Metadata, tenant: str) -> None:
    refused = asking(NEW["GetTask"], {"id": "t", "tenant": tenant}, metadata)
    assert refused.code is grpc.StatusCode.INVALID_ARGUMENT
    assert refused.fields == ["tenant"]
    assert "x-gatehouse-agent" in refused.message


@pytest.mark.parametrize(
    ("rpc", "version", "known"),
    [
        (NEW["GetTask"], "1.0", True),
        (NEW["GetTask"], "1.0.1", True),
        (NEW["GetTask"], "", True),
        (NEW["GetTask"], "0.3", False),
        (NEW["GetTask"], "99.0", False),
        (OLD["GetTask"], "0.3", True),
        (OLD["GetTask"], "0.3.0", True),
        (OLD["GetTask"], "1.0", False),
    ],
)
def test_a_version_that_the_service_does_not_speak_is_refused_to_everybody(rpc: Rpc, version: str, known: bool) -> None:
    refused = asking(rpc, {}, [("a2a-version", version)])
    assert refused.code is (grpc.StatusCode.UNAUTHENTICATED if known else grpc.StatusCode.UNIMPLEMENTED)
    assert refused.reason == ("UNAUTHENTICATED" if known else "VERSION_NOT_SUPPORTED")


@pytest.mark.parametrize(
    ("authorization", "reason"),
    [
        ("", "no_credential"),
        ("Bearer", "malformed"),
        (f"Basic {TOKEN}", "malformed"),
        (f"Bearer {TOKEN[:-1]}", "malformed"),
    ],
    ids=["none", "no token", "another scheme", "half a token"],
)
def test_without_a_token_nothing_is_asked(authorization: str, reason: str) -> None:
    operations = Scripted()
    metadata = [("authorization", authorization), WRITER[1]] if authorization else [WRITER[1]]
    refused = asking(NEW["GetTask"], {"id": "t"}, metadata, operations=operations)
    assert refused.code is grpc.StatusCode.UNAUTHENTICATED
    assert refused.details.code == refused.code.value[0]
    assert [one.type_url for one in refused.details.details] == ["type.googleapis.com/google.rpc.ErrorInfo"]
    assert operations.asked == []


def test_metadata_that_stands_twice_is_refused() -> None:
    refused = asking(NEW["GetTask"], {"id": "t"}, [*WRITER, ("x-gatehouse-agent", "another")])
    assert refused.reason == "INVALID_REQUEST"
    assert "x-gatehouse-agent" in refused.message


def test_a_fault_tells_its_code_its_reason_its_fields_and_when_to_come_back() -> None:
    async def run() -> None:
        faults = [
            Fault(Kind.TASK_NOT_FOUND, "There is no such task."),
            invalid(("pageSize", "Give less.")),
            Fault(Kind.LIMITED, "Enough.", details={"reason": "quota_exceeded"}, retry_after=7),
        ]
        async with served(Scripted(deque(faults))) as (_, client):
            missing, wrong, limited = [
                await client.refused(client.ask(NEW["GetTask"], {"id": "t"}, [*WRITER, ("x-request-id", REQUEST)]))
                for _ in faults
            ]
        assert (missing.code, missing.reason) == (grpc.StatusCode.NOT_FOUND, "TASK_NOT_FOUND")
        assert missing.message == missing.details.message == "There is no such task."
        assert missing.trailers["x-request-id"] == REQUEST
        assert (wrong.code, wrong.reason, wrong.fields) == (
            grpc.StatusCode.INVALID_ARGUMENT, "INVALID_PARAMS", ["pageSize"]
        )  # fmt: skip
        assert (limited.code, limited.wait) == (grpc.StatusCode.RESOURCE_EXHAUSTED, 7)
        assert limited.trailers["retry-after"] == "7"

    asyncio.run(run())


REQUEST = "019aa111-2222-7333-8444-555566667777"


@pytest.mark.parametrize("kind", Kind)
def test_every_fault_has_a_status_in_both_versions(kind: Kind) -> None:
    fault = Fault(kind, "No.")
    assert refusals.code(fault).name == kind.value.grpc
    assert refusals.status(fault, "1.0").message == "No."
    assert refusals.status(fault, "0.3").message.endswith("Error: No.")


def test_more_problems_than_fit_are_told_as_far_as_they_fit() -> None:
    parts = [{"filename": "ö" * 600} for _ in range(100)]
    refused = asking(NEW["SendMessage"], {"message": {**MESSAGE, "parts": parts}}, WRITER)
    assert refused.code is grpc.StatusCode.INVALID_ARGUMENT
    assert refused.fields[0].startswith("message.parts[0]")
    assert len(refused.fields) > 5


def test_what_is_no_message_is_refused() -> None:
    async def run() -> Refused:
        async with served(Scripted()) as (_, client):
            return await client.refused(client.send(NEW["GetTask"], b"\xff\xff"))

    refused = asyncio.run(run())
    assert (refused.code, refused.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "PARSE_ERROR")


def test_what_nobody_foresaw_is_logged_and_not_told(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> Refused:
        async with served(Scripted(deque([RuntimeError("the secret")]))) as (_, client):
            return await client.refused(client.ask(NEW["GetTask"], {"id": "t"}))

    refused = asyncio.run(run())
    assert refused.code is grpc.StatusCode.INTERNAL
    assert "the secret" not in refused.message + str(refused.details)
    assert refused.trailers["x-request-id"] in refused.message
    assert "the secret" in caplog.text


def test_a_stream_that_fails_in_the_middle_says_so() -> None:
    async def run() -> tuple[list[Any], Refused]:
        operations = Scripted(items=[{"task": TASK}, Fault(Kind.FORBIDDEN, "No more.")])
        heard = []

        async def listen(client: Client) -> None:
            async for item in client.follow(NEW["SubscribeToTask"], {"id": "t"}):
                heard.append(item.task.id)  # noqa: PERF401 - what was heard before the end counts

        async with served(operations) as (_, client):
            return heard, await client.refused(listen(client))

    heard, refused = asyncio.run(run())
    assert heard == ["t"]
    assert (refused.code, refused.reason) == (grpc.StatusCode.PERMISSION_DENIED, "FORBIDDEN")


@pytest.mark.parametrize(
    ("peer", "address"),
    [
        ("ipv4:192.0.2.1:50051", "192.0.2.1"),
        ("ipv6:%5B2001:db8::1%5D:50051", "2001:db8::1"),
        ("ipv6:[2001:db8::1]:50051", "2001:db8::1"),
        ("unix:/run/a.sock", ""),
    ],
)
def test_where_a_call_comes_from(peer: str, address: str) -> None:
    assert heads.read([], peer).source == address
