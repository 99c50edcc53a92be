"""Compiles untrusted JSON Schemas and checks values against them in bounded time, without fetching references."""

import json
from functools import lru_cache
from typing import Any, NoReturn
from urllib.parse import unquote

import jsonschema_rs

from common import canonical_json

MAX_DEPTH = 32
#: The most parts of a schema with every reference expanded, which bounds the cost of one value.
MAX_PARTS = 2000
#: Keywords whose values are data, not schemas. A property may have such a name, and its value is a schema.
DATA_KEYWORDS = frozenset({"const", "enum", "default", "examples"})
#: Keywords whose values are maps from arbitrary names to schemas.
MAP_KEYWORDS = frozenset(
    {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"}
)
#: Keywords below which several parts check the same value. Definitions, too: references to them come from anywhere.
BRANCHING_KEYWORDS = frozenset({
    "anyOf", "oneOf", "allOf", "not", "if", "then", "else", "patternProperties", "contains", "dependentSchemas",
    "$defs", "definitions", "propertyNames", "unevaluatedProperties", "unevaluatedItems",
})  # fmt: skip
#: The most steps of one check; this many take about a tenth of a second.
MAX_STEPS = 1_000_000
#: Keywords that change the meaning of `#/…` below them, and keywords whose target depends on the value.
REBASING_KEYWORDS = frozenset({"$id", "id", "$schema", "$anchor", "$dynamicAnchor", "$recursiveAnchor"})
DYNAMIC_KEYWORDS = frozenset({"$dynamicRef", "$recursiveRef"})
# The linear-time regex engine: no untrusted pattern can make it backtrack.
PATTERN_OPTIONS = jsonschema_rs.RegexOptions(size_limit=1_000_000)


def find_problem(schema: dict[str, Any]) -> str:
    """Return why the schema cannot be used; empty for a usable one."""
    if _nesting_depth(schema) > MAX_DEPTH:
        return f"The schema is nested deeper than {MAX_DEPTH} levels."
    try:
        if _PartCounter(schema).count(schema) > MAX_PARTS:
            return f"The schema unfolds to more than {MAX_PARTS} parts."
        compile_schema(schema)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError, LookupError) as error:
        return f"This is no usable JSON Schema: {str(error).splitlines()[0][:200]}"
    return ""


def find_violations(schema: dict[str, Any], value: Any, *, schema_owner: str = "the grant") -> list[tuple[str, str]]:
    """Return at most ten violations as (path, message), without the value. Messages name the schema's owner."""
    return compile_schema(schema).find_violations(value, schema_owner=schema_owner)


def compile_schema(schema: dict[str, Any]) -> "SchemaChecker":
    """Return the cached checker of a schema. Raises the engine's error for an invalid schema."""
    return _cached_checker(canonical_json.encode(schema))


class SchemaChecker:
    """A compiled schema that checks values in bounded time."""

    def __init__(self, text: bytes) -> None:
        self._engine = _compile_validator(text)
        self._width = _branching_width(json.loads(text))

    def find_violations(self, value: Any, *, schema_owner: str = "the grant") -> list[tuple[str, str]]:
        if _count_steps(value, MAX_STEPS // self._width) is None:
            return [("$", f"has more parts than {schema_owner} can be checked against in good time")]
        return [] if self._engine.is_valid(value) else self._errors(value, schema_owner)

    def _errors(self, value: Any, schema_owner: str) -> list[tuple[str, str]]:
        violations = []
        for error in self._engine.iter_errors(value):
            member_path, message = _missing_or_unknown(error, schema_owner) or ([], str(error.message)[:300])
            path = [*error.instance_path, *member_path]
            violations.append(
                ("$" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path), message)
            )
            if len(violations) == 10:
                break
        return violations


