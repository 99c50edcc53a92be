"""Giving many grants at once: foreseen item by item, then given item by item."""

import re
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from nhi.access import bulk, grants
from nhi.actors import SYSTEM
from nhi.choices import Kind
from nhi.models import AuditEvent, Identity, ToolPermission, User
from tests.console.conftest import SignedIn, identity
from tests.console.reading import plain

pytestmark = [pytest.mark.django_db, pytest.mark.capability("NHI-12", "CON-05")]

PAGE = "/admin/nhi/toolpermission/many/"
FORM = {"agents": "deploy-bot\ntriage-bot, old-scraper", "what": "pattern", "pattern": "github.*", "ends": "30"}
FORM |= {"reason": "Needed for its work"}


def preview(client: Client, **fields: str) -> Any:
    return client.post(PAGE, {**FORM, **fields, "do": "preview"})


def give(client: Client, foreseen: Any, **fields: str) -> Any:
    return client.post(PAGE, {**FORM, **fields, "do": "give", "seen": foreseen.context["seen"]})


def verdicts(answer: Any, name: str) -> dict[tuple[str, str], str]:
    return {(line.agent.name, line.item.name): line.item.result for line in answer.context[name]}


def test_what_is_foreseen_is_what_comes(mara: Client) -> None:
    before = ToolPermission.objects.count()
    foreseen = preview(mara)
    assert ToolPermission.objects.count() == before
    lines = verdicts(foreseen, "lines")
    assert len(lines) == 9
    assert lines["deploy-bot", "github__delete_repo"] == "created"
    assert lines["triage-bot", "github__create_issue"] == "exists"
    assert lines["old-scraper", "github__delete_repo"] == "refused"
    assert "4 of 9 would be added" in plain(foreseen)
    assert "old-scraper is suspended." in plain(foreseen)
    answer = give(mara, foreseen)
    assert verdicts(answer, "results") == lines
    assert "4 grants were given, 5 not" in plain(answer)
    assert ToolPermission.objects.count() == before + 4
    assert AuditEvent.objects.filter(event="grant.given", reason="Needed for its work").count() == 4


@pytest.mark.parametrize(
    ("chosen", "tools"),
    [
        ({"what": "server", "server": "jira"}, {"jira__search", "jira__edit"}),
        ({"what": "tools", "tools": "jira__edit, github__delete_repo"}, {"jira__edit", "github__delete_repo"}),
        ({"what": "pattern", "pattern": "github.commits.*"}, {"github__commits/list"}),
    ],
)
def test_tools_are_chosen_by_server_by_list_and_by_pattern(
    mara: Client, chosen: dict[str, str], tools: set[str]
) -> None:
    foreseen = preview(mara, agents="writer", **chosen)
    assert {name for _, name in verdicts(foreseen, "lines")} == tools
    give(mara, foreseen, agents="writer", **chosen)
    held = ToolPermission.objects.live().filter(agent__name="writer")
    assert set(held.values_list("tool__name", flat=True)) == tools


def test_limits_and_the_end_go_to_every_grant(mara: Client) -> None:
    terms = {"agents": "writer", "parameters": '{"minProperties": 1}', "ends": "never"}
    give(mara, preview(mara, **terms), **terms)
    for grant in ToolPermission.objects.filter(agent__name="writer"):
        assert (grant.allowed_parameters, grant.expires_at) == ({"minProperties": 1}, None)


def test_other_than_what_was_foreseen_is_shown_first(mara: Client) -> None:
    foreseen = preview(mara)
    for changed in ({"pattern": "jira.*"}, {"agents": "writer"}):
        answer = give(mara, foreseen, **changed)
        assert answer.status_code == 409
        assert "This is not what you were shown" in plain(answer)
    grants.give_tool(
        actor=SYSTEM, agent=identity("deploy-bot"), tool=identity("github__delete_repo"), reason="Meanwhile"
    )
    assert give(mara, foreseen).status_code == 409
    assert not ToolPermission.objects.filter(reason="Needed for its work").exists()


def test_nothing_is_given_without_a_preview(mara: Client) -> None:
    answer = mara.post(PAGE, {**FORM, "do": "give"})
    assert answer.status_code == 409
    assert not ToolPermission.objects.filter(reason="Needed for its work").exists()


REFUSED = [
    ({"agents": ""}, "This field is required", 422),
    ({"agents": "deploy-bot nobody"}, "There is no agent nobody that you can see", 422),
    ({"agents": "ci"}, "There is no agent ci", 422),
    ({"pattern": ""}, "Say which", 422),
    ({"pattern": "github"}, "This is no pattern", 422),
    ({"pattern": "gitlab.*"}, "No tool matches this", 422),
    ({"what": "server", "server": "gitlab"}, "No tool matches this", 422),
    ({"what": "tools", "tools": "github__nothing"}, "There is no tool github__nothing", 422),
    ({"reason": ""}, "This field is required", 422),
]


@pytest.mark.parametrize(("fields", "said", "status"), REFUSED)
def test_what_cannot_be_foreseen_is_said_beside_its_field(
    mara: Client, fields: dict[str, str], said: str, status: int
) -> None:
    answer = preview(mara, **fields)
    assert answer.status_code == status
    assert said in plain(answer)


def crowd(size: int) -> list[Identity]:
    owner = User.objects.get(username="mara")
    return Identity.objects.bulk_create(
        Identity(kind=Kind.AGENT, name=f"bot-{n}", owner=owner, state="active", created_by_name="mara")
        for n in range(size)
    )  # fmt: skip


def test_at_most_a_hundred_at_a_time(mara: Client) -> None:
    agents = "\n".join(one.name for one in crowd(34))
    answer = preview(mara, agents=agents)
    assert answer.status_code == 422
    assert f"That makes 102 grants. Give at most {bulk.MAX_TOOLS} at a time." in plain(answer)


def test_a_preview_costs_the_same_for_one_agent_and_for_thirty(mara: Client) -> None:
    names = [one.name for one in crowd(30)]

    def cost(agents: list[str]) -> int:
        with CaptureQueriesContext(connection) as asked:
            assert preview(mara, agents="\n".join(agents)).status_code == 200
        return len(asked)

    cost(names[:1])
    assert cost(names[:1]) == cost(names) <= 15


def test_a_look_at_the_page_asks_little(mara: Client) -> None:
    mara.get(PAGE)
    with CaptureQueriesContext(connection) as asked:
        page = mara.get(f"{PAGE}?agent={identity('writer').pk}&pattern=jira.*").content.decode()
    assert len(asked) <= 10
    assert re.search(r"<textarea[^>]*name=\"agents\"[^>]*>\s*writer", page)


@pytest.mark.parametrize("username", ["ada", "olga", "tom"])
def test_only_who_gives_access_gets_here(signed_in: SignedIn, username: str) -> None:
    client = signed_in(username)
    assert client.get(PAGE).status_code == 403
    assert client.post(PAGE, {**FORM, "do": "give", "seen": ""}).status_code == 403
