"""A body that does not arrive in time ends its request, at the pages and the API as at the protocols' doors."""

import asyncio
import json
from typing import Any
from uuid import UUID

import pytest

from common.asgi import bodies as asgi
from common.ids import uuid7

pytestmark = pytest.mark.capability("OPS-02")


async def served(first: dict[str, Any], *headers: tuple[bytes, bytes]) -> list[dict[str, Any]]:
    """What is sent to a client that sends this much and then nothing."""
    parts, sent = [first], list[dict[str, Any]]()

    async def receive() -> dict[str, Any]:
        if not parts:
            await asyncio.Event().wait()
        return parts.pop()

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    async def never(*_: Any) -> None:
        raise AssertionError("A request without its body reaches nobody.")

    scope = {"type": "http", "method": "POST", "path": "/api/nhi/a2a/tasks", "headers": list(headers)}
    await asgi.limit_body(never, limit=1024)(scope, receive, send)
    return sent


@pytest.mark.parametrize("part", [b"", b'{"target'])
def test_a_body_that_never_ends_is_refused(monkeypatch: pytest.MonkeyPatch, part: bytes) -> None:
    monkeypatch.setattr(asgi, "BODY_TIMEOUT_SECONDS", 0.05)
    request_id = uuid7()
    named = (b"x-request-id", str(request_id).encode())
    start, body = asyncio.run(served({"type": "http.request", "body": part, "more_body": True}, named))
    headers = dict(start["headers"])
    assert (start["status"], headers[b"connection"]) == (400, b"close")
    answer = json.loads(body["body"])
    assert answer.keys() == {"error_code", "message", "details", "request_id"}
    assert (answer["error_code"], answer["details"]) == ("InvalidParameters", {"reason": "invalid", "fields": []})
    assert UUID(answer["request_id"]) == request_id == UUID(headers[b"x-request-id"].decode())
