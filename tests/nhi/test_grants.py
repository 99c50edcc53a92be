"""The three kinds of grant: never twice, over an ended one, revoked once, with every limit enforced or denying."""

from datetime import datetime
from typing import Any

import pytest

from common.errors import Conflict, Duplicate, InvalidInput, NotAllowed
from nhi.access import grants
from nhi.actors import SYSTEM
from nhi.identities import lifecycle
from nhi.models import AuditEvent, Identity, NhiPermission, ToolPermission, UserPermission
from nhi.people import people
from tests.nhi import cast
from tests.nhi.granting import asked, fields

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases, pytest.mark.capability("NHI-06")]
SCHEMA = {"type": "object", "properties": {"repo": {"enum": ["site"]}}, "required": ["repo"]}


def archived(identity: Identity) -> Identity:
    lifecycle.deprecate(actor=SYSTEM, identity=identity, reason="Old")
    lifecycle.archive(actor=SYSTEM, identity=Identity.objects.get(pk=identity.pk), reason="Old")
    return Identity.objects.get(pk=identity.pk)


def test_a_grant_says_who_gave_it_and_why_and_lets_pass() -> None:
    bot, reader, mara = cast.agent(), cast.tool(), cast.admin()
    ends = cast.future(days=7)
    grant = grants.give_tool(actor=mara, agent=bot, tool=reader, reason="Reads issues", expires_at=ends)
    assert (grant.state, grant.reason, grant.granted_by_name, grant.expires_at) == (
        "live",
        "Reads issues",
        "mara",
        ends,
    )
    assert asked(bot, reader).reason == "granted"
    event = AuditEvent.objects.get(event="grant.given")
    assert (event.actor_name, event.subject_name, event.reason) == ("mara", "bot → github__read", "Reads issues")
    assert event.after is not None
    assert datetime.fromisoformat(event.after["expires_at"]) == ends


def test_a_second_one_is_a_duplicate_and_is_not_recorded() -> None:
    bot, reader = cast.agent(), cast.tool()
    cast.tool_grant(bot, reader)
    recorded = AuditEvent.objects.count()
    with pytest.raises(Duplicate):
        cast.tool_grant(bot, reader, max_calls_per_hour=5)
    assert (ToolPermission.objects.count(), AuditEvent.objects.count()) == (1, recorded)


def test_over_an_ended_one_that_is_closed_first() -> None:
    bot, reader = cast.agent(), cast.tool()
    old = cast.tool_grant(bot, reader, expires_at=cast.future(hours=1))
    ToolPermission.objects.filter(pk=old.pk).update(expires_at=cast.past(seconds=1))
    new = cast.tool_grant(bot, reader)
    closed = ToolPermission.objects.get(pk=old.pk)
    assert closed.revoked_at is not None
    assert (closed.state, new.state) == ("expired", "live")
    assert cast.events(closed) == ["grant.given", "grant.expired"]
    assert list(ToolPermission.objects.expired()) == [closed]
    assert list(ToolPermission.objects.live()) == [new]


def test_after_a_revoke_another_row_is_made() -> None:
    bot, reader = cast.agent(), cast.tool()
    old = cast.tool_grant(bot, reader)
    grants.revoke(actor=SYSTEM, grant=old, reason="Unused")
    assert asked(bot, reader).reason == "grant_revoked"
    new = cast.tool_grant(bot, reader)
    assert new.pk != old.pk
    assert asked(bot, reader).match.id == new.pk  # type: ignore[union-attr]  # the assertion is that there is one
    assert list(ToolPermission.objects.revoked().values_list("pk", flat=True)) == [old.pk]


def test_a_revoke_is_recorded_once() -> None:
    grant = cast.tool_grant(cast.agent(), cast.tool())
    revoked = grants.revoke(actor=cast.admin(), grant=grant, reason="Unused")
    assert (revoked.state, revoked.revoked_by_name, revoked.revoke_reason) == ("revoked", "mara", "Unused")
    with pytest.raises(Conflict):
        grants.revoke(actor=SYSTEM, grant=grant, reason="Again")
    assert cast.events(grant) == ["grant.given", "grant.revoked"]


