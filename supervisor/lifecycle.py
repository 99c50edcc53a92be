"""The one place that moves a run from state to state: compare and swap, with every move on record."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.db import transaction

from common.db import clock
from common.errors import InvalidTransition
from common.fastsql import compiled_queries
from supervisor import moves
from supervisor.choices import OUTCOMES, TRANSITIONS, ExecutionState, Mode, SessionState
from supervisor.models import Execution, ExecutionTransition, Session, SessionMessage

LONGEST_REASON, LONGEST_CLOSE_REASON = 1000, 500
#: A move and why it was made.
Step = tuple[ExecutionState, str]
#: A run, its moves, and the facts to keep with them.
Plan = tuple[Execution, Sequence[Step], dict[str, Any]]


def begin(execution: Execution, *, reason: str) -> ExecutionTransition:
    """The first row of the history of a run that is being inserted."""
    execution.state, execution.moves = ExecutionState.QUEUED, 1
    execution.last_state_change = execution.created_at
    return _row(execution, 1, "", ExecutionState.QUEUED, execution.created_at, reason)


def move(execution: Execution, to: ExecutionState, reason: str = "", **facts: Any) -> Execution:
    return walk(execution, [(to, reason)], **facts)


def walk(execution: Execution, steps: Sequence[Step], *, at: datetime | None = None, **facts: Any) -> Execution:
    """Make these moves from the state that `execution` was read in, all or none, and keep `facts` with them.

    Who lost a race gets `InvalidTransition`; the row handed in is brought up to date for who won.
    """
    changes, rows = _planned(execution, steps, at or clock.database_now(), facts)
    with transaction.atomic():
        if compiled_queries.update_each_if([_swap(execution, changes)]) != [True]:
            raise overtaken(execution)
        compiled_queries.insert_rows(*rows)
        _end_conversation(execution, rows)
    _bring_up_to_date(execution, changes)
    moves.tell(execution)
    return execution


def walk_each(plans: Sequence[Plan], *, at: datetime) -> None:
    """The same for several whose rows the caller has locked, in one transaction of its own."""
    moved = {execution.pk for execution in walk_those_left(plans, at=at)}
    for execution, _, _ in plans:
        if execution.pk not in moved:
            raise overtaken(execution)


def walk_those_left(plans: Sequence[Plan], *, at: datetime) -> list[Execution]:
    """The same for those of several that are still as they were read, in a transaction of the caller's."""
    planned = [(execution, *_planned(execution, steps, at, facts)) for execution, steps, facts in plans]
    swapped = compiled_queries.update_each_if([_swap(execution, changes) for execution, changes, _ in planned])
    left = [plan for plan, is_ours in zip(planned, swapped, strict=True) if is_ours]
    compiled_queries.insert_rows(*(row for _, _, rows in left for row in rows))
    for execution, changes, rows in left:
        _end_conversation(execution, rows)
        _bring_up_to_date(execution, changes)
        moves.tell(execution)
    return [execution for execution, _, _ in left]


def to_the_end(outcome: ExecutionState, reason: str) -> list[Step]:
    """For a run that never had a process: nothing is left to clean up."""
    return [(outcome, reason), (ExecutionState.CLEANUP, ""), (ExecutionState.IDLE, "")]


def overtaken(execution: Execution) -> InvalidTransition:
    now = Execution.objects.get(pk=execution.pk)
    return InvalidTransition(
        f"{now} is {ExecutionState(now.outcome).label.lower()} now. Nothing was changed.",
        details={"state": now.state, "status": now.status},
    )


def _swap(execution: Execution, changes: dict[str, Any]) -> compiled_queries.ConditionalUpdate:
    """Of nothing where it is not any more as it was read."""
    read = {"state": execution.state, "moves": execution.moves}
    return compiled_queries.ConditionalUpdate(Execution, execution.pk, changes, read)


def _planned(
    execution: Execution, steps: Sequence[Step], at: datetime, facts: dict[str, Any]
) -> tuple[dict[str, Any], list[ExecutionTransition]]:
    state, previous, number = ExecutionState(execution.state), execution.previous_state, execution.moves
    rows, changes = [], dict(facts)
    for to, reason in steps:
        if to not in TRANSITIONS[state]:
            raise InvalidTransition(f"A run that is {state.label.lower()} cannot become {to.label.lower()}.")
        number += 1
        rows.append(_row(execution, number, state, to, at, reason))
        if to == ExecutionState.CLEANUP:
            # Nothing comes after the outcome but tidying: from here on it stays.
            changes |= {"status": OUTCOMES[state], "end_time": at, "sealed_input": ""}
        previous, state = state, to
    return changes | {"state": state, "previous_state": previous, "moves": number, "last_state_change": at}, rows


def _row(
    execution: Execution, number: int, old: str, to: ExecutionState, at: datetime, reason: str
) -> ExecutionTransition:
    return ExecutionTransition(
        execution=execution, seq=number, from_state=old, to_state=to, at=at, reason=reason[:LONGEST_REASON]
    )


def _end_conversation(execution: Execution, rows: Sequence[ExecutionTransition]) -> None:
    """A session ends with its run, whatever ended that; what the agent was not given by then is given to nobody."""
    outcome = next((row for row in rows if row.to_state in OUTCOMES), None)
    if outcome is None or execution.mode != Mode.INTERACTIVE:
        return
    said = outcome.reason[:LONGEST_CLOSE_REASON]
    session = Session.objects.filter(execution_id=execution.pk)
    session.filter(state=SessionState.OPEN).update(state=SessionState.CLOSED, closed_at=outcome.at, close_reason=said)
    sealed = SessionMessage.objects.filter(session__execution_id=execution.pk).exclude(sealed_text="")
    sealed.update(sealed_text="")


def _bring_up_to_date(execution: Execution, changes: dict[str, Any]) -> None:
    for name, value in changes.items():
        setattr(execution, name, value)
