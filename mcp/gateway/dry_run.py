"""Decision conditions of a call that is not made, for explanations and access checks. Outside the hot path."""

import hashlib
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import Q

from common import canonical_json
from common.db import clock
from mcp.choices import ApprovalState, BreakerScope, BreakerState, BudgetScope, DefinitionState
from mcp.gateway.batch.budget_store import BUDGET_COLUMNS
from mcp.gateway.batch.facts import (
    DEFINITION_REFUSALS,
    NO_SERVER_CONDITION,
    breaker_message,
    format_approval_terms,
    is_exact,
)
from mcp.limits.budget_state import ROLLING_HOUR, BudgetState, floor_to_minute
from mcp.models import Breaker, Budget, BudgetWindow, CallApproval, CallSlot, Tool
from nhi.choices import Kind
from nhi.decisions import json_schema
from nhi.decisions.types import ConditionResult
from nhi.models import Identity, ToolPermission


def find_conditions(caller_id: UUID, target_id: UUID, parameters: Any) -> tuple[ConditionResult, ...]:
    """Return the conditions that a real call would be decided by. Nothing is charged to budgets."""
    target = Identity.objects.filter(pk=target_id).select_related("tool__server", "tool__approved").first()
    if target is None or target.kind != Kind.TOOL:
        return ()
    tool: Tool | None = getattr(target, "tool", None)
    if tool is None:
        return (NO_SERVER_CONDITION,)
    now = clock.database_now()
    grant = ToolPermission.objects.live().filter(agent=caller_id, tool=tool.pk).first()
    conditions = [_check_server(tool), _check_definition(tool), _check_input(tool, parameters)]
    if tool.requires_approval:
        conditions.append(ConditionResult("every_call_approved", True))
    conditions += [
        _check_approval(caller_id, tool, grant, parameters, now),
        _check_breaker(tool, caller_id, now),
        _check_budget(caller_id, tool, grant, now),
    ]
    return tuple(condition for condition in conditions if condition is not None)


def find_argument_schemas(tool_id: UUID) -> list[dict[str, Any]]:
    """Return the input schemas of a tool's approved definition and of the definition that waits for approval."""
    tool = Tool.objects.select_related("approved", "current").filter(pk=tool_id).first()
    definitions = [] if tool is None else dict.fromkeys((tool.approved, tool.current))
    schemas = [definition.body.get("inputSchema") for definition in definitions if definition is not None]
    return [schema for schema in schemas if isinstance(schema, dict)]


def _check_server(tool: Tool) -> ConditionResult:
    if tool.server.enabled:
        return ConditionResult(
            "server", True, message=f"The server {tool.server} is enabled, and {tool.server.status}."
        )
    return ConditionResult("server", False, "server_disabled", f"The server {tool.server} is disabled.")


def _check_definition(tool: Tool) -> ConditionResult:
    if tool.state in DEFINITION_REFUSALS:
        reason, message = DEFINITION_REFUSALS[DefinitionState(tool.state)]
        return ConditionResult("definition", False, reason, message)
    approved = tool.approved
    approver = f" by {approved.approved_by_name}" if approved and approved.approved_by_name else ""
    return ConditionResult("definition", True, message=f"Its definition {approved} was approved{approver}.")


def _check_input(tool: Tool, parameters: Any) -> ConditionResult | None:
    if parameters is None or tool.approved is None or not tool.approved.checkable:
        return None
    violations = json_schema.find_violations(
        tool.approved.body.get("inputSchema") or {}, parameters, schema_owner="the tool"
    )
    if not violations:
        return ConditionResult("input", True, message="The arguments are as the tool describes them.")
    path, problem = violations[0]
    return ConditionResult("input", False, "invalid_parameters", f"{path.removeprefix('$.')}: {problem}.")


def _check_approval(
    caller_id: UUID, tool: Tool, grant: ToolPermission | None, parameters: Any, now: datetime
) -> ConditionResult:
    digest = hashlib.sha256(canonical_json.encode(parameters or {})).hexdigest()
    epoch = Identity.objects.filter(pk=caller_id).values_list("access_epoch", flat=True).first() or 0
    approvals = CallApproval.objects.filter(
        agent_id=caller_id,
        tool_id=tool.pk,
        args_hash=digest,
        state=ApprovalState.APPROVED,
        expires_at__gt=now,
        terms=format_approval_terms(tool.approved_id, tool.server.revision, grant.pk if grant else None, epoch),
    )
    if is_exact(parameters) and approvals.exists():
        return ConditionResult("approval", True, message="A person approved this call.")
    return ConditionResult("approval", False, "approval_required", "Each such call waits for a person's approval.")


def _check_breaker(tool: Tool, caller_id: UUID, now: datetime) -> ConditionResult | None:
    """Check the server's breaker first, then the breaker of this caller alone."""
    candidates = Breaker.objects.filter(Q(agent_id=None) | Q(agent_id=caller_id), server=tool.server)
    breakers = sorted(candidates, key=lambda breaker: breaker.scope != BreakerScope.SERVER)
    for breaker in breakers:
        recovery_elapsed = (now - breaker.last_state_change).total_seconds() >= breaker.recovery_timeout
        probe_expired = breaker.probe_until is None or breaker.probe_until <= now
        lets_probe_through = {BreakerState.OPEN: recovery_elapsed, BreakerState.HALF_OPEN: probe_expired}
        if not lets_probe_through.get(BreakerState(breaker.state), True):
            message = breaker_message(str(tool.server), breaker.scope, breaker.failure_count)
            return ConditionResult("breaker", False, "breaker_open", message)
    if not breakers:
        return None
    first_breaker = breakers[0]
    return ConditionResult(
        "breaker", True, message=f"{first_breaker.failure_count} of {first_breaker.failure_threshold} faults."
    )


def _check_budget(caller_id: UUID, tool: Tool, grant: ToolPermission | None, now: datetime) -> ConditionResult:
    """Check budgets by the same rules as a real call."""
    targets = {BudgetScope.SERVER: tool.server_id, BudgetScope.TOOL: tool.pk, BudgetScope.AGENT: caller_id}
    if grant is not None:
        targets[BudgetScope.GRANT] = grant.pk
    for budget in Budget.objects.filter(target_id__in=targets.values()).order_by("pk"):
        budget_state = _load_budget_state(budget, now)
        if budget.scope == BudgetScope.GRANT and grant is not None and grant.max_calls_per_hour is not None:
            budget_state.calls_per_hour = min(
                budget_state.calls_per_hour or grant.max_calls_per_hour, grant.max_calls_per_hour
            )
        exceeded_limit = budget_state.find_exceeded_limit(now)
        if exceeded_limit is not None:
            return ConditionResult("budget", False, exceeded_limit.reason, exceeded_limit.message)
    return ConditionResult("budget", True, message="No budget stands in the way now.")


def _load_budget_state(budget: Budget, now: datetime) -> BudgetState:
    """Load a budget with its usage of the last hour and its active calls."""
    budget_state = BudgetState(**{name: getattr(budget, name) for name in BUDGET_COLUMNS})
    budget_state.refresh(now)
    windows = BudgetWindow.objects.filter(budget=budget, minute__gte=floor_to_minute(now) - ROLLING_HOUR).order_by(
        "minute"
    )
    usage = list(windows.values_list("minute", "used"))
    budget_state.hour_used = sum(count for _, count in usage)
    budget_state.hour_frees_at = usage[0][0] + ROLLING_HOUR + timedelta(minutes=1) if usage else None
    budget_state.in_flight = CallSlot.objects.filter(budget_id=budget.pk, deadline__gt=now).count()
    return budget_state
