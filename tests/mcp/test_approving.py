"""Who may approve a definition: nobody what they changed themselves, and nobody what they did not look at."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection

from common.errors import Conflict, InvalidInput
from mcp.models import Tool
from mcp.servers import lifecycle
from mcp.tools import definitions
from mcp.tools.definitions import OwnChange, StaleHash
from nhi.actors import SYSTEM, Actor, person
from nhi.identities import identities
from nhi.models import AuditEvent, Identity, User
from nhi.people import people
from tests.mcp import peer
from tests.mcp.peer import Json, Peer
from tests.mcp.pinning import approve, mara, refresh, refused_as, tom
from tests.mcp.scene import Scene
from tests.nhi import cast

pytestmark = [
    pytest.mark.capability("MCP-05", "MCP-04", "MCP-01"),
    pytest.mark.both_databases,
    pytest.mark.django_db(transaction=True),
]


def test_what_roles_match_a_tool_by_is_a_part_of_what_is_approved(made: Scene, server: Peer) -> None:
    identities.change(actor=tom(), identity=made.tool().identity, capability="shared.read")
    assert refused_as(made) == "definition_changed"
    assert [change.place for change in definitions.find_differences(*bodies(made))] == ["capability"]
    with pytest.raises(OwnChange, match="You changed the capability"):
        approve(made, tom())
    approve(made, cast.admin("uma"))
    assert made.call().status == "success"
    assert refresh(made).changed == [], "the server has changed nothing"
    identities.change(actor=tom(), identity=made.tool().identity, description="Says what it hears")
    assert made.call().status == "success"


def test_a_capability_that_goes_back_is_a_change_of_whoever_put_it_back(made: Scene, server: Peer) -> None:
    first = made.tool().identity.capability
    identities.change(actor=tom(), identity=made.tool().identity, capability="shared.read")
    approve(made, cast.admin("uma"))
    identities.change(actor=cast.admin("vera"), identity=made.tool().identity, capability=first)
    assert refused_as(made) == "definition_changed"
    with pytest.raises(OwnChange, match="You changed the capability"):
        approve(made, cast.admin("vera"))
    approve(made, tom())
    assert made.call().status == "success"


def test_who_chose_the_capability_of_a_new_tool_approves_it_on_record(made: Scene, server: Peer) -> None:
    server.tools.append(peer.tool("new"))
    refresh(made)
    identities.change(actor=tom(), identity=made.tool("new").identity, capability="shared.new")
    approved = approve(made, tom(), "new").approved
    assert approved is not None
    assert approved.self_approved


def bodies(made: Scene) -> tuple[Json, Json]:
    tool = made.tool()
    assert tool.approved is not None
    assert tool.current is not None
    return tool.approved.body, tool.current.body


WAYS: dict[str, Json] = {
    "the address": {"base_url": "?"},
    "a header": {"headers": {"X-Team": "blue"}},
    "a secret": {"secret_values": {"KEY": "a-canary-of-this-test"}},
}


@pytest.mark.parametrize("way", WAYS)
def test_a_change_of_how_it_is_reached_needs_somebody_else(made: Scene, server: Peer, way: str) -> None:
    given = {"base_url": f"{server.url}?x=1"} if way == "the address" else WAYS[way]
    vera = cast.admin("vera")
    server.before_listing = lambda: None
    lifecycle.change(actor=vera, server=made.server, **given)
    assert refused_as(made) == "definition_changed"
    with pytest.raises(OwnChange, match="You set"):
        approve(made, vera)
    approve(made, mara())  # vera has set since how it is reached, so registering it bars mara no more
    assert made.call().status == "success"


def test_the_servers_next_words_do_not_hide_who_changed_how_it_is_reached(made: Scene, server: Peer) -> None:
    vera = cast.admin("vera")
    lifecycle.change(actor=vera, server=made.server, base_url=f"{server.url}?x=1")
    server.tools[0]["description"] = "Words that came after the change"
    refresh(made)
    with pytest.raises(OwnChange):
        approve(made, vera)


def test_going_back_to_an_old_way_is_a_change_as_well(made: Scene, server: Peer) -> None:
    vera, wanda = cast.admin("vera"), cast.admin("wanda")
    lifecycle.change(actor=vera, server=made.server, base_url=f"{server.url}?x=1")
    approve(made, tom())
    lifecycle.change(actor=wanda, server=made.server, base_url=server.url)
    with pytest.raises(OwnChange):
        approve(made, wanda)
    approve(made, vera)


def test_first_definitions_are_on_record_as_approved_by_who_registered_the_server(made: Scene) -> None:
    tool = made.tool()
    assert tool.approved is not None
    assert tool.approved.self_approved
    [event] = AuditEvent.objects.filter(event="tool.approved")
    assert event.details["self_approved"] is True
    assert event.details["break_glass"] is False


def test_a_superuser_may_break_glass_on_record(made: Scene, server: Peer) -> None:
    root = people.create(actor=SYSTEM, username="root", superuser=True).user
    lifecycle.change(actor=person(root), server=made.server, headers={"X-Team": "blue"})
    approve(made, person(root))
    event = AuditEvent.objects.filter(event="tool.approved").latest("at", "writer_seq")
    assert event.details["break_glass"] is True
    assert event.reason == "Looked at it"


def test_what_was_not_looked_at_is_not_approved(made: Scene, server: Peer) -> None:
    server.tools[0]["description"] = "One"
    refresh(made)
    seen = made.tool().current
    server.tools[0]["description"] = "Two"
    refresh(made)
    assert seen is not None
    with pytest.raises(StaleHash):
        definitions.approve(actor=tom(), tool=made.tool(), definition_hash=seen.hash, reason="Looked at it")
    assert refused_as(made) == "definition_changed"


def test_two_approve_at_once_and_one_does(made: Scene, server: Peer) -> None:
    server.tools[0]["description"] = "One"
    refresh(made)
    both = [tom(), cast.admin("vera")]
    ready = threading.Barrier(2)

    def at_once(actor: Actor) -> str:
        try:
            ready.wait(5)
            approve(made, actor)
        except Conflict as error:
            return error.code
        finally:
            connection.close()
        return "approved"

    with ThreadPoolExecutor(2) as aside:
        assert sorted(aside.map(at_once, both)) == ["approved", "conflict"]
    assert AuditEvent.objects.filter(event="tool.approved").count() == 2  # the first definition's, and one


def test_an_identity_approves_nothing(made: Scene, server: Peer) -> None:
    from nhi import actors

    server.tools[0]["description"] = "One"
    refresh(made)
    bot = actors.identity(Identity.objects.get(name="bot"), credential_id=None)
    with pytest.raises(Exception, match=r"may not|person"):
        approve(made, bot)


def test_a_first_definition_may_be_approved_by_any_security_admin(server: Peer) -> None:
    owner = cast.user("olga", "operator")
    made = lifecycle.create(
        actor=mara(), name="fresh", owner=owner, configuration={"transport": "http", "base_url": server.url}
    )
    tool = Tool.objects.select_related("current").get(server=made)
    assert tool.current is not None
    approved = definitions.approve(actor=tom(), tool=tool, definition_hash=tool.current.hash, reason="Looked at it")
    assert approved.approved is not None
    assert not approved.approved.self_approved
    with pytest.raises(InvalidInput):
        definitions.approve(actor=tom(), tool=tool, definition_hash=tool.current.hash, reason="")
    assert User.objects.filter(username="tom").exists()
