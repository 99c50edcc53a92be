"""Results of 2026-07-28 as the revisions before them have them; valid by the official types of each."""

from typing import Any

import pytest
from jsonschema_rs import Draft202012Validator
from mcp_types import methods

from mcp.server import message_builder
from mcp.server.handshake import message_parser
from mcp.server.handshake.result_conversion import build_initialize_result, convert_result

pytestmark = pytest.mark.capability("MCP-06")
INFO = {"name": "gatehouse", "version": "0.1.0"}
CALL = "018f0000-0000-7000-8000-000000000000"
OBJECT = {"type": "object"}


def converted(upstream: dict[str, Any]) -> dict[str, Any]:
    found = convert_result(message_builder.build_tool_result(upstream, call_id=CALL, info=INFO))
    for version in message_parser.SERVED_VERSIONS:
        methods.validate_server_result("tools/call", version, found)
    return found


@pytest.mark.parametrize("version", message_parser.SERVED_VERSIONS)
def test_the_answer_to_initialize_declares_what_works(version: str) -> None:
    converted = build_initialize_result(version, INFO)
    methods.validate_server_result("initialize", version, converted)
    assert converted["protocolVersion"] == version
    assert converted["capabilities"] == {"tools": {"listChanged": False}}


def test_what_is_new_is_left_out_and_what_is_ours_is_kept() -> None:
    upstream = {
        "content": [{"type": "text", "text": "milk"}],
        "ttlMs": 5,
        "x-unknown": 1,
        "_meta": {"theirs": 1, "io.modelcontextprotocol/related-task": {"taskId": "1"}},
    }
    assert converted(upstream) == {
        "content": upstream["content"],
        "x-unknown": 1,
        "_meta": {"theirs": 1, "gatehouse/call_id": CALL},
    }


@pytest.mark.parametrize("value", [[1, 2], "text", 5, True, None, []])
def test_structured_content_that_is_no_object_is_wrapped(value: Any) -> None:
    assert converted({"content": [], "structuredContent": value})["structuredContent"] == {"result": value}


def test_structured_content_that_is_an_object_stays_as_it_is() -> None:
    assert converted({"content": [], "structuredContent": {"result": 1}})["structuredContent"] == {"result": 1}
    assert "structuredContent" not in converted({"content": []})


def output_schema(schema: Any) -> Any:
    tool = {"name": "a", "inputSchema": OBJECT, "outputSchema": schema}
    page = convert_result({"tools": [tool], **message_builder.NO_CACHING, "resultType": "complete", "_meta": {"x": 1}})
    assert page.keys() == {"tools", "_meta"}
    methods.validate_server_result("tools/list", "2025-11-25", page)
    return page["tools"][0].get("outputSchema")


def test_the_schema_of_an_object_stays_as_it_is() -> None:
    schema = {"type": "object", "properties": {"a": {"$ref": "#/$defs/b"}}, "$defs": {"b": {"type": "string"}}}
    assert output_schema(schema) == schema


TREE = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "array",
    "items": {"$ref": "#/$defs/node"},
    "$defs": {
        "node": {
            "type": "object",
            "properties": {"$ref": {"const": "#/kept"}, "below": {"$ref": "#"}},
            "required": ["below"],
            "default": {"$ref": "#/kept"},
        }
    },
}


def test_a_wrapped_schema_says_of_the_wrapped_value_what_it_said_of_the_value() -> None:
    schema = output_schema(TREE)
    before, after = Draft202012Validator(TREE), Draft202012Validator(schema)
    node = {"below": [], "$ref": "#/kept"}
    for value in ([], [node], [{"below": [node]}], [{}], [{"below": [{}]}], 5, {"below": []}):
        assert after.is_valid({"result": value}) == before.is_valid(value), value
    assert not after.is_valid({})
    assert schema["$schema"] == TREE["$schema"]
    assert schema["properties"]["result"]["$defs"]["node"]["default"] == {"$ref": "#/kept"}


def test_references_below_an_id_of_their_own_stay() -> None:
    inner = {"$id": "urn:a", "$defs": {"b": {"type": "string"}}, "$ref": "#/$defs/b"}
    schema = output_schema({"type": "array", "items": inner})
    assert schema["properties"]["result"]["items"] == inner


@pytest.mark.parametrize("schema", [{}, {"type": ["object", "null"]}, {"anyOf": [OBJECT, {"type": "string"}]}])
def test_a_schema_that_allows_objects_and_others_is_left_out(schema: Any) -> None:
    """An object comes as it is, another value wrapped: no schema of before says both."""
    assert output_schema(schema) is None


@pytest.mark.parametrize("kind", ["string", ["array", "null"]])
def test_a_schema_of_other_values_is_wrapped(kind: Any) -> None:
    assert output_schema({"type": kind}) == {
        "type": "object", "properties": {"result": {"type": kind}}, "required": ["result"]
    }  # fmt: skip
