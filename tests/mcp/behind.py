"""Tools that were registered by hand, put behind a server: enabled, with an approved definition for each."""

from collections.abc import Iterable
from typing import Any

from mcp.models import Server, Tool, ToolDefinition
from nhi.models import Identity
from tests.nhi import cast


def stand_behind_a_server(targets: Iterable[Identity], *, schema: dict[str, Any] | None = None) -> Server:
    """Without a schema the definitions say nothing about arguments."""
    server = Server.objects.create(
        name="srv", owner=cast.user("olga", "operator"), transport="http", base_url="https://srv.test"
    )
    tools = [Tool(identity=row, server=server, name=row.name.partition("__")[2]) for row in targets]
    Tool.objects.bulk_create(tools, batch_size=500)
    body = {} if schema is None else {"inputSchema": schema}
    made = ToolDefinition.objects.bulk_create(
        [ToolDefinition(tool=tool, number=1, hash="0" * 64, body=body) for tool in tools], batch_size=500
    )
    for tool, definition in zip(tools, made, strict=True):
        tool.approved = tool.current = definition
        tool.state = "approved"
    Tool.objects.bulk_update(tools, ["approved", "current", "state"], batch_size=500)
    return server
