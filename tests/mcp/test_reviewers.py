"""Who may approve a changed definition: two admins, three changes in every order, and what helps when neither may."""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web
from django.db import transaction

from mcp.admin.navigation import quarantined
from mcp.models import PendingChange, Server, Tool
from mcp.servers import health, lifecycle
from mcp.tools import definitions, reviewers
from mcp.tools.definitions import OwnChange
from mcp.tools.reviewers import ReviewRemedy
from nhi import actors
from nhi.actors import SYSTEM
from nhi.credentials import credentials
from nhi.identities import identities
from nhi.models import User
from nhi.people import people
from tests.mcp import peer
from tests.mcp.peer import Peer
from tests.nhi import cast

pytestmark = [pytest.mark.capability("MCP-05"), pytest.mark.both_databases, pytest.mark.django_db]
ADMINS = ("mara", "tom")
EVENTS = ("server text", "mara address", "tom address", "tom header", "mara capability", "tom capability")


@dataclass
class House:
    """A server that mara registered, and a model of the rule: what each admin has a part in."""

    peer: Peer
    name: str
    last_setter: str = "mara"
    #: Who set a place last, of those that are another one than was approved.
    setters: dict[str, str] = field(default_factory=dict)
    capability: set[str] = field(default_factory=set)
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    @property
    def tool(self) -> Tool:
        rows = Tool.objects.select_related("identity", "server", "current", "approved")
        return rows.get(server__name=self.name, name="echo")

    @property
    def server(self) -> Server:
        return Server.objects.get(name=self.name)

    def change(self, event: str) -> None:
        who, what = event.split()
        number = next(self.numbers)
        if what == "text":
            self.peer.tools[0] = {**self.peer.tools[0], "description": f"Version {number} of {self.name}"}
            health.refresh(server=self.server)
        elif what == "capability":
            self.set_capability(who, f"shared.v{number}")
        elif what == "address":
            self.reach(who, base_url=f"{self.peer.url}?v={number}")
        else:
            self.reach(who, headers={f"X-{who}": str(number)})

    def reach(self, who: str, **given: Any) -> None:
        approved = self.tool.approved
        assert approved is not None
        lifecycle.change(actor=cast.admin(who), server=self.server, **given)
        self.last_setter = who
        before, after = approved.body["server"], self.server.identity
        changed = reviewers.find_changed_places(before, after)
        now_set = [place for place in changed if place.split(".")[0] in given]
        self.setters = {place: name for place, name in self.setters.items() if place in changed}
        self.setters |= dict.fromkeys(now_set, who)

    def set_capability(self, who: str, capability: str) -> None:
        identities.change(actor=cast.admin(who), identity=self.tool.identity, capability=capability)
        self.capability.add(who)

    def expected(self) -> set[str]:
        """Who may approve, by the rule as CONTRACTS says it."""
        tool = self.tool
        if tool.current_id == tool.approved_id:
            return set(ADMINS)
        return set(ADMINS) - {self.last_setter, *self.setters.values(), *self.capability}

    def approve(self, who: str) -> None:
        tool = self.tool
        assert tool.current is not None
        definitions.approve(
            actor=cast.admin(who), tool=tool, definition_hash=tool.current.hash, reason="Read the difference"
        )
        self.setters, self.capability = {}, set()


def house(upstream: Peer, name: str) -> House:
    lifecycle.create(
        actor=cast.admin("mara"), name=name, owner=cast.user("olga", "operator"),
        configuration={"transport": "http", "base_url": upstream.url},
    )  # fmt: skip
    made = House(upstream, name)
    made.approve("tom")
    return made


