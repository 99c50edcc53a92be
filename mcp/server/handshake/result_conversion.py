"""Converts results of protocol 2026-07-28 to those of the handshake revisions.

Earlier revisions have no `resultType` and no hints for caches, and structured content is always an object.
"""

from typing import Any

from mcp.server import message_builder
from mcp.server.message_builder import JsonObject

MODERN_FIELDS = frozenset({"resultType", "ttlMs", "cacheScope"})
MODERN_META_PREFIX = "io.modelcontextprotocol/"
#: The property of a wrapped value.
WRAPPER_PROPERTY = "result"
REFERENCE_KEYWORDS = ("$ref", "$dynamicRef")
#: Keywords whose keys are names and whose values are schemas.
NAMED_SCHEMAS = frozenset({"properties", "patternProperties", "dependentSchemas", "$defs", "definitions"})
#: Keywords whose values are data.
DATA_KEYWORDS = frozenset({"const", "default", "enum", "examples"})


def build_initialize_result(version: str, info: JsonObject) -> JsonObject:
    """Build the result of `initialize`. The capabilities are those that the session's methods have."""
    return {
        "protocolVersion": version,
        "capabilities": {"tools": {"listChanged": False}},
        "serverInfo": info,
        "instructions": message_builder.INSTRUCTIONS,
    }


def convert_result(result: JsonObject) -> JsonObject:
    """Convert the result of a call or of a list."""
    converted = {name: value for name, value in result.items() if name not in MODERN_FIELDS and name != "_meta"}
    meta = {key: value for key, value in result.get("_meta", {}).items() if not key.startswith(MODERN_META_PREFIX)}
    if meta:
        converted["_meta"] = meta
    if "structuredContent" in result and not isinstance(result["structuredContent"], dict):
        converted["structuredContent"] = {WRAPPER_PROPERTY: result["structuredContent"]}
    if "tools" in result:
        converted["tools"] = [_convert_tool(tool) for tool in result["tools"]]
    return converted


def _convert_tool(tool: JsonObject) -> JsonObject:
    """Convert a tool's output schema as its structured content will be.

    A schema that allows objects and other values is left out: objects come as they are and others wrapped.
    """
    schema = tool.get("outputSchema")
    if not isinstance(schema, dict) or schema.get("type") == "object":
        return tool
    converted = {name: value for name, value in tool.items() if name != "outputSchema"}
    if _excludes_objects(schema):
        converted["outputSchema"] = _wrap_schema(schema)
    return converted


def _excludes_objects(schema: JsonObject) -> bool:
    types = schema.get("type")
    return types != "object" if isinstance(types, str) else isinstance(types, list) and "object" not in types


def _wrap_schema(schema: JsonObject) -> JsonObject:
    inner = {name: value for name, value in schema.items() if name != "$schema"}
    dialect = {"$schema": schema["$schema"]} if "$schema" in schema else {}
    return {
        **dialect,
        "type": "object",
        "properties": {WRAPPER_PROPERTY: _move_references(inner)},
        "required": [WRAPPER_PROPERTY],
    }


def _move_references(schema: Any) -> Any:
    """Point the references into the schema to its new place below the wrapper."""
    if isinstance(schema, list):
        return [_move_references(item) for item in schema]
    if not isinstance(schema, dict) or "$id" in schema:
        # References below an `$id` are relative to it.
        return schema
    return {keyword: _move_keyword(keyword, value) for keyword, value in schema.items()}


def _move_keyword(keyword: str, value: Any) -> Any:
    if keyword in REFERENCE_KEYWORDS and isinstance(value, str) and (value == "#" or value.startswith("#/")):
        return f"#/properties/{WRAPPER_PROPERTY}{value[1:]}"
    if keyword in NAMED_SCHEMAS and isinstance(value, dict):
        return {name: _move_references(schema) for name, schema in value.items()}
    return value if keyword in DATA_KEYWORDS else _move_references(value)
