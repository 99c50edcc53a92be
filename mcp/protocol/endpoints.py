"""Which paths are the MCP server's own, beside the REST API below the same name."""

import re

#: Paths of the REST API below /mcp. No server has one of these names.
RESERVED = frozenset({"tools", "servers", "calls"})
PATH = re.compile(r"/mcp(?:/([^/]*))?")


def server_of(path: str) -> str | None:
    """The server whose endpoint `path` is, "" for that of all servers, None for a path that is somebody else's."""
    match = PATH.fullmatch(path)
    server = (match[1] or "") if match else None
    return None if server in RESERVED else server
