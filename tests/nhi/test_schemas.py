"""What checking arguments may cost is known before it is begun; a schema of a stranger cannot make it more."""

from typing import Any

import pytest

from nhi.decisions import json_schema

pytestmark = pytest.mark.capability("NHI-06", "MCP-07")
TOO_MANY = "has more parts than the grant can be checked against in good time"

COSTLY: dict[str, tuple[dict[str, Any], Any]] = {
    "patterns for names": (
        {"type": "object", "patternProperties": {f"a{n}.*b": {"type": "string"} for n in range(1500)}},
        {f"x{n:05d}": "v" for n in range(20_000)},
    ),
    "alternatives for items": (
        {"items": {"anyOf": [{"required": [f"k{n}"]} for n in range(900)]}},
        [{} for _ in range(50_000)],
    ),
    "a long choice for items": ({"items": {"enum": [f"v{n}" for n in range(3000)]}}, ["v2999"] * 50_000),
    "one of many contained": (
        {"contains": {"anyOf": [{"const": f"k{n}"} for n in range(900)]}},
        ["x"] * 50_000,
    ),
    "alternatives behind references": (
        {"items": {"$ref": "#/$defs/one"}, "$defs": {"one": {"anyOf": [{"const": n} for n in range(900)]}}},
        [1] * 50_000,
    ),
}
CHEAP: dict[str, tuple[dict[str, Any], Any]] = {
    "a large text": ({"properties": {"text": {"type": "string"}}}, {"text": "x" * 900_000}),
    "many plain items": ({"items": {"type": "object", "properties": {"n": {"type": "integer"}}}}, [{"n": 1}] * 50_000),
    "a few alternatives for many": ({"items": {"type": ["string", "null"], "anyOf": [{}, {}]}}, ["x"] * 50_000),
}


@pytest.mark.parametrize("name", COSTLY)
def test_what_would_take_too_long_is_refused_unseen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    schema, value = COSTLY[name]
    assert json_schema.find_problem(schema) == ""
    checker = json_schema.compile_schema(schema)
    monkeypatch.setattr(checker, "_engine", None)
    assert checker.find_violations(value) == [("$", TOO_MANY)]


@pytest.mark.parametrize("name", CHEAP)
def test_what_is_only_large_is_checked(name: str) -> None:
    schema, value = CHEAP[name]
    assert json_schema.find_violations(schema, value) == []


def test_the_owner_of_a_schema_is_named() -> None:
    assert json_schema.find_violations({"required": ["a"]}, {}, schema_owner="the tool") == [
        ("$.a", "is missing: the tool demands it")
    ]
