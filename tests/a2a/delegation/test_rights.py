"""Whose rights a call within a task needs, by the types of the grants along its chain."""

import pytest

from nhi.access import grants, roles
from nhi.actors import SYSTEM
from nhi.identities import lifecycle
from tests.a2a.delegation.town import WAYS, Line, line
from tests.mcp.peer import Peer
from tests.mcp.scene import Scene, scene

pytestmark = [
    pytest.mark.capability("NHI-20", "NHI-07"),
    pytest.mark.both_databases,
    pytest.mark.django_db(transaction=True),
]
#: The types of the links; who holds the tool; what becomes of the last one's call.
TABLE = [
    ("call", "ab", ""),
    ("call", "b", ""),
    ("call", "a", "not_found"),
    ("delegate", "ab", ""),
    ("delegate", "b", "chain_no_grant"),
    ("delegate", "a", "not_found"),
    ("call call", "c", ""),
    ("call call", "ab", "not_found"),
    ("call delegate", "bc", ""),
    ("call delegate", "ac", "chain_no_grant"),
    ("delegate call", "c", ""),
    ("delegate call", "ab", "not_found"),
    ("delegate delegate", "abc", ""),
    ("delegate delegate", "bc", "chain_no_grant"),
    ("delegate delegate", "ac", "chain_no_grant"),
    ("delegate delegate call delegate", "de", ""),
    ("delegate delegate call delegate", "abce", "chain_no_grant"),
    ("delegate delegate delegate delegate", "abcde", ""),
    ("delegate delegate delegate delegate", "bcde", "chain_no_grant"),
]


@pytest.fixture
def made(server: Peer) -> Scene:
    return scene(server.url, agents=[])


def refusals(made: Line) -> list[str]:
    return [made.calls(way) for way in WAYS]


def test_the_rights_of_all_on_whose_behalf_it_is_done_are_needed(made: Scene) -> None:
    wrong = []
    for number, (links, holds, wanted) in enumerate(TABLE):
        found = refusals(line(made, links.split(), name=str(number), holds=holds))
        if found != [wanted] * len(WAYS):
            wrong.append(f"{links}, held by {holds}: {dict(zip(WAYS, found, strict=True))}, not {wanted!r}")
    assert not wrong, "\n".join(wrong)


def test_who_lacks_it_is_named_and_the_whole_chain_is_on_the_row(made: Scene) -> None:
    asked = line(made, ["delegate", "delegate"], holds="bc")
    for way in WAYS:
        assert asked.calls(way) == "chain_no_grant"
        row = asked.row()
        assert "on behalf of a, who may not do it" in row.error_message
        assert [link["name"] for link in row.chain] == ["a", "b", "c"]
        assert row.chain[-1]["id"] == str(asked.last.pk)
        assert row.task_id == str(asked.tasks[-1].pk)
        assert ["chain", "fail", "chain_no_grant"] in row.details["decision"]


def test_a_call_that_passes_has_its_chain_on_the_row_too(made: Scene) -> None:
    asked = line(made, ["call", "call"], holds="c")
    for way in WAYS:
        assert asked.calls(way) == ""
        assert [link["name"] for link in asked.row().chain] == ["a", "b", "c"]


@pytest.mark.parametrize("lost", ["revoked", "inactive"])
def test_what_a_principal_loses_is_lost_to_whoever_acts_for_it(made: Scene, lost: str) -> None:
    asked = line(made, ["delegate"], holds="ab")
    assert refusals(asked) == ["", "", ""]
    if lost == "revoked":
        grant = grants.ToolPermission.objects.get(agent=asked.who[0])
        grants.revoke(actor=SYSTEM, grant=grant, reason="For the test")
        assert refusals(asked) == ["chain_no_grant"] * 3
    else:
        lifecycle.deactivate(actor=SYSTEM, identity=asked.who[0], reason="For the test")
        assert refusals(asked) == ["chain_unusable"] * 3


def test_a_role_is_as_good_as_a_grant(made: Scene) -> None:
    asked = line(made, ["delegate"], holds="b")
    role = roles.create(actor=SYSTEM, name="reader", patterns=["peer.*"])
    roles.assign(actor=SYSTEM, role=role, identity=asked.who[0], reason="For the test")
    assert refusals(asked) == ["", "", ""]


def test_outside_of_the_task_its_own_rights_are_enough(made: Scene) -> None:
    asked = line(made, ["delegate"], holds="b")
    outcome = made.call("echo", agent=asked.token(asked.last))
    assert outcome.status == "success"
    assert [link["name"] for link in asked.row().chain] == ["b"]
