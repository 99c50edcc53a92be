"""Paths of the MCP endpoints, and names that no server may have."""

import re

#: Paths of the REST API below /mcp. No server may have one of these names.
RESERVED_NAMES = frozenset({"tools", "servers", "calls"})
ENDPOINT_PATH = re.compile(r"/mcp(?:/([^/]*))?")


def find_server_name(path: str) -> str | None:
    """Return the server of an MCP endpoint path, "" for the endpoint of all servers, None for any other path."""
    match = ENDPOINT_PATH.fullmatch(path)
    server = (match[1] or "") if match else None
    return None if server in RESERVED_NAMES else server
