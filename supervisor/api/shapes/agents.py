"""Agents that run here, as they are added, changed, read and asked for a run."""

from collections.abc import Callable
from typing import Any

from rest_framework import serializers

from common.api.fields import Flag, Identifier, Mapping, Moment, Text, Texts, Whole, Word
from common.api.shapes import Filters, Input, Shape
from common.api.value_fields import Pairs, Seconds
from nhi.api.shapes import examples as story
from supervisor import agents
from supervisor.api.shapes import examples
from supervisor.api.shapes.fields import CommandLine, WholeSecondsGiven, WordOrNull
from supervisor.choices import AccessType, ExecutionState, ExecutionStatus, InputPattern, Kind, Mode, OutputPattern
from supervisor.models import Agent

DESCRIBED = {
    "name": "summarise",
    "executable_path": "/opt/agents/summarise",
    "cli_args": ["--short"],
    "mode": "task",
    "input_pattern": "stdin",
    "output_pattern": "stdout",
    "access_type": "read-only",
}


class AgentShape(Shape):
    """How it is configured is told to who manages its identity or reads all agents; empty for who may merely run it."""

    id = Identifier()
    name = Text()
    identity_id = Identifier(help_text="The agent identity that it acts as.")
    identity_name = Text(source="identity.name")
    kind = Word(choices=Kind.choices)
    agent_type = Text(help_text="Both patterns in a word.")
    executable_path = Text()
    working_directory = Text(help_text="Empty: each run has a fresh directory of its own.")
    envs = Pairs(help_text="What looks like a secret is masked.")
    cli_args = Texts(help_text="What looks like a secret is masked.")
    mode = Word(choices=Mode.choices)
    input_pattern = Word(choices=InputPattern.choices)
    output_pattern = Word(choices=OutputPattern.choices)
    input_file_template = Text()
    output_file_template = Text()
    access_type = Word(choices=AccessType.choices)
    max_concurrent_executions = Whole(allow_null=True, help_text="Null is no limit but that of the workers.")
    timeout = Seconds(help_text="Of a run, like `300s`.")
    session_timeout = Whole(help_text="Seconds.")
    idle_timeout = Whole(help_text="Seconds.")
    keep_alive = Flag()
    max_retries = Whole()
    allowed_env_vars = Texts()
    queue_depth = Whole()
    queue_wait = Whole(help_text="Seconds.")
    deduplicate = Flag()
    max_processes = Whole()
    max_memory_mb = Whole(allow_null=True, help_text="Of all its processes together. Null is no limit.")
    max_cpu_seconds = Whole(allow_null=True, help_text="The same.")
    enabled = Flag()
    base_url = Text(help_text="Of a model.")
    model = Text(help_text="Of a model.")
    instructions = Text(help_text="Of a model.")
    max_steps = Whole(help_text="Of a model.")
    runs = Whole(help_text="How many there have been.")
    created_by = Text(source="created_by_name")
    created_at = Moment()
    updated_at = Moment()

    example = {
        "id": examples.AGENT,
        "identity_id": story.DEPLOY_BOT,
        "identity_name": "deploy-bot",
        "kind": "process",
        **DESCRIBED,
        "agent_type": "stdin-stdout",
        "working_directory": "",
        "envs": {"TONE": "dry"},
        "input_file_template": "",
        "output_file_template": "",
        "max_concurrent_executions": 10,
        "timeout": "300s",
        "session_timeout": 1800,
        "idle_timeout": 300,
        "keep_alive": False,
        "max_retries": 3,
        "allowed_env_vars": [],
        "queue_depth": 10,
        "queue_wait": 1800,
        "deduplicate": False,
        "max_processes": 64,
        "max_memory_mb": 2048,
        "max_cpu_seconds": None,
        "enabled": True,
        "base_url": "",
        "model": "",
        "instructions": "",
        "max_steps": 20,
        "runs": 88,
        "created_by": "mara",
        "created_at": story.NOW,
        "updated_at": story.NOW,
    }

    def to_representation(self, instance: Agent) -> dict[str, Any]:
        return super().to_representation(Shown(instance))


#: What is empty for who may merely run an agent.
NOT_TOLD: dict[str, Any] = {
    "executable_path": "", "working_directory": "", "envs": {}, "cli_args": [], "base_url": "", "instructions": "",
}  # fmt: skip


#: What may hold secrets, without them.
MASKED: dict[str, Callable[[Agent], Any]] = {"envs": agents.shown, "cli_args": agents.shown_words}


