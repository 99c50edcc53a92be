"""Clients of others, and bare sockets, against the application behind the real server."""

import asyncio
import json
import socket
from contextlib import closing
from urllib.parse import urlsplit

import pytest

from mcp.gateway.tool_list import ToolListing
from mcp.gateway.types import CallRequest, CallResult
from tests.front.asking import META, body, headers, message
from tests.front.door import CALLER, DONE, TOKEN, Gateway, refused
from tests.front.served import DEADLINE, served
from tests.services.peers import sdk_client
from tests.services.waiting import wait_for

pytestmark = pytest.mark.capability("MCP-06")


async def endless(ask: CallRequest) -> CallResult:
    if ask.on_progress is not None:
        await ask.on_progress({"progress": 1})
    await asyncio.Event().wait()
    raise AssertionError


def test_the_official_client_lists_every_page_and_calls() -> None:
    async def work(ask: CallRequest) -> CallResult:
        if ask.server != "t0001":
            visible = ask.server == "t0002"
            return refused("permission_denied", "grant_expired", "The grant has ended.", tool_is_visible=visible)
        assert ask.on_progress is not None
        for step in (1, 2):
            await ask.on_progress({"progress": step, "total": 2, "message": f"step {step}"})
        return DONE

    listed = [{"name": f"t{number:04}", "inputSchema": {"type": "object"}} for number in range(230)]
    with served(Gateway(work, ToolListing(CALLER, listed))) as url:
        said = sdk_client(url, TOKEN, "--list", "--call", "t0001", "{}", "--call", "t0002", "{}", "--call", "no", "{}")
    assert said["version"] == "2026-07-28"
    assert said["server"]["name"] == "gatehouse"
    assert [tool["name"] for tool in said["tools"]] == [tool["name"] for tool in listed]
    done, denied, unknown = said["calls"]
    assert done["progress"] == [[1, 2, "step 1"], [2, 2, "step 2"]]
    assert done["result"]["content"] == [{"type": "text", "text": "done"}]
    assert denied["result"]["isError"] is True
    assert denied["result"]["_meta"]["gatehouse/denied"]["reason"] == "grant_expired"
    assert unknown["error"]["code"] == -32602


def test_a_call_that_the_official_client_gives_up_is_cancelled() -> None:
    gateway = Gateway(endless)
    with served(gateway) as url:
        said = sdk_client(url, TOKEN, "--cancel-after", "0.3", "--call", "slow", "{}")
        wait_for(lambda: gateway.cancelled, DEADLINE, "cancelled")
    assert said["calls"][0]["cancelled"] is True


def test_an_official_client_without_a_token_is_turned_away() -> None:
    with served(Gateway()) as url:
        assert "error" in sdk_client(url, "--list")


def raw(url: str, token: str = TOKEN, progress: bool = False) -> bytes:
    asked = message(meta={**META, "progressToken": 1}) if progress else message()
    content = body(asked)
    lines = [b"POST /mcp HTTP/1.1", b"content-length: %d" % len(content), b"authorization: Bearer " + token.encode()]
    lines += [name + b": " + value for name, value in headers(asked, host=urlsplit(url).netloc)]
    return b"\r\n".join(lines) + b"\r\n\r\n" + content


def link(url: str) -> socket.socket:
    parts = urlsplit(url)
    return socket.create_connection((parts.hostname, parts.port), timeout=DEADLINE)


def test_two_requests_in_one_breath_are_answered_in_turn() -> None:
    with served(Gateway()) as url, closing(link(url)) as wire:
        wire.sendall(raw(url) + raw(url))
        heard = b""
        while heard.count(b"HTTP/1.1 200 OK") < 2 or not heard.endswith(b"}"):
            part = wire.recv(65536)
            assert part, heard
            heard += part
        first, second = [json.loads(block.split(b"HTTP/1.1")[0]) for block in heard.split(b"\r\n\r\n")[1:]]
    assert first == second


@pytest.mark.parametrize("progress", [False, True])
def test_a_line_that_is_cut_cancels_the_call(progress: bool) -> None:
    gateway = Gateway(endless)
    with served(gateway) as url:
        with closing(link(url)) as wire:
            wire.sendall(raw(url, progress=progress))
            wait_for(lambda: bool(gateway.asked), DEADLINE, "begun")
            if progress:
                assert wire.recv(65536).startswith(b"HTTP/1.1 200 OK")
        wait_for(lambda: gateway.cancelled, DEADLINE, "cancelled")
