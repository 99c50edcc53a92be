"""Serve the web application with uvicorn on a listening socket that the launcher hands over.

    python -m config.launcher.uvicorn_server FD [--reload]

`uvicorn --fd` opens every inherited descriptor as a Unix socket. Connections accepted from it have no TCP_NODELAY: the
head and the body of a response leave as two segments, and the second waits up to 40 ms for the client's delayed ACK.
Here Python detects the socket's own family, and uvloop sets the option on each connection.

With `--reload`, a change of a Python file restarts the server. That is for developers.
"""

import socket
import sys
from pathlib import Path
from typing import Any

from uvicorn import Config, Server
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors import ChangeReload

APPLICATION = "config.asgi:application"
OPTIONS: dict[str, Any] = {
    "loop": "uvloop",
    # Uvicorn's own, which reads the connections of one process in turns.
    "http": "common.asgi.fair_protocol:FairHttpProtocol",
    "lifespan": "on",
    "access_log": False,
    "server_header": False,
    # Which proxies are trusted is a setting of the product; common.middleware reads the header.
    "proxy_headers": False,
    "timeout_graceful_shutdown": 3,
}

ROOT = Path(__file__).resolve().parents[2]
RELOAD_DIRECTORIES = [str(ROOT / app) for app in ("common", "config", "nhi", "mcp", "supervisor", "a2a")]


def serve(listener: socket.socket, *, reload: bool) -> None:
    # The application configures logging itself; uvicorn's own configuration would print lines that are not JSON.
    config = Config(APPLICATION, log_config=None, reload=reload, reload_dirs=RELOAD_DIRECTORIES, **OPTIONS)
    server = Server(config)
    if reload:
        ChangeReload(config, target=server.run, sockets=[listener]).run()
        return
    server.run(sockets=[listener])
    if not server.started:
        sys.exit(STARTUP_FAILURE)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])), reload="--reload" in sys.argv[2:])