def test_wrong_kinds_are_invalid() -> None:
    bot, account, reader = cast.agent(), cast.service(), cast.tool()
    for agent, tool, wrong in (
        (account, reader, {"agent_id"}), (reader, reader, {"agent_id"}), (bot, bot, {"tool_id"}),
        (bot, account, {"tool_id"}), (reader, bot, {"agent_id", "tool_id"}),
    ):  # fmt: skip
        with pytest.raises(InvalidInput) as refused:
            cast.tool_grant(agent, tool)
        assert fields(refused) == wrong
    for source, target, wrong in (
        (bot, reader, {"target_id"}),
        (reader, bot, {"source_id"}),
        (bot, bot, {"target_id"}),
    ):
        with pytest.raises(InvalidInput) as refused:
            cast.nhi_grant(source, target)
        assert fields(refused) == wrong
    assert not AuditEvent.objects.filter(event="grant.given").exists()


@pytest.mark.parametrize("verb", [lifecycle.deactivate, lifecycle.suspend, lifecycle.deprecate])
def test_unusable_identities_are_invalid(verb: Any) -> None:
    bot, reader, stale = cast.agent(), cast.tool(), cast.tool("github__write")
    verb(actor=SYSTEM, identity=Identity.objects.get(pk=stale.pk), reason="Away")
    for tool in (Identity.objects.get(pk=stale.pk), stale):
        with pytest.raises(InvalidInput) as refused:
            cast.tool_grant(bot, tool)
        assert fields(refused) == {"tool_id"}
    ended = cast.agent("ended", expires_at=cast.future(hours=1))
    Identity.objects.filter(pk=ended.pk).update(expires_at=cast.past(seconds=1))
    for agent in (Identity.objects.get(pk=ended.pk), ended):
        with pytest.raises(InvalidInput) as refused:
            cast.tool_grant(agent, reader)
        assert fields(refused) == {"agent_id"}


def test_every_problem_is_said_at_once() -> None:
    with pytest.raises(InvalidInput) as refused:
        cast.tool_grant(
            cast.service(), cast.tool(), expires_at=cast.past(seconds=1), max_calls_per_hour=0,
            allowed_parameters={"type": "nonsense"},
        )  # fmt: skip
    assert fields(refused) == {"agent_id", "expires_at", "max_calls_per_hour", "allowed_parameters"}


def test_limits_are_enforced_or_deny() -> None:
    bot = cast.agent()
    tools = {name: cast.tool(f"github__{name}") for name in ("plain", "narrow", "hourly", "asked")}
    cast.tool_grant(bot, tools["plain"])
    cast.tool_grant(bot, tools["narrow"], allowed_parameters=SCHEMA)
    cast.tool_grant(bot, tools["hourly"], max_calls_per_hour=100)
    cast.tool_grant(bot, tools["asked"], requires_approval=True)
    assert asked(bot, tools["plain"], {"repo": "any"}).allowed
    assert asked(bot, tools["narrow"], {"repo": "site"}).allowed
    assert asked(bot, tools["narrow"], {"repo": "docs"}).reason == "parameters_not_allowed"
    assert asked(bot, tools["narrow"]).reason == "parameters_not_allowed"
    assert asked(bot, tools["hourly"]).reason == "not_enforceable_yet"
    assert asked(bot, tools["asked"]).reason == "not_enforceable_yet"


@pytest.mark.capability("NHI-07")
def test_grants_between_identities_name_actions() -> None:
    planner, writer, account = cast.agent("planner"), cast.agent("writer"), cast.service()
    cast.nhi_grant(planner, writer, allowed_actions=["draft.*", "review"])
    cast.nhi_grant(account, writer, "delegate")
    cast.nhi_grant(writer, planner, allowed_actions=[])
    assert asked(planner, writer, action="draft.notes").allowed
    assert asked(planner, writer, action="review").allowed
    assert asked(planner, writer, action="publish").reason == "action_not_allowed"
    assert asked(account, writer, action="anything").allowed
    assert asked(account, writer).allowed
    assert asked(writer, planner, action="draft.notes").reason == "action_not_allowed"
    assert asked(writer, account).reason == "no_grant", "a grant goes one way"


