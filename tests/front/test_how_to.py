"""What docs/how-to/mcp-clients.md tells to send is what the server takes."""

import re
import shlex

import pytest

from mcp.server import request_headers, request_parser
from mcp.server.request_parser import McpRequest
from tests.front.asking import parsed
from tests.services.house import ROOT

pytestmark = pytest.mark.capability("MCP-06")
PAGE = (ROOT / "docs" / "how-to" / "mcp-clients.md").read_text()


def test_the_request_that_is_shown_is_read() -> None:
    found = re.search(r"```sh\n(curl .*?)```", PAGE, re.DOTALL)
    assert found
    words = shlex.split(found[1].replace("\\\n", " "))
    pairs = [words[at + 1].split(": ", 1) for at, word in enumerate(words) if word == "-H"]
    sent = [(name.lower().encode(), value.encode()) for name, value in pairs]
    head = request_headers.read_headers(sent)
    assert request_headers.check_content_headers(head) is None
    asked = parsed(sent, words[words.index("-d") + 1].encode())
    assert isinstance(asked, McpRequest)
    assert (asked.name, asked.arguments) == ("todo__create_todo", {"title": "Buy milk"})


def test_the_limits_are_those_that_hold() -> None:
    for name, longest in request_parser.CONTEXT_FIELDS.items():
        assert f"`{name}`" in PAGE
        assert f"at most {longest}" in PAGE
    assert f"at most {request_parser.MAX_BODY_BYTES // 2**20} MiB" in PAGE
    assert all(f"`{method}`" in PAGE for method in request_parser.METHODS)
