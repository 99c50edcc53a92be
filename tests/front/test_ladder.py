"""Each MUST of protocol 2026-07-28 about a request, in the order in which they answer."""

import json
from typing import Any

import pytest
from mcp_types import jsonrpc

from mcp.server import errors, request_headers, request_parser
from mcp.server.errors import ErrorResponse
from mcp.server.request_parser import McpNotification, McpRequest
from tests.front.asking import META, VERSION, Headers, body, headers, message, parsed

pytestmark = pytest.mark.capability("MCP-06")
PROTOCOL_VERSION = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
CALL = message()


def read(
    of: Any, given: Headers | None = None, raw: bytes | None = None
) -> McpRequest | ErrorResponse | McpNotification:
    return parsed(headers(of) if given is None else given, body(of) if raw is None else raw)


def refused(of: Any, given: Headers | None = None, raw: bytes | None = None) -> ErrorResponse:
    found = read(of, given, raw)
    assert isinstance(found, ErrorResponse), found
    return found


def without(*keys: str) -> dict[str, Any]:
    return {key: value for key, value in META.items() if key not in keys}


def test_the_codes_are_those_of_the_protocol() -> None:
    assert (errors.PARSE_ERROR, errors.INVALID_REQUEST) == (jsonrpc.PARSE_ERROR, jsonrpc.INVALID_REQUEST)
    assert (errors.METHOD_NOT_FOUND, errors.INVALID_PARAMS) == (jsonrpc.METHOD_NOT_FOUND, jsonrpc.INVALID_PARAMS)
    assert (errors.HEADER_MISMATCH, errors.INTERNAL_ERROR) == (jsonrpc.HEADER_MISMATCH, jsonrpc.INTERNAL_ERROR)
    assert errors.UNSUPPORTED_VERSION == jsonrpc.UNSUPPORTED_PROTOCOL_VERSION


def test_a_call_is_read_whole() -> None:
    asked = message(meta={**META, "progressToken": 7, "gatehouse/context": {"session_id": "s"}})
    assert read(asked) == McpRequest(
        1, "tools/call", VERSION, "todo__create", {"title": "milk"}, None, 7, {"session_id": "s"}
    )


def test_client_info_is_no_condition() -> None:
    assert isinstance(read(message(meta=without("io.modelcontextprotocol/clientInfo"))), McpRequest)


def test_arguments_may_be_left_out() -> None:
    asked = message()
    del asked["params"]["arguments"]
    found = read(asked)
    assert isinstance(found, McpRequest)
    assert found.arguments == {}


@pytest.mark.parametrize("given", [0, -1, 2**63 - 1, "", "a", "1"])
def test_an_id_is_given_back_as_it_came(given: Any) -> None:
    found = read(message(id=given))
    assert isinstance(found, McpRequest)
    assert (found.id, type(found.id)) == (given, type(given))


NOT_JSON = {
    "nothing": b"",
    "half": b'{"jsonrpc":',
    "not utf-8": b'{"jsonrpc":"\xff"}',
    "a byte order mark": b"\xef\xbb\xbf{}",
    "a name twice": b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","name":"b"}}',
    "NaN": b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"x":NaN}}',
    "a number too large": b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"x":1e999}}',
    "a whole number too long": b'{"id":' + b"9" * 5000 + b"}",
    "half a surrogate": b'{"id":"\\ud800"}',
    "a null character": b'{"id":"\\u0000"}',
    "65 levels": b"[" * 65 + b"]" * 65,
    "5000 levels": b"[" * 5000 + b"]" * 5000,
}


@pytest.mark.parametrize("raw", NOT_JSON.values(), ids=NOT_JSON)
def test_what_is_not_strict_json_is_a_parse_error(raw: bytes) -> None:
    found = refused(CALL, raw=raw)
    assert (found.status, found.code, found.id) == (400, -32700, None)
    assert found.envelope["id"] is None


