"""The dialog of a grant builds its limit from the tool's own arguments, and tries a call against it."""

import json
from typing import Any

import pytest
from django.test import Client

from nhi.models import ToolPermission
from tests.console.conftest import identity
from tests.console.grants import at, tool_grant
from tests.console.reading import plain
from tests.mcp.behind import stand_behind_a_server

pytestmark = [pytest.mark.django_db, pytest.mark.capability("NHI-06", "CON-05")]
SCHEMA = {
    "type": "object",
    "properties": {
        "project": {"type": "string", "description": "Which one"},
        "count": {"type": "integer"},
        "draft": {"type": "boolean"},
    },
    "required": ["project"],
}
GIVE = at("toolpermission", "give/")
TYPED = {"agent": "writer", "tool": "jira__edit", "ends": "7", "reason": "Trial"}


@pytest.fixture(autouse=True)
def _edit_has_a_schema(seeded: None) -> None:
    stand_behind_a_server([identity("jira__edit")], schema=SCHEMA)


def rows(**rules: tuple[str, str]) -> dict[str, str]:
    """What the browser sends of the rows."""
    sent = {"written": ""}
    for number, name in enumerate(SCHEMA["properties"]):
        rule, value = rules.get(name, ("any", ""))
        sent |= {f"argument_{number}": name, f"rule_{number}": rule, f"value_{number}": value}
    return sent


def built(answer: Any) -> Any:
    return json.loads(answer.context["form"]["parameters"].value())


def test_the_dialog_shows_the_arguments_of_the_tool(mara: Client) -> None:
    assert "Show the tool's arguments" in mara.get(GIVE).content.decode()
    by_button = mara.post(GIVE, {"tool": "jira__edit", "step": "arguments"})
    by_link = mara.get(GIVE, {"tool": str(identity("jira__edit").pk)})
    for answer in (by_button, by_link):
        assert answer.status_code == 200
        assert [row.name for row in answer.context["builder"].rows] == ["count", "draft", "project"]
        assert [row.kind for row in answer.context["builder"].rows] == ["number", "boolean", "string"]
    assert by_button.context["builder_open"], "what was asked for is not folded away"
    assert not by_button.context["form"].errors, "what is still missing is not said before it is sent"


def test_rows_become_a_schema_that_can_be_edited(mara: Client) -> None:
    rules = rows(project=("one_of", "alpha, beta"), count=("at_most", "5"), draft=("left_out", ""))
    answer = mara.post(GIVE, {**TYPED, **rules, "step": "build"})
    assert built(answer) == {
        "properties": {"project": {"enum": ["alpha", "beta"]}, "count": {"maximum": 5}, "draft": False},
        "required": ["count", "project"],
    }
    assert not ToolPermission.objects.filter(agent__name="writer", tool__name="jira__edit").exists()
    form = answer.context["form"]
    assert {name: form[name].value() for name in TYPED} == TYPED, "what was typed stays"


def test_rows_that_were_set_are_the_limit_without_another_button(mara: Client) -> None:
    answer = mara.post(GIVE, {**TYPED, **rows(project=("equals", "alpha"))})
    assert answer.status_code == 302
    grant = tool_grant("writer", "jira__edit")
    assert grant.allowed_parameters == {"properties": {"project": {"const": "alpha"}}, "required": ["project"]}


def test_rows_and_a_schema_that_differ_are_asked_about(mara: Client) -> None:
    typed = {"parameters": '{"required": ["count"]}', **rows(project=("equals", "alpha"))}
    answer = mara.post(GIVE, {**TYPED, **typed})
    assert answer.status_code == 422
    assert "The rows and the schema differ." in plain(answer)
    assert answer.context["form"]["parameters"].value() == '{"required": ["count"]}'


def test_a_schema_that_was_edited_after_it_was_written_is_kept(mara: Client) -> None:
    first = mara.post(GIVE, {**TYPED, **rows(project=("equals", "alpha")), "step": "build"})
    edited = json.dumps({**built(first), "maxProperties": 2})
    sent = {**TYPED, **rows(project=("equals", "alpha")), "written": first.context["builder"].written}
    assert mara.post(GIVE, {**sent, "parameters": edited}).status_code == 302
    assert tool_grant("writer", "jira__edit").allowed_parameters == json.loads(edited)


@pytest.mark.parametrize(
    ("name", "rule", "value", "words"),
    [
        ("count", "equals", "many", "count: Write a number."),
        ("draft", "equals", "perhaps", "draft: Write true or false."),
        ("project", "one_of", " , ", "project: Write at least one value."),
        ("project", "matches", "(", "project: This is no usable JSON Schema"),
    ],
)
@pytest.mark.parametrize("step", ["build", "try", ""])
def test_a_value_that_cannot_be_read_is_named(
    mara: Client, name: str, rule: str, value: str, words: str, step: str
) -> None:
    answer = mara.post(GIVE, {**TYPED, **rows(**{name: (rule, value)}), **({"step": step} if step else {})})
    assert answer.status_code == (200 if step else 422)
    assert words in plain(answer)
    assert not ToolPermission.objects.filter(agent__name="writer", tool__name="jira__edit").exists()


