"""A list that comes in pages: never endless, never twice the same page."""

import json
from typing import Any

from mcp.protocol.errors import UpstreamFault
from mcp.protocol.jsonrpc import Message

MOST_PAGES = 100
MOST_TOOLS = 10_000
#: Of all pages together, as JSON. Each tool is read by a person: 1,000 tools with 8 KiB each fit.
MAX_LIST_BYTES = 8 << 20


class Tools:
    """Takes the pages of `tools/list` and says what to ask next."""

    def __init__(self) -> None:
        self.tools: list[Message] = []
        self._pages = 0
        self._bytes = 0
        self._seen: set[str] = set()

    def take(self, page: Message) -> Message | None:
        """The parameters of the next request, or None after the last page. An empty cursor is a cursor."""
        tools = _tools(page.get("tools"))
        self._bytes += len(json.dumps(tools, ensure_ascii=False).encode("utf-8", "surrogatepass"))
        if self._bytes > MAX_LIST_BYTES:
            limit = f"{MAX_LIST_BYTES >> 20} MiB"
            raise UpstreamFault("too_large", f"The server's list of tools is longer than {limit}.", sent=True)
        self.tools += tools
        self._pages += 1
        if len(self.tools) > MOST_TOOLS:
            raise UpstreamFault("too_large", f"The server lists more than {MOST_TOOLS} tools.", sent=True)
        cursor = page.get("nextCursor")
        if cursor is None:
            return None
        self._check(cursor)
        return {"cursor": cursor}

    def _check(self, cursor: Any) -> None:
        if not isinstance(cursor, str):
            raise UpstreamFault("protocol", "The server's list of tools has a cursor that is no text.", sent=True)
        if cursor in self._seen:
            raise UpstreamFault("protocol", "The server's list of tools leads back to a page it gave.", sent=True)
        if self._pages >= MOST_PAGES:
            raise UpstreamFault("too_large", f"The server's list has more than {MOST_PAGES} pages.", sent=True)
        self._seen.add(cursor)


def _tools(found: Any) -> list[Message]:
    if not isinstance(found, list):
        raise UpstreamFault("protocol", "The server's list of tools is no list.", sent=True)
    for tool in found:
        if not isinstance(tool, dict) or not isinstance(tool.get("name"), str):
            raise UpstreamFault("protocol", "The server lists a tool that has no name.", sent=True)
    return found
