"""Requests of 0.3 as clients send them, told in 1.0's words, or refused with every problem named."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from a2a.operations.table import OLD_NAMES
from a2a.wire import protobuf
from a2a.wire.faults import Fault, Kind, invalid
from a2a.wire.v03 import errors, json, protojson
from a2a.wire.v03 import protobuf as old
from a2a.wire.v1 import protobuf as new
from a2a.wire.v1.requests import READERS
from tests.a2a.wire import shapes

pytestmark = pytest.mark.capability("A2A-03")

TEXT = {"kind": "text", "text": "Hello"}
HELLO = {"kind": "message", "messageId": "m1", "role": "user", "parts": [TEXT]}
SAID = {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": "Hello"}]}
PROTO = {"messageId": "m1", "role": "ROLE_USER", "content": [{"text": "Hello"}]}
CALLBACK = {"url": "https://a.example/hook"}


def hello(*parts: Any) -> Any:
    return {"message": {**HELLO, "parts": list(parts)}}


def proto(*content: Any) -> Any:
    return {"message": {**PROTO, "content": list(content)}}


def said(*parts: Any) -> Any:
    return {"message": {**SAID, "parts": list(parts)}}


def test_every_operation_of_a_version_is_in_its_tables() -> None:
    """Listing tasks is new in 1.0."""
    assert set(new.OPERATIONS) == set(READERS)
    for codecs in (json.OPERATIONS, protojson.OPERATIONS, old.OPERATIONS):
        assert set(codecs) == set(READERS) - {"ListTasks"}
    assert {operation.name for operation in OLD_NAMES.values()} == set(json.OPERATIONS)
    assert sorted(rpc.operation for rpc in new.RPCS) == sorted(READERS)
    assert sorted(rpc.operation for rpc in old.RPCS) == sorted(old.OPERATIONS)
    for codecs in (new.OPERATIONS, json.OPERATIONS, protojson.OPERATIONS, old.OPERATIONS):
        streams = {operation for operation, codec in codecs.items() if codec.write_item is not None}
        assert streams == {"SendStreamingMessage", "SubscribeToTask"}


@pytest.mark.parametrize(
    ("operation", "params", "read"),
    [
        ("SendMessage", {"message": HELLO}, {"message": SAID}),
        ("SendMessage", {"message": {**HELLO, "taskId": "", "contextId": None}}, {"message": SAID}),
        (
            "SendMessage",
            {"message": HELLO, "configuration": {"blocking": False}},
            {"message": SAID, "configuration": {"returnImmediately": True}},
        ),
        (
            "SendStreamingMessage",
            {"message": HELLO, "configuration": {"pushNotificationConfig": {**CALLBACK, "authentication": {}}}},
            {"message": SAID, "configuration": {"taskPushNotificationConfig": CALLBACK}},
        ),
        (
            "SendMessage",
            {
                "message": {
                    **HELLO,
                    "parts": [{"kind": "file", "file": {"name": "a", "mimeType": "a/b", "bytes": "AA=="}}],
                }
            },
            {"message": {**SAID, "parts": [{"raw": "AA==", "filename": "a", "mediaType": "a/b"}]}},
        ),
        (
            "SendMessage",
            {
                "message": {
                    **HELLO,
                    "parts": [{"kind": "data", "data": {"value": 1}, "metadata": {"data_part_compat": True}}],
                }
            },
            {"message": {**SAID, "parts": [{"data": 1}]}},
        ),
        ("GetTask", {"id": "t", "historyLength": 0, "metadata": {}}, {"id": "t", "historyLength": 0}),
        ("CancelTask", {"id": "t", "metadata": {"why": "late"}}, {"id": "t", "metadata": {"why": "late"}}),
        ("SubscribeToTask", {"id": "t"}, {"id": "t"}),
        (
            "CreateTaskPushNotificationConfig",
            {
                "taskId": "t",
                "pushNotificationConfig": {
                    **CALLBACK,
                    "authentication": {"schemes": ["Bearer", "x"], "credentials": "c"},
                },
            },
            {"taskId": "t", **CALLBACK, "authentication": {"scheme": "Bearer", "credentials": "c"}},
        ),
        ("GetTaskPushNotificationConfig", {"id": "t"}, {"taskId": "t"}),
        ("GetTaskPushNotificationConfig", {"id": "t", "pushNotificationConfigId": "c"}, {"taskId": "t", "id": "c"}),
        ("ListTaskPushNotificationConfigs", {"id": "t"}, {"taskId": "t"}),
        ("DeleteTaskPushNotificationConfig", {"id": "t", "pushNotificationConfigId": "c"}, {"taskId": "t", "id": "c"}),
        ("GetExtendedAgentCard", {}, {}),
    ],
)
def test_the_json_of_0_3(operation: str, params: Any, read: Any) -> None:
    assert json.OPERATIONS[operation].read(params) == read


WRONG_PARTS = [{"kind": "song"}, {"kind": "text", "data": {}}, {}]
SECRET = {"credentials": "c"}
CONFIG = "tasks/t/pushNotificationConfigs/c"


@pytest.mark.parametrize(
    ("operation", "params", "read"),
    [
        ("SendMessage", {"request": PROTO}, {"message": SAID}),
        ("SendMessage", {"message": PROTO}, {"message": SAID}),
        ("SendMessage", {"message": {**HELLO, "role": "user"}}, {"message": SAID}),
        (
            "SendMessage",
            {"message": {"message_id": "m1", "role": "ROLE_USER", "content": [{"text": "Hello"}]}, "configuration": {}},
            {"message": SAID, "configuration": {"returnImmediately": True}},
        ),
        (
            "SendMessage",
            {"message": PROTO, "configuration": {"blocking": True, "historyLength": 0}},
            {"message": SAID, "configuration": {"returnImmediately": False}},
        ),
        (
            "SendMessage",
            proto({"file": {"file_with_uri": "", "file_with_bytes": "AA==", "mime_type": ""}}),
            {"message": {**SAID, "parts": [{"raw": "AA=="}]}},
        ),
        ("SendMessage", proto({"data": {"data": {"a": 1}}}), said({"data": {"a": 1}})),
        ("GetTask", {"name": "tasks/t", "history_length": "3"}, {"id": "t", "historyLength": 3}),
        ("CancelTask", {"name": "tasks/t"}, {"id": "t"}),
        ("SubscribeToTask", {"name": "tasks/t"}, {"id": "t"}),
        (
            "CreateTaskPushNotificationConfig",
            {"parent": "tasks/t", "config_id": "c", "config": {"name": CONFIG, "push_notification_config": CALLBACK}},
            {"taskId": "t", "id": "c", **CALLBACK},
        ),
        (
            "CreateTaskPushNotificationConfig",
            {"parent": "tasks/t", "pushNotificationConfig": CALLBACK},
            {"taskId": "t", **CALLBACK},
        ),
        ("GetTaskPushNotificationConfig", {"name": CONFIG}, {"taskId": "t", "id": "c"}),
        ("DeleteTaskPushNotificationConfig", {"name": CONFIG}, {"taskId": "t", "id": "c"}),
        ("SendMessage", proto({"file": {"fileWithBytes": "U0dWc2JHOD0="}}), said({"raw": "SGVsbG8="})),
        ("SendMessage", proto({"file": {"fileWithBytes": "SGVsbG8="}}), said({"raw": "SGVsbG8="})),
        ("GetTask", {"id": "t"}, {"id": "t"}),
        ("CancelTask", {"id": "t"}, {"id": "t"}),
        ("CreateTaskPushNotificationConfig", {"taskId": "t", **CALLBACK}, {"taskId": "t", **CALLBACK}),
        ("GetTaskPushNotificationConfig", {"taskId": "t", "id": "c"}, {"taskId": "t", "id": "c"}),
        ("ListTaskPushNotificationConfigs", {"taskId": "t"}, {"taskId": "t"}),
        ("SendMessage", hello({"kind": "data", "data": {"a": 1}}), said({"data": {"a": 1}})),
        ("ListTaskPushNotificationConfigs", {"parent": "tasks/t", "pageSize": 0, "pageToken": ""}, {"taskId": "t"}),
        ("GetExtendedAgentCard", {}, {}),
    ],
)
def test_the_rest_of_0_3(operation: str, params: Any, read: Any) -> None:
    assert protojson.OPERATIONS[operation].read(params) == read


@pytest.mark.parametrize(
    ("read", "params", "fields"),
    [
        (json.OPERATIONS["SendMessage"].read, {}, ["message"]),
        (
            json.OPERATIONS["SendMessage"].read,
            {
                "message": {"kind": "task", "role": "boss", "parts": WRONG_PARTS},
                "configuration": {"blocking": "soon", "pushNotificationConfig": {"authentication": SECRET}},
            },
            [
                "message.messageId",
                "message.kind",
                "message.role",
                "message.parts[0].kind",
                "message.parts[0]",
                "message.parts[1]",
                "message.parts[2]",
                "configuration.pushNotificationConfig.url",
                "configuration.pushNotificationConfig.authentication.schemes",
                "configuration.blocking",
            ],
        ),
        (
            json.OPERATIONS["SendMessage"].read,
            {"message": {**HELLO, "role": "agent", "parts": []}},
            ["message.role", "message.parts"],
        ),
        (
            json.OPERATIONS["SendMessage"].read,
            hello({"kind": "file", "file": {"bytes": "?", "uri": "u"}}, {"kind": "data", "data": 1}),
            ["message.parts[0].file.bytes", "message.parts[1].data"],
        ),
        (json.OPERATIONS["DeleteTaskPushNotificationConfig"].read, {"id": "t"}, ["pushNotificationConfigId"]),
        (protojson.OPERATIONS["GetTask"].read, {"name": "t", "historyLength": -1}, ["name", "historyLength"]),
        (protojson.OPERATIONS["GetTaskPushNotificationConfig"].read, {"name": "tasks/t"}, ["name"]),
        (
            protojson.OPERATIONS["SendMessage"].read,
            {"message": {"role": "ROLE_AGENT", "content": [{}]}},
            ["message.messageId", "message.role", "message.content[0]"],
        ),
    ],
)
def test_every_problem_is_named(read: Any, params: Any, fields: list[str]) -> None:
    with pytest.raises(Fault) as refused:
        read(params)
    assert refused.value.kind is Kind.INVALID_PARAMS
    assert [field for field, _ in refused.value.fields] == fields


ALL = [codec.read for codecs in (new.OPERATIONS, json.OPERATIONS, protojson.OPERATIONS) for codec in codecs.values()]
NAMES = st.sampled_from(
    ["message", "request", "role", "kind", "parts", "content", "text", "file", "data", "bytes", "configuration", "id",
     "name", "parent", "config", "authentication", "schemes", "url", "pushNotificationConfig", "historyLength"]
)  # fmt: skip
ANYTHING = st.recursive(
    shapes.values, lambda one: st.dictionaries(NAMES, one, max_size=5) | st.lists(one, max_size=2), max_leaves=12
)  # fmt: skip


@given(st.sampled_from(ALL), st.dictionaries(NAMES, ANYTHING, max_size=4))
def test_whatever_comes_is_read_or_refused(read: Any, params: Any) -> None:
    try:
        assert isinstance(read(params), dict)
    except Fault as fault:
        assert fault.kind is Kind.INVALID_PARAMS
        assert fault.fields


@pytest.mark.parametrize("kind", Kind)
def test_a_fault_in_the_words_of_0_3(kind: Kind) -> None:
    told = errors.write_jsonrpc(Fault(kind, "No.", details={"state": "completed"}))
    assert told == {"code": kind.value.jsonrpc, "message": "No.", "data": {"details": {"state": "completed"}}}
    assert errors.write_rest(Fault(kind, "No."))["error"].endswith("Error")


def test_a_refusal_in_the_words_of_0_3() -> None:
    fault = invalid(("message.parts", "Give at least one part."))
    fields = [{"field": "message.parts", "message": "Give at least one part."}]
    assert errors.write_jsonrpc(fault)["data"] == {"fields": fields}
    assert errors.write_rest(fault) == {"error": "InvalidParamsError", "message": str(fault), "fields": fields}
    assert errors.name(Kind.TASK_NOT_CANCELABLE) == "TaskNotCancelableError"


def test_a_card_of_0_3_in_protocol_buffers() -> None:
    card = {
        "name": "writer",
        "protocolVersion": "0.3.0",
        "capabilities": {"streaming": True, "extendedAgentCard": True},
        "securitySchemes": {
            "bearer": {"type": "http", "scheme": "bearer"},
            "key": {"type": "apiKey", "in": "header", "name": "X-Key"},
            "same": {"httpAuthSecurityScheme": {"scheme": "bearer"}},
        },
        "security": [{"bearer": []}],
        "skills": [{"id": "s", "name": "S", "tags": ["t"], "security": [{"bearer": ["a"]}]}],
    }
    rpc = next(rpc for rpc in old.RPCS if rpc.operation == "GetExtendedAgentCard")
    assert protobuf.as_json(rpc.write(card)) == {
        "name": "writer",
        "protocolVersion": "0.3.0",
        "capabilities": {"streaming": True},
        "securitySchemes": {
            "bearer": {"httpAuthSecurityScheme": {"scheme": "bearer"}},
            "key": {"apiKeySecurityScheme": {"location": "header", "name": "X-Key"}},
            "same": {"httpAuthSecurityScheme": {"scheme": "bearer"}},
        },
        "security": [{"schemes": {"bearer": {}}}],
        "skills": [{"id": "s", "name": "S", "tags": ["t"], "security": [{"schemes": {"bearer": {"list": ["a"]}}}]}],
    }
