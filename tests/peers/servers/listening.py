"""Serve an application on a free port of the loopback, say which, and write down what is asked."""

import json
import socket
from pathlib import Path
from typing import Any

import uvicorn


class Announced(uvicorn.Server):
    ready: dict[str, Any] = {}

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        print(json.dumps(self.ready), flush=True)


async def serve(application: Any, path: str, port: int, requests: Path | None) -> None:
    listener = socket.create_server(("127.0.0.1", port))
    config = uvicorn.Config(
        written_down(application, requests) if requests else application,
        log_level="warning", timeout_graceful_shutdown=1,
    )  # fmt: skip
    server = Announced(config)
    server.ready = {"port": listener.getsockname()[1], "path": path}
    await server.serve([listener])


def written_down(application: Any, requests: Path) -> Any:
    async def outer(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            headers = [[name.decode("latin-1"), value.decode("latin-1")] for name, value in scope["headers"]]
            said = {"method": scope["method"], "path": scope["path"], "headers": headers}
            with requests.open("a") as file:
                file.write(json.dumps(said) + "\n")
        await application(scope, receive, send)

    return outer
