"""A server of MCP 2026-07-28 that costs next to nothing: one tool, `echo`, answered with bytes.

python -m uvicorn benchmarks.calls.upstream:application
"""

from collections.abc import Awaitable, Callable
from typing import Any

import orjson

VERSION = "2026-07-28"
JSON = b"application/json"
TOOL = {
    "name": "echo",
    "description": "Say it back.",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
}
LASTING = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
FIXED: dict[str, dict[str, Any]] = {
    "server/discover": {"supportedVersions": [VERSION], "capabilities": {"tools": {}}, **LASTING},
    "tools/list": {"tools": [TOOL], **LASTING},
}

Scope, Receive, Send = dict[str, Any], Callable[[], Awaitable[Any]], Callable[[Any], Awaitable[None]]


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    assert scope["type"] == "http", "There is nothing to start or stop."
    asked = orjson.loads(await body(receive))
    if asked["method"] == "tools/call":
        text = orjson.dumps(asked["params"]["arguments"]["text"])
        said = b'{"resultType":"complete","content":[{"type":"text","text":%b}],"isError":false}' % text
    else:
        said = orjson.dumps(FIXED[asked["method"]])
    await answer(send, b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (orjson.dumps(asked["id"]), said))


async def body(receive: Receive) -> bytes:
    parts = []
    while True:
        message = await receive()
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(parts)


async def answer(send: Send, content: bytes, status: int = 200) -> None:
    headers = [(b"content-type", JSON), (b"content-length", b"%d" % len(content))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content})
