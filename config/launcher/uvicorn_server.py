"""Serve the web application with uvicorn on a listening socket that the launcher hands over.

    python -m config.launcher.uvicorn_server FD

`uvicorn --fd` opens every inherited descriptor as a Unix socket. Connections accepted from it have no TCP_NODELAY: the
head and the body of a response leave as two segments, and the second waits up to 40 ms for the client's delayed ACK.
Here Python detects the socket's own family, and uvloop sets the option on each connection.
"""

import socket
import sys
from typing import Any

from uvicorn import Config, Server
from uvicorn.config import STARTUP_FAILURE

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


def serve(listener: socket.socket) -> None:
    # The application configures logging itself; uvicorn's own configuration would print lines that are not JSON.
    server = Server(Config(APPLICATION, log_config=None, **OPTIONS))
    server.run(sockets=[listener])
    if not server.started:
        sys.exit(STARTUP_FAILURE)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
