"""Who may run an agent: people by role, ownership or grant; identities by a grant that the decision finds live."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from common import context
from common.errors import NotAllowed
from common.fastsql.compiled_queries import PreparedQuery
from nhi import hooks
from nhi.actors import Actor
from nhi.audit import refusal_limits
from nhi.authorization import facts, work_conditions
from nhi.choices import Kind, State
from nhi.credentials import run_tokens, tokens
from nhi.decisions import engine
from nhi.decisions.types import ConditionResult, Decision, RequestedAction
from nhi.models import Identity
from supervisor import chains
from supervisor.models import Agent

#: What a grant between identities names when it allows some actions only.
EXECUTE, TALK = "execute", "session"
RUN = "supervisor.run_agent"
_USABLE = PreparedQuery(
    lambda identity: Identity.objects.usable().filter(pk=identity, kind=Kind.AGENT).order_by().values_list("pk"),
    identity=UUID,
)


@dataclass(frozen=True)
class Caller:
    """Who asks, and the token that was shown for it; nobody shows one at the console and by the clock."""

    actor: Actor
    shown: tokens.ParsedBearerToken | None = None
    audience: str = ""
    #: The same as a row, for who has read it.
    identity: Identity | None = None


def require(caller: Caller, agent: Agent, *, action: str, parameters: Any = None) -> dict[str, Any]:
    """Refuse who may not run it, on record; else what allowed it, for the run's own row."""
    delegates = False
    if caller.actor.may(RUN):
        by: dict[str, Any] = {"right": RUN}
    elif caller.actor.is_person:
        by = _require_of_person(caller.actor, agent)
    else:
        by, delegates = _require_of_identity(caller, agent, action, parameters)
    _require_usable(caller.actor, agent)
    return {**by, **_require_an_end(caller, agent, delegates)}


def may_run(actor: Actor, agent: Agent) -> bool:
    """For the console: whether a person sees the button."""
    if actor.only_reads:
        return False
    return actor.may(RUN) or Identity.objects.used_by(actor).filter(pk=agent.identity_id).exists()


def runnable(actor: Actor, identities: Collection[UUID]) -> Collection[UUID]:
    """Those of these identities whose agents a person may run, as `may_run` says of each."""
    if actor.only_reads:
        return ()
    if actor.may(RUN):
        return identities
    return set(Identity.objects.used_by(actor).filter(pk__in=identities).values_list("pk", flat=True))


def _require_of_person(actor: Actor, agent: Agent) -> dict[str, Any]:
    if actor.only_reads or not Identity.objects.used_by(actor).filter(pk=agent.identity_id).exists():
        _refuse(actor, agent, "no_grant", f"You may not run {agent}: ask its owner, {agent.identity.owner}.")
    return {"right": "owner or grant"}


def _require_of_identity(caller: Caller, agent: Agent, action: str, parameters: Any) -> tuple[dict[str, Any], bool]:
    """And whether the run acts on the caller's behalf."""
    decision = _decide(caller, agent, action, parameters)
    if not decision.allowed:
        _refuse(caller.actor, agent, decision.reason, decision.message, decision)
    assert decision.match is not None  # an allowed call has one
    return {"decision_id": str(decision.id), "grant": str(decision.match.id)}, decision.match.delegates


def _decide(caller: Caller, agent: Agent, action: str, parameters: Any) -> Decision:
    if caller.shown is None:
        raise NotAllowed("Only a token shows which identity asks.")
    loaded = facts.for_token(caller.shown, context.current().source, agent.identity_id, audience=caller.audience)
    wanted = RequestedAction("call", parameters, name=action)
    known = _conditions(caller, loaded, agent, wanted)
    return engine.decide(loaded.caller, wanted, loaded.target, replace(loaded.facts, conditions=known))


def _conditions(
    caller: Caller, loaded: facts.LoadedFacts, agent: Agent, wanted: RequestedAction
) -> tuple[ConditionResult, ...]:
    if loaded.caller is None:
        return ()
    told = hooks.load_conditions(loaded.caller.id, agent.identity_id, wanted.parameters)
    behind = run_tokens.load_chain(caller.shown)
    if behind is None or not behind.principals:
        return told
    return (*told, work_conditions.check_chain(behind, wanted, loaded).condition)


def _require_an_end(caller: Caller, agent: Agent, delegates: bool) -> dict[str, Any]:
    """Agents that ask each other stop at the first who would come round again, or at the fifth."""
    chain = chains.of(caller.actor, caller.shown, delegates=delegates)
    ends = chain.check_target(agent.identity_id, agent.identity.name)
    if not ends.ok:
        _refuse(caller.actor, agent, ends.reason, ends.message)
    return chains.facts(chain, caller.shown)


def _require_usable(actor: Actor, agent: Agent) -> None:
    """What runs acts as its identity, so that must be one that may act."""
    if _USABLE.fetch_first(identity=agent.identity_id) is None:
        identity = Identity.objects.get(pk=agent.identity_id)
        now = "expired" if identity.state == State.ACTIVE else State(identity.state).label.lower()
        _refuse(actor, agent, "target_unusable", f"{agent} cannot run: its identity {identity.name} is {now}.")


def _refuse(actor: Actor, agent: Agent, reason: str, message: str, decision: Decision | None = None) -> None:
    details = {"decision_id": str(decision.id)} if decision else {}
    refusal_limits.write_limited_event(
        "run.refused", actor=actor, subject=agent, reason=reason, details={"reason": reason, **details}
    )
    raise NotAllowed(message, details={"reason": reason, **details})
