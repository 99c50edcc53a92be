"""Collects the pages of a tool list, with limits on pages, tools and bytes. Repeated cursors are an error."""

import json
from typing import Any

from mcp.protocol.jsonrpc import Message
from mcp.protocol.upstream_errors import UpstreamFault

MAX_PAGES = 100
MAX_TOOLS = 10_000
#: Limit for the JSON of all pages together. People review each tool; 1,000 tools of 8 KiB each fit.
MAX_LIST_BYTES = 8 << 20


class ToolPages:
    """Collects the pages of `tools/list` and returns the parameters of the next request."""

    def __init__(self) -> None:
        self.tools: list[Message] = []
        self._pages = 0
        self._bytes = 0
        self._cursors: set[str] = set()

    def add_page(self, page: Message) -> Message | None:
        """Add a page. Return the parameters of the next request, or None after the last page.

        An empty string is a valid cursor."""
        tools = _read_tools(page.get("tools"))
        self._bytes += len(json.dumps(tools, ensure_ascii=False).encode("utf-8", "surrogatepass"))
        if self._bytes > MAX_LIST_BYTES:
            limit = f"{MAX_LIST_BYTES >> 20} MiB"
            raise UpstreamFault("too_large", f"The server's list of tools is longer than {limit}.", sent=True)
        self.tools += tools
        self._pages += 1
        if len(self.tools) > MAX_TOOLS:
            raise UpstreamFault("too_large", f"The server lists more than {MAX_TOOLS} tools.", sent=True)
        cursor = page.get("nextCursor")
        if cursor is None:
            return None
        self._check_cursor(cursor)
        return {"cursor": cursor}

    def _check_cursor(self, cursor: Any) -> None:
        if not isinstance(cursor, str):
            raise UpstreamFault("protocol", "The server's list of tools has a cursor that is no text.", sent=True)
        if cursor in self._cursors:
            raise UpstreamFault("protocol", "The server's list of tools leads back to a page it gave.", sent=True)
        if self._pages >= MAX_PAGES:
            raise UpstreamFault("too_large", f"The server's list has more than {MAX_PAGES} pages.", sent=True)
        self._cursors.add(cursor)


def _read_tools(tools: Any) -> list[Message]:
    if not isinstance(tools, list):
        raise UpstreamFault("protocol", "The server's list of tools is no list.", sent=True)
    for tool in tools:
        if not isinstance(tool, dict) or not isinstance(tool.get("name"), str):
            raise UpstreamFault("protocol", "The server lists a tool that has no name.", sent=True)
    return tools