#: A limit, the arguments of a call, whether it passes, and words of the answer.
TRIED: list[tuple[str, str, bool, str]] = [
    (
        '{"properties": {"project": {"const": "alpha"}}, "required": ["project"]}',
        '{"project": "alpha"}',
        True,
        "passes",
    ),
    ('{"properties": {"project": {"const": "alpha"}}}', '{"project": "beta"}', False, "`project` "),
    ('{"required": ["count"]}', '{"project": "a"}', False, "`count` is missing: the grant demands it."),
    ('{"properties": {"count": {"maximum": 5}}}', '{"project": "a"}', True, "leaves out `count` passes"),
    ('{"properties": {"count": {"maximum": 5}}}', "{}", False, "the tool demands it"),
    ('{"project": "alpha"}', "{}", False, "Did you mean"),
    ('{"required": ["projct"]}', "{}", False, "jira__edit has no argument `projct`"),
    ("{", "{}", False, "The schema is not JSON."),
    ("", "[]", False, "no JSON object"),
    ("", '{"project": "a"}', True, "passes"),
]


@pytest.mark.parametrize(("limit", "arguments", "passes", "words"), TRIED)
def test_a_call_is_tried_without_being_made(mara: Client, limit: str, arguments: str, passes: bool, words: str) -> None:
    answer = mara.post(GIVE, {**TYPED, **rows(), "parameters": limit, "try_arguments": arguments, "step": "try"})
    assert answer.status_code == 200
    tried = answer.context["builder"].tried
    assert (tried.passes, words in plain(answer)) == (passes, True), plain(answer)
    assert answer.context["form"]["parameters"].value() == (limit or ""), "the schema stays as it was typed"


def test_rows_are_tried_before_the_schema_is_written(mara: Client) -> None:
    sent = {**TYPED, **rows(project=("equals", "alpha")), "try_arguments": '{"project": "beta"}', "step": "try"}
    tried = mara.post(GIVE, sent)
    assert not tried.context["builder"].tried.passes
    del sent["step"]
    assert mara.post(GIVE, {**sent, "parameters": tried.context["form"]["parameters"].value()}).status_code == 302
    assert tool_grant("writer", "jira__edit").allowed_parameters["required"] == ["project"]


def test_limits_are_changed_by_rows_that_begin_with_what_there_is(mara: Client) -> None:
    mara.post(GIVE, {**TYPED, "parameters": '{"properties": {"count": {"maximum": 5}}, "required": ["count"]}'})
    grant = tool_grant("writer", "jira__edit")
    page = at("toolpermission", f"{grant.pk}/limits/")
    builder = mara.get(page).context["builder"]
    assert [(row.rule, row.value) for row in builder.rows] == [("at_most", "5"), ("any", ""), ("any", "")]
    sent = {**rows(count=("at_most", "9")), "written": builder.written, "parameters": builder.written}
    assert mara.post(page, {**sent, "reason": "Needed"}).status_code == 302
    changed = tool_grant("writer", "jira__edit")
    assert changed.allowed_parameters == {"properties": {"count": {"maximum": 9}}, "required": ["count"]}


def test_what_would_limit_nothing_is_refused_beside_its_field(mara: Client) -> None:
    answer = mara.post(GIVE, {**TYPED, "parameters": '{"project": "alpha"}'})
    assert answer.status_code == 400
    [said] = answer.context["form"].errors["parameters"]
    assert 'Did you mean {"properties": {"project": {"const": "alpha"}}, "required": ["project"]}?' in said
    assert not ToolPermission.objects.filter(agent__name="writer", tool__name="jira__edit").exists()


def test_rows_set_beside_a_schema_edited_by_hand_are_refused_by_try_as_by_give(mara: Client) -> None:
    """What is on the screen is never passed over in silence."""
    first = mara.post(GIVE, {**TYPED, **rows(project=("equals", "alpha")), "step": "build"})
    written = first.context["builder"].written
    by_hand = '{"properties": {"project": {"enum": ["alpha", "gamma"]}}, "required": ["project"]}'
    # A browser sends the lines of a hidden field with carriage returns.
    sent = {
        **TYPED,
        "written": written.replace("\n", "\r\n"),
        "parameters": by_hand,
        "try_arguments": '{"project": "gamma"}',
    }
    both = {**rows(project=("equals", "alpha"), count=("at_most", "5")), **sent}
    for step in ({"step": "try"}, {}):
        answer = mara.post(GIVE, {**both, **step})
        assert answer.status_code == 422
        assert "The rows and the schema differ." in answer.content.decode()
    text_alone = {**rows(project=("equals", "alpha")), **sent}
    assert mara.post(GIVE, {**text_alone, "step": "try"}).context["builder"].tried.passes
