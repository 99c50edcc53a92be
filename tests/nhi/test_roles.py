"""Roles: whole-segment patterns, the widest only with a second admin, assignments that end."""

import pytest

from common.errors import Conflict, Duplicate, InvalidInput, NotAllowed
from nhi import actors
from nhi.access import grants, roles
from nhi.actors import SYSTEM
from nhi.authorization import facts
from nhi.credentials import credentials
from nhi.decisions import engine
from nhi.decisions.types import RequestedAction
from nhi.identities import identities
from nhi.models import Identity, Role, RoleAssignment, RoleCapability
from tests.nhi import cast

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases, pytest.mark.capability("NHI-09")]


def reason(caller: Identity, target: Identity) -> str:
    loaded = facts.for_question(caller.pk, target.pk)
    return engine.decide(loaded.caller, RequestedAction("call"), loaded.target, loaded.facts).reason


def make(name: str, *patterns: str) -> Role:
    return roles.create(actor=cast.admin(), name=name, patterns=patterns)


def assign(role: Role, identity: Identity) -> RoleAssignment:
    return roles.assign(actor=cast.admin(), role=role, identity=identity)


def waiting(role: Role) -> RoleCapability:
    return role.capabilities.get(pattern="*.*", removed_at=None)


def test_a_role_lets_its_holder_call_what_it_covers_and_nothing_else() -> None:
    bot, account = cast.agent(), cast.service()
    reads, writes = cast.tool("github__commits/list"), cast.tool("github__delete")
    reader = make("reader", "github.commits.*")
    for holder in (bot, account):
        assign(reader, holder)
        assert (reason(holder, reads), reason(holder, writes)) == ("role", "no_grant")


def test_the_widest_pattern_waits_for_another_person() -> None:
    bot, reads = cast.agent(), cast.tool()
    wide = make("everything", "*.*")
    assign(wide, bot)
    assert reason(bot, reads) == "no_grant"
    with pytest.raises(roles.ApproverIsRequester):
        roles.approve_capability(actor=cast.admin(), capability=waiting(wide), reason="Mine")
    with pytest.raises(NotAllowed):
        roles.approve_capability(actor=cast.acting("tom", "approver"), capability=waiting(wide), reason="No right")
    with pytest.raises(NotAllowed):
        roles.approve_capability(actor=SYSTEM, capability=waiting(wide), reason="Nobody")
    assert reason(bot, reads) == "no_grant"
    approved = roles.approve_capability(actor=cast.admin("nina"), capability=waiting(wide), reason="Needed tonight")
    assert approved.approved_by_name == "nina"
    assert reason(bot, reads) == "role"
    with pytest.raises(roles.AlreadyApproved):
        roles.approve_capability(actor=cast.admin("nina"), capability=approved, reason="Again")
    assert cast.events(wide) == ["role.created", "role.capability_approved"]


def test_nobody_approves_their_own_by_another_door() -> None:
    mara = cast.user("mara", "security-admin")
    wide = make("everything", "*.*")
    token = credentials.issue(actor=actors.person(mara), holder=mara)
    with pytest.raises(roles.ApproverIsRequester):
        roles.approve_capability(
            actor=actors.person(mara, credential_id=token.credential.pk), capability=waiting(wide), reason="By token"
        )
    automation = cast.service("automation")
    machine = actors.Actor(actors.ActorKind.IDENTITY, automation.pk, "automation", frozenset({"nhi.change_role"}))
    with pytest.raises(NotAllowed):
        roles.approve_capability(actor=machine, capability=waiting(wide), reason="By machine")


def test_a_change_keeps_what_stays_and_what_is_added_again_waits_again() -> None:
    bot, reads = cast.agent(), cast.tool()
    role = make("wide", "*.*", "jira.read")
    assign(role, bot)
    roles.approve_capability(actor=cast.admin("nina"), capability=waiting(role), reason="Agreed")
    roles.change(actor=cast.admin(), role=role, patterns=["*.*", "slack.*"])
    assert reason(bot, reads) == "role"
    roles.change(actor=cast.admin(), role=role, patterns=["slack.*"])
    assert reason(bot, reads) == "role_revoked"
    roles.change(actor=cast.admin(), role=role, patterns=["slack.*", "*.*"])
    assert reason(bot, reads) == "role_revoked", "the approval was for the row that is gone"
    assert waiting(role).approved_at is None


def test_a_change_is_recorded_with_before_and_after_and_nothing_when_nothing_differs() -> None:
    role = make("reader", "github.read")
    roles.change(actor=cast.admin(), role=role, patterns=["github.read"], description="")
    assert cast.events(role) == ["role.created"]
    roles.change(actor=cast.admin(), role=role, patterns=["github.*"])
    assert cast.events(role) == ["role.created", "role.changed"]