NO_REQUEST = {
    "an array": [CALL],
    "an empty array": [],
    "a string": "tools/call",
    "null": None,
    "a posted response": {"jsonrpc": "2.0", "id": 1, "result": {}},
    "a posted error": {"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "no"}},
    "a null id": message(id=None),
    "a float id": message(id=1.5),
    "a whole float id": message(id=1.0),
    "a true id": message(id=True),
    "an object as id": message(id={}),
    "an id past 64 bits": message(id=2**63),
    "a very long id": message(id="x" * 1001),
    "no jsonrpc": {key: value for key, value in CALL.items() if key != "jsonrpc"},
    "jsonrpc 1.0": {**CALL, "jsonrpc": "1.0"},
    "no method": {key: value for key, value in CALL.items() if key != "method"},
    "a method that is a number": {**CALL, "method": 5},
    "a notification without a method": {"jsonrpc": "2.0"},
}


@pytest.mark.parametrize("sent", NO_REQUEST.values(), ids=NO_REQUEST)
def test_what_is_no_single_request_is_refused_without_an_id(sent: Any) -> None:
    found = refused(CALL, raw=body(sent))
    assert (found.status, found.code, found.id) == (400, -32600, None)


@pytest.mark.parametrize("method", ["notifications/cancelled", "notifications/initialized", "anything"])
def test_a_notification_is_taken_and_dropped(method: str) -> None:
    sent = {"jsonrpc": "2.0", "method": method, "params": {"requestId": 1}}
    assert isinstance(read(CALL, raw=body(sent)), McpNotification)


def test_a_notification_of_another_version_is_told_which_are_spoken() -> None:
    sent = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    found = refused(CALL, headers(CALL, mcp_protocol_version="2099-01-01"), body(sent))
    assert (found.status, found.code, found.id) == (400, -32022, None)


METADATA = {
    "no params": {key: value for key, value in CALL.items() if key != "params"},
    "params that are an array": {**CALL, "params": []},
    "no _meta": {**CALL, "params": {"name": "todo__create"}},
    "_meta that is a string": {**CALL, "params": {"_meta": "x", "name": "todo__create"}},
    "no version": message(meta=without(PROTOCOL_VERSION)),
    "a version that is a number": message(meta={**META, PROTOCOL_VERSION: 20260728}),
    "no capabilities": message(meta=without(CAPABILITIES)),
    "capabilities that are an array": message(meta={**META, CAPABILITIES: []}),
}


@pytest.mark.parametrize("sent", METADATA.values(), ids=METADATA)
def test_the_metadata_must_be_there(sent: Any) -> None:
    found = refused(sent, headers(CALL))
    assert (found.status, found.code, found.id) == (400, -32602, 1)


MISMATCHES = {
    "no version": {"mcp_protocol_version": None},
    "another version": {"mcp_protocol_version": "2025-11-25"},
    "an unknown version": {"mcp_protocol_version": "2099-01-01"},
    "no method": {"mcp_method": None},
    "another method": {"mcp_method": "tools/list"},
    "the method in capitals": {"mcp_method": "Tools/Call"},
    "no name": {"mcp_name": None},
    "another name": {"mcp_name": "todo__delete"},
    "the name in capitals": {"mcp_name": "TODO__CREATE"},
    "a name in broken base64": {"mcp_name": "=?base64?dG9kb19fY3JlYXRl!?="},
    "a name in base64 without its padding": {"mcp_name": "=?base64?dG9kb19fY3JlYXRlMQ?="},
    "a name in base64 that is not UTF-8": {"mcp_name": "=?base64?//4=?="},
}


@pytest.mark.parametrize("changed", MISMATCHES.values(), ids=MISMATCHES)
def test_the_headers_must_say_what_the_body_says(changed: dict[str, str | None]) -> None:
    found = refused(CALL, headers(CALL, **changed))
    assert (found.status, found.code, found.id) == (400, -32020, 1)
    assert found.data["header"].lower().replace("-", "_") in changed


@pytest.mark.parametrize("name", ["mcp-protocol-version", "mcp-method", "mcp-name", "MCP-NAME"])
def test_a_routing_header_that_stands_twice_is_refused(name: str) -> None:
    right = dict(headers(CALL))[name.lower().encode()]
    found = refused(CALL, [*headers(CALL), (name.encode(), right)])
    assert (found.status, found.code) == (400, -32020)


def test_a_name_that_stands_twice_is_refused_where_no_name_is_needed() -> None:
    asked = message("tools/list")
    assert refused(asked, [*headers(asked), (b"mcp-name", b"a"), (b"mcp-name", b"b")]).code == -32020


READ_ALIKE = {
    "in base64": {"mcp_name": "=?base64?dG9kb19fY3JlYXRl?="},
    "with space around": {"mcp_name": " \ttodo__create  "},
    "a method in base64": {"mcp_method": "=?base64?dG9vbHMvY2FsbA==?="},
}


@pytest.mark.parametrize("changed", READ_ALIKE.values(), ids=READ_ALIKE)
def test_header_values_are_decoded_and_trimmed_first(changed: dict[str, str | None]) -> None:
    assert isinstance(read(CALL, headers(CALL, **changed)), McpRequest)


def test_header_names_are_read_in_any_case() -> None:
    assert isinstance(read(CALL, [(name.upper(), value) for name, value in headers(CALL)]), McpRequest)


def test_a_name_beyond_ascii_comes_in_base64() -> None:
    asked = message(name="größe")
    assert isinstance(read(asked, headers(asked, mcp_name="=?base64?Z3LDtsOfZQ==?=")), McpRequest)
    # The bare bytes, read as Latin-1 by us and as UTF-8 by somebody else, are no way to spell it.
    assert refused(asked, headers(asked, mcp_name="größe".encode().decode("latin-1"))).code == -32020


def test_an_encoded_name_that_looks_encoded_is_one_level_deep() -> None:
    asked = message(name="=?base64?YQ==?=")
    assert refused(asked).code == -32020
    assert isinstance(read(asked, headers(asked, mcp_name="=?base64?PT9iYXNlNjQ/WVE9PT89?=")), McpRequest)


@pytest.mark.parametrize("broken", ["=?base64?!?=", "=?base64?YQ?=", "=?base64?YR==?=", "=?base64?/w==?="])
def test_a_broken_wrapping_equals_nothing(broken: str) -> None:
    assert request_headers.decode_value(broken) is None


@pytest.mark.parametrize("version", ["2099-01-01", "", "2025-11-25", "next"])
def test_a_version_that_is_not_spoken_is_told_which_are(version: str) -> None:
    asked = message(meta={**META, PROTOCOL_VERSION: version})
    found = refused(asked)
    assert (found.status, found.code, found.id) == (400, -32022, 1)
    assert found.envelope["error"]["data"] == {"supported": [VERSION], "requested": version}


def test_a_mismatch_is_said_before_the_version() -> None:
    asked = message(meta={**META, PROTOCOL_VERSION: "2099-01-01"})
    assert refused(asked, headers(CALL)).code == -32020


GONE = [
    "initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe", "prompts/list",
    "prompts/get", "resources/read", "subscriptions/listen", "completion/complete", "tasks/get", "no/such", "",
    "TOOLS/CALL",
]  # fmt: skip


@pytest.mark.parametrize("method", GONE)
def test_a_method_that_is_not_here_is_404(method: str) -> None:
    asked = message(method, name="x", uri="x:y")
    found = refused(asked)
    assert (found.status, found.code, found.id) == (404, -32601, 1)


PARAMETERS = {
    "no name": {"name": None},
    "a name that is a number": {"name": 5},
    "an empty name": {"name": ""},
    "arguments that are an array": {"arguments": []},
    "arguments that are null": {"arguments": None},
    "a round that was never begun": {"requestState": "x"},
    "answers to no question": {"inputResponses": {}},
    "a progress token that is true": {"meta": {**META, "progressToken": True}},
    "a progress token that is an object": {"meta": {**META, "progressToken": {}}},
    "a context that is a string": {"meta": {**META, "gatehouse/context": "s"}},
    "a context with another name": {"meta": {**META, "gatehouse/context": {"user": "s"}}},
    "a context with a number": {"meta": {**META, "gatehouse/context": {"session_id": 1}}},
    "a context that is too long": {"meta": {**META, "gatehouse/context": {"session_id": "s" * 201}}},
}


@pytest.mark.parametrize("changed", PARAMETERS.values(), ids=PARAMETERS)
def test_malformed_parameters_are_refused(changed: dict[str, Any]) -> None:
    found = refused(message(**changed))
    assert (found.status, found.code, found.id) == (400, -32602, 1)


def test_a_cursor_is_a_string_even_an_empty_one() -> None:
    found = read(message("tools/list", cursor=""))
    assert isinstance(found, McpRequest)
    assert found.cursor == ""
    assert refused(message("tools/list", cursor=5)).code == -32602


def test_the_largest_body_is_read_and_a_byte_more_is_not() -> None:
    asked = message(arguments={"text": ""})
    asked["params"]["arguments"]["text"] = "x" * (request_parser.MAX_BODY_BYTES - len(body(asked)))
    assert isinstance(read(asked), McpRequest)
    found = refused(asked, raw=body(asked) + b" ")
    assert found.status == 413


def test_every_refusal_is_an_error_that_its_reader_knows() -> None:
    for found in (refused(CALL, raw=b"{"), refused(message("no/such")), refused(CALL, headers(CALL, mcp_name=None))):
        jsonrpc.JSONRPCError.model_validate(json.loads(json.dumps(found.envelope)))
