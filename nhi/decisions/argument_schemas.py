"""Reads a tool's input schemas: property names, value kinds, whether other properties are allowed."""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from nhi.decisions import json_schema

Json = dict[str, Any]
#: The most properties of a tool among which `closest_name` searches.
MAX_COMPARED_PROPERTIES = 200
#: Keywords whose values are subschemas: a map by name, a single schema, a list.
MAP_KEYWORDS = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
SINGLE_KEYWORDS = frozenset({
    "additionalProperties", "unevaluatedProperties", "propertyNames", "items", "unevaluatedItems", "contains", "not",
    "if", "then", "else",
})  # fmt: skip
LIST_KEYWORDS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
#: Keywords whose subschemas apply to the same value.
SAME_VALUE_KEYWORDS = frozenset({"allOf", "anyOf", "oneOf", "not", "if", "then", "else"})
#: The kinds of value that a keyword checks. `format` is not checked, so it is an annotation.
KINDS_BY_KEYWORD: dict[str, frozenset[str]] = {
    **dict.fromkeys(
        ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"), frozenset({"number"}),
    ),
    **dict.fromkeys(("minLength", "maxLength", "pattern"), frozenset({"string"})),
    **dict.fromkeys(
        ("items", "prefixItems", "contains", "minContains", "maxContains", "minItems", "maxItems", "uniqueItems",
         "unevaluatedItems"), frozenset({"array"}),
    ),
    **dict.fromkeys(
        ("properties", "patternProperties", "additionalProperties", "unevaluatedProperties", "propertyNames",
         "required", "minProperties", "maxProperties", "dependentRequired", "dependentSchemas"), frozenset({"object"}),
    ),
}  # fmt: skip
ANNOTATION_KEYWORDS = frozenset({
    "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "format", "contentEncoding",
    "contentMediaType", "contentSchema", "$comment", "$schema", "$id", "$defs", "definitions",
})  # fmt: skip
ASSERTION_KEYWORDS = frozenset({*KINDS_BY_KEYWORD, *SAME_VALUE_KEYWORDS, "type", "const", "enum", "$ref"})
KEYWORDS = ANNOTATION_KEYWORDS | ASSERTION_KEYWORDS
VALUE_KINDS = frozenset({"object", "array", "string", "number", "boolean", "null"})


@dataclass(frozen=True)
class PropertySchemas:
    """The schemas of one object's properties, by name, as the schemas of a tool describe them."""

    #: By name, the schemas that describe the property, each with the root schema for its references.
    schemas_by_name: Mapping[str, list[tuple[Any, Json]]] = field(default_factory=dict)
    #: Whether other properties are allowed; also true if no schema is known.
    allows_others: bool = True

    @classmethod
    def from_tool_schemas(cls, tool_schemas: Sequence[Json]) -> "PropertySchemas":
        return cls.from_parts([(schema, schema) for schema in tool_schemas])

    @classmethod
    def from_parts(cls, parts: Sequence[tuple[Any, Json]]) -> "PropertySchemas":
        names: dict[str, list[tuple[Any, Json]]] = {}
        is_closed, is_open = False, not parts
        for part, root in parts:
            for schema in same_value_schemas(part, root):
                properties = schema.get("properties")
                for name, subschema in properties.items() if isinstance(properties, dict) else ():
                    names.setdefault(name, []).append((subschema, root))
                additional = schema.get("additionalProperties")
                is_closed |= additional is False
                is_open |= additional is True or isinstance(additional, dict) or bool(schema.get("patternProperties"))
                is_open |= "$ref" in schema  # an unresolved reference
        return cls(names, is_open or not (names or is_closed))

    def schemas_of(self, name: str) -> list[tuple[Any, Json]]:
        return self.schemas_by_name.get(name, [])

    def closest_name(self, name: str) -> str:
        """Return the property with the most similar name, or an empty string.

        Not searched among more than `MAX_COMPARED_PROPERTIES`, which would take seconds.
        """
        if len(self.schemas_by_name) > MAX_COMPARED_PROPERTIES:
            return ""
        closest = difflib.get_close_matches(
            name.casefold(), [candidate.casefold() for candidate in self.schemas_by_name], n=1, cutoff=0.6
        )
        return next(
            (candidate for candidate in self.schemas_by_name if closest and candidate.casefold() == closest[0]), ""
        )


def same_value_schemas(part: Any, root: Json, depth: int = 0) -> Iterator[Json]:
    """Yield the schema and its subschemas that describe the same value."""
    if not isinstance(part, dict) or depth > json_schema.MAX_DEPTH:
        return
    target = resolve_reference(part.get("$ref"), root)
    if target is not None:
        yield from same_value_schemas(target, root, depth + 1)
        part = {name: value for name, value in part.items() if name != "$ref"}
    yield part
    for keyword in ("allOf", "anyOf", "oneOf"):
        for subschema in part.get(keyword) or ():
            yield from same_value_schemas(subschema, root, depth + 1)
    for keyword in ("then", "else"):
        yield from same_value_schemas(part.get(keyword), root, depth + 1)


def resolve_reference(reference: Any, root: Json) -> Any:
    """Return the target of a reference within the schema, or None."""
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return None
    node: Any = root
    for step in reference[2:].split("/"):
        name = unquote(step).replace("~1", "/").replace("~0", "~")
        if isinstance(node, list) and name.isdecimal() and int(name) < len(node):
            node = node[int(name)]
        elif isinstance(node, dict) and name in node:
            node = node[name]
        else:
            return None
    return node


def value_kinds(part: Any) -> frozenset[str]:
    """Return the kinds of value that the schema's own `type` allows."""
    type_value = part.get("type") if isinstance(part, dict) else None
    type_names = (
        [type_value] if isinstance(type_value, str) else type_value if isinstance(type_value, list) else VALUE_KINDS
    )
    return frozenset("number" if kind == "integer" else kind for kind in type_names)


def same_value_subschemas(part: Json, root: Json) -> list[Any]:
    """Return the direct subschemas that check the same value."""
    singles = [part[keyword] for keyword in ("not", "if", "then", "else") if keyword in part]
    listed = [subschema for keyword in ("allOf", "anyOf", "oneOf") for subschema in part.get(keyword, ())]
    return [*singles, *listed, *part.get("dependentSchemas", {}).values(), resolve_reference(part.get("$ref"), root)]
