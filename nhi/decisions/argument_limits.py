"""Validates the argument limits of a grant and suggests the schema that was probably meant.

A limit is a JSON Schema that must restrict the arguments. JSON Schema ignores unknown keywords: a limit of
`{"project": "alpha"}` is a valid schema that every call passes, and a misspelt required property refuses every call.
Both mistakes are found when the limit is saved.
"""

import difflib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from nhi.decisions import json_schema
from nhi.decisions.argument_schemas import (  # fmt: skip
    ANNOTATION_KEYWORDS,
    ASSERTION_KEYWORDS,
    KEYWORDS,
    KINDS_BY_KEYWORD,
    LIST_KEYWORDS,
    MAP_KEYWORDS,
    SINGLE_KEYWORDS,
    VALUE_KINDS,
    Json,
    PropertySchemas,
    resolve_reference,
    same_value_schemas,
    same_value_subschemas,
    value_kinds,
)

#: Values with which these keywords accept everything.
PASS_ALL_VALUES: dict[str, Any] = {"minLength": 0, "minItems": 0, "minProperties": 0, "uniqueItems": False}
#: Keywords that apply subschemas: the kinds of value that the subschemas check (None: the same value), and whether any
#: or all of the subschemas must restrict the value.
SUBSCHEMA_KEYWORDS: dict[str, tuple[frozenset[str] | None, Callable[[Iterable[bool]], bool]]] = {
    **dict.fromkeys(
        ("patternProperties", "additionalProperties", "unevaluatedProperties", "items", "unevaluatedItems",
         "prefixItems"), (VALUE_KINDS, any),
    ),
    "propertyNames": (frozenset({"string"}), any),
    **dict.fromkeys(("$ref", "allOf", "oneOf", "dependentSchemas", "if"), (None, any)),
    "anyOf": (None, all),
}  # fmt: skip
#: Keywords whose presence alone does not restrict a value, with the check of their content.
KEYWORD_CHECKS: dict[str, Callable[[Json, frozenset[str]], bool]] = {
    "type": lambda part, kinds: bool(kinds - value_kinds(part)),
    "required": lambda part, _: bool(part["required"]),
    "dependentRequired": lambda part, _: any(part["dependentRequired"].values()),
    "not": lambda part, kinds: part["not"] is not False and bool(value_kinds(part["not"]) & kinds),
    # These modify another keyword, which is checked separately.
    **dict.fromkeys(("then", "else", "minContains", "maxContains"), lambda _part, _kinds: False),
}
MAX_SUGGESTION_LENGTH = 1000
EXAMPLE_LIMIT: Json = {"properties": {"project": {"const": "alpha"}}, "required": ["project"]}


def find_problem(limit: Any, tool_schemas: Sequence[Json] = (), *, tool: str = "this tool") -> str:
    """Return why the limit cannot be saved, with a suggestion; empty for a usable limit.

    `tool_schemas` are the known input schemas of the tool; empty if it has no definition yet.
    """
    if limit is None or not isinstance(limit, dict):
        return ""
    arguments = PropertySchemas.from_tool_schemas(tool_schemas)
    problem = _find_problem(limit, arguments, tool)
    if not problem:
        return ""
    suggestion = suggest_schema(limit, arguments, tool)
    if suggestion is not None:
        return f"{problem} Did you mean {_as_json(suggestion)}?"
    return f"{problem} Write a JSON Schema, for example {_as_json(example_limit(arguments))}."


def limits_nothing(limit: Any) -> bool:
    """Whether every call passes the limit. Ignores the tool's schemas, so it also works for old limits."""
    return isinstance(limit, dict) and not _schema_limits(limit, frozenset({"object"}), limit, PropertySchemas())


