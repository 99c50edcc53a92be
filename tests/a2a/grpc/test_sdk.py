"""The official SDK, in its own process, reads what we write and is understood."""

import asyncio
import json
from collections import deque
from typing import Any

import pytest

from a2a.wire.faults import Fault, Kind
from a2a.wire.v03 import json as old_json
from a2a.wire.v03 import protojson, words
from tests.a2a.grpc.door import DONE, TASK, WRITER, Scripted, served
from tests.services.peers import NEW, PEERS, python, said_by

pytestmark = pytest.mark.capability("A2A-03")

PLACE = {"taskId": "t", "contextId": "c"}
AT = "2026-03-12T14:00:00.123Z"
PARTS = [{"text": "Hello"}, {"raw": "AP8="}, {"data": [1, {"a": None}]}]
MESSAGE = {"messageId": "m", "role": "ROLE_USER", "parts": PARTS}
PICTURE = {"raw": "AP8=", "filename": "x.png", "mediaType": "image/png"}
MADE = {
    "artifactId": "a",
    "name": "result",
    "parts": [PICTURE, {"url": "https://a.example/x"}, {"data": {"n": 1}}],
    "metadata": {"pages": 2},
}
SAID = {"messageId": "r", "role": "ROLE_AGENT", **PLACE, "parts": [{"text": "Done"}]}
WHOLE = {
    "id": "t",
    "contextId": "c",
    "status": {"state": "TASK_STATE_INPUT_REQUIRED", "timestamp": AT, "message": SAID},
    "artifacts": [MADE],
    "history": [{**MESSAGE, **PLACE}],
    "metadata": {"task_type": "summarise"},
}
ITEMS: list[Any] = [
    {"task": WHOLE},
    {"message": SAID},
    *({"statusUpdate": {**PLACE, "status": {"state": state, "timestamp": AT}}} for state in words.STATES),
    {"artifactUpdate": {**PLACE, "artifact": MADE, "append": True, "lastChunk": True, "metadata": {"a": "b"}}},
]
KEY = {"scheme": "Bearer", "credentials": "y"}
CONFIG = {"taskId": "t", "id": "c", "url": "https://a.example/hook", "token": "x", "authentication": KEY}


def sdk(script: str, *arguments: str, said: str) -> str:
    return said_by(python(NEW), str(PEERS / "clients" / script), *arguments, said=said)


def test_the_sdk_reads_0_3_as_it_was_written() -> None:
    lines = [
        json.dumps({form: write(item)})
        for item in ITEMS
        for form, write in (("json", old_json.write_stream_item), ("rest", protojson.write_stream_item))
    ]
    read = [json.loads(line) for line in sdk("a2a_shapes.py", said="\n".join(lines)).splitlines()]
    assert [without_times(one) for one in read[0::2]] == [without_times(item) for item in ITEMS]
    assert [without_times(one) for one in read[1::2]] == [without_times(item) for item in ITEMS]


def without_times(value: Any) -> Any:
    """The SDK leaves 0.3's times out over REST and gRPC, and adds empty messages and metadata."""
    if isinstance(value, dict):
        kept = {name: without_times(one) for name, one in value.items() if name != "timestamp"}
        return {name: one for name, one in kept.items() if one not in ({}, {"role": "ROLE_AGENT"})}
    return [without_times(one) for one in value] if isinstance(value, list) else value


def steps(*said: tuple[str, Any]) -> str:
    return json.dumps([{"do": do, "with": params, "metadata": dict(WRITER)} for do, params in said])


async def told(operations: Scripted, version: str, *said: tuple[str, Any]) -> list[Any]:
    async with served(operations) as (serving, _):
        target = f"127.0.0.1:{serving.port}"
        return list(json.loads(await asyncio.to_thread(sdk, "a2a_call.py", target, version, said=steps(*said))))


PUSH = {"taskId": "t", "id": "c"}


@pytest.mark.parametrize("version", ["1.0", "0.3"])
def test_the_sdks_client_does_everything_over_grpc(version: str) -> None:
    ended = Fault(Kind.TASK_NOT_CANCELABLE, "It has ended.")
    operations = Scripted(
        deque([{"task": WHOLE}, WHOLE, WHOLE, CONFIG, CONFIG, {"configs": [CONFIG]}, {}, ended]),
        items=[{"task": TASK}, {"artifactUpdate": {**PLACE, "artifact": MADE}}, {"statusUpdate": DONE}],
    )
    found = asyncio.run(
        told(
            operations,
            version,
            ("send_message", {"message": MESSAGE, "configuration": {"returnImmediately": True}}),
            ("get_task", {"id": "t", "historyLength": 5}),
            ("cancel_task", {"id": "t"}),
            ("create_task_push_notification_config", CONFIG),
            ("get_task_push_notification_config", PUSH),
            ("list_task_push_notification_configs", {"taskId": "t"}),
            ("delete_task_push_notification_config", PUSH),
            ("cancel_task", {"id": "t"}),
            ("send_message_streaming", {"message": MESSAGE}),
            ("subscribe", {"id": "t"}),
        )
    )
    sent, got, cancelled, made, read, listed, deleted, refused, streamed, followed = found
    assert without_times(sent) == {"task": without_times(WHOLE)}
    assert without_times(got) == without_times(cancelled) == without_times(WHOLE)
    assert made == read == listed["configs"][0] == CONFIG
    assert deleted is None
    assert refused == {"error": "TaskNotCancelableError", "message": "It has ended."}
    assert [next(iter(item)) for item in streamed] == ["task", "artifactUpdate", "statusUpdate"]
    assert streamed == followed
    asked = operations.asked
    assert asked[0].params["message"] == MESSAGE
    assert asked[0].params["configuration"] == {"returnImmediately": True}
    assert asked[1].params == {"id": "t", "historyLength": 5}
    assert asked[3].params == CONFIG
    assert {one.version for one in asked} == {version}
