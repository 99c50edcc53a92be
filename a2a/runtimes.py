"""What stands behind an agent and does its tasks: its own workers, a program, a model, another server.

Nobody has to choose: an agent with a program or a model that runs tasks hands its tasks to that one, and any other
agent takes its tasks from its inbox.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import OuterRef, QuerySet, Subquery

from a2a import runtime_checks
from a2a.choices import RuntimeKind
from a2a.models import Runtime, Task
from common import crypto
from common.db import clock
from common.fastsql.compiled_queries import PreparedQuery
from common.redaction import redact_text
from nhi.actors import Actor
from nhi.audit import events
from nhi.models import Identity
from supervisor.choices import Kind, Mode
from supervisor.models import Agent

RIGHT, DOING = "a2a.change_runtime", "choose what does the tasks of an agent"
#: Which kind an agent that runs here is of.
KINDS = {Kind.PROCESS: RuntimeKind.CLI, Kind.MODEL: RuntimeKind.MODEL}
REMOTE = ("url", "wire_version", "binding", "header", "scheme", "timeout")


@dataclass(frozen=True)
class Behind:
    """What does an agent's next task."""

    kind: RuntimeKind
    #: Of a program and a model: what runs.
    agent: Agent | None = None
    #: None where nobody chose.
    chosen: Runtime | None = None


def of(identity: Identity) -> Behind:
    choice, agent = _BEHIND.fetch_first(identity=identity.pk)
    if choice is not None:
        row: Runtime = _CHOSEN.fetch_first(pk=choice)
        return Behind(RuntimeKind(row.kind), row.agent, row)
    if agent is None:
        return Behind(RuntimeKind.INBOX)
    runs = Agent.objects.get(pk=agent)
    return Behind(KINDS[Kind(runs.kind)], runs)


def foreseen(agent: Agent, *, on: bool) -> Behind:
    """What does the next task of its identity once this agent is switched on or off."""
    now = of(agent.identity)
    if now.chosen is not None:
        return now
    others = _runs_tasks().filter(identity=agent.identity).exclude(pk=agent.pk)
    left = others | Agent.objects.filter(pk=agent.pk, mode=Mode.TASK) if on else others
    first = left.order_by("created_at", "pk").first()
    return Behind(KINDS[Kind(first.kind)], first) if first is not None else Behind(RuntimeKind.INBOX)


def choose(
    *, actor: Actor, identity: Identity, kind: str, agent: Agent | None = None, credential: str | None = None,
    **remote: Any,
) -> Behind:  # fmt: skip
    """Say what does the tasks that are sent from now on. A `credential` of None leaves the one that is there."""
    actor.require(RIGHT, DOING)
    draft = Runtime(identity=identity, kind=kind, agent=agent, created_by_name=actor.name, **remote)
    runtime_checks.check(draft, credential)
    if kind == RuntimeKind.REMOTE:
        runtime_checks.look_up(draft.url)
    with transaction.atomic():
        before = _locked(identity)
        opened = _credential(draft, before, credential)
        if before is not None and _is_same(before, draft, opened):
            return of(identity)
        _replace(actor, identity, before, draft, opened)
    return of(identity)


def leave_open(*, actor: Actor, identity: Identity) -> Behind:
    """Take the choice back: what runs as the agent is asked again."""
    actor.require(RIGHT, DOING)
    with transaction.atomic():
        before = _locked(identity)
        if before is not None:
            _replace(actor, identity, before, None, "")
    return of(identity)


@contextmanager
def watched(actor: Actor, identity: Identity) -> Iterator[None]:
    """Where nobody chose, tasks follow what runs as the identity; that this moved them is on the identity's record."""
    before = of(identity)
    yield
    after = of(identity)
    if (before.kind, before.agent) != (after.kind, after.agent):
        events.write(
            "runtime.followed", actor=actor, subject=identity, before=_followed(before), after=_followed(after)
        )