def _branching_width(part: Any, *, wide: bool = False) -> int:
    """Return how many parts of the schema can check the same part of a value."""
    if isinstance(part, list):
        return (
            sum(_branching_width(item, wide=wide) for item in part)
            if wide
            else max((_branching_width(item) for item in part), default=1)
        )
    if not isinstance(part, dict):
        return 1
    choices = part.get("enum")
    width = 1 + (len(choices) // 20 if isinstance(choices, list) else 0)
    for name, value in part.items():
        if name in DATA_KEYWORDS:
            continue
        subschemas = list(value.values()) if name in MAP_KEYWORDS and isinstance(value, dict) else value
        if wide or name in BRANCHING_KEYWORDS:
            width += _branching_width(subschemas, wide=True)
        elif isinstance(subschemas, dict | list):
            width = max(width, _branching_width(subschemas))
    return width


def _count_steps(value: Any, limit: int) -> int | None:
    """Return the number of parts of a value, or None if it exceeds the limit."""
    remaining, steps = [value], 0
    while remaining:
        item = remaining.pop()
        steps += 1
        if isinstance(item, dict):
            remaining.extend(item.values())
        elif isinstance(item, list):
            remaining.extend(item)
        elif isinstance(item, str):
            steps += len(item) // 1000
        if steps + len(remaining) > limit:
            return None
    return steps


class _PartCounter:
    """Counts the parts of a schema with all references expanded.

    A few lines of references that double at each step, or a cycle of references, would make a check endless.
    """

    def __init__(self, root: dict[str, Any]) -> None:
        self._root, self._counted = root, dict[str, int]()

    def count(self, part: Any, followed: frozenset[str] = frozenset()) -> int:
        """Count the parts of a schema or of a list of schemas."""
        if isinstance(part, list):
            return sum(self.count(item, followed) for item in part)
        if not isinstance(part, dict):
            return 0
        self._refuse_rebasing(part)
        nested = sum(
            self._count_keyword(name, value, followed) for name, value in part.items() if name not in DATA_KEYWORDS
        )
        reference = part.get("$ref")
        return 1 + nested + (self._count_reference(reference, followed) if isinstance(reference, str) else 0)

    def _count_keyword(self, name: str, value: Any, followed: frozenset[str]) -> int:
        if name in MAP_KEYWORDS and isinstance(value, dict):
            return sum(self.count(schema, followed) for schema in value.values())
        return self.count(value, followed)

    def _refuse_rebasing(self, part: dict[str, Any]) -> None:
        forbidden = DYNAMIC_KEYWORDS if part is self._root else DYNAMIC_KEYWORDS | REBASING_KEYWORDS
        if keywords := sorted(name for name in forbidden if isinstance(part.get(name), str | bool)):
            raise ValueError(f"{keywords[0]} is not followed below the root; write references as #/$defs/name")

    def _count_reference(self, reference: str, followed: frozenset[str]) -> int:
        if reference in followed or reference == "#":
            raise ValueError("a reference in a circle is not followed")
        if not reference.startswith("#/"):
            raise ValueError("references are written as #/$defs/name")
        if len(followed) >= MAX_DEPTH:
            raise ValueError(f"references lead on to more than {MAX_DEPTH} others")
        if reference not in self._counted:
            self._counted[reference] = self.count(self._resolve(reference), followed | {reference})
        return self._counted[reference]

    def _resolve(self, reference: str) -> Any:
        node: Any = self._root
        for step in reference[2:].split("/"):
            name = unquote(step).replace("~1", "/").replace("~0", "~")
            node = node[int(name)] if isinstance(node, list) else node[name]
            if isinstance(node, dict):
                self._refuse_rebasing(node)
        return node


@lru_cache(maxsize=512)
def _cached_checker(text: bytes) -> SchemaChecker:
    return SchemaChecker(text)


def _compile_validator(text: bytes) -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator(
        json.loads(text),
        pattern_options=PATTERN_OPTIONS,
        retriever=_refuse_reference,
        mask="the value",
        validate_formats=False,
    )


def _refuse_reference(uri: str) -> NoReturn:
    raise ValueError(f"a reference to {uri[:80]} is not followed; put the definition into the schema itself")


def _missing_or_unknown(error: Any, schema_owner: str) -> tuple[list[str], str] | None:
    """Return the member and the message for the two errors that concern a member, not its container."""
    if error.kind.name == "required":
        return [str(error.kind.property)], f"is missing: {schema_owner} demands it"
    if error.kind.name == "additionalProperties" and error.kind.unexpected:
        return [str(error.kind.unexpected[0])[:100]], f"is not among what {schema_owner} allows"
    return None


def _nesting_depth(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + max(map(_nesting_depth, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(_nesting_depth, value), default=0)
    return 0