@contextmanager
def undone() -> Iterator[None]:
    """What is tried inside has not happened."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def may_approve(made: House, who: str) -> bool:
    tool = made.tool
    assert tool.current is not None
    try:
        with undone():
            definitions.approve(
                actor=cast.admin(who), tool=tool, definition_hash=tool.current.hash, reason="Read the difference"
            )
    except OwnChange:
        return False
    return True


def carry_out(made: House, remedy: ReviewRemedy) -> None:
    """Do what the sentence says, and nothing else."""
    approved = made.tool.approved
    assert approved is not None
    if remedy.restores:
        server = approved.body["server"]
        fields = {place.split(".")[0] for place in remedy.places}
        if fields:
            lifecycle.change(actor=cast.admin("mara"), server=made.server, **{name: server[name] for name in fields})
        if "the capability" in remedy.sentence:
            identities.change(
                actor=cast.admin("tom"), identity=made.tool.identity, capability=approved.body["capability"]
            )
        return
    given: dict[str, Any] = {}
    for place in remedy.places:
        name, _, key = place.partition(".")
        if name == "base_url":
            given["base_url"] = f"{made.peer.url}?taken=over"
        else:
            given.setdefault("headers", dict(made.server.headers))[key] = "taken over"
    lifecycle.change(actor=cast.admin(remedy.by), server=made.server, **(given or {"headers": {"X-Any": "1"}}))


@pytest.mark.parametrize("first", EVENTS)
def test_two_admins_and_three_changes_in_every_order(server: Peer, first: str) -> None:
    made = house(server, "orders")
    made.change(first)
    check(made, first)
    for second in EVENTS:
        with tried(made):
            made.change(second)
            check(made, f"{first}, {second}")
            for third in EVENTS:
                with tried(made):
                    made.change(third)
                    check(made, f"{first}, {second}, {third}")


def test_two_admins_approve_one_change_after_the_other(server: Peer) -> None:
    """Whoever approved the definition before this one may approve this one too."""
    made = house(server, "approved-between")
    for event in (
        "server text", "server text", "mara address", "mara capability", "server text", "tom address",
        "tom capability", "tom header", "server text", "mara address", "server text",
    ):  # fmt: skip
        made.change(event)
        assert check(made, event) == {"tom" if made.last_setter == "mara" else "mara"}
        made.approve("tom" if made.last_setter == "mara" else "mara")


@contextmanager
def tried(made: House) -> Iterator[None]:
    tools, before = list(made.peer.tools), (made.last_setter, dict(made.setters), set(made.capability))
    with undone():
        yield
    made.peer.tools[:] = tools
    made.last_setter, made.setters, made.capability = before


def check(made: House, story: str) -> set[str]:
    """Who may approve is what the rule says; and where nobody may, each thing that is said to help does."""
    free = {name for name in ADMINS if may_approve(made, name)}
    assert free == made.expected(), story
    assert free == {name for name in ADMINS if made.tool in quarantined(cast.admin(name))}, story
    nobody = reviewers.find_dead_end(made.tool, reviewers.find_barred(made.tool))
    assert (nobody is None) is bool(free), story
    if nobody is not None:
        assert {bar.name for bar in nobody.bars} == set(ADMINS), story
        for remedy in nobody.remedies:
            with tried(made):
                check_that_it_helps(made, remedy, story)
    return free


def check_that_it_helps(made: House, remedy: ReviewRemedy, story: str) -> None:
    if not (remedy.places or remedy.restores or remedy.by):
        assert "superuser can give another person a role" in remedy.sentence
        assert may_approve(made, "uma"), story
        return
    carry_out(made, remedy)
    assert remedy.approvers, story
    for name in remedy.approvers:
        assert may_approve(made, name), f"{story}: {remedy.sentence}"


def test_the_servers_own_changes_bar_only_who_set_how_it_is_reached(server: Peer) -> None:
    made = house(server, "plain")
    for _ in range(3):
        made.change("server text")
        assert not may_approve(made, "mara")
        made.approve("tom")


def test_text_of_another_address_stays_a_part_of_who_set_that_address(server: Peer) -> None:
    """Until the server has listed its tools as it is reached now, its words are those of the address before."""
    made = house(server, "moved")
    server.tools[0] = {**server.tools[0], "description": "Words of mara's address"}
    made.change("mara address")
    server.refuses = out_of_order
    made.change("tom address")
    assert not may_approve(made, "mara")
    assert not may_approve(made, "tom")
    server.refuses = None
    health.refresh(server=made.server)
    assert may_approve(made, "mara")
    assert not may_approve(made, "tom")


async def out_of_order(_request: web.Request) -> web.StreamResponse:
    return web.Response(status=500, text="out of order")


def test_a_new_tool_of_a_moved_server_is_not_approved_by_who_moved_it(server: Peer) -> None:
    made = house(server, "moved")
    server.tools.append(peer.tool("planted"))
    made.change("tom address")
    planted = Tool.objects.select_related("current", "server").get(server=made.server, name="planted")
    assert planted.current is not None
    given = {"tool": planted, "definition_hash": planted.current.hash, "reason": "Read it"}
    with pytest.raises(OwnChange, match="You set the server's address"):
        definitions.approve(actor=cast.admin("tom"), **given)
    definitions.approve(actor=cast.admin("mara"), **given)
    made.approve("mara")
    server.tools.append(peer.tool("later"))
    health.refresh(server=made.server)
    later = Tool.objects.select_related("current").get(server=made.server, name="later")
    assert not PendingChange.objects.filter(tool=later).exists()
    assert later.current is not None
    definitions.approve(
        actor=cast.admin("tom"), tool=later, definition_hash=later.current.hash, reason="The address was approved"
    )


def test_a_service_account_is_no_second_person(server: Peer) -> None:
    made = house(server, "automated")
    account = cast.service("deployer", owner=cast.user("tom", "security-admin"))
    identities.set_console_roles(actor=SYSTEM, identity=account, roles=["security-admin"])
    lifecycle.change(actor=actors.identity(account), server=made.server, headers={"X-A": "1"})
    tool = made.tool
    assert tool.current is not None
    with pytest.raises(OwnChange, match="You stood behind the service account deployer, which set the header X-A"):
        definitions.approve(
            actor=cast.admin("tom"), tool=tool, definition_hash=tool.current.hash, reason="Read the difference"
        )
    assert tool not in quarantined(cast.admin("tom"))
    made.approve("mara")


def test_who_made_a_credential_of_the_service_account_stands_behind_it(server: Peer) -> None:
    made = house(server, "automated")
    account = cast.service("deployer")
    identities.set_console_roles(actor=SYSTEM, identity=account, roles=["security-admin"])
    # Only a superuser makes credentials of an account that may approve.
    tom = cast.user("tom", "security-admin")
    User.objects.filter(pk=tom.pk).update(is_superuser=True)
    credentials.issue(actor=actors.person(User.objects.get(pk=tom.pk)), holder=account)
    User.objects.filter(pk=tom.pk).update(is_superuser=False)
    lifecycle.change(actor=actors.identity(account), server=made.server, headers={"X-A": "1"})
    assert not may_approve(made, "tom")
    assert made.tool not in quarantined(cast.admin("tom"))
    assert may_approve(made, "mara")


def test_the_refusal_names_everybody_and_what_would_help(server: Peer) -> None:
    made = house(server, "stuck")
    made.change("mara address")
    made.change("tom capability")
    tool = made.tool
    assert tool.current is not None
    with pytest.raises(OwnChange) as refused:
        definitions.approve(
            actor=cast.admin("mara"), tool=tool, definition_hash=tool.current.hash, reason="Read the difference"
        )
    message = str(refused.value)
    assert "mara and tom are both barred" in message
    assert "mara set the server's address on 20" in message
    assert "tom changed the capability on 20" in message
    assert "If the server's address and the capability are set back to what was approved" in message
    assert "If tom sets the server's address again" in message
    assert refused.value.details["reason"] == "own_change"


def test_nobody_is_stuck_while_a_third_may(server: Peer) -> None:
    made = house(server, "third")
    cast.admin("uma")
    made.change("mara address")
    made.change("tom capability")
    assert reviewers.find_dead_end(made.tool, reviewers.find_barred(made.tool)) is None
    User.objects.filter(username="uma").update(is_active=False)
    assert reviewers.find_dead_end(made.tool, reviewers.find_barred(made.tool)) is not None


def test_a_superuser_with_a_part_is_told_to_break_glass(server: Peer) -> None:
    made = house(server, "glass")
    root = people.create(actor=SYSTEM, username="root", superuser=True).user
    made.change("mara address")
    made.change("tom capability")
    lifecycle.change(actor=actors.person(root), server=made.server, headers={"X-Root": "1"})
    nobody = reviewers.find_dead_end(made.tool, reviewers.find_barred(made.tool))
    assert nobody is not None
    assert "root may approve it as superuser, on record as breaking glass." in str(nobody)