def optional_limited_arguments(limit: Json, tool_schemas: Sequence[Json] = ()) -> list[str]:
    """Return the arguments that the limit restricts but a call may omit."""
    properties = limit.get("properties")
    required = {name for schema in (limit, *tool_schemas) for name in schema.get("required", ())}
    schemas_by_name = properties if isinstance(properties, dict) else {}
    return sorted(
        name
        for name, part in schemas_by_name.items()
        if name not in required and _schema_limits(part, VALUE_KINDS, limit)
    )


def example_limit(arguments: PropertySchemas) -> Json:
    """Return an example limit that uses a property of the tool."""
    names = arguments.schemas_by_name
    if not names:
        return EXAMPLE_LIMIT
    name = next(iter(names))
    return {"properties": {name: {"const": "…"}}, "required": [name]}


# ── Problems of a limit ──────────────────────────────────────────────────────────────────────────────────────────
def _find_problem(limit: Json, arguments: PropertySchemas, tool: str) -> str:
    unusable = json_schema.find_problem(limit)
    if unusable:
        return unusable if unusable.endswith(".") else f"{unusable}."
    unknown = next(_unknown_keywords(limit), None)
    if unknown is not None:
        return f"`{unknown[:80]}` is no keyword of JSON Schema, so this part would limit nothing."
    kinds = value_kinds(limit)
    if "object" not in kinds:
        return "Arguments are always an object, so a schema of another type refuses every call."
    if not _schema_limits(limit, frozenset({"object"}), limit, arguments):
        return "This schema says nothing about the arguments, so every call would pass."
    return next(_unknown_properties(limit, limit, arguments, "", tool), "")


def _unknown_keywords(part: Any) -> Iterator[str]:
    if not isinstance(part, dict):
        return
    for keyword, value in part.items():
        if keyword not in KEYWORDS and not keyword.startswith("x-"):
            yield keyword
        elif keyword in MAP_KEYWORDS and isinstance(value, dict):
            for subschema in value.values():
                yield from _unknown_keywords(subschema)
        elif keyword in SINGLE_KEYWORDS:
            yield from _unknown_keywords(value)
        elif keyword in LIST_KEYWORDS and isinstance(value, list):
            for subschema in value:
                yield from _unknown_keywords(subschema)


def _schema_limits(
    part: Any, kinds: frozenset[str], root: Json, arguments: PropertySchemas | None = None, depth: int = 0
) -> bool:
    """Whether some value of these kinds violates the schema.

    `arguments` is set only while `part` describes the arguments object itself, not one of its properties.
    """
    if not isinstance(part, dict) or depth > json_schema.MAX_DEPTH:
        return part is False
    return any(_keyword_limits(keyword, part, kinds, root, arguments, depth + 1) for keyword in part)


def _keyword_limits(
    keyword: str, part: Json, kinds: frozenset[str], root: Json, arguments: PropertySchemas | None, depth: int
) -> bool:
    value = part[keyword]
    passes_all = keyword in PASS_ALL_VALUES and value == PASS_ALL_VALUES[keyword]
    if keyword not in ASSERTION_KEYWORDS or passes_all or not KINDS_BY_KEYWORD.get(keyword, kinds) & kinds:
        return False
    if keyword == "type" and arguments is None:
        # Counts even if the tool's schema has the same type: the tool's schema may become looser.
        return bool(VALUE_KINDS - value_kinds(part))
    if keyword == "properties":
        return any(
            _schema_limits(subschema, _kinds_of_argument(arguments, name), root, None, depth)
            for name, subschema in value.items()
        )
    if keyword in SUBSCHEMA_KEYWORDS:
        subschema_kinds, combine = SUBSCHEMA_KEYWORDS[keyword]
        value_arguments = arguments if subschema_kinds is None else None
        return combine(
            _schema_limits(subschema, subschema_kinds or kinds, root, value_arguments, depth)
            for subschema in _subschemas(keyword, part, root)
        )
    return KEYWORD_CHECKS[keyword](part, kinds) if keyword in KEYWORD_CHECKS else True


