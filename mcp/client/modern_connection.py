"""Connection to a server of protocol 2026-07-28. Requests are independent, so there is no session."""

import itertools
import logging
from typing import Any

from mcp_types.jsonrpc import HEADER_MISMATCH

from common.egress.tracked_body import SentFlag
from mcp.client.connection import UpstreamConnection
from mcp.client.http_exchange import (
    BackgroundTasks,
    HttpSender,
    MessageListener,
    change_listener,
    progress_listener,
    read_answer,
)
from mcp.client.types import Era, OnChange, OnProgress
from mcp.protocol import headers, modern
from mcp.protocol.jsonrpc import Message
from mcp.protocol.progress import add_progress_token
from mcp.protocol.upstream_errors import UpstreamError

log = logging.getLogger(__name__)


class ModernConnection(UpstreamConnection):
    """A connection to a server of the modern era: independent requests without a session."""

    era: Era = "modern"

    def __init__(self, sender: HttpSender, background_tasks: BackgroundTasks, *, version: str = modern.LATEST) -> None:
        self.version = version
        self._sender = sender
        self._background_tasks = background_tasks
        self._ids = itertools.count(1)
        #: By tool: the schema from which the bindings were read, and the bindings.
        self._bindings_by_tool: dict[str, tuple[Any, tuple[headers.HeaderBinding, ...]]] = {}

    async def request(
        self,
        method: str,
        params: Message,
        *,
        sent: SentFlag,
        meta: Message | None = None,
        on_progress: OnProgress | None = None,
        mirrored_headers: tuple[tuple[str, str], ...] = (),
        on_message: MessageListener | None = None,
    ) -> Message:
        request_id = next(self._ids)
        request_meta = add_progress_token(meta, None if on_progress is None else request_id)
        message = modern.build_request(request_id, method, params, version=self.version, meta=request_meta)
        request_headers = modern.build_headers(method, params, version=self.version)
        request_headers.update(mirrored_headers)
        response = await self._sender.post(message, request_headers, sent)
        on_message = on_message or progress_listener(on_progress, request_id)
        return modern.require_complete(
            await read_answer(
                response, request_id, sent=sent, on_message=on_message, background_tasks=self._background_tasks
            )
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
        bindings = self._find_bindings(name, input_schema)
        for is_last in (False, True):
            mirrored_headers = tuple(headers.mirror_arguments(bindings, arguments))
            try:
                return await self.request(
                    "tools/call",
                    params,
                    sent=sent,
                    meta=meta,
                    on_progress=on_progress,
                    mirrored_headers=mirrored_headers,
                )
            except UpstreamError as error:
                if error.code != HEADER_MISMATCH or is_last:
                    raise
            # The server refused the headers before it ran the tool: the tool's bindings have changed.
            sent.is_set = False
            bindings = await self._refresh_bindings(name, input_schema)
        raise AssertionError("the second attempt returns or raises")

    async def watch(self, on_change: OnChange) -> None:
        params = {"notifications": {"toolsListChanged": True}}
        await self.request("subscriptions/listen", params, sent=SentFlag(), on_message=change_listener(on_change))

    async def close(self) -> None:
        """Do nothing: there is no session."""

    def _find_bindings(self, name: str, schema: dict[str, Any] | None) -> tuple[headers.HeaderBinding, ...]:
        cached = self._bindings_by_tool.get(name)
        if cached is not None and (schema is None or cached[0] is schema or cached[0] == schema):
            return cached[1]
        bindings = headers.find_bindings(schema)
        self._bindings_by_tool[name] = (schema, bindings)
        return bindings

    async def _refresh_bindings(self, name: str, schema: dict[str, Any] | None) -> tuple[headers.HeaderBinding, ...]:
        """Read the bindings from the live tool list.

        They are cached under the schema of the callers, so that the next call with this schema finds them."""
        listed_schema = next(
            (tool.get("inputSchema") for tool in await super().list_tools() if tool["name"] == name), None
        )
        bindings = headers.find_bindings(listed_schema)
        self._bindings_by_tool[name] = (schema, bindings)
        return bindings

    @staticmethod
    def _can_be_called(tool: Message) -> bool:
        problem = headers.find_annotation_problem(tool.get("inputSchema"))
        if problem:
            log.warning("a tool that cannot be called over HTTP is left out", extra={"why": problem})
        return not problem
