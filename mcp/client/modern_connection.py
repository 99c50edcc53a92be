"""Connection to a server of protocol 2026-07-28. Requests are independent, so there is no session."""

import itertools
import logging
from typing import Any

from mcp_types.jsonrpc import HEADER_MISMATCH

from common.egress.request_body import SentFlag
from mcp.client.answering import BackgroundTasks, MessageListener, change_listener, progress_listener, read_answer
from mcp.client.connection import UpstreamConnection
from mcp.client.sending import HttpSender
from mcp.client.types import Era, OnChange, OnProgress
from mcp.protocol import headers, modern
from mcp.protocol.errors import UpstreamError
from mcp.protocol.jsonrpc import Message
from mcp.protocol.progress import add_progress_token

log = logging.getLogger(__name__)


class ModernConnection(UpstreamConnection):
    era: Era = "modern"

    def __init__(self, sender: HttpSender, errands: BackgroundTasks, *, version: str = modern.LATEST) -> None:
        self.version = version
        self._sender = sender
        self._background_tasks = errands
        self._ids = itertools.count(1)
        #: By tool: the schema from which the bindings were read, and the bindings.
        self._bound: dict[str, tuple[Any, tuple[headers.HeaderBinding, ...]]] = {}

    async def request(
        self,
        method: str,
        params: Message,
        *,
        sent: SentFlag,
        meta: Message | None = None,
        on_progress: OnProgress | None = None,
        mirrored: tuple[tuple[str, str], ...] = (),
        hear: MessageListener | None = None,
    ) -> Message:
        request_id = next(self._ids)
        said = add_progress_token(meta, None if on_progress is None else request_id)
        message = modern.build_request(request_id, method, params, version=self.version, meta=said)
        head = modern.build_headers(method, params, version=self.version)
        head.update(mirrored)
        response = await self._sender.post(message, head, sent)
        hear = hear or progress_listener(on_progress, request_id)
        return modern.require_complete(
            await read_answer(response, request_id, sent=sent, hear=hear, errands=self._background_tasks)
        )

    async def discover(self, params: Message) -> Message:
        return await self.request("server/discover", params, sent=SentFlag())

    async def list_tools(self) -> list[Message]:
        return [tool for tool in await super().list_tools() if self._can_be_called(tool)]

    async def call_tool(
        self,
        name: str,
        arguments: Message,
        *,
        sent: SentFlag,
        meta: Message | None = None,
        on_progress: OnProgress | None = None,
        input_schema: dict[str, Any] | None = None,
    ) -> Message:
        params = {"name": name, "arguments": arguments}
        bound = self._bindings(name, input_schema)
        for last in (False, True):
            mirrored = tuple(headers.mirror_arguments(bound, arguments))
            try:
                return await self.request(
                    "tools/call", params, sent=sent, meta=meta, on_progress=on_progress, mirrored=mirrored
                )
            except UpstreamError as refused:
                if refused.code != HEADER_MISMATCH or last:
                    raise
            # The server refused the headers before it ran the tool: the tool's bindings have changed.
            sent.is_set = False
            bound = await self._refresh_bindings(name, input_schema)
        raise AssertionError("the second attempt returns or raises")

    async def watch(self, on_change: OnChange) -> None:
        wanted = {"notifications": {"toolsListChanged": True}}
        await self.request("subscriptions/listen", wanted, sent=SentFlag(), hear=change_listener(on_change))

    async def close(self) -> None:
        """Do nothing: there is no session."""

    def _bindings(self, name: str, schema: dict[str, Any] | None) -> tuple[headers.HeaderBinding, ...]:
        known = self._bound.get(name)
        if known is not None and (schema is None or known[0] is schema or known[0] == schema):
            return known[1]
        bound = headers.find_bindings(schema)
        self._bound[name] = (schema, bound)
        return bound

    async def _refresh_bindings(self, name: str, schema: dict[str, Any] | None) -> tuple[headers.HeaderBinding, ...]:
        """Read the bindings from the live tool list.

        They are cached under the schema of the callers, so that the next call with this schema finds them."""
        live = next((tool.get("inputSchema") for tool in await super().list_tools() if tool["name"] == name), None)
        bound = headers.find_bindings(live)
        self._bound[name] = (schema, bound)
        return bound

    @staticmethod
    def _can_be_called(tool: Message) -> bool:
        wrong = headers.find_annotation_problem(tool.get("inputSchema"))
        if wrong:
            log.warning("a tool that cannot be called over HTTP is left out", extra={"why": wrong})
        return not wrong
