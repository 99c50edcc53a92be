"""What goes through an encoding and back is what it was, as far as that encoding can say it."""

from typing import Any

import pytest
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st

from a2a.wire import protobuf
from a2a.wire.codecs import Codecs
from a2a.wire.protobuf import Rpc
from a2a.wire.v03 import json, protojson, words
from a2a.wire.v03 import protobuf as old
from a2a.wire.v1 import protobuf as new
from tests.a2a.wire import shapes

pytestmark = pytest.mark.capability("A2A-03")

NEW = {rpc.operation: rpc for rpc in new.RPCS}
OLD = {rpc.operation: rpc for rpc in old.RPCS}


def over_the_wire(message: Message) -> Message:
    return type(message).FromString(message.SerializeToString())


def answered(rpc: Rpc, body: Any) -> Any:
    """As the other side reads it."""
    return protobuf.as_json(over_the_wire(rpc.write(body)))


def told(rpc: Rpc, item: Any) -> Any:
    return protobuf.as_json(over_the_wire(rpc.write_item(item)))


@given(shapes.items)
def test_a_stream_in_protocol_buffers_of_1_0(item: Any) -> None:
    assert told(NEW["SendStreamingMessage"], item) == item
    assert told(NEW["SubscribeToTask"], item) == item


@given(shapes.tasks)
def test_a_task_in_protocol_buffers_of_1_0(task: Any) -> None:
    assert answered(NEW["GetTask"], task) == task
    listed = {"tasks": [task], "nextPageToken": "more", "pageSize": 50, "totalSize": 51}
    assert answered(NEW["ListTasks"], listed) == listed


@given(shapes.configs)
def test_a_push_config_in_protocol_buffers_of_1_0(config: Any) -> None:
    assert answered(NEW["CreateTaskPushNotificationConfig"], config) == config
    assert answered(NEW["DeleteTaskPushNotificationConfig"], {}) == {}


@given(shapes.messages(shapes.parts, "ROLE_USER", **shapes.references), shapes.configurations, shapes.structs)
def test_a_request_in_protocol_buffers_of_1_0(message: Any, configuration: Any, metadata: Any) -> None:
    rpc, asked = NEW["SendMessage"], {"message": message, "configuration": configuration, "metadata": metadata}
    if not configuration["returnImmediately"]:
        asked["configuration"] = {n: v for n, v in configuration.items() if n != "returnImmediately"}
    assert rpc.read(over_the_wire(protobuf.as_message(asked, rpc.request))) == asked


def old_request(codecs: Codecs, message: Any, configuration: Any, push: str) -> Any:
    """The same message as a client of 0.3 would send it."""
    written = codecs["SendMessage"].write({"message": message})
    set_up = {n: v for n, v in configuration.items() if n in {"acceptedOutputModes", "historyLength"}}
    set_up["blocking"] = not configuration["returnImmediately"]
    if callback := configuration.get("taskPushNotificationConfig"):
        set_up[push] = json.write_callback(callback)
    return {"message": written.get("message", written), "configuration": set_up}


@given(shapes.messages(shapes.old_parts, "ROLE_USER", **shapes.references), shapes.configurations)
def test_a_request_in_the_json_of_0_3(message: Any, configuration: Any) -> None:
    asked = old_request(json.OPERATIONS, message, configuration, "pushNotificationConfig")
    assert json.OPERATIONS["SendMessage"].read(asked) == {"message": message, "configuration": configuration}


@given(shapes.messages(shapes.old_parts, "ROLE_USER"), shapes.configurations)
def test_a_request_in_the_rest_and_the_protocol_buffers_of_0_3(message: Any, configuration: Any) -> None:
    asked = old_request(protojson.OPERATIONS, message, configuration, "pushNotification")
    wanted = {"message": message, "configuration": configuration}
    assert protojson.OPERATIONS["SendMessage"].read(asked) == wanted
    rpc = OLD["SendMessage"]
    assert rpc.read(over_the_wire(protobuf.as_message(asked, rpc.request))) == wanted


@given(shapes.configs)
def test_a_push_config_of_0_3(config: Any) -> None:
    operation = "CreateTaskPushNotificationConfig"
    assert json.OPERATIONS[operation].read(json.write_push_config(config)) == config
    written = protojson.write_push_config(config)
    parent = protojson.task_name(config["taskId"])
    for body in ({"config": written}, written):
        assert protojson.OPERATIONS[operation].read({**body, "parent": parent}) == config
    rpc = OLD[operation]
    asked = protobuf.as_message({"parent": parent, "configId": config["id"], "config": written}, rpc.request)
    assert rpc.read(over_the_wire(asked)) == config
    assert answered(rpc, config) == written


@given(shapes.items)
def test_a_stream_of_0_3_says_the_same_in_json_of_protocol_buffers_and_in_themselves(item: Any) -> None:
    for operation in ("SendStreamingMessage", "SubscribeToTask"):
        write_item = protojson.OPERATIONS[operation].write_item
        assert write_item is not None
        written = write_item(item)
        told_of = told(OLD[operation], item)
        if "statusUpdate" in item:
            assert told_of["statusUpdate"].pop("final", False) is written["statusUpdate"].pop("final")
        assert told_of == written


KINDS = {"task": "task", "message": "message", "statusUpdate": "status-update", "artifactUpdate": "artifact-update"}


@given(shapes.items)
def test_everything_in_the_json_of_0_3_says_its_kind(item: Any) -> None:
    written = json.write_stream_item(item)
    name, body = next(iter(item.items()))
    assert written["kind"] == KINDS[name]
    said = (
        [body]
        if name == "message"
        else [*body.get("history", []), *filter(None, [body.get("status", {}).get("message")])]
    )
    told_of = [written] if name == "message" else [
        *written.get("history", []), *filter(None, [written.get("status", {}).get("message")])
    ]  # fmt: skip
    assert [one["kind"] for one in told_of] == ["message"] * len(said)
    for one, was in zip(told_of, said, strict=True):
        assert [part["kind"] for part in one["parts"]] == [kind_of(part) for part in was["parts"]]
        assert one["role"] == words.ROLES[was["role"]]


def kind_of(part: Any) -> str:
    return "text" if "text" in part else "data" if "data" in part else "file"


@given(st.sampled_from(shapes.STATES), shapes.status_updates)
def test_the_last_change_of_status_in_a_stream_of_0_3_says_so(state: str, update: Any) -> None:
    item = {"statusUpdate": {**update, "status": {**update["status"], "state": state}}}
    for codecs in (json.OPERATIONS, protojson.OPERATIONS):
        for operation, last in (("SubscribeToTask", words.TERMINAL), ("SendStreamingMessage", words.CALLERS_TURN)):
            write_item = codecs[operation].write_item
            assert write_item is not None
            written = write_item(item)
            assert written.get("statusUpdate", written)["final"] is (state in last)
