"""Adding agents that run here, changing them, and switching them off and on."""

from collections.abc import Mapping
from copy import copy
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models.functions import Now

from common.errors import Conflict, Duplicate, FieldError
from common.redaction import extract_secrets, redact, redact_text
from nhi.actors import Actor
from nhi.audit import events
from nhi.choices import Kind as IdentityKind
from nhi.models import Identity
from nhi.validation import Problems
from supervisor import agent_checks, sealing, watching
from supervisor.choices import AccessType, Kind
from supervisor.models import Agent

#: What whoever configures an agent says of it.
DESCRIBED = (
    "name", "kind", "executable_path", "working_directory", "cli_args", "mode", "input_pattern", "output_pattern",
    "input_file_template", "output_file_template", "access_type", "max_concurrent_executions", "timeout",
    "session_timeout", "idle_timeout", "keep_alive", "max_retries", "allowed_env_vars", "queue_depth", "queue_wait",
    "deduplicate", "max_processes", "max_memory_mb", "max_cpu_seconds", "enabled", "base_url", "model", "instructions",
    "max_steps",
)  # fmt: skip
READERS_AT_ONCE = 10
TAKEN = [FieldError("name", "This name is taken.")]


def create(
    *, actor: Actor, identity: Identity, given: Mapping[str, Any], envs: Mapping[str, str] | None = None,
    api_key: str = "", agent_type: str = "",
) -> Agent:  # fmt: skip
    """Add an agent to an identity."""
    actor.require("supervisor.add_agent", "add agents that run here")
    agent = Agent(identity=identity, created_by_id=actor.id, created_by_name=actor.name)
    _describe(agent, _with_defaults(given))
    _check(agent, envs or {}, agent_type, api_key)
    _seal_envs(agent, envs or {})
    _seal_key(agent, api_key)
    try:
        with transaction.atomic(), watching.watched(actor, identity):
            agent.save(force_insert=True)
            events.write("agent.added", actor=actor, subject=agent, after=facts(agent))
    except IntegrityError as error:
        raise Duplicate(f"There is already an agent {agent.name}.", fields=TAKEN) from error
    return agent


def change(
    *, actor: Actor, agent: Agent, envs: Mapping[str, str] | None = None, api_key: str | None = None,
    agent_type: str = "", **given: Any,
) -> Agent:  # fmt: skip
    """Change an agent. Runs that are under way go on as they began."""
    actor.require("supervisor.change_agent", "change agents that run here")
    try:
        with transaction.atomic():
            current = Agent.objects.select_for_update(of=("self",)).select_related("identity").get(pk=agent.pk)
            before, asked_at = facts(current), current.base_url
            becomes = {} if given.get("access_type") == current.access_type else _alone(given)
            _describe(current, {**becomes, **given})
            if api_key is None and current.sealed_key:
                api_key = _kept_key(current, asked_at)
            _check(current, declared(current) if envs is None else envs, agent_type, api_key or "")
            if envs is not None:
                _seal_envs(current, envs)
            if api_key is not None:
                _seal_key(current, api_key)
            with watching.watched(actor, current.identity):
                current.save()
            _record_change(actor, current, before)
            if api_key is not None:
                events.write("agent.key_set", actor=actor, subject=current, details={"removed": not api_key})
    except IntegrityError as error:
        raise Duplicate(f"There is already an agent {given.get('name')}.", fields=TAKEN) from error
    return current


def foresee(
    *, given: Mapping[str, Any], envs: Mapping[str, str] | None = None, api_key: str = "", agent: Agent | None = None
) -> None:
    """Raise what adding it, or changing `agent`, would be refused for, of what is said so far; change nothing."""
    usual = _with_defaults(given) if agent is None else {**_alone(given), **given}
    draft = Agent(identity=Identity(kind=IdentityKind.AGENT)) if agent is None else copy(agent)
    _describe(draft, usual)
    _check(draft, envs or {}, "", api_key)


