"""The official A2A SDK's client over gRPC: it does what stdin says and prints what it was told, a JSON list.

    python a2a_call.py HOST:PORT 1.0|0.3 < steps

Each step is {"do": a method of the SDK's transport, "with": its request, "metadata": {…}, "most": items of a stream}.
"""

import asyncio
import json
import sys
from typing import Any

import grpc
from a2a.client import ClientCallContext
from a2a.client.transports.grpc import GrpcTransport
from a2a.compat.v0_3.grpc_transport import CompatGrpcTransport
from a2a.types import a2a_pb2
from google.protobuf.json_format import MessageToDict, ParseDict

TRANSPORTS = {"1.0": GrpcTransport, "0.3": CompatGrpcTransport}
REQUESTS = {
    "send_message": a2a_pb2.SendMessageRequest,
    "send_message_streaming": a2a_pb2.SendMessageRequest,
    "get_task": a2a_pb2.GetTaskRequest,
    "list_tasks": a2a_pb2.ListTasksRequest,
    "cancel_task": a2a_pb2.CancelTaskRequest,
    "subscribe": a2a_pb2.SubscribeToTaskRequest,
    "create_task_push_notification_config": a2a_pb2.TaskPushNotificationConfig,
    "get_task_push_notification_config": a2a_pb2.GetTaskPushNotificationConfigRequest,
    "list_task_push_notification_configs": a2a_pb2.ListTaskPushNotificationConfigsRequest,
    "delete_task_push_notification_config": a2a_pb2.DeleteTaskPushNotificationConfigRequest,
    "get_extended_agent_card": a2a_pb2.GetExtendedAgentCardRequest,
}
STREAMS = {"send_message_streaming", "subscribe"}


async def main(target: str, version: str, steps: list[dict[str, Any]]) -> list[Any]:
    async with grpc.aio.insecure_channel(target) as channel:
        transport = TRANSPORTS[version](channel, None)
        return [await outcome(transport, step) for step in steps]


async def outcome(transport: Any, step: dict[str, Any]) -> Any:
    context = ClientCallContext(service_parameters=step["metadata"], timeout=20)
    ask = getattr(transport, step["do"])
    request = ParseDict(step["with"], REQUESTS[step["do"]]())
    try:
        if step["do"] in STREAMS:
            return await heard(ask(request, context=context), step.get("most", 1000))
        answer = await ask(request, context=context)
        return None if answer is None else MessageToDict(answer)
    except Exception as error:
        return {"error": type(error).__name__, "message": str(error)}


async def heard(stream: Any, most: int) -> list[Any]:
    items: list[Any] = []
    async for item in stream:
        items.append(MessageToDict(item))
        if len(items) == most:
            await stream.aclose()
            break
    return items


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(sys.argv[1], sys.argv[2], json.load(sys.stdin)))))
