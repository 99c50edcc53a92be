"""Whether what is said of an agent can be taken: every problem, by its field."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from common import egress
from common.errors import InvalidInput
from common.process import executable_allowlist
from common.process.executable_allowlist import ExecutableRefused
from nhi.choices import Kind as IdentityKind
from nhi.validation import Problems
from supervisor import account, command_lines, file_names, surroundings
from supervisor.choices import InputPattern, Kind, Mode, OutputPattern
from supervisor.models import Agent

LONGEST_TIMEOUT, LONGEST_SESSION = 24 * 3600, 7 * 24 * 3600
#: Megabytes, of which no interpreter starts in fewer, and seconds.
LEAST_MEMORY, MOST_MEMORY, MOST_CPU = 16, 1024 * 1024, 365 * 24 * 3600
MOST_AT_ONCE, MOST_RETRIES, MOST_PROCESSES, MOST_STEPS = 1000, 10, 4096, 200
LONGEST_INSTRUCTIONS = 64 * 1024
#: Of models: their names stand in those of their breakers.
LONGEST_NAME = 94
SHORTEST_KEY, LONGEST_KEY = 6, 8000


def check(problems: Problems, agent: Agent, envs: Mapping[str, str]) -> None:
    problems.check_line("name", agent.name, max_length=100, required=True)
    problems.unless(
        agent.identity.kind == IdentityKind.AGENT,
        "identity_id",
        "An agent that runs here is an identity of kind agent.",
    )
    _check_numbers(problems, agent)
    problems.unless(agent.kind == Kind.PROCESS or not envs, "envs", "A model has no environment: leave this empty.")
    surroundings.check_variables(problems, "envs", envs)
    surroundings.check_names(problems, "allowed_env_vars", agent.allowed_env_vars)
    (_check_model if agent.kind == Kind.MODEL else _check_process)(problems, agent)


def check_type(problems: Problems, agent: Agent, said: str) -> None:
    """Seed 001 has a word for the patterns; who sends both must not contradict themselves."""
    fine = {agent.agent_type, f"{agent.input_pattern}-{agent.output_pattern}"}
    if agent.input_pattern in {InputPattern.FILE, InputPattern.ARGS}:
        fine.add(f"{agent.input_pattern}-input")
    message = f"It follows from the patterns and is {agent.agent_type} here; leave it out."
    problems.unless(said in fine, "agent_type", message)


def check_key(problems: Problems, agent: Agent, key: str) -> None:
    """Of what a model is asked with, before it is sealed."""
    if not key:
        return
    problems.unless(agent.kind == Kind.MODEL, "api_key", "Only a model has a key; a program is given variables.")
    fine = key.isascii() and key.isprintable() and " " not in key
    problems.unless(fine, "api_key", "Give the key alone: letters, digits and signs, without spaces and line ends.")
    # A shorter one is found in everything, so it could be hidden nowhere.
    fits = SHORTEST_KEY <= len(key) <= LONGEST_KEY
    problems.unless(fits, "api_key", f"Use {SHORTEST_KEY} to {LONGEST_KEY} characters.")


def require_same_place(before: str, now: str) -> None:
    if _origin(before) != _origin(now):
        said = "Another place is asked now: give its key, or take this one away (an empty text, by the API)."
        raise InvalidInput.for_field("api_key", said)


def _check_numbers(problems: Problems, agent: Agent) -> None:
    _between(problems, "timeout", agent.timeout, 1, LONGEST_TIMEOUT)
    _between(problems, "session_timeout", agent.session_timeout, 1, LONGEST_SESSION)
    _between(problems, "idle_timeout", agent.idle_timeout, 1, LONGEST_SESSION)
    _between(problems, "max_retries", agent.max_retries, 0, MOST_RETRIES)
    _between(problems, "queue_depth", agent.queue_depth, 0, MOST_AT_ONCE)
    _between(problems, "queue_wait", agent.queue_wait, 1, LONGEST_TIMEOUT)
    _between(problems, "max_processes", agent.max_processes, 1, MOST_PROCESSES)
    _between(problems, "max_steps", agent.max_steps, 1, MOST_STEPS)
    _between(problems, "max_concurrent_executions", agent.max_concurrent_executions, 1, MOST_AT_ONCE)
    _between(problems, "max_memory_mb", agent.max_memory_mb, LEAST_MEMORY, MOST_MEMORY)
    _between(problems, "max_cpu_seconds", agent.max_cpu_seconds, 1, MOST_CPU)
    alone = not agent.writes or agent.max_concurrent_executions == 1
    problems.unless(alone, "max_concurrent_executions", "A read-write agent runs one at a time: leave it out or say 1.")


def _check_process(problems: Problems, agent: Agent) -> None:
    command_lines.check(problems, agent.cli_args)
    _settle_program(problems, agent)
    if agent.working_directory and (said := surroundings.directory_problem(agent.working_directory)):
        problems.add("working_directory", said)
    for field in ("input_file_template", "output_file_template"):
        template: str = getattr(agent, field)
        if template and (said := file_names.problem(template)):
            problems.add(field, said)
    own = {file_names.PARAMETERS, agent.input_file_template or file_names.INPUT}
    apart = agent.output_pattern != OutputPattern.FILE or (agent.output_file_template or file_names.OUTPUT) not in own
    problems.unless(apart, "output_file_template", "Another file of the run has this name; choose another.")
    apart = agent.input_pattern != InputPattern.FILE or agent.input_file_template != file_names.PARAMETERS
    problems.unless(apart, "input_file_template", "The run's parameters are in a file of this name; choose another.")
    _check_patterns(problems, agent)


def _settle_program(problems: Problems, agent: Agent) -> None:
    """From here on by the real names of its files: what is on record is what was looked at, and what is run."""
    try:
        agent.executable_path, *agent.cli_args = executable_allowlist.resolve_command(
            agent.executable_path, agent.cli_args
        )
    except ExecutableRefused as reason:
        problems.add("executable_path", str(reason))
        return
    # As far as it is known here: its worker looks again.
    if said := account.unreachable(agent.executable_path):
        problems.add("executable_path", said)


def _check_patterns(problems: Problems, agent: Agent) -> None:
    if agent.mode != Mode.INTERACTIVE:
        return
    talks = agent.input_pattern in {InputPattern.STDIN, InputPattern.JSON_RPC}
    problems.unless(talks, "input_pattern", "An interactive agent reads its messages: use stdin or json-rpc.")
    answers = agent.output_pattern in {OutputPattern.STDOUT, OutputPattern.JSON_RPC}
    problems.unless(answers, "output_pattern", "An interactive agent writes its messages: use stdout or json-rpc.")


def _check_model(problems: Problems, agent: Agent) -> None:
    problems.unless(agent.mode == Mode.TASK, "mode", "A model runs tasks; it holds no sessions.")
    problems.unless(
        not agent.executable_path, "executable_path", "A model is asked at its base_url and runs no program."
    )
    problems.unless(not agent.allowed_env_vars, "allowed_env_vars", "A model has no environment: leave this empty.")
    problems.unless(not agent.working_directory, "working_directory", "A model works in no directory.")
    problems.unless(len(agent.name) <= LONGEST_NAME, "name", f"Use at most {LONGEST_NAME} characters for a model.")
    problems.check_line("model", agent.model, max_length=200, required=True)
    problems.unless(len(agent.instructions) <= LONGEST_INSTRUCTIONS, "instructions", "Use at most 65,536 characters.")
    if said := egress.find_url_problem(agent.base_url):
        problems.add("base_url", said)


def _origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme.lower(), parts.netloc.lower()


def _between(problems: Problems, field: str, value: Any, low: int, high: int) -> None:
    """None where a field may have it, which is no limit."""
    problems.unless(value is None or low <= value <= high, field, f"Use a whole number from {low} to {high}.")
