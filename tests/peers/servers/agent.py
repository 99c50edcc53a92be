"""An agent served by the official A2A SDK, with its database store, run by the Python of `make peers`.

    python agent.py --database FILE --port N --rpc-port N [--requests FILE] [--notes FILE] [--plain] [--token TOKEN]

JSON-RPC at /rpc, REST at /rest, gRPC at a port of its own, each of 1.0 and 0.3, and a card that names all six. What it
is to do is the first part of the message: {"do": "report"}, or the text "report". It prints a line when it is ready.
"""

import argparse
import asyncio
import json
from pathlib import Path
from typing import Any

import grpc
from a2a.compat.v0_3 import a2a_v0_3_pb2_grpc
from a2a.compat.v0_3.grpc_handler import CompatGrpcHandler
from a2a.helpers.proto_helpers import new_data_part, new_raw_part, new_task_from_user_message, new_text_part
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.request_handlers.grpc_handler import GrpcHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import DatabaseTaskStore, TaskUpdater
from a2a.types import a2a_pb2_grpc
from a2a.types.a2a_pb2 import AgentCapabilities, AgentCard, AgentInterface, AgentSkill, Message, Role
from google.protobuf.json_format import MessageToDict
from listening import serve
from sqlalchemy.ext.asyncio import create_async_engine
from starlette.applications import Starlette
from starlette.responses import JSONResponse

WAYS = [("/rpc", "JSONRPC"), ("/rest", "HTTP+JSON")]
INTERFACES = [(path, binding, version) for version in ("1.0", "0.3") for path, binding in WAYS]


class Agent(AgentExecutor):
    def __init__(self, notes: Path | None) -> None:
        self.notes = notes

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        message, task = context.message, context.current_task
        wanted = wish(message)
        self.note("began", said=[MessageToDict(part) for part in message.parts], messageId=message.message_id,
                  contextId=context.context_id, metadata=context.metadata)  # fmt: skip
        if wanted == "talk":
            await event_queue.enqueue_event(
                Message(
                    message_id="m-1",
                    role=Role.ROLE_AGENT,
                    context_id=context.context_id,
                    parts=[new_text_part("Good day.")],
                )
            )
            return
        if task is None:
            await event_queue.enqueue_event(new_task_from_user_message(message))
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        await getattr(self, f"do_{wanted}")(updater, wanted)

    async def do_report(self, updater: TaskUpdater, _said: str) -> None:
        await updater.start_work(updater.new_agent_message([new_text_part("Reading the minutes.")]))
        await updater.add_artifact([new_text_part("All ")], artifact_id="report", name="report", last_chunk=False)
        await updater.add_artifact([new_text_part("agreed.")], artifact_id="report", append=True, last_chunk=True)
        await updater.complete(updater.new_agent_message([new_text_part("Done.")]))

    async def do_files(self, updater: TaskUpdater, _said: str) -> None:
        parts = [new_data_part({"pages": 3}), new_data_part([1, 2]), new_raw_part(b"\x00\x01", "image/png", "a.png")]
        await updater.add_artifact(parts, artifact_id="files", name="files")
        await updater.complete()

    async def do_ask(self, updater: TaskUpdater, _said: str) -> None:
        await updater.start_work()
        await updater.requires_input(updater.new_agent_message([new_text_part("Which of the two?")]))

    async def do_answer(self, updater: TaskUpdater, _said: str) -> None:
        await updater.start_work()
        await updater.add_artifact([new_text_part("The second.")], artifact_id="choice", name="choice")
        await updater.complete()

    async def do_fail(self, updater: TaskUpdater, _said: str) -> None:
        await updater.failed(updater.new_agent_message([new_text_part("There are no minutes.")]))

    async def do_reject(self, updater: TaskUpdater, _said: str) -> None:
        await updater.reject(updater.new_agent_message([new_text_part("Not my trade.")]))

    async def do_wait(self, updater: TaskUpdater, _said: str) -> None:
        await updater.start_work()
        self.note("waits", task=updater.task_id)
        while not (self.notes and (self.notes.parent / "go").exists()):
            await asyncio.sleep(0.05)
        await updater.add_artifact([new_text_part("At last.")], artifact_id="late", name="late")
        await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        self.note("cancelled", task=context.task_id)
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()

    def note(self, event: str, **more: Any) -> None:
        if self.notes:
            with self.notes.open("a") as file:
                file.write(json.dumps({"event": event, **more}) + "\n")


