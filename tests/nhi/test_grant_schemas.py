"""A schema that limits a grant: refused where it could not be checked in good time, followed where it can."""

from typing import Any

import pytest

from common.errors import InvalidInput
from nhi.decisions import json_schema
from tests.nhi import cast
from tests.nhi.granting import asked, fields

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases, pytest.mark.capability("NHI-06")]


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "nonsense"}, {"$ref": "http://127.0.0.1:9/x"}, {"$ref": "file:///etc/passwd"}, {"pattern": "(?=a)b"},
        {"pattern": "("}, {"enum": ["\x00"]}, {"enum": ["\ud800"]}, {"const": float("nan")}, {"title": "x" * 70_000},
        {"minLength": "3"}, [], "object", True, {1: 2},
    ],
)  # fmt: skip
def test_a_limit_that_could_not_be_checked_is_invalid(schema: Any) -> None:
    with pytest.raises(InvalidInput) as refused:
        cast.tool_grant(cast.agent(), cast.tool(), allowed_parameters=schema)
    assert fields(refused) == {"allowed_parameters"}


@pytest.mark.parametrize(
    "schema",
    [
        {
            "$defs": {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(40)} | {"d40": {}},
            "$ref": "#/$defs/d0",
        },
        {"items": {"$ref": "#"}},
        {"$defs": {"a": {"anyOf": [{"items": {"$ref": "#/$defs/a"}}] * 2}}, "$ref": "#/$defs/a"},
        {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "not": {"$ref": "#/$defs/a"}},
        {"$defs": {"a": {"$anchor": "here"}}, "$ref": "#here"},
        {"$defs": {"a": {"$dynamicAnchor": "here"}}, "$dynamicRef": "#here"},
    ],
    ids=["doubling", "itself", "circle", "two in a circle", "anchor", "dynamic"],
)
def test_a_schema_that_unfolds_without_end_is_invalid(schema: Any) -> None:
    with pytest.raises(InvalidInput) as refused:
        cast.tool_grant(cast.agent(), cast.tool(), allowed_parameters=schema)
    assert fields(refused) == {"allowed_parameters"}


def doubling(place: str, levels: int = 25) -> dict[str, Any]:
    """A few lines that unfold to millions, their references written from the root."""
    steps = {f"a{n}": {"allOf": [{"$ref": f"#{place}/$defs/a{n + 1}"}] * 2} for n in range(levels)}
    return {"$defs": {**steps, f"a{levels}": {}}, "$ref": f"#{place}/$defs/a0"}


@pytest.mark.parametrize("name", ["default", "const", "enum", "examples"])
@pytest.mark.parametrize("of_names", ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"])
def test_a_property_named_like_a_keyword_for_data_hides_nothing(of_names: str, name: str) -> None:
    said = json_schema.find_problem({of_names: {name: doubling(f"/{of_names}/{name}", levels=15)}})
    assert said.startswith("The schema unfolds to more than"), said


@pytest.mark.parametrize(
    "schema",
    [
        {"default": doubling("/default"), "$ref": "#/default"},
        {"not": {"$id": "urn:a", **doubling("")}},
        {"enum": [{"$id": "urn:a", "x": doubling("/x")}], "$ref": "#/enum/0/x"},
        {"not": {"$anchor": "here"}},
        {"not": {"$schema": "http://json-schema.org/draft-04/schema#", "id": "urn:a"}},
        {"$dynamicRef": "#/$defs/a", "$defs": {"a": {}}},
    ],
    ids=["data that is referred to", "id", "id on the way", "anchor", "another draft", "dynamic"],
)
def test_a_schema_whose_cost_cannot_be_counted_is_refused(schema: dict[str, Any]) -> None:
    assert json_schema.find_problem(schema)


def test_what_gives_references_another_meaning_is_named() -> None:
    assert "$id is not followed below the root" in json_schema.find_problem({"not": {"$id": "urn:a"}})


def test_a_long_chain_of_references_is_refused() -> None:
    chain = {f"a{n}": {"$ref": f"#/$defs/a{n + 1}"} for n in range(1000)}
    assert "lead on" in json_schema.find_problem({"$defs": {**chain, "a1000": {}}, "$ref": "#/$defs/a0"})


def test_properties_may_be_named_like_keywords() -> None:
    names = ("default", "const", "enum", "examples", "$id", "id", "$anchor", "$ref")
    schema = {
        "$id": "urn:root",
        "properties": {name: {"type": "string"} for name in names},
        "default": {"$id": "urn:b"},
    }
    assert json_schema.find_problem(schema) == ""
    assert json_schema.find_violations(schema, {"const": 1, "$id": "x"})[0][0] == "$.const"


def test_references_within_a_schema_are_followed() -> None:
    bot, reader = cast.agent(), cast.tool()
    repo = {"$defs": {"a/b": {"enum": ["$ref", "site"]}}, "properties": {"repo": {"$ref": "#/$defs/a~1b"}}}
    cast.tool_grant(bot, reader, allowed_parameters=repo)
    assert asked(bot, reader, {"repo": "site"}).allowed
    assert asked(bot, reader, {"repo": "docs"}).reason == "parameters_not_allowed"


def test_a_schema_nested_too_deep_is_invalid() -> None:
    for depth in (40, 5000):
        schema: dict[str, Any] = {}
        for _ in range(depth):
            schema = {"not": schema}
        with pytest.raises(InvalidInput) as refused:
            cast.tool_grant(cast.agent(f"bot-{depth}"), cast.tool(f"github__read{depth}"), allowed_parameters=schema)
        assert fields(refused) == {"allowed_parameters"}


def test_a_hostile_pattern_answers_fast() -> None:
    bot, reader = cast.agent(), cast.tool()
    limit = {"type": "object", "properties": {"q": {"pattern": "(a+)+$"}}}
    cast.tool_grant(bot, reader, allowed_parameters=limit)
    assert asked(bot, reader, {"q": "a" * 5000 + "!"}).reason == "parameters_not_allowed"
