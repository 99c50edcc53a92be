"""A limit of a grant says something about the arguments, or is refused with the schema that was probably meant."""

import json
from typing import Any

import pytest

from nhi.decisions import argument_limits

pytestmark = pytest.mark.capability("NHI-06")
TOOL: dict[str, Any] = {
    "type": "object",
    "properties": {
        "project": {"type": "string"},
        "title": {"type": "string"},
        "n": {"type": "integer"},
        "tags": {"type": "array", "items": {"type": "object", "properties": {"key": {"type": "string"}}}},
        "repo": {"type": "object", "properties": {"name": {"type": "string"}}},
    },
    "required": ["title"],
}
PROJECT = {"properties": {"project": {"const": "alpha"}}, "required": ["project"]}
#: Limits as people write them, and the schema that they meant.
MEANT: list[tuple[Any, Any]] = [
    ({"project": "alpha"}, PROJECT),
    ({"projct": "alpha"}, PROJECT),
    ({"Project": "alpha"}, PROJECT),
    ({"project": {"const": "alpha"}}, PROJECT),
    ({"properties": {"project": "alpha"}}, PROJECT),
    ({"properties": {"projct": {"const": "alpha"}}, "required": ["projct"]}, PROJECT),
    ({"propertis": {"project": {"const": "alpha"}}, "requird": ["project"]}, PROJECT),
    ({"type": "object", "project": "alpha"}, {"type": "object", **PROJECT}),
    ({"project": ["alpha", "beta"]}, {"properties": {"project": {"enum": ["alpha", "beta"]}}, "required": ["project"]}),
    ({"tags": ["a"]}, {"properties": {"tags": {"const": ["a"]}}, "required": ["tags"]}),
    ({"title": "Ship"}, {"properties": {"title": {"const": "Ship"}}, "required": ["title"]}),
    ({"n": None}, {"properties": {"n": {"const": None}}, "required": ["n"]}),
]
#: What limits nothing, refuses all, or speaks of what the tool has not; and a word of why.
REFUSED: list[tuple[Any, str]] = [
    ({"type": "object"}, "says nothing"),
    ({"title": 5}, "no usable JSON Schema"),
    ({"propertyNames": {"type": "string"}}, "says nothing"),
    ({"properties": {"project": {}}}, "says nothing"),
    ({"properties": {"project": True}}, "says nothing"),
    ({"properties": {"project": {"format": "email"}}}, "says nothing"),
    ({"properties": {"project": {"minimum": 3}}}, "says nothing"),
    ({"properties": {"project": {"minLength": 0}}}, "says nothing"),
    ({"minLength": 3}, "says nothing"),
    ({"required": []}, "says nothing"),
    ({"minProperties": 0}, "says nothing"),
    ({"additionalProperties": {}}, "says nothing"),
    ({"anyOf": [{}, {"required": ["project"]}]}, "says nothing"),
    ({"allOf": [{}, {"description": "x"}]}, "says nothing"),
    ({"if": {"required": ["n"]}, "then": {}}, "says nothing"),
    ({"if": {"required": ["n"]}}, "says nothing"),
    ({"not": False}, "says nothing"),
    ({"$defs": {"a": {"const": 1}}}, "says nothing"),
    ({"$ref": "#/$defs/a", "$defs": {"a": {"properties": {"project": {}}}}}, "says nothing"),
    ({"type": "string"}, "always an object"),
    ({"allOf": [{"propertys": {}}]}, "`propertys` is no keyword"),
    ({"properties": {"project": {"patern": "a"}}}, "`patern` is no keyword"),
    ({"dependencies": {"n": ["project"]}}, "`dependencies` is no keyword"),
    ({"properties": {"repo": {"properties": {"nmae": {"const": 1}}}}}, "no argument `repo.nmae`"),
    ({"properties": {"tags": {"items": {"required": ["kee"]}}}}, "no argument `tags[].kee`"),
    ({"required": ["other"]}, "no argument `other`"),
    ({"anyOf": [{"required": ["other"]}, {"required": ["n"]}]}, "no argument `other`"),
    ({"if": {"properties": {"other": {"const": 1}}}, "then": {"required": ["n"]}}, "no argument `other`"),
    ({"dependentRequired": {"n": ["other"]}}, "no argument `other`"),
    ({"$ref": "#/$defs/a", "$defs": {"a": {"required": ["other"]}}}, "no argument `other`"),
    ({"patternProperties": {"^projct$": {"const": 1}}}, "matches the pattern"),
]
FINE: list[Any] = [
    None,
    PROJECT,
    {"properties": {"project": {"const": "alpha"}}},
    {"properties": {"n": {"maximum": 5}}},
    {"properties": {"project": False}},
    {"properties": {"project": {"type": "string"}}},
    {"properties": {"project": {"not": {"const": "alpha"}}}},
    {"properties": {"tags": {"items": {"properties": {"key": {"enum": ["a"]}}}}}},
    {"properties": {"repo": {"properties": {"name": {"pattern": "^acme/"}}, "required": ["name"]}}},
    {"required": ["project"]},
    {"additionalProperties": False},
    {"maxProperties": 2},
    {"minProperties": 1},
    {"propertyNames": {"enum": ["title"]}},
    {"patternProperties": {"^pro": {"const": "alpha"}}},
    {"dependentRequired": {"n": ["project"]}},
    {"not": {"required": ["n"]}},
    {"anyOf": [{"required": ["n"]}, {"required": ["project"]}]},
    {"oneOf": [{"required": ["n"]}, {"required": ["project"]}]},
    {"if": {"required": ["n"]}, "then": {"required": ["project"]}},
    {"$ref": "#/$defs/a", "$defs": {"a": PROJECT}},
    {"$comment": "x", "x-who": "mara", **PROJECT},
]


