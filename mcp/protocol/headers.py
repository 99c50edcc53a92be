"""Encodes header values of protocol 2026-07-28, and repeats tool arguments as `Mcp-Param-*` headers.

Values that HTTP cannot carry are encoded as `=?base64?...?=`. Arguments with the keyword `x-mcp-header` in the tool's
schema are repeated as `Mcp-Param-*` headers.
"""

import base64
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

MIRROR_KEYWORD = "x-mcp-header"
MIRROR_PREFIX = "Mcp-Param-"
WRAPPED = re.compile(r"=\?base64\?(.*)\?=")
PLAIN = re.compile(r"[\x20-\x7E]*")
TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
#: Without `number`: two implementations may write the same number differently.
MIRRORED_TYPES = frozenset({"string", "integer", "boolean"})
#: Keywords of JSON Schema 2020-12 that hold schemas. Values such as `default` or `enum` are data and are
#: not searched.
ONE_SCHEMA = frozenset({
    "items", "contains", "unevaluatedItems", "additionalProperties", "propertyNames", "unevaluatedProperties", "not",
    "if", "then", "else", "contentSchema",
})  # fmt: skip
SCHEMA_LISTS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
SCHEMA_MAPS = frozenset({"patternProperties", "dependentSchemas", "$defs", "definitions"})
#: Headers of the connection, and headers that state the identity and the format of a request. Some of these would let a
#: person who sets them change where a request ends (request smuggling).
CONNECTION_HEADERS = frozenset({
    "host", "content-length", "content-type", "accept", "connection", "transfer-encoding", "upgrade", "te", "trailer",
    "keep-alive", "proxy-authorization", "proxy-connection", "expect", "cookie", "origin", "accept-encoding",
})  # fmt: skip

ArgumentPath = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HeaderBinding:
    """An argument and the header that repeats it."""

    path: ArgumentPath
    header: str


def is_reserved_header(name: str) -> bool:
    """Whether the header belongs to the connection or to the protocol, so that it cannot be set for a server."""
    return name.lower() in CONNECTION_HEADERS or name.lower().startswith("mcp-")


def encode_value(value: str) -> str:
    if PLAIN.fullmatch(value) and value == value.strip() and not WRAPPED.fullmatch(value):
        return value
    raw = value.encode("utf-8", "surrogatepass")
    return f"=?base64?{base64.b64encode(raw).decode()}?="


def find_bindings(schema: Any) -> tuple[HeaderBinding, ...]:
    """Return the arguments to mirror: none if any annotation in the schema is invalid."""
    annotations = _find_annotations(schema)
    return (
        ()
        if _find_problem(annotations)
        else tuple(HeaderBinding(path or (), MIRROR_PREFIX + node[MIRROR_KEYWORD]) for path, node in annotations)
    )


def find_annotation_problem(schema: Any) -> str:
    """Return the reason why the tool cannot be called over HTTP, as one clause; empty if it can be called."""
    return _find_problem(_find_annotations(schema))


def _find_annotations(schema: Any) -> list[tuple[ArgumentPath | None, Mapping[str, Any]]]:
    return [(path, node) for path, node in _iterate_schemas(schema) if MIRROR_KEYWORD in node]


def _find_problem(annotations: list[tuple[ArgumentPath | None, Mapping[str, Any]]]) -> str:
    used_names: set[str] = set()
    for path, node in annotations:
        name = node[MIRROR_KEYWORD]
        if not path:
            return f"{MIRROR_KEYWORD} stands where no argument can be reached by names alone"
        if not isinstance(name, str) or not TOKEN.fullmatch(name):
            return f"{MIRROR_KEYWORD} of {'.'.join(path)} is no header name"
        if str(node.get("type")) not in MIRRORED_TYPES:
            return f"{MIRROR_KEYWORD} of {'.'.join(path)} stands on neither a string, an integer nor a boolean"
        if name.lower() in used_names:
            return f"{MIRROR_KEYWORD} {name} is there twice"
        used_names.add(name.lower())
    return ""


def _iterate_schemas(root: Any) -> Iterator[tuple[ArgumentPath | None, Mapping[str, Any]]]:
    """Yield each subschema with its path of property names. The path is None below any keyword but `properties`."""
    stack: list[tuple[ArgumentPath | None, Any]] = [((), root)]
    while stack:
        path, node = stack.pop()
        if not isinstance(node, dict):
            continue
        yield path, node
        for keyword, value in node.items():
            if keyword == "properties" and isinstance(value, dict):
                stack += [(None if path is None else (*path, name), part) for name, part in value.items()]
            elif keyword in ONE_SCHEMA:
                stack.append((None, value))
            elif keyword in SCHEMA_LISTS and isinstance(value, list):
                stack += [(None, part) for part in value]
            elif keyword in SCHEMA_MAPS and isinstance(value, dict):
                stack += [(None, part) for part in value.values()]


def mirror_arguments(bindings: tuple[HeaderBinding, ...], arguments: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the header of each bound argument. Arguments that are absent or null have no header."""
    for binding in bindings:
        text = _header_text(_find_argument(binding.path, arguments))
        if text is not None:
            yield binding.header, encode_value(text)


def _find_argument(path: ArgumentPath, arguments: Mapping[str, Any]) -> Any:
    node: Any = arguments
    for name in path:
        if not isinstance(node, Mapping):
            return None
        node = node.get(name)
    return node


def _header_text(value: Any) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    try:
        return str(value) if isinstance(value, str | int | float) else None
    except ValueError:
        # The integer exceeds Python's limit of digits: send no header and let the server report the mismatch.
        return None