def _subschemas(keyword: str, part: Json, root: Json) -> list[Any]:
    """Return the subschemas of a keyword; for `if`, its `then` and `else`."""
    value = part[keyword]
    if keyword == "$ref":
        return [resolve_reference(value, root)]
    if keyword == "propertyNames" and isinstance(value, dict):
        return [{name: item for name, item in value.items() if name != "type" or "string" not in value_kinds(value)}]
    if keyword == "if":
        return [part[name] for name in ("then", "else") if name in part]
    if keyword == "oneOf" and len(value) > 1:
        return [False]  # a value that matches two of them is refused
    return list(value.values()) if keyword in MAP_KEYWORDS else value if keyword in LIST_KEYWORDS else [value]


def _kinds_of_argument(arguments: PropertySchemas | None, name: str) -> frozenset[str]:
    """Return the kinds of value that the tool accepts for the argument; keywords for other kinds have no effect."""
    schemas = arguments.schemas_of(name) if arguments is not None else []
    kinds = frozenset(kind for part, _ in schemas for kind in value_kinds(part))
    return kinds or VALUE_KINDS


def _unknown_properties(part: Any, root: Json, arguments: PropertySchemas, path: str, tool: str) -> Iterator[str]:
    """Yield a sentence for each property that the limit mentions and the tool does not have."""
    if not isinstance(part, dict):
        return
    if not arguments.allows_others:
        yield from (
            _unknown_property_message(f"{path}{name}", arguments, tool)
            for name in _named_properties(part)
            if name not in arguments.schemas_by_name
        )
        for pattern in part.get("patternProperties", ()):
            if not any(_pattern_matches(pattern, name) for name in arguments.schemas_by_name):
                yield f"No argument of {tool} matches the pattern `{pattern[:80]}`."
    for name, subschema in part.get("properties", {}).items():
        property_arguments = PropertySchemas.from_parts(arguments.schemas_of(name))
        yield from _unknown_properties(subschema, root, property_arguments, f"{path}{name}.", tool)
        yield from _unknown_in_items(subschema, root, arguments.schemas_of(name), f"{path}{name}[].", tool)
    for subschema in same_value_subschemas(part, root):
        yield from _unknown_properties(subschema, root, arguments, path, tool)


def _unknown_in_items(part: Any, root: Json, schemas: list[tuple[Any, Json]], path: str, tool: str) -> Iterator[str]:
    if isinstance(part, dict) and isinstance(part.get("items"), dict):
        parts = [
            (schema["items"], parent_root)
            for parent, parent_root in schemas
            for schema in same_value_schemas(parent, parent_root)
            if "items" in schema
        ]
        yield from _unknown_properties(part["items"], root, PropertySchemas.from_parts(parts), path, tool)


def _named_properties(part: Json) -> list[str]:
    """Return the property names in a schema without duplicates."""
    dependent = part.get("dependentRequired") or {}
    property_names = [
        *(part.get("properties") or ()), *(part.get("required") or ()), *dependent,
        *(name for names in dependent.values() for name in names), *(part.get("dependentSchemas") or ()),
    ]  # fmt: skip
    return list(dict.fromkeys(property_names))


def _unknown_property_message(name: str, arguments: PropertySchemas, tool: str) -> str:
    argument_list = ", ".join(f"`{argument}`" for argument in list(arguments.schemas_by_name)[:12])
    return f"{tool} has no argument `{name[:80]}`; it takes {argument_list or 'none'}."


def _pattern_matches(pattern: str, name: str) -> bool:
    """Match with the linear-time regex engine, because the pattern is untrusted."""
    return bool(json_schema.find_violations({"patternProperties": {pattern: False}}, {name: 0}))