@pytest.mark.parametrize(("limit", "meant"), MEANT)
def test_what_was_meant_is_written_out(limit: Any, meant: Any) -> None:
    problem = argument_limits.find_problem(limit, [TOOL], tool="notes__add")
    _, _, suggested = problem.partition("Did you mean ")
    assert json.loads(suggested.removesuffix("?")) == meant, problem
    assert argument_limits.find_problem(meant, [TOOL]) == ""


@pytest.mark.parametrize(("limit", "why"), REFUSED)
def test_a_limit_that_cannot_be_meant_says_why_and_how_one_is_written(limit: Any, why: str) -> None:
    problem = argument_limits.find_problem(limit, [TOOL], tool="notes__add")
    assert why in problem
    assert '{"properties":' in problem, "with a schema written out"


@pytest.mark.parametrize("limit", FINE)
def test_a_limit_that_limits_is_taken(limit: Any) -> None:
    assert argument_limits.find_problem(limit, [TOOL]) == ""


@pytest.mark.parametrize("limit", [limit for limit in FINE if limit is not None])
def test_what_limits_is_not_counted_among_what_limits_nothing(limit: Any) -> None:
    assert not argument_limits.limits_nothing(limit)


@pytest.mark.parametrize("limit", [limit for limit, why in REFUSED if why == "says nothing"])
def test_what_limits_nothing_is_found_without_the_tool(limit: Any) -> None:
    """But where only the tool tells: a minimum of a text."""
    needs_the_tool = limit == {"properties": {"project": {"minimum": 3}}}
    assert argument_limits.limits_nothing(limit) != needs_the_tool


@pytest.mark.parametrize(
    "schemas",
    [
        [],
        [{"type": "object"}],
        [{"type": "object", "properties": {}}],
        [{**TOOL, "additionalProperties": True}],
        [{**TOOL, "additionalProperties": {"type": "string"}}],
        [{**TOOL, "patternProperties": {"^x": {}}}],
        [{"$ref": "https://elsewhere.test/schema"}],
    ],
)
def test_any_property_may_be_named_of_a_tool_that_takes_any(schemas: Any) -> None:
    limit = {"properties": {"other": {"const": 1}}, "required": ["other"]}
    assert argument_limits.find_problem(limit, schemas) == ""
    assert "Did you mean" in argument_limits.find_problem({"other": 1}, schemas), "and it still is no schema"


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/$defs/a", "$defs": {"a": TOOL}},
        {"allOf": [{"properties": {"project": {}}}, {"properties": {"title": {}}}]},
        {"anyOf": [{"properties": {"project": {}}, "additionalProperties": False}, {"properties": {"title": {}}}]},
    ],
)
def test_properties_of_a_composed_schema_are_known(schema: Any) -> None:
    assert argument_limits.find_problem(PROJECT, [schema]) == ""
    assert "no argument `other`" in argument_limits.find_problem({"required": ["other"]}, [schema])


def test_a_tool_that_takes_nothing_has_no_property() -> None:
    assert "it takes none" in argument_limits.find_problem(PROJECT, [{"type": "object", "additionalProperties": False}])


def test_a_property_of_either_definition_may_be_named() -> None:
    """One is approved, the other waits."""
    assert argument_limits.find_problem(PROJECT, [{"properties": {"title": {}}}, TOOL]) == ""


def test_what_a_call_may_leave_out_is_told() -> None:
    limit = {"properties": {"project": {"const": "alpha"}, "title": {"const": "x"}, "n": {}}}
    assert argument_limits.optional_limited_arguments(limit, [TOOL]) == ["project"]


def test_a_suggestion_is_not_longer_than_a_message() -> None:
    problem = argument_limits.find_problem({"project": "a" * 5000}, [TOOL])
    assert len(problem) < 500