def _followed(behind: Behind) -> dict[str, Any]:
    return {"kind": behind.kind, **({"agent": behind.agent.name} if behind.agent else {})}


def credential(runtime: Runtime) -> str:
    """In the clear, for what is sent to the remote server. Never kept in a row, a log line or a page."""
    return crypto.unseal(runtime.sealed_credential, place=_place(runtime)) if runtime.sealed_credential else ""


def choices(identity: Identity) -> QuerySet[Agent]:
    """The agents that may be chosen for it, those that are switched off too."""
    return Agent.objects.filter(identity=identity, mode=Mode.TASK).order_by("created_at", "pk")


def forget_replaced() -> int:
    """Drop the credentials of choices that were replaced, once no task needs them: nor one that has ended and whose
    server is still to be told so."""
    old = Runtime.objects.filter(replaced_at__isnull=False).exclude(sealed_credential="")
    for needed in (Task.objects.open(), Task.objects.filter(dispatch_at__isnull=False)):
        old = old.exclude(pk__in=needed.filter(runtime__isnull=False).values("runtime"))
    return old.update(sealed_credential="")


def facts(runtime: Runtime | None) -> dict[str, Any]:
    """What the record shows of it."""
    if runtime is None:
        return {"kind": "derived"}
    told: dict[str, Any] = {"kind": runtime.kind}
    if runtime.agent is not None:
        told["agent"] = runtime.agent.name
    if runtime.kind == RuntimeKind.REMOTE:
        told |= {name: getattr(runtime, name) for name in REMOTE}
        told |= {"url": redact_text(runtime.url), "has_credential": bool(runtime.sealed_credential)}
    return told


def _behind(identity: UUID) -> QuerySet[Identity, Any]:
    """The choice in force, and what runs tasks by itself: every send asks this, and hardly any agent has both."""
    chosen = Runtime.objects.in_force().filter(identity=OuterRef("pk"))
    first = _runs_tasks().filter(identity=OuterRef("pk")).order_by("created_at", "pk")
    return Identity.objects.filter(pk=identity).values_list(
        *(Subquery(one.values("pk")[:1]) for one in (chosen, first))
    )


_CHOSEN = PreparedQuery(lambda pk: Runtime.objects.select_related("agent").filter(pk=pk).order_by(), pk=UUID)
_BEHIND = PreparedQuery(_behind, identity=UUID)


def _runs_tasks() -> QuerySet[Agent]:
    return Agent.objects.enabled().filter(mode=Mode.TASK)


def _locked(identity: Identity) -> Runtime | None:
    """The choice in force, which nobody else replaces in this transaction."""
    Identity.objects.select_for_update(no_key=True).only("pk").get(pk=identity.pk)
    return Runtime.objects.in_force().select_related("agent").filter(identity=identity).first()


def _credential(draft: Runtime, before: Runtime | None, given: str | None) -> str:
    if draft.kind != RuntimeKind.REMOTE:
        return ""
    kept = credential(before) if before is not None else ""
    if given is not None or not kept or before is None:
        return given or ""
    runtime_checks.require_same_place(before.url, draft.url)
    return kept


def _is_same(before: Runtime, draft: Runtime, opened: str) -> bool:
    same: Mapping[str, Any] = {name: getattr(draft, name) for name in ("kind", "agent_id", *REMOTE)}
    return all(getattr(before, name) == value for name, value in same.items()) and credential(before) == opened


def _replace(actor: Actor, identity: Identity, before: Runtime | None, draft: Runtime | None, opened: str) -> None:
    now = clock.database_now()
    Runtime.objects.in_force().filter(identity=identity).update(replaced_at=now)
    if draft is not None:
        draft.created_at = now
        draft.sealed_credential = crypto.seal(opened, place=_place(draft)) if opened else ""
        draft.save(force_insert=True)
    events.write("runtime.changed", actor=actor, subject=identity, before=facts(before), after=facts(draft))


def _place(runtime: Runtime) -> str:
    return f"a2a_runtime/{runtime.pk}/credential"