@pytest.mark.parametrize(
    "pattern",
    [
        "", "*", "github", "github.", ".read", "*.read", "github.*.list", "github.**", "github.read*", "Github.read",
        "github.read\n", "github read", "github.*.*", "*.*.*", "github..read", "git%.read", "g" * 201 + ".read",
        "gítHub.read", "github.réad", "github.read.", "github/read",
    ],
)  # fmt: skip
def test_what_is_no_pattern_is_invalid(pattern: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        make("reader", "github.read", pattern)
    assert [field.field for field in refused.value.fields] == ["capabilities"]
    assert not Role.objects.exists()


def test_a_name_is_taken_once() -> None:
    make("reader", "github.read")
    with pytest.raises(Duplicate):
        make("reader", "jira.read")


def test_an_assignment_ends_is_revoked_once_and_given_again() -> None:
    bot, reads = cast.agent(), cast.tool()
    role = make("reader", "github.*")
    held = assign(role, bot)
    with pytest.raises(Duplicate):
        assign(role, bot)
    yesterday = cast.past(days=1)
    Identity.objects.update(created_at=yesterday)
    RoleCapability.objects.update(approved_at=yesterday)
    RoleAssignment.objects.filter(pk=held.pk).update(created_at=yesterday, expires_at=cast.past(seconds=1))
    assert reason(bot, reads) == "role_expired"
    again = assign(role, bot)
    assert reason(bot, reads) == "role"
    roles.unassign(actor=cast.admin(), assignment=again, reason="Unused")
    assert reason(bot, reads) == "role_revoked"
    with pytest.raises(Conflict):
        roles.unassign(actor=cast.admin(), assignment=again, reason="Unused")
    assert cast.events(again) == ["role.assigned", "role.assignment_revoked"]


def test_a_role_that_ended_before_a_tool_came_says_nothing_about_it() -> None:
    bot = cast.agent()
    role = make("reader", "github.*")
    roles.unassign(actor=cast.admin(), assignment=assign(role, bot), reason="Unused")
    assert reason(bot, cast.tool("github__new")) == "no_grant"


def test_a_pattern_added_after_an_assignment_ended_says_nothing() -> None:
    bot, reads = cast.agent(), cast.tool()
    role = make("reader", "jira.*")
    roles.unassign(actor=cast.admin(), assignment=assign(role, bot), reason="Unused")
    roles.change(actor=cast.admin(), role=role, patterns=["jira.*", "github.*"])
    assert reason(bot, reads) == "no_grant"


def test_tools_and_unusable_identities_hold_no_roles() -> None:
    role = make("reader", "github.*")
    ended = cast.agent("ended", expires_at=cast.future(hours=1))
    Identity.objects.filter(pk=ended.pk).update(expires_at=cast.past(seconds=1))
    asleep = cast.agent("asleep", activate=False)
    for identity in (cast.tool(), ended, Identity.objects.get(pk=ended.pk), asleep):
        with pytest.raises(InvalidInput) as refused:
            assign(role, identity)
        assert {field.field for field in refused.value.fields} == {"identity_id"}


def test_what_a_change_would_do_is_counted() -> None:
    bot, other = cast.agent(), cast.agent("other")
    for name in ("commits/list", "commits/get", "issues/list"):
        cast.tool(f"github__{name}")
    role = make("reader", "github.commits.*")
    assign(role, bot)
    assign(role, other)
    assert roles.preview_patterns(role, ["github.commits.get", "github.issues.*"]) == roles.PatternChangeEffect(1, 1, 2)
    assert roles.preview_patterns(role, ["github.commits.*"]) == roles.PatternChangeEffect(0, 0, 2)
    assert roles.preview_patterns(role, []) == roles.PatternChangeEffect(0, 2, 2)


def test_who_may() -> None:
    role, other = make("reader", "github.*"), cast.agent("other")
    held = assign(role, cast.agent())
    for name in ("operator", "approver", "auditor"):
        actor = cast.acting(name, name)
        for verb, arguments in (
            (roles.create, {"name": "mine", "patterns": ["github.*"]}),
            (roles.change, {"role": role, "patterns": []}),
            (roles.assign, {"role": role, "identity": other}),
            (roles.unassign, {"assignment": held, "reason": "Trying"}),
            (grants.revoke, {"grant": held, "reason": "Trying"}),
        ):
            with pytest.raises(NotAllowed):
                verb(actor=actor, **arguments)


@pytest.mark.capability("NHI-01")
def test_the_capability_of_a_tool_is_a_security_admins() -> None:
    olga = cast.user("olga", "operator")
    secret = cast.tool("vault__read", owner=olga)
    assign(make("reader", "github.*"), cast.agent())
    with pytest.raises(NotAllowed):
        identities.change(actor=actors.person(olga), identity=secret, capability="github.read")
    identities.change(actor=actors.person(olga), identity=secret, capability="vault.read", description="Unchanged")
    identities.change(actor=cast.admin(), identity=secret, capability="github.read")
    assert reason(Identity.objects.get(name="bot"), secret) == "role"
