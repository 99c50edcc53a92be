"""What the gateway knows of a call that nobody makes: for checks, explanations and pages, outside the hot path."""

import hashlib
from collections.abc import Iterator
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Q

from common import canonical, clock
from mcp.choices import ApprovalState, BreakerScope, BreakerState, BudgetScope, DefinitionState
from mcp.clerk.allotting import WINDOWS, minute_of
from mcp.clerk.reading import DEFINITION_SAYS, breaker_says, exact, terms_of
from mcp.models import Breaker, Budget, BudgetWindow, CallApproval, CallSlot, Tool
from nhi import schemas
from nhi.models import Identity, ToolPermission
from nhi.terms import Condition


def conditions(caller_id: UUID, target_id: UUID, parameters: Any) -> tuple[Condition, ...]:
    """In the words of a real call's decision; nothing is charged."""
    tool = Tool.objects.select_related("server", "approved").filter(pk=target_id).first()
    if tool is None:
        return ()
    now = clock.database_now()
    grant = ToolPermission.objects.live().filter(agent=caller_id, tool=tool.pk).first()
    said = [_server(tool), _definition(tool), _input(tool, parameters)]
    if tool.requires_approval:
        said.append(Condition("every_call_approved", True))
    said += [
        _approval(caller_id, tool, grant, parameters, now),
        _breaker(tool, caller_id, now),
        _budget(caller_id, tool, grant, now),
    ]
    return tuple(one for one in said if one is not None)


def _server(tool: Tool) -> Condition:
    if tool.server.enabled:
        return Condition("server", True, message=f"The server {tool.server} is enabled, and {tool.server.status}.")
    return Condition("server", False, "server_disabled", f"The server {tool.server} is disabled.")


def _definition(tool: Tool) -> Condition:
    if tool.state in DEFINITION_SAYS:
        reason, message = DEFINITION_SAYS[DefinitionState(tool.state)]
        return Condition("definition", False, reason, message)
    approved = tool.approved
    who = f" by {approved.approved_by_name}" if approved and approved.approved_by_name else ""
    return Condition("definition", True, message=f"Its definition {approved} was approved{who}.")


def _input(tool: Tool, parameters: Any) -> Condition | None:
    if parameters is None or tool.approved is None or not tool.approved.checkable:
        return None
    broken = schemas.violations(tool.approved.body.get("inputSchema") or {}, parameters, whose="the tool")
    if not broken:
        return Condition("input", True, message="The arguments are as the tool describes them.")
    place, problem = broken[0]
    return Condition("input", False, "invalid_parameters", f"{place.removeprefix('$.')}: {problem}.")


def _approval(caller_id: UUID, tool: Tool, grant: ToolPermission | None, parameters: Any, now: datetime) -> Condition:
    digest = hashlib.sha256(canonical.encode(parameters or {})).hexdigest()
    epoch = Identity.objects.filter(pk=caller_id).values_list("access_epoch", flat=True).first() or 0
    permit = CallApproval.objects.filter(
        agent_id=caller_id,
        tool_id=tool.pk,
        args_hash=digest,
        state=ApprovalState.APPROVED,
        expires_at__gt=now,
        terms=terms_of(tool.approved_id, tool.server.revision, grant.pk if grant else None, epoch),
    )
    if exact(parameters) and permit.exists():
        return Condition("approval", True, message="A person approved this call.")
    return Condition("approval", False, "approval_required", "Each such call waits for a person's approval.")


def _breaker(tool: Tool, caller_id: UUID, now: datetime) -> Condition | None:
    """The server's breaker comes before the one that stops this caller alone."""
    guards = Breaker.objects.filter(Q(agent_id=None) | Q(agent_id=caller_id), server=tool.server)
    breakers = sorted(guards, key=lambda breaker: breaker.scope != BreakerScope.SERVER)
    for breaker in breakers:
        waited = (now - breaker.last_state_change).total_seconds() >= breaker.recovery_timeout
        given_up = breaker.probe_until is None or breaker.probe_until <= now
        probes = {BreakerState.OPEN: waited, BreakerState.HALF_OPEN: given_up}
        if not probes.get(BreakerState(breaker.state), True):
            message = breaker_says(str(tool.server), breaker.scope, breaker.failure_count)
            return Condition("breaker", False, "breaker_open", message)
    if not breakers:
        return None
    of_all = breakers[0]
    return Condition("breaker", True, message=f"{of_all.failure_count} of {of_all.failure_threshold} faults.")


def _budget(caller_id: UUID, tool: Tool, grant: ToolPermission | None, now: datetime) -> Condition:
    for name, limit, used, reason in _counts(caller_id, tool, grant, now):
        if used >= limit:
            return Condition("budget", False, reason, f"{used} of {limit} calls of {name} are used.")
    return Condition("budget", True, message="No budget stands in the way now.")


def _counts(
    caller_id: UUID, tool: Tool, grant: ToolPermission | None, now: datetime
) -> Iterator[tuple[str, int, int, str]]:
    places = {BudgetScope.SERVER: tool.server_id, BudgetScope.TOOL: tool.pk, BudgetScope.AGENT: caller_id}
    if grant is not None:
        places[BudgetScope.GRANT] = grant.pk
    for budget in Budget.objects.filter(target_id__in=places.values()):
        hourly = budget.calls_per_hour
        if budget.scope == BudgetScope.GRANT and grant is not None and grant.max_calls_per_hour is not None:
            hourly = min(hourly or grant.max_calls_per_hour, grant.max_calls_per_hour)
        if hourly is not None:
            yield budget.target_name, hourly, _in_hour(budget, now), "quota_exceeded"
        if budget.daily_quota and budget.day == now.date():
            yield budget.target_name, budget.daily_quota, budget.day_used, "quota_exceeded"
        if budget.concurrency_limit is not None:
            held = CallSlot.objects.filter(budget_id=budget.pk, deadline__gt=now).count()
            yield budget.target_name, budget.concurrency_limit, held, "concurrency_exceeded"


def _in_hour(budget: Budget, now: datetime) -> int:
    windows = BudgetWindow.objects.filter(budget=budget, minute__gte=minute_of(now) - WINDOWS)
    return sum(windows.values_list("used", flat=True))