def wish(message: Message) -> str:
    first = MessageToDict(message.parts[0])
    return str(first["data"]["do"] if "data" in first else first["text"])


def card(base: str, place: str, streaming: bool) -> AgentCard:
    return AgentCard(
        name="Minutes", description="Reads minutes.", version="1.0",
        supported_interfaces=[
            *(
                AgentInterface(url=base + path, protocol_binding=binding, protocol_version=version)
                for path, binding, version in INTERFACES
            ),
            *(
                AgentInterface(url=place, protocol_binding="GRPC", protocol_version=version)
                for version in ("1.0", "0.3")
            ),
        ],
        capabilities=AgentCapabilities(streaming=streaming),
        default_input_modes=["text/plain", "application/json"], default_output_modes=["text/plain"],
        skills=[AgentSkill(id="read", name="Read", description="Reads.", tags=["minutes"])],
    )  # fmt: skip


def guarded(application: Any, token: str) -> Any:
    async def outer(scope: Any, receive: Any, send: Any) -> None:
        shown = dict(scope.get("headers", [])).get(b"authorization", b"").decode()
        if scope["type"] == "http" and token and shown != f"Bearer {token}" and ".well-known" not in scope["path"]:
            await JSONResponse({"error": "who are you?"}, status_code=401)(scope, receive, send)
            return
        await application(scope, receive, send)

    return outer


class Guard(grpc.aio.ServerInterceptor):
    """Writes down what is asked, and refuses those who do not show the token."""

    def __init__(self, token: str, requests: Path | None) -> None:
        self.token, self.requests = token, requests

    async def intercept_service(self, continuation: Any, handler_call_details: Any) -> Any:
        said = dict(handler_call_details.invocation_metadata)
        if self.requests:
            headers = [[name, value] for name, value in said.items() if isinstance(value, str)]
            with self.requests.open("a") as file:
                asked = {"method": "GRPC", "path": handler_call_details.method, "headers": headers}
                file.write(json.dumps(asked) + "\n")
        if not self.token or said.get("authorization") == f"Bearer {self.token}":
            return await continuation(handler_call_details)

        async def refuse(_request: Any, context: Any) -> None:
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, "Who are you?")

        return grpc.unary_unary_rpc_method_handler(refuse)


async def serve_all(options: argparse.Namespace) -> None:
    engine = create_async_engine(f"sqlite+aiosqlite:///{options.database}")
    server = grpc.aio.server(interceptors=[Guard(options.token, options.requests)])
    place = f"127.0.0.1:{options.rpc_port}"
    server.add_insecure_port(place)
    # The card names the ports that it is told; whoever starts this chooses them.
    shown = card(f"http://127.0.0.1:{options.port}", place, not options.plain)
    handler = DefaultRequestHandler(Agent(options.notes), DatabaseTaskStore(engine), shown)
    routes = [
        *create_agent_card_routes(shown),
        *create_jsonrpc_routes(handler, "/rpc", enable_v0_3_compat=True),
        *create_rest_routes(handler, enable_v0_3_compat=True, path_prefix="/rest"),
    ]
    a2a_pb2_grpc.add_A2AServiceServicer_to_server(GrpcHandler(handler), server)
    a2a_v0_3_pb2_grpc.add_A2AServiceServicer_to_server(CompatGrpcHandler(handler), server)
    await server.start()
    application = guarded(Starlette(routes=routes), options.token)
    await serve(application, "", options.port, options.requests)
    await server.stop(None)


def main() -> None:
    asyncio.run(serve_all(parser().parse_args()))


def parser() -> argparse.ArgumentParser:
    known = argparse.ArgumentParser()
    known.add_argument("--database", type=Path, required=True)
    known.add_argument("--port", type=int, required=True)
    known.add_argument("--rpc-port", type=int, required=True)
    known.add_argument("--requests", type=Path)
    known.add_argument("--notes", type=Path)
    known.add_argument("--plain", action="store_true")
    known.add_argument("--token", default="")
    return known


if __name__ == "__main__":
    main()
