"""Many grants at once, access copied, and what an identity can reach: the same answer as a decision gives."""

import pytest

from common.errors import InvalidInput, NotAllowed
from nhi.access import bulk, effective_access, grants, roles
from nhi.access.bulk import ToolSelector
from nhi.actors import SYSTEM
from nhi.authorization import facts
from nhi.decisions import engine
from nhi.decisions.types import RequestedAction
from nhi.identities import lifecycle
from nhi.models import AuditEvent, Identity, NhiPermission, RoleAssignment, ToolPermission
from tests.nhi import cast

pytestmark = [pytest.mark.capability("NHI-12"), pytest.mark.django_db, pytest.mark.both_databases]


def give(agent: Identity, selection: ToolSelector) -> list[tuple[str, str]]:
    results = bulk.give_tools(actor=cast.admin(), agent=agent, selection=selection, reason="All of it")
    return [(item.name, item.result) for item in results]


def asleep(name: str) -> Identity:
    tool = cast.tool(name)
    return lifecycle.deactivate(actor=SYSTEM, identity=tool, reason="Away")


def test_each_item_has_its_own_result() -> None:
    bot, new, held = cast.agent(), cast.tool("s__new"), cast.tool("s__held")
    away, unknown = asleep("s__away"), cast.agent("no-tool").pk
    cast.tool_grant(bot, held)
    selection = ToolSelector(tool_ids=(new.pk, held.pk, away.pk, unknown))
    foreseen = [
        (item.name, item.result)
        for item in bulk.preview_agent(actor=cast.admin(), agent=bot, selection=selection).items
    ]
    done = give(bot, selection)
    assert done == foreseen == [
        ("s__new", "created"), ("s__held", "exists"), ("s__away", "refused"), (str(unknown), "refused"),
    ]  # fmt: skip
    assert set(ToolPermission.objects.live().values_list("tool_id", flat=True)) == {new.pk, held.pk}
    assert AuditEvent.objects.filter(event="grant.given").count() == 2


def test_by_server_and_by_pattern() -> None:
    bot, other = cast.agent(), cast.agent("other")
    for name in ("git__a", "git__b/c", "git-lab__a", "gitx__a"):
        cast.tool(name)
    assert give(bot, ToolSelector(server="git")) == [("git__a", "created"), ("git__b/c", "created")]
    assert give(other, ToolSelector(pattern="git.b.*")) == [("git__b/c", "created")]
    with pytest.raises(InvalidInput) as refused:
        give(other, ToolSelector(pattern="*.*"))
    assert [field.field for field in refused.value.fields] == ["pattern"], "everything is for a role, and two people"


def test_one_way_to_choose_and_at_most_a_hundred() -> None:
    bot = cast.agent()
    ids = tuple(cast.tool(f"s__t{number}").pk for number in range(101))
    for selection, field in (
        (ToolSelector(), "tool_ids"),
        (ToolSelector(tool_ids=ids[:2], server="s"), "server"),
        (ToolSelector(tool_ids=ids), "tool_ids"),
        (ToolSelector(tool_ids=()), "tool_ids"),
        (ToolSelector(server="s"), "server"),
        (ToolSelector(server="nowhere"), "server"),
        (ToolSelector(pattern="s.*"), "pattern"),
        (ToolSelector(pattern="s*"), "pattern"),
    ):
        with pytest.raises(InvalidInput) as refused:
            give(bot, selection)
        assert [one.field for one in refused.value.fields] == [field], selection
    assert not ToolPermission.objects.exists()
    assert len(give(bot, ToolSelector(tool_ids=ids[:100]))) == 100


def test_without_the_right_nothing_is_given_or_copied() -> None:
    bot, tool = cast.agent(), cast.tool()
    for role in ("operator", "approver", "auditor"):
        with pytest.raises(NotAllowed):
            bulk.give_tools(
                actor=cast.acting(role, role), agent=bot, selection=ToolSelector(tool_ids=(tool.pk,)), reason="Trying"
            )
        with pytest.raises(NotAllowed):
            bulk.copy_access(actor=cast.acting(role, role), source=bot, target=cast.agent(f"to-{role}"))


