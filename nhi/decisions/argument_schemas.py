"""What the schemas of a tool say of its arguments: names, kinds of value, and whether others may be given."""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from nhi.decisions import json_schema

Json = dict[str, Any]
#: Properties of a tool among which the one is looked for that was probably meant.
MAX_COMPARED = 200
#: Keywords whose values hold schemas: by name, one, a list of them.
MAPS = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
SINGLES = frozenset({
    "additionalProperties", "unevaluatedProperties", "propertyNames", "items", "unevaluatedItems", "contains", "not",
    "if", "then", "else",
})  # fmt: skip
LISTS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
#: Below these the schema is about the same value.
SAME_VALUE = frozenset({"allOf", "anyOf", "oneOf", "not", "if", "then", "else"})
#: What a keyword limits, by the kinds of value that it looks at. `format` is not checked, so it is an annotation.
BY_KIND: dict[str, frozenset[str]] = {
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
ANNOTATIONS = frozenset({
    "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "format", "contentEncoding",
    "contentMediaType", "contentSchema", "$comment", "$schema", "$id", "$defs", "definitions",
})  # fmt: skip
ASSERTIONS = frozenset({*BY_KIND, *SAME_VALUE, "type", "const", "enum", "$ref"})
KEYWORDS = ANNOTATIONS | ASSERTIONS
KINDS = frozenset({"object", "array", "string", "number", "boolean", "null"})


@dataclass(frozen=True)
class Arguments:
    """The properties of one object, as the schemas of a tool describe it."""

    #: By name, the schemas that describe the property, each with the whole that its references lead into.
    names: Mapping[str, list[tuple[Any, Json]]] = field(default_factory=dict)
    #: Whether other properties may be given too, or nothing is known of them.
    is_open: bool = True

    @classmethod
    def of(cls, tool_schemas: Sequence[Json]) -> "Arguments":
        return cls.described_by([(schema, schema) for schema in tool_schemas])

    @classmethod
    def described_by(cls, parts: Sequence[tuple[Any, Json]]) -> "Arguments":
        names: dict[str, list[tuple[Any, Json]]] = {}
        closed, opened = False, not parts
        for part, root in parts:
            for same in same_value(part, root):
                described = same.get("properties")
                for name, below in described.items() if isinstance(described, dict) else ():
                    names.setdefault(name, []).append((below, root))
                more = same.get("additionalProperties")
                closed |= more is False
                opened |= more is True or isinstance(more, dict) or bool(same.get("patternProperties"))
                opened |= "$ref" in same  # one that was not followed
        return cls(names, opened or not (names or closed))

    def below(self, name: str) -> list[tuple[Any, Json]]:
        return self.names.get(name, [])

    def nearest(self, name: str) -> str:
        """The property that was probably meant; empty for a tool with very many, which would take seconds."""
        if len(self.names) > MAX_COMPARED:
            return ""
        found = difflib.get_close_matches(name.casefold(), [known.casefold() for known in self.names], n=1, cutoff=0.6)
        return next((known for known in self.names if found and known.casefold() == found[0]), "")


def same_value(part: Any, root: Json, depth: int = 0) -> Iterator[Json]:
    """The schema, and those within it that describe the same value."""
    if not isinstance(part, dict) or depth > json_schema.DEEPEST:
        return
    target = referred(part.get("$ref"), root)
    if target is not None:
        yield from same_value(target, root, depth + 1)
        part = {name: value for name, value in part.items() if name != "$ref"}
    yield part
    for keyword in ("allOf", "anyOf", "oneOf"):
        for below in part.get(keyword) or ():
            yield from same_value(below, root, depth + 1)
    for keyword in ("then", "else"):
        yield from same_value(part.get(keyword), root, depth + 1)


def referred(reference: Any, root: Json) -> Any:
    """What a reference within the schema leads to; None for any other."""
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return None
    found: Any = root
    for step in reference[2:].split("/"):
        name = unquote(step).replace("~1", "/").replace("~0", "~")
        if isinstance(found, list) and name.isdecimal() and int(name) < len(found):
            found = found[int(name)]
        elif isinstance(found, dict) and name in found:
            found = found[name]
        else:
            return None
    return found


def kinds_of(part: Any) -> frozenset[str]:
    """The kinds of value that the schema's own `type` lets pass."""
    said = part.get("type") if isinstance(part, dict) else None
    listed = [said] if isinstance(said, str) else said if isinstance(said, list) else KINDS
    return frozenset("number" if kind == "integer" else kind for kind in listed)


def about_the_same(part: Json, root: Json) -> list[Any]:
    """The schemas within this one that look at the same value."""
    singles = [part[keyword] for keyword in ("not", "if", "then", "else") if keyword in part]
    several = [below for keyword in ("allOf", "anyOf", "oneOf") for below in part.get(keyword, ())]
    return [*singles, *several, *part.get("dependentSchemas", {}).values(), referred(part.get("$ref"), root)]
