"""The gateway decides from a query of its own. It finds what `nhi.authorization.facts` and its checks find."""

from dataclasses import replace
from typing import Any

import pytest

from common.ids import uuid7
from mcp.gateway.arguments import find_problems, prepare_schema
from mcp.gateway.batch import database, decision
from mcp.gateway.batch import facts as batch_facts
from mcp.gateway.types import CallRequest, CheckedArguments
from nhi.authorization import facts, oauth
from nhi.credentials import tokens
from nhi.decisions import delegation
from nhi.decisions.delegation import ChainLink, Principal
from nhi.decisions.types import Decision, RequestedAction
from nhi.models import Identity, ToolPermission
from tests.mcp.behind import stand_behind_a_server
from tests.nhi.decisions import stage, table
from tests.nhi.decisions.stage import AUDIENCE, Staged
from tests.nhi.decisions.table import Expected

pytestmark = [
    pytest.mark.capability("NHI-06", "NHI-09", "NHI-10", "MCP-07"),
    pytest.mark.both_databases,
    pytest.mark.django_db,
]
#: Calls of tools by somebody who shows something.
CASES = [
    case
    for case in table.read()
    if case.verb == "call" and case.called and case.called.kind == "tool" and case.credential != "none"
]


@pytest.fixture(autouse=True)
def _served_where_the_tokens_are_for(settings: Any) -> None:
    settings.PUBLIC_URL = AUDIENCE.removesuffix(oauth.MCP_PATH)


def test_every_call_of_a_tool_is_decided_as_the_table_says() -> None:
    staged = stage.stage(CASES)
    stand_behind_a_server(Identity.objects.filter(pk__in=[each.target_id for each in staged]))
    wrong = [
        f"{each.case.case}: {found}, not {wanted}"
        for each, decision in zip(staged, decide([wish(each) for each in staged]), strict=True)
        if (found := stage.answer(decision)) not in {wanted := expected(each), beside(each)}
    ]
    assert len(staged) > 200
    assert not wrong, "\n".join(wrong)


def test_one_query_serves_a_whole_batch(django_assert_num_queries: Any) -> None:
    staged = stage.stage(CASES[:50])
    stand_behind_a_server(Identity.objects.filter(pk__in=[each.target_id for each in staged]))
    wishes = [wish(each) for each in staged]
    # On PostgreSQL it goes past Django's cursors, where nothing counts.
    with django_assert_num_queries(0 if database.is_postgresql() else 1):
        decide(wishes)


@pytest.mark.capability("NHI-20")
def test_on_whose_behalf_it_may_be_called_is_found_alike() -> None:
    """Whatever somebody may, whoever acts for it may: the batch's query and that of `nhi.authorization.facts`."""
    staged = stage.stage(CASES)
    stand_behind_a_server(Identity.objects.filter(pk__in=[each.target_id for each in staged]))
    names = dict(Identity.objects.values_list("pk", "name"))
    rows = database.load_principals([(each.caller_id, names[each.target_id]) for each in staged])
    wrong = [
        each.case.case
        for each, row in zip(staged, rows, strict=True)
        if _stands(each, _by_clerk(each, row)) != _stands(each, _by_facts(each))
    ]
    assert {_stands(each, _by_facts(each)) for each in staged} >= {"", "chain_no_grant", "chain_unusable"}
    assert not wrong, "\n".join(wrong)


def _by_clerk(each: Staged, row: Any) -> Principal:
    found = batch_facts.read_principal_facts(row)
    held = [match for match in (batch_facts.find_grant(found), batch_facts.find_role(found)) if match is not None]
    limited = ToolPermission.objects.filter(pk__in=[match.id for match in held]).exclude(allowed_parameters=None)
    schemas = dict(limited.values_list("pk", "allowed_parameters"))
    known = [replace(match, allowed_parameters=schemas.get(match.id)) for match in held]
    return Principal("the caller", batch_facts.build_caller(found), tuple(known))


def _by_facts(each: Staged) -> Principal:
    return facts.for_principals([ChainLink(each.caller_id, "the caller")], each.target_id)[0]


def _stands(each: Staged, principal: Principal) -> str:
    wanted = RequestedAction("call", each.case.arguments)
    loaded = facts.for_question(each.caller_id, each.target_id)
    now, target = loaded.facts.decided_at, loaded.target
    return delegation.check_principals([principal], wanted, target, decision_id=uuid7(), at=now).condition.reason


def decide(wishes: list[tuple[CallRequest, CheckedArguments]]) -> list[Decision]:
    asked = [
        (one.token.public_id, None, None, one.name, one.args_hash)
        if isinstance(one.token, tokens.ParsedCredentialToken)
        else (None, one.token.credential_id, one.token.identity_id, one.name, one.args_hash)
        for one, _ in wishes
    ]
    rows = database.load_facts(asked)
    return [
        decision.decide_call(batch_facts.read_facts(row), *one).decision for row, one in zip(rows, wishes, strict=True)
    ]


def wish(each: Staged) -> tuple[CallRequest, CheckedArguments]:
    shown = tokens.parse(each.shown)
    assert shown is not None
    server, _, tool = Identity.objects.get(pk=each.target_id).name.partition("__")
    arguments = each.case.arguments or {}
    limited = ToolPermission.objects.exclude(allowed_parameters=None).filter(tool_id=each.target_id)
    checked = {
        grant.pk: find_problems(prepare_schema(grant.allowed_parameters or {}, owner_label="the grant"), arguments)
        for grant in limited
    }
    return CallRequest(
        shown, server, tool, arguments, request_id=uuid7(), source=each.source, entry_point="mcp"
    ), checked


def beside(each: Staged) -> Expected:
    """A limit that cannot be read lets nothing pass, and stands in no role's way."""
    if each.case.reason == "decision_failed" and each.case.assigned:
        return Expected("allow", "role", "role")
    return expected(each)


def expected(each: Staged) -> Expected:
    """What the gateway enforces, the rest of the house cannot yet: it never passes a counted grant by for a role."""
    said, limits = each.case.expected, each.case.limited.get("tool", {})
    if said.reason == "decision_failed":
        return Expected("deny", "parameters_not_allowed", "arguments")
    if said.reason == "not_enforceable_yet" and limits.get("approval"):
        return Expected("deny", "approval_required", "approval")
    if said.reason == "not_enforceable_yet" or (said.reason == "role" and limits.get("per_hour")):
        return Expected("allow", "granted", "grant")
    return said