def test_a_copy_has_the_same_limits_and_ends_and_says_from_whom() -> None:
    bot, heir, writer, reader = cast.agent(), cast.agent("heir"), cast.agent("writer"), cast.tool("s__read")
    ends, schema = cast.future(days=3), {"type": "object", "required": ["repo"]}
    cast.tool_grant(
        bot, reader, allowed_parameters=schema, max_calls_per_hour=5, requires_approval=True, expires_at=ends
    )
    cast.nhi_grant(bot, writer, "delegate", allowed_actions=["draft.*"])
    cast.nhi_grant(bot, heir)
    roles.assign(
        actor=SYSTEM, role=roles.create(actor=SYSTEM, name="reader", patterns=["s.*"]), identity=bot, expires_at=ends
    )
    grants.revoke(actor=SYSTEM, grant=cast.tool_grant(bot, cast.tool("s__gone")), reason="Unused")
    cast.tool_grant(bot, away := cast.tool("s__away"))
    lifecycle.suspend(actor=SYSTEM, identity=away, reason="Leak")
    results = {
        (item.kind, item.name): item.result for item in bulk.copy_access(actor=cast.admin(), source=bot, target=heir)
    }
    assert results == {
        ("tool", "s__read"): "created", ("tool", "s__away"): "refused", ("nhi", "writer"): "created",
        ("nhi", "heir"): "refused", ("role", "reader"): "created",
    }  # fmt: skip
    tool = ToolPermission.objects.get(agent=heir)
    assert (tool.allowed_parameters, tool.max_calls_per_hour, tool.requires_approval) == (schema, 5, True)
    assert (tool.expires_at, tool.reason, tool.granted_by_name) == (ends, "Copied from bot", "mara")
    assert NhiPermission.objects.get(source=heir).allowed_actions == ["draft.*"]
    assert RoleAssignment.objects.get(identity=heir).expires_at == ends
    event = AuditEvent.objects.get(event="access.copied")
    assert event.details == {"to": "heir", "created": 3, "exists": 0, "refused": 2}
    again = bulk.copy_access(actor=cast.admin(), source=bot, target=heir)
    assert sorted(item.result for item in again) == ["exists", "exists", "exists", "refused", "refused"]


@pytest.mark.capability("NHI-09", "NHI-10")
def test_what_an_identity_reaches_is_what_decisions_allow() -> None:
    bot = cast.agent()
    tools = [cast.tool(f"s{number % 3}__t{number}") for number in range(12)]
    agents = [cast.agent(f"peer-{number}") for number in range(4)]
    for number, tool in enumerate(tools[:5]):
        grant = cast.tool_grant(bot, tool, expires_at=cast.future(days=1))
        if number == 1:
            grants.revoke(actor=SYSTEM, grant=grant, reason="Unused")
        if number == 2:
            ToolPermission.objects.filter(pk=grant.pk).update(expires_at=cast.past(seconds=1))
    role = roles.create(actor=SYSTEM, name="two", patterns=["s2.*", "s1.t4", "*.*"])
    roles.assign(actor=SYSTEM, role=role, identity=bot)
    ended = roles.create(actor=SYSTEM, name="none", patterns=["s0.*"])
    roles.unassign(actor=SYSTEM, assignment=roles.assign(actor=SYSTEM, role=ended, identity=bot), reason="Unused")
    lifecycle.suspend(actor=SYSTEM, identity=tools[5], reason="Leak")
    cast.nhi_grant(bot, agents[0])
    cast.nhi_grant(bot, agents[1], "delegate")
    lifecycle.suspend(actor=SYSTEM, identity=agents[1], reason="Leak")
    cast.nhi_grant(agents[2], bot)
    found = effective_access.load(bot)
    assert {reach.id for reach in (*found.tools, *found.agents)} == {
        target.pk for target in (*tools, *agents) if allowed(bot, target)
    }
    assert found.total == len(found.tools) + len(found.agents)
    both = next(reach for reach in found.tools if reach.name == "s1__t4")
    assert {(via.kind, via.name) for via in both.via} == {("grant", "by Gatehouse"), ("role", "two")}


def allowed(caller: Identity, target: Identity) -> bool:
    loaded = facts.for_question(caller.pk, target.pk)
    return engine.decide(loaded.caller, RequestedAction("call"), loaded.target, loaded.facts).allowed