@pytest.mark.capability("NHI-07")
def test_call_and_delegate_are_two_grants() -> None:
    planner, writer = cast.agent("planner"), cast.agent("writer")
    cast.nhi_grant(planner, writer, "call")
    cast.nhi_grant(planner, writer, "delegate")
    for kind in ("call", "delegate"):
        with pytest.raises(Duplicate):
            cast.nhi_grant(planner, writer, kind)
    with pytest.raises(InvalidInput) as refused:
        cast.nhi_grant(writer, planner, "own")
    assert fields(refused) == {"permission_type"}
    for actions in (["a" * 201], [""], ["x\x00"], ["a"] * 101):
        with pytest.raises(InvalidInput) as refused:
            cast.nhi_grant(writer, planner, allowed_actions=actions)
        assert fields(refused) == {"allowed_actions"}


@pytest.mark.capability("NHI-08")
def test_grants_to_people_have_levels() -> None:
    bot, uma = cast.agent(), cast.user("uma")
    grant = cast.user_grant(bot, uma, "use")
    with pytest.raises(Duplicate):
        cast.user_grant(bot, uma, "admin")
    grants.revoke(actor=cast.admin(), grant=grant, reason="More is needed")
    assert cast.user_grant(bot, uma, "admin").level == "admin"
    with pytest.raises(InvalidInput) as refused:
        cast.user_grant(bot, cast.user("tim"), "owner")
    assert fields(refused) == {"level"}
    people.deactivate(actor=SYSTEM, user=cast.user("gone"), reason="Left")
    with pytest.raises(InvalidInput) as refused:
        cast.user_grant(bot, cast.user("gone"))
    assert fields(refused) == {"user_id"}


@pytest.mark.capability("NHI-08")
def test_what_each_level_lets_a_person_see_and_do() -> None:
    bot, other = cast.agent(), cast.agent("other")
    for name, level in (("uma", "use"), ("max", "manage"), ("amy", "admin")):
        cast.user_grant(bot, cast.user(name), level)
    gone = cast.user_grant(other, cast.user("uma"), "admin", expires_at=cast.future(hours=1))
    UserPermission.objects.filter(pk=gone.pk).update(expires_at=cast.past(seconds=1))
    for name, sees, manages, edits in (
        ("stranger", 0, 0, 0), ("uma", 1, 0, 0), ("max", 1, 1, 0), ("amy", 1, 1, 1), ("olga", 2, 2, 2),
    ):  # fmt: skip
        actor = cast.acting(name)
        rows = Identity.objects
        if name != "olga":
            assert rows.visible_to(actor).count() == sees, name
        assert rows.managed_by(actor).count() == manages, name
        assert rows.edited_by(actor).count() == edits, name
    assert Identity.objects.visible_to(cast.acting("ada", "auditor")).count() == 2


@pytest.mark.capability("NHI-08")
def test_a_revoked_grant_ends_what_a_person_sees() -> None:
    bot = cast.agent()
    grant = cast.user_grant(bot, cast.user("uma"), "admin")
    grants.revoke(actor=SYSTEM, grant=grant, reason="Left the team")
    for rows in (Identity.objects.visible_to, Identity.objects.managed_by, Identity.objects.edited_by):
        assert not rows(cast.acting("uma")).exists()


def test_only_with_the_right_for_this_kind() -> None:
    bot, reader, writer = cast.agent(), cast.tool(), cast.agent("writer")
    rows = [cast.tool_grant(bot, reader), cast.nhi_grant(bot, writer), cast.user_grant(bot, cast.user("uma"))]
    for name, role in (("olga", "operator"), ("tom", "approver"), ("ada", "auditor"), ("uma", "")):
        actor = cast.acting(name, *filter(None, [role]))
        with pytest.raises(NotAllowed):
            grants.give_tool(actor=actor, agent=writer, tool=reader, reason="Trying")
        with pytest.raises(NotAllowed):
            grants.give_nhi(actor=actor, source=writer, target=bot, permission_type="call", reason="Trying")
        with pytest.raises(NotAllowed):
            grants.give_user(actor=actor, nhi=writer, user=cast.user("uma"), level="use", reason="Trying")
        for row in rows:
            with pytest.raises(NotAllowed):
                grants.revoke(actor=actor, grant=row, reason="Trying")
    assert ToolPermission.objects.live().count() == NhiPermission.objects.live().count() == 1


def test_grants_are_kept() -> None:
    grant = cast.tool_grant(cast.agent(), cast.tool())
    for attempt in (grant.delete, ToolPermission.objects.all().delete):
        with pytest.raises(TypeError):
            attempt()
    assert ToolPermission.objects.filter(pk=grant.pk).exists()
