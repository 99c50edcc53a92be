"""Lists the tools that a caller may call, for MCP and REST."""

from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID

from common.context import RequestContext, bind_context
from common.executors import run_in_thread
from common.ids import uuid7
from mcp.choices import DefinitionState
from mcp.gateway import callers
from mcp.models import Tool
from nhi.access import effective_access
from nhi.authorization.authentication import Unauthenticated
from nhi.models import Identity

#: Fields of a tool's definition that the list contains.
LISTED_FIELDS = ("title", "description", "inputSchema", "outputSchema", "annotations", "icons")


@dataclass(frozen=True)
class ToolListing:
    """The tools that one identity may call, as MCP tool objects."""

    identity_id: UUID
    tools: list[dict[str, Any]]


async def list_tools(bearer: str, *, server: str = "", source: str = "") -> ToolListing | Unauthenticated:
    return await run_in_thread(partial(_list_tools_blocking, bearer, server, source))


def _list_tools_blocking(bearer: str, server: str, source: str) -> ToolListing | Unauthenticated:
    with bind_context(RequestContext(uuid7(), source)):
        try:
            caller = callers.authenticate_caller(bearer)
        except Unauthenticated as error:
            return error
    tools = find_callable_tools(caller.identity, server, caller.scope)
    return ToolListing(caller.identity.pk, [describe_tool(tool, server) for tool in tools])


def find_callable_tools(identity: Identity, server: str = "", scope: tuple[str, ...] = ()) -> list[Tool]:
    """Return tools that are granted, approved and on an enabled server, ordered by server and name."""
    tool_ids = [target.id for target in effective_access.load(identity).tools if _in_scope(scope, target.capability)]
    rows = Tool.objects.filter(pk__in=tool_ids, state=DefinitionState.APPROVED, server__enabled=True)
    if server:
        rows = rows.filter(server__name=server)
    return list(rows.select_related("server", "approved", "identity").order_by("server__name", "name"))


def describe_tool(tool: Tool, server: str = "") -> dict[str, Any]:
    assert tool.approved is not None  # a database constraint ensures this
    body = tool.approved.body
    fields = {name: body[name] for name in LISTED_FIELDS if body.get(name) is not None}
    return {"name": tool.name if server else str(tool), **fields}


def _in_scope(scope: tuple[str, ...], capability: str | None) -> bool:
    return not scope or any(effective_access.covers(pattern, capability) for pattern in scope)