class Shown:
    """An agent as it may be read by who asks, which its row says."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._is_open: bool = getattr(agent, "is_open", False)

    def __getattr__(self, name: str) -> Any:
        if name in NOT_TOLD and not self._is_open:
            return NOT_TOLD[name]
        return MASKED[name](self._agent) if name in MASKED else getattr(self._agent, name)


class Described(Input):
    """What may be left out when an agent is added, and changed later."""

    agent_type = Text(required=False, help_text="It follows from the patterns; a contradiction is refused.")
    executable_path = Text(required=False, help_text="An absolute path that the allowlist holds.")
    working_directory = Text(required=False, help_text="Below one of WORKDIR_ALLOWLIST; empty for one of each run.")
    envs = Pairs(required=False, help_text="Variables, all of them anew. Kept encrypted.")
    cli_args = CommandLine(required=False, help_text="`{{name}}` stands for a parameter of the run.")
    mode = Word(choices=Mode.choices, required=False)
    input_pattern = Word(choices=InputPattern.choices, required=False)
    output_pattern = Word(choices=OutputPattern.choices, required=False)
    input_file_template = Text(required=False, help_text="`{{execution_id}}`, `{{agent_id}}` and `{{timestamp}}`.")
    output_file_template = Text(required=False, help_text="The same.")
    access_type = Word(choices=AccessType.choices, required=False)
    max_concurrent_executions = Whole(required=False, allow_null=True, help_text="A read-write agent runs one.")
    timeout = WholeSecondsGiven(required=False, help_text="Of a run.")
    session_timeout = WholeSecondsGiven(required=False)
    idle_timeout = WholeSecondsGiven(required=False)
    keep_alive = Flag(required=False, help_text="A session is not ended for being idle.")
    max_retries = Whole(
        required=False, help_text="After failures that may pass. Left out: 3, or 0 for a read-write agent."
    )
    allowed_env_vars = Texts(required=False, help_text="Which variables a run may be given.")
    queue_depth = Whole(required=False, help_text="How many runs may wait.")
    queue_wait = WholeSecondsGiven(required=False, help_text="How long one may.")
    deduplicate = Flag(required=False, help_text="The same input within a minute gets the run that is there.")
    max_processes = Whole(required=False, help_text="A run with more is ended.")
    max_memory_mb = Whole(
        required=False, allow_null=True, help_text="A run whose processes have more together is ended. Null: no limit."
    )
    max_cpu_seconds = Whole(required=False, allow_null=True, help_text="The same.")
    enabled = Flag(required=False)
    base_url = Text(required=False, help_text="Of a model: an address that egress lets through.")
    model = Text(required=False, help_text="Of a model: its name there.")
    instructions = Text(required=False, help_text="Of a model: what it is told first.")
    api_key = Text(required=False, help_text="Of a model. Kept encrypted and never given back; empty takes it away.")
    max_steps = Whole(required=False, help_text="Of a model: how often it may be asked in a run.")


class NewAgent(Described):
    identity_id = Identifier(help_text="An identity of kind agent, whose rights its runs have.")
    name = Text(help_text="Unique among agents.")
    kind = Word(choices=Kind.choices, required=False, help_text="A program of this host unless you say `model`.")

    example = {"identity_id": story.DEPLOY_BOT, **DESCRIBED}


class AgentChange(Described):
    name = Text(required=False)

    example = {"timeout": "60s", "queue_depth": 20}


class AgentFilters(Filters):
    name = serializers.CharField(required=False, help_text="The whole name.")
    identity_id = Identifier(required=False)
    kind = Word(choices=Kind.choices, required=False)
    mode = Word(choices=Mode.choices, required=False)
    access_type = Word(choices=AccessType.choices, required=False)
    enabled = serializers.BooleanField(required=False)


class Wanted(Input):
    input = Text(help_text="What the agent is given, in the way that its input pattern says.")
    parameters = Mapping(required=False, help_text="By name; the agent's command line may want some.")
    working_directory = Text(required=False, help_text="Below one of WORKDIR_ALLOWLIST.")
    env_vars = Pairs(required=False, help_text="Those that the agent's `allowed_env_vars` names.")
    timeout = WholeSecondsGiven(required=False, help_text="No longer than the agent's.")

    example = {"input": "Plants need water.", "parameters": {"tone": "dry"}}


class SubmittedShape(Shape):
    """A run that was asked for."""

    id = Identifier(source="execution.id", help_text="The run's.")
    agent_id = Identifier(source="execution.agent_id")
    state = Word(source="execution.state", choices=ExecutionState.choices)
    status = WordOrNull(source="execution.status", choices=ExecutionStatus.choices)
    queue_position = Whole(help_text="How many runs of the agent start before it.")
    deduplicated = Flag(source="again", help_text="It was there already, for the same input.")

    example = {
        "id": examples.RUN,
        "agent_id": examples.AGENT,
        "state": "queued",
        "status": None,
        "queue_position": 0,
        "deduplicated": False,
    }


class PoolShape(Shape):
    size = Whole(allow_null=True, help_text="`max_concurrent_executions`.")
    used = Whole(help_text="Places taken, those that are being cleared among them.")


class QueueShape(Shape):
    depth = Whole(help_text="How many may wait.")
    wait = Whole(help_text="How many seconds one may.")


class AgentStatusShape(Shape):
    running = Whole()
    queued = Whole()
    pool = PoolShape()
    queue = QueueShape()
    enabled = Flag()

    example = {
        "running": 2,
        "queued": 0,
        "pool": {"size": 10, "used": 2},
        "queue": {"depth": 10, "wait": 1800},
        "enabled": True,
    }
