"""The client that the official conformance suite starts against its own servers: ours, doing what a gateway does.

    python -m tests.upstream.conformance_client URL

It meets the server, lists the tools and calls each one with arguments of the kinds that its schema names.
"""

import asyncio
import json
import os
import sys
from typing import Any
from uuid import uuid4

import aiohttp

from mcp.client.http_transport import HttpTransport
from mcp.client.types import ServerTarget
from mcp.protocol.upstream_errors import UpstreamFailure

SAMPLES: dict[str, Any] = {
    "string": "text", "integer": 5, "number": 3, "boolean": True, "array": [], "object": {}, "null": None,
}  # fmt: skip


async def main(url: str) -> None:
    # What the suite wants to see called is said in its scenario; else each tool is called with samples.
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    async with aiohttp.ClientSession() as session:
        transport = HttpTransport(session=lambda: session)
        target = ServerTarget(uuid4(), "conformance", 1, "http", url)
        found = await transport.handshake(target, timeout=10)
        print(found.era, found.protocol_version, found.steps)
        tools = await transport.list_tools(target, timeout=10)
        calls = context.get("toolCalls") or [
            {"name": tool["name"], "arguments": sample(tool.get("inputSchema"))} for tool in tools
        ]
        schemas = {tool["name"]: tool.get("inputSchema") for tool in tools}
        for call in calls:
            if call["name"] == "json_schema_echo":
                # It is shown a schema as we got it from the list.
                call["arguments"]["schema"] = schemas["json_schema_2020_12_tool"]
            await say(transport, target, call, schemas.get(call["name"]))
        await transport.close()


async def say(transport: HttpTransport, target: ServerTarget, call: dict[str, Any], schema: Any) -> None:
    try:
        result = await transport.call_tool(
            target, call["name"], call.get("arguments") or {}, timeout=20, input_schema=schema
        )
        print(call, json.dumps(result)[:200])
    except UpstreamFailure as trouble:
        print(call, trouble)


def sample(schema: Any) -> Any:
    found = schema if isinstance(schema, dict) else {}
    if found.get("type") == "object":
        return {name: sample(part) for name, part in found.get("properties", {}).items()}
    return SAMPLES.get(str(found.get("type")), "text")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