# ── Suggestions ──────────────────────────────────────────────────────────────────────────────────────────────────
def suggest_schema(limit: Json, arguments: PropertySchemas, tool: str = "this tool") -> Json | None:
    """Return the schema that the author probably meant, or None."""
    for correct in (_with_corrected_keywords, _with_values_as_schemas, _with_corrected_names):
        suggestion = correct(limit, arguments)
        if suggestion != limit and not _find_problem_in_any(suggestion, arguments, tool):
            return suggestion if len(_as_json(suggestion)) <= MAX_SUGGESTION_LENGTH else None
    suggestion = _with_corrected_names(_with_values_as_schemas(limit, arguments), arguments)
    is_usable = (
        suggestion != limit
        and not _find_problem_in_any(suggestion, arguments, tool)
        and len(_as_json(suggestion)) <= MAX_SUGGESTION_LENGTH
    )
    return suggestion if is_usable else None


def _find_problem_in_any(limit: Json, arguments: PropertySchemas, tool: str) -> str:
    try:
        return _find_problem(limit, arguments, tool)
    except (TypeError, AttributeError, ValueError):
        return "This is no schema."


def _with_corrected_keywords(limit: Any, arguments: PropertySchemas) -> Any:
    """Correct keywords such as `propertis`, unless the tool has an argument of that name."""
    if not isinstance(limit, dict):
        return limit
    return {_closest_keyword(name, arguments): value for name, value in limit.items()}


def _closest_keyword(name: str, arguments: PropertySchemas) -> str:
    if name in KEYWORDS or name in arguments.schemas_by_name:
        return name
    return next(iter(difflib.get_close_matches(name, ASSERTION_KEYWORDS, n=1, cutoff=0.75)), name)


def _with_values_as_schemas(limit: Json, arguments: PropertySchemas) -> Json:
    """Turn plain values such as `{"project": "alpha"}` into constants of required properties."""
    limit_properties = limit.get("properties")
    properties = dict(limit_properties) if isinstance(limit_properties, dict) else {}
    plain_values = {name: value for name, value in properties.items() if not isinstance(value, dict | bool)}
    plain_values |= {name: value for name, value in limit.items() if _is_argument(name, value, arguments)}
    if not plain_values:
        return limit
    rest = {name: value for name, value in limit.items() if name not in plain_values}
    properties |= {name: _value_as_schema(value, arguments.schemas_of(name)) for name, value in plain_values.items()}
    required = limit.get("required") if "required" not in plain_values else None
    required_names = [name for name in required if isinstance(name, str)] if isinstance(required, list) else []
    return {**rest, "properties": properties, "required": list(dict.fromkeys([*required_names, *plain_values]))}


def _is_argument(name: str, value: Any, arguments: PropertySchemas) -> bool:
    if name not in KEYWORDS:
        return not name.startswith("x-")
    # An argument may have the name of a keyword, for example `title`.
    return (
        name in arguments.schemas_by_name
        and name in ANNOTATION_KEYWORDS | {"type", "pattern"}
        and not isinstance(value, dict)
    )


def _value_as_schema(value: Any, schemas: list[tuple[Any, Json]]) -> Json:
    if isinstance(value, dict) and value and all(name in KEYWORDS for name in value):
        return value
    takes_list = any("array" in value_kinds(part) for part, _ in schemas if isinstance(part, dict) and "type" in part)
    return {"enum": value} if isinstance(value, list) and value and not takes_list else {"const": value}


def _with_corrected_names(limit: Json, arguments: PropertySchemas) -> Json:
    """Correct property names: `projct` becomes `project`."""
    if arguments.allows_others or not isinstance(limit.get("properties", {}), dict):
        return limit
    corrected = dict(limit)
    if "properties" in limit:
        corrected["properties"] = {_closest_name(name, arguments): value for name, value in limit["properties"].items()}
    if isinstance(limit.get("required"), list):
        corrected["required"] = list(dict.fromkeys(_closest_name(str(name), arguments) for name in limit["required"]))
    return corrected


def _closest_name(name: str, arguments: PropertySchemas) -> str:
    return name if name in arguments.schemas_by_name else arguments.closest_name(name) or name


def _as_json(schema: Any) -> str:
    return json.dumps(schema, ensure_ascii=False)
