"""The interface of a connection in one protocol era, and helpers that all eras share."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from common.egress.tracked_body import SentFlag
from mcp.client.types import Era, OnChange, OnProgress
from mcp.protocol.jsonrpc import Message
from mcp.protocol.tool_pages import ToolPages
from mcp.protocol.upstream_errors import UpstreamFault

T = TypeVar("T")


class UpstreamConnection(ABC):
    """A connection to a server in one protocol era. It sends nothing before the first request."""

    era: Era

    @abstractmethod
    async def request(
        self,
        method: str,
        params: Message,
        *,
        sent: SentFlag,
        meta: Message | None = None,
        on_progress: OnProgress | None = None,
    ) -> Message: ...

    async def list_tools(self) -> list[Message]:
        return await list_all_tools(lambda params: self.request("tools/list", params, sent=SentFlag()))

    async def call_tool(
        self,
        name: str,
        arguments: Message,
        *,
        sent: SentFlag,
        meta: Message | None = None,
        on_progress: OnProgress | None = None,
        input_schema: dict[str, Any] | None = None,  # noqa: ARG002 -- only the modern era has header bindings
    ) -> Message:
        params = {"name": name, "arguments": arguments}
        return await self.request("tools/call", params, sent=sent, meta=meta, on_progress=on_progress)

    @abstractmethod
    async def watch(self, on_change: OnChange) -> None:
        """Listen for changes until the server ends the stream."""

    @abstractmethod
    async def close(self) -> None: ...


async def list_all_tools(request: Callable[[Message], Awaitable[Message]]) -> list[Message]:
    pages = ToolPages()
    params: Message | None = {}
    while params is not None:
        params = pages.add_page(await retry_if_closed(request, params))
    return pages.tools


async def retry_if_closed(request: Callable[[Message], Awaitable[T]], params: Message) -> T:
    """Send a request without side effects, and again if the server has just closed the pooled connection."""
    try:
        return await request(params)
    except UpstreamFault as fault:
        if fault.code != "closed":
            raise
    return await request(params)
