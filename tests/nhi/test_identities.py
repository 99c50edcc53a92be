"""Registering identities and changing what describes them: names, owners, ends; only what differs, on record."""

from typing import Any

import pytest

from common.errors import Duplicate, InvalidInput, NotAllowed
from nhi import actors
from nhi.actors import SYSTEM
from nhi.choices import Kind
from nhi.identities import identities
from nhi.models import AuditEvent, Identity
from nhi.people import people
from tests.nhi import cast

pytestmark = [pytest.mark.capability("NHI-01"), pytest.mark.django_db, pytest.mark.both_databases]


def refused(**described: Any) -> set[str]:
    with pytest.raises(InvalidInput) as error:
        cast.agent(**described)
    return {field.field for field in error.value.fields}


def test_a_name_is_taken_once_for_each_kind() -> None:
    cast.agent("deploy")
    assert cast.service("deploy").kind == Kind.SERVICE_ACCOUNT
    with pytest.raises(Duplicate) as error:
        cast.agent("deploy")
    assert [field.field for field in error.value.fields] == ["name"]
    assert AuditEvent.objects.filter(event="identity.created").count() == 2


@pytest.mark.parametrize(
    "name", ["", "A", "-x", ".x", "_x", "a b", "a/b", "a" * 64, "é", "a\n", "a__b c", "<b>", "a\x00"]
)
def test_odd_names_are_invalid(name: str) -> None:
    assert refused(name=name) == {"name"}


@pytest.mark.parametrize(
    ("name", "capability"),
    [
        ("github__read", "github.read"), ("github__Commits/List", "github.commits.list"), ("a__b:c", "a.b.c"),
        ("my-server__do_it", "my-server.do_it"), ("s__x..y", "s.x.y"), ("s__/", "s.tool"), ("s1__A.B", "s1.a.b"),
    ],
)  # fmt: skip
def test_a_tool_has_one_capability_from_its_name(name: str, capability: str) -> None:
    assert cast.tool(name).capability == capability


@pytest.mark.parametrize(
    "name", ["read", "GitHub__read", "github_read", "__read", "github__", "git hub__x", "github__x y"]
)
def test_a_tools_name_has_its_servers(name: str) -> None:
    with pytest.raises(InvalidInput) as error:
        cast.tool(name)
    assert "name" in {field.field for field in error.value.fields}


@pytest.mark.parametrize(
    "capability", ["x", "a.B", "a..b", "a.*", "*.*", ".a", "a.", "a b.c", "a.b\n", "a." + "b" * 200]
)
def test_a_capability_is_no_pattern(capability: str) -> None:
    with pytest.raises(InvalidInput) as error:
        cast.tool("a__b", capability=capability)
    assert {field.field for field in error.value.fields} == {"capability"}


def test_only_tools_have_a_capability() -> None:
    assert refused(capability="github.read") == {"capability"}


def test_every_problem_is_said_at_once() -> None:
    olga = cast.user("olga", "operator")
    assert refused(
        name="No", owner=olga, backup_owner=olga, tags=["A", "A"], inactivity_days=0, expires_at=cast.past(seconds=1),
        purpose="x" * 1001, description="hid\u200bden",
    ) == {"name", "backup_owner_id", "tags", "inactivity_days", "expires_at", "purpose", "description"}  # fmt: skip


def test_owners_are_people_who_are_here() -> None:
    gone = people.deactivate(actor=SYSTEM, user=cast.user("gone"), reason="Left")
    assert refused(owner=gone) == {"owner_id"}
    assert refused(backup_owner=gone) == {"backup_owner_id"}


def test_a_secret_in_a_description_is_refused() -> None:
    assert refused(description="Its token is nhi_agt_0123456789AbCdEf_" + "a" * 46) == {"description"}


def test_inactive_until_someone_activates_it() -> None:
    asleep = cast.agent(activate=False)
    assert (asleep.state, cast.agent("awake").state) == ("inactive", "active")
    event = AuditEvent.objects.get(subject_id=asleep.pk)
    assert event.after is not None
    assert (event.after["state"], event.after["kind"], event.after["owner"]) == ("inactive", "agent", "olga")


def test_only_what_differs_is_recorded_and_nothing_when_nothing_does() -> None:
    bot = cast.agent(purpose="Ships", team="Platform")
    identities.change(actor=cast.admin(), identity=bot, purpose="Ships", team="Docs")
    event = AuditEvent.objects.get(event="identity.changed")
    assert (event.before, event.after) == ({"team": "Platform"}, {"team": "Docs"})
    identities.change(actor=cast.admin(), identity=bot, team="Docs")
    assert AuditEvent.objects.filter(event="identity.changed").count() == 1


@pytest.mark.parametrize(
    "name",
    ["kind", "name", "state", "created_by_id", "created_at", "id", "access_epoch", "tokens_from", "console_roles"],
)
def test_what_the_server_sets_is_not_described(name: str) -> None:
    bot = cast.agent()
    before = Identity.objects.filter(pk=bot.pk).values().get()
    with pytest.raises(TypeError):
        identities.change(actor=SYSTEM, identity=bot, **{name: "archived"})
    with pytest.raises(TypeError):
        identities.create(
            actor=SYSTEM, kind=Kind.AGENT, owner=bot.owner, **{"name": "other", "described": 1} | {name: "x"}
        )
    assert Identity.objects.filter(pk=bot.pk).values().get() == before


@pytest.mark.capability("NHI-08")
def test_who_changes_what_describes_it() -> None:
    bot = cast.agent()
    cast.user_grant(bot, cast.user("amy"), "admin")
    cast.user_grant(bot, cast.user("max"), "manage")
    for name in ("olga", "amy"):
        assert identities.change(actor=cast.acting(name), identity=bot, team=name).team == name
    for name in ("max", "stranger"):
        with pytest.raises(NotAllowed):
            identities.change(actor=cast.acting(name), identity=bot, team=name)
    with pytest.raises(NotAllowed):
        identities.change(actor=actors.identity(bot), identity=bot, team="mine")
    for role in ("operator", "approver", "auditor"):
        with pytest.raises(NotAllowed):
            identities.create(actor=cast.acting("x" + role, role), kind=Kind.AGENT, name="new", owner=bot.owner)


@pytest.mark.capability("CON-01")
def test_console_roles_are_for_service_accounts() -> None:
    account = cast.service()
    identities.set_console_roles(actor=cast.admin(), identity=account, roles=["operator"])
    assert actors.identity(account).may("nhi.view_identity")
    assert not actors.identity(account).may("nhi.add_identity")
    assert not actors.identity(account, is_narrowed=True).may("nhi.view_identity")
    for identity in (cast.agent(), cast.tool()):
        with pytest.raises(InvalidInput):
            identities.set_console_roles(actor=SYSTEM, identity=identity, roles=["operator"])
    with pytest.raises(InvalidInput):
        identities.set_console_roles(actor=SYSTEM, identity=account, roles=["operator", "owner"])
    with pytest.raises(NotAllowed):
        identities.set_console_roles(actor=cast.acting("olga"), identity=account, roles=["security-admin"])


def test_identities_are_kept() -> None:
    bot = cast.agent()
    for attempt in (bot.delete, Identity.objects.all().delete):
        with pytest.raises(TypeError):
            attempt()
