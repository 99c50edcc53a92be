"""Which paths are the MCP server's own, beside the REST API below the same name."""

import re

#: Paths of the REST API below /mcp. No server has one of these names.
RESERVED_NAMES = frozenset({"tools", "servers", "calls"})
ENDPOINT_PATH = re.compile(r"/mcp(?:/([^/]*))?")


def find_server_name(path: str) -> str | None:
    """The server whose endpoint `path` is, "" for that of all servers, None for a path that is somebody else's."""
    match = ENDPOINT_PATH.fullmatch(path)
    server = (match[1] or "") if match else None
    return None if server in RESERVED_NAMES else server
