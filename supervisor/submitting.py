"""Asking for a run: decided, admitted and written; then a worker is told that it is there."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now

from common import context, crypto
from common.db import clock
from common.errors import Conflict
from common.fastsql import compiled_queries
from common.fastsql.compiled_queries import PreparedQuery
from common.redaction import Redactor
from nhi.actors import Actor
from nhi.audit import events
from nhi.validation import Problems
from supervisor import access, admission, agents, command_lines, lifecycle, origins, sealing, surroundings, waking
from supervisor.access import Caller
from supervisor.choices import ExecutionState, Kind, Mode, Trigger
from supervisor.models import Agent, Execution

_LOCKED = PreparedQuery(
    lambda agent: Agent.objects.select_for_update(of=("self",)).select_related("identity").filter(pk=agent).order_by(),
    agent=UUID,
)
LONGEST_INPUT, LONGEST_CONVERSATION = 1024 * 1024, 4 * 1024 * 1024
SAME_WITHIN = timedelta(seconds=60)


class SwitchedOff(Conflict):
    code = "agent_disabled"


@dataclass(frozen=True)
class Wish:
    """What a run is given."""

    input: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    working_directory: str = ""
    env_vars: Mapping[str, str] = field(default_factory=dict)
    #: Seconds; the agent's own when none, and never longer.
    timeout: int | None = None
    trigger: Trigger = Trigger.API
    schedule_id: UUID | None = None
    task_id: UUID | None = None
    #: What was said in its task, for a run that goes on with one; messages of the protocol.
    conversation: Sequence[Mapping[str, Any]] = ()
    context: Mapping[str, Any] = field(default_factory=dict)

    @property
    def given(self) -> dict[str, Any]:
        """What is sealed for the run."""
        given = {"input": self.input, "parameters": dict(self.parameters), "env_vars": dict(self.env_vars)}
        return {**given, "conversation": list(self.conversation)} if self.conversation else given


@dataclass(frozen=True)
class Submitted:
    execution: Execution
    #: How many runs of the agent start before this one.
    queue_position: int
    #: It was there already, asked for with the same input a moment ago.
    again: bool = False


def submit(*, caller: Caller, agent: Agent, wish: Wish) -> Submitted:
    """Write a run of a task agent that starts as soon as there is a place for it."""
    # First: what its command line wants is told to nobody who may not run it.
    by = access.require(caller, agent, action=access.EXECUTE, parameters=dict(wish.parameters))
    if agent.mode != Mode.TASK:
        raise Conflict(f"{agent} is interactive and runs no tasks: open a session with it.")
    check(agent, wish, for_operator=caller.actor.reads_operator_text)
    with transaction.atomic():
        locked: Agent = _LOCKED.fetch_first(agent=agent.pk)
        if locked.deduplicate and (same := _same(locked, wish, caller.actor)) is not None:
            return Submitted(same, _position(same), again=True)
        submitted = insert(caller=caller, agent=locked, wish=wish, by=by)
    waking.wake()
    return submitted


def wish_of(run: Execution) -> Wish | None:
    """What a run was given, to be given again by hand; None where not all of that is kept.

    Secrets are masked and values of variables thrown away. The mark of what was given tells whether that befell any of
    it, and whether the directory was the run's own or its agent's.
    """
    timeout = run.timeout if run.timeout < run.agent.timeout else None
    for directory in dict.fromkeys(("", run.working_directory)):
        wish = Wish(
            input=run.input, parameters=run.parameters, working_directory=directory, timeout=timeout,
            trigger=Trigger.MANUAL, context=origins.again(run),
        )  # fmt: skip
        if run.input_mark and run.input_mark == _mark(wish):
            return wish
    return None


def check(agent: Agent, wish: Wish, *, for_operator: bool = True) -> None:
    """Raise all that is wrong with what a run would be given."""
    problems = Problems()
    size = len(wish.input.encode(errors="surrogatepass"))
    problems.unless(size <= LONGEST_INPUT, "input", "Use at most 1 MiB.")
    problems.unless(encodes(wish.input), "input", "This holds half of a character; send whole ones.")
    size = len(json.dumps(list(wish.conversation)))
    problems.unless(size <= LONGEST_CONVERSATION, "conversation", "More than 4 MiB was said in it.")
    if agent.kind == Kind.PROCESS:
        command_lines.check_parameters(problems, agent.cli_args, wish.parameters)
        command_lines.check_input(problems, agent.input_pattern, wish.input)
    else:
        problems.unless(not wish.working_directory, "working_directory", "A model works in no directory.")
    _check_variables(problems, agent, wish.env_vars)
    if wish.working_directory and (
        said := surroundings.directory_problem(wish.working_directory, for_operator=for_operator)
    ):
        problems.add("working_directory", said)
    if wish.timeout is not None:
        fine = 1 <= wish.timeout <= agent.timeout
        problems.unless(fine, "timeout", f"Use 1 to {agent.timeout} seconds, which is the agent's own.")
    problems.raise_if_any()


def insert(*, caller: Caller, agent: Agent, wish: Wish, by: Mapping[str, Any]) -> Submitted:
    """The row of a run, in the transaction of a caller that holds the agent's."""
    require_on(agent)
    room = admission.require(agent)
    execution = prepare(caller=caller, agent=agent, wish=wish, by=by, at=clock.database_now())
    keep(caller, [execution])
    return Submitted(execution, room.waiting)


