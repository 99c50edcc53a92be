"""Whatever is sent, there is an answer: a request that is whole, or a refusal that its reader knows."""

import ast
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as some
from mcp_types import jsonrpc

from mcp.server import request_headers, request_parser
from mcp.server.errors import ErrorResponse
from mcp.server.handshake import message_parser, session_ids
from mcp.server.handshake.message_parser import CancelNotification
from mcp.server.request_headers import EndpointSettings
from mcp.server.request_parser import McpNotification, McpRequest
from tests.front.asking import META, NAMED, VERSION, headers, message, parsed

pytestmark = pytest.mark.capability("MCP-06")
SERVER = Path(request_parser.__file__).parent
#: What reads requests and builds answers; the other modules of the package connect it to Django and to sockets.
PURE_MODULES = (
    "errors", "request_headers", "request_parser", "message_builder",
    "handshake.message_parser", "handshake.result_conversion",
)  # fmt: skip
HOUSE = EndpointSettings("https://gate.example.org", bool, "https://gate.example.org/x")

SCALARS = some.none() | some.booleans() | some.integers() | some.floats() | some.text(max_size=20)
VALUES = some.recursive(
    SCALARS,
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.text(max_size=9), inner, max_size=3),
    max_leaves=9,
)
METHODS = some.sampled_from(
    [*request_parser.METHODS, *NAMED, *message_parser.SESSION_METHODS, "initialize", "notifications/cancelled"]
) | some.text(max_size=9)
KEYS = [*META, "progressToken", "gatehouse/context"]
META_VALUES = some.just(META) | some.dictionaries(some.sampled_from(KEYS), VALUES | some.just(VERSION)) | VALUES
PARAMS = some.fixed_dictionaries(
    {},
    optional={
        "_meta": META_VALUES,
        "name": VALUES,
        "arguments": VALUES,
        "cursor": VALUES,
        "uri": VALUES,
        "requestId": VALUES,
    },
)
MESSAGES = some.fixed_dictionaries(
    {}, optional={"jsonrpc": some.just("2.0") | VALUES, "id": VALUES, "method": METHODS, "params": PARAMS | VALUES}
)
BEGINNINGS = VALUES | some.fixed_dictionaries(
    {},
    optional={
        "protocolVersion": some.sampled_from(["2025-03-26", "2024-11-05", VERSION]) | VALUES,
        "capabilities": some.dictionaries(some.sampled_from(["roots", "sampling", "elicitation"]), VALUES) | VALUES,
    },
)
NAMES = some.sampled_from([name.encode() for name in request_headers.KNOWN_HEADERS.values()])
HEADERS = some.lists(some.tuples(NAMES, some.binary(max_size=30)), max_size=8)


def sound(found: McpRequest | ErrorResponse | McpNotification, sent: Any = None) -> None:
    if isinstance(found, ErrorResponse):
        assert 400 <= found.status < 500
        jsonrpc.JSONRPCError.model_validate(json.loads(json.dumps(found.envelope)))
    elif isinstance(found, McpRequest):
        assert isinstance(sent, dict)
        assert (found.id, found.method) == (sent["id"], sent["method"])
        assert found.method in request_parser.METHODS
        assert found.version == VERSION
        if found.method == "tools/call":
            assert found.name == sent["params"]["name"]
            assert found.arguments == sent["params"].get("arguments", {})


@given(some.binary(max_size=200), HEADERS)
@example(b"\x80", [])
def test_bytes(raw: bytes, given_headers: list[tuple[bytes, bytes]]) -> None:
    sound(parsed(given_headers, raw))


@given(MESSAGES)
def test_messages_with_the_headers_that_belong_to_them(sent: dict[str, Any]) -> None:
    params = sent.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    version = meta.get("io.modelcontextprotocol/protocolVersion") if isinstance(meta, dict) else None
    named = params.get(NAMED.get(sent.get("method", ""), "")) if isinstance(params, dict) else None
    pairs = {"mcp-method": sent.get("method"), "mcp-protocol-version": version, "mcp-name": named}
    given_headers = [
        (name.encode(), value.encode())
        for name, value in pairs.items()
        if isinstance(value, str) and value.isprintable()
    ]
    sound(parsed(given_headers, json.dumps(sent).encode()), sent)


@given(MESSAGES | VALUES, some.sampled_from(message_parser.SERVED_VERSIONS))
def test_messages_of_a_session(sent: Any, version: str) -> None:
    found = message_parser.parse_message(sent, version)
    if isinstance(found, ErrorResponse):
        assert found.status in {400, 404}
        jsonrpc.JSONRPCError.model_validate(json.loads(json.dumps(found.envelope)))
    elif isinstance(found, McpRequest):
        assert found.id == sent["id"]
        assert sent["method"] in message_parser.SESSION_METHODS
    elif isinstance(found, CancelNotification):
        assert found.request_id == sent["params"]["requestId"]


@given(some.fixed_dictionaries({}, optional={"jsonrpc": some.just("2.0") | VALUES, "id": VALUES, "params": BEGINNINGS}))
def test_beginnings_of_a_session(sent: dict[str, Any]) -> None:
    found = message_parser.parse_initialize({**sent, "method": "initialize"})
    if isinstance(found, ErrorResponse):
        assert found.status == 400
    else:
        assert found.version in message_parser.SERVED_VERSIONS
        assert found.capabilities <= set(session_ids.CAPABILITY_BITS)


@given(HEADERS)
def test_headers_alone(given_headers: list[tuple[bytes, bytes]]) -> None:
    head = request_headers.read_headers(given_headers)
    for found in (
        request_headers.check_request("POST", head, HOUSE),
        request_headers.check_content_headers(head),
        request_headers.read_bearer(head, HOUSE),
    ):
        assert found is None or isinstance(found, str | ErrorResponse)


@given(HEADERS)
def test_a_right_message_passes_only_with_headers_that_say_the_same(extra: list[tuple[bytes, bytes]]) -> None:
    right = message()
    found = parsed([*headers(right), *extra], json.dumps(right).encode())
    doubled = {name for name, _ in extra} & {name.encode() for name in request_headers.ROUTING_HEADERS}
    assert isinstance(found, ErrorResponse) == bool(doubled)


def test_nothing_of_it_needs_django_or_a_socket() -> None:
    allowed = {"common", "mcp.server", *(f"mcp.server.{name}" for name in PURE_MODULES), "orjson"}
    for file in (SERVER / f"{name.replace('.', '/')}.py" for name in PURE_MODULES):
        for node in ast.walk(ast.parse(file.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                own = name in allowed or name.startswith("common.")
                assert own or name in PURE, f"{file.name} imports {name}"


PURE = {
    "base64", "binascii", "bisect", "collections.abc", "dataclasses", "functools", "hmac", "json", "math", "re",
    "typing",
}  # fmt: skip
