"""An agent that does nothing, served by the official A2A SDK with its database store, by the Python of `make peers`.

    python peer.py --database URL --port PORT

JSON-RPC at /rpc. It is given what helps it: SQLite is opened as the product opens its own, and nothing is logged.
"""

import argparse
import asyncio
import json
import socket
from typing import Any

import uvicorn
from a2a.helpers.proto_helpers import new_task_from_user_message, new_text_part
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_jsonrpc_routes
from a2a.server.tasks import DatabaseTaskStore, TaskUpdater
from a2a.types.a2a_pb2 import AgentCapabilities, AgentCard, AgentInterface, AgentSkill
from sqlalchemy import event
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from starlette.applications import Starlette

PRAGMAS = ("journal_mode = WAL", "synchronous = NORMAL", "busy_timeout = 30000")


class Agent(AgentExecutor):
    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        said = context.message.parts[0].text
        await event_queue.enqueue_event(new_task_from_user_message(context.message))
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        await updater.add_artifact([new_text_part(said.replace("call-", "done-", 1))])
        await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


def engine(url: str) -> AsyncEngine:
    made = create_async_engine(url)
    if url.startswith("sqlite"):
        event.listens_for(made.sync_engine, "connect")(opened)
    return made


def opened(connection: Any, _record: Any) -> None:
    for pragma in PRAGMAS:
        connection.execute(f"PRAGMA {pragma}")


def card(base: str) -> AgentCard:
    return AgentCard(
        name="Idle", description="Does nothing.", version="1.0",
        supported_interfaces=[AgentInterface(url=f"{base}/rpc", protocol_binding="JSONRPC", protocol_version="1.0")],
        capabilities=AgentCapabilities(streaming=True),
        default_input_modes=["text/plain"], default_output_modes=["text/plain"],
        skills=[AgentSkill(id="idle", name="Idle", description="Nothing.", tags=["idle"])],
    )  # fmt: skip


async def serve(url: str, port: int) -> None:
    store = DatabaseTaskStore(engine(url))
    await store.initialize()
    handler = DefaultRequestHandler(Agent(), store, card(f"http://127.0.0.1:{port}"))
    listener = socket.create_server(("127.0.0.1", port), backlog=512)
    server = uvicorn.Server(
        uvicorn.Config(
            Starlette(routes=create_jsonrpc_routes(handler, "/rpc")),
            log_level="warning", access_log=False, timeout_graceful_shutdown=1,
        )
    )  # fmt: skip
    print(json.dumps({"port": port, "path": "/rpc"}), flush=True)
    await server.serve([listener])


def main() -> None:
    known = argparse.ArgumentParser()
    known.add_argument("--database", required=True)
    known.add_argument("--port", type=int, required=True)
    options = known.parse_args()
    asyncio.run(serve(options.database, options.port))


if __name__ == "__main__":
    main()