def require_on(agent: Agent) -> None:
    if not agent.enabled:
        raise SwitchedOff(f"{agent} is switched off. Ask an operator to switch it on.")


def prepare(*, caller: Caller, agent: Agent, wish: Wish, by: Mapping[str, Any], at: datetime) -> Execution:
    """A run that `keep` is to write in this transaction; the agent, which the caller holds, has counted it."""
    execution = _row(caller, agent, wish, by, at)
    agent.runs = execution.number
    return execution


def keep(caller: Caller, runs: Sequence[Execution]) -> None:
    """Write runs that were prepared, each with the beginning of its history and an event."""
    begun = [lifecycle.begin(run, reason=f"Asked for by {caller.actor.name}.") for run in runs]
    for agent in {run.agent for run in runs}:
        compiled_queries.update_if(Agent, agent.pk, {"runs": agent.runs}, where={})
    compiled_queries.insert_rows(*runs, *begun)
    for run in runs:
        details = {"run": str(run.pk), "number": run.number, "trigger": run.trigger, **run.context["by"]}
        # With the agent's other changes, and by the name of the run, which is what was asked for.
        events.write(
            "run.asked", actor=caller.actor, subject_kind="agent", subject_id=run.agent_id, subject_name=str(run),
            details=details,
        )  # fmt: skip


def sealed(execution: Execution) -> dict[str, Any]:
    """What the run is given, open: `input`, `parameters`, `env_vars`."""
    found = sealing.unseal(execution.sealed_input, table="execution", row=execution.pk, field="input")
    return dict(found or {"input": "", "parameters": {}, "env_vars": {}})


def encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _row(caller: Caller, agent: Agent, wish: Wish, by: Mapping[str, Any], now: datetime) -> Execution:
    given = wish.given
    redactor, known = Redactor(secret_values=agents.secret_values(agent, given)), context.current_or_none()
    execution = Execution(
        agent=agent,
        agent_name=agent.name,
        identity_id=agent.identity_id,
        identity_name=agent.identity.name,
        number=agent.runs + 1,
        mode=agent.mode,
        created_at=now,
        wait_until=now + timedelta(seconds=agent.queue_wait),
        input=redactor.redact_text(wish.input).replace("\0", "\N{SYMBOL FOR NULL}"),
        input_bytes=len(wish.input.encode()),
        parameters=redactor.redact_value(dict(wish.parameters)),
        input_mark=_mark(wish),
        working_directory=wish.working_directory or agent.working_directory,
        timeout=wish.timeout or (agent.session_timeout if agent.mode == Mode.INTERACTIVE else agent.timeout),
        # What was said to a process that went down cannot be said again by anyone here.
        max_retries=0 if agent.mode == Mode.INTERACTIVE else agent.max_retries,
        trigger=wish.trigger,
        started_by_kind=caller.actor.kind,
        started_by_id=caller.actor.id,
        started_by_name=caller.actor.name,
        schedule_id=wish.schedule_id,
        task_id=wish.task_id,
        parent_id=by.get("parent"),
        request_id=known.request_id if known else None,
        context={**wish.context, "env_vars": sorted(wish.env_vars), "by": dict(by)},
    )
    execution.sealed_input = sealing.seal(given, table="execution", row=execution.pk, field="input")
    return execution


def check_again(agent: Agent, given: Mapping[str, Any]) -> None:
    """The same of what a run was given a while ago: its agent may be another by now."""
    problems = Problems()
    command_lines.check_parameters(problems, agent.cli_args, given["parameters"])
    command_lines.check_input(problems, agent.input_pattern, given["input"])
    _check_variables(problems, agent, given["env_vars"])
    problems.raise_if_any()


def _check_variables(problems: Problems, agent: Agent, variables: Mapping[str, str]) -> None:
    surroundings.check_variables(problems, "env_vars", variables)
    for name in variables:
        allowed = name in agent.allowed_env_vars
        problems.unless(allowed, f"env_vars.{name[:60]}", "The agent's allowed_env_vars do not name this variable.")


def _same(agent: Agent, wish: Wish, actor: Actor) -> Execution | None:
    """A run of the same caller with the same input that is not older than a minute and did not go wrong."""
    lately = Execution.objects.filter(
        agent=agent, started_by_id=actor.id, created_at__gt=Now() - SAME_WITHIN, input_mark=_mark(wish)
    )
    return lately.filter(Q(status=None) | Q(status="success"), cancel_requested_at=None).first()


def _mark(wish: Wish) -> str:
    """A keyed hash, so that nobody finds a short input by trying."""
    said = {**wish.given, "working_directory": wish.working_directory}
    return hashlib.sha256(crypto.fingerprint(json.dumps(said, sort_keys=True))).hexdigest()


def _position(execution: Execution) -> int:
    if execution.state != ExecutionState.QUEUED:
        return 0
    before = Q(created_at__lt=execution.created_at) | Q(created_at=execution.created_at, id__lt=execution.pk)
    return Execution.objects.queued().filter(before, agent_id=execution.agent_id).count()