def switch(*, actor: Actor, agent: Agent, on: bool, reason: str) -> Agent:
    """While it is off nothing of it is started; runs that are under way go on."""
    actor.require("supervisor.operate_agent", "switch agents off and on")
    problems = Problems()
    problems.check_reason(reason)
    problems.raise_if_any()
    with transaction.atomic(), watching.watched(actor, agent.identity):
        if not Agent.objects.filter(pk=agent.pk, enabled=not on).update(enabled=on, updated_at=Now()):
            raise Conflict(f"{agent} is switched {'on' if on else 'off'} already. Nothing was changed.")
        event = "agent.enabled" if on else "agent.disabled"
        events.write(
            event, actor=actor, subject=agent, before={"enabled": not on}, after={"enabled": on}, reason=reason
        )
    return Agent.objects.select_related("identity").get(pk=agent.pk)


def declared(agent: Agent) -> dict[str, str]:
    """Its variables, open. Never kept in a row, a log line or a page."""
    found: dict[str, str] | None = sealing.unseal(agent.sealed_envs, table="agent", row=agent.pk, field="envs")
    return found or {}


def key(agent: Agent) -> str:
    return str(sealing.unseal(agent.sealed_key, table="agent", row=agent.pk, field="key") or "")


def shown(agent: Agent) -> dict[str, str]:
    """Its variables as they may be read: what looks like a secret is masked."""
    return redact(declared(agent))


def shown_words(agent: Agent) -> list[str]:
    """Its command line likewise."""
    return [redact_text(word) for word in agent.cli_args]


def secret_values(agent: Agent, given: Mapping[str, Any] | None = None) -> frozenset[str]:
    """What its runs must not be shown to have said: its key, and whatever is masked in its variables and in what a run
    is given, which is the input, parameters and variables of that."""
    return (extract_secrets(declared(agent)) | extract_secrets(given or {}) | {key(agent)}) - {""}


def facts(agent: Agent) -> dict[str, Any]:
    """What the record shows of it."""
    return {
        **{name: getattr(agent, name) for name in DESCRIBED},
        "identity": agent.identity.name,
        "envs": shown(agent),
        "has_key": bool(agent.sealed_key),
    }


def _with_defaults(given: Mapping[str, Any]) -> dict[str, Any]:
    """One process at a time for those that write, and no second attempt that nobody asked for."""
    return {"max_concurrent_executions": READERS_AT_ONCE, **_alone(given), **given}


def _alone(given: Mapping[str, Any]) -> dict[str, Any]:
    writes = given.get("access_type") == AccessType.READ_WRITE
    return {"max_concurrent_executions": 1, "max_retries": 0} if writes else {}


def _describe(agent: Agent, given: Mapping[str, Any]) -> None:
    for field, value in given.items():
        if field not in DESCRIBED:
            raise TypeError(f"{field} does not describe an agent")
        setattr(agent, field, value)


def _check(agent: Agent, envs: Mapping[str, str], agent_type: str, api_key: str) -> None:
    problems = Problems()
    agent_checks.check(problems, agent, envs)
    agent_checks.check_key(problems, agent, api_key)
    if agent_type:
        agent_checks.check_type(problems, agent, agent_type)
    problems.raise_if_any()


def _seal_envs(agent: Agent, envs: Mapping[str, str]) -> None:
    agent.sealed_envs = sealing.seal(dict(envs), table="agent", row=agent.pk, field="envs")


def _seal_key(agent: Agent, api_key: str) -> None:
    agent.sealed_key = sealing.seal(api_key, table="agent", row=agent.pk, field="key")


def _kept_key(agent: Agent, asked_at: str) -> str | None:
    """None to leave it as it is. A key goes with what it was for, and is not handed to another place."""
    if agent.kind != Kind.MODEL:
        return ""
    agent_checks.require_same_place(asked_at, agent.base_url)
    return None


def _record_change(actor: Actor, agent: Agent, before: dict[str, Any]) -> None:
    after = facts(agent)
    changed = [name for name in after if before[name] != after[name]]
    if changed:
        events.write(
            "agent.changed",
            actor=actor,
            subject=agent,
            before={name: before[name] for name in changed},
            after={name: after[name] for name in changed},
        )
