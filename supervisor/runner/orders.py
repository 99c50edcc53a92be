"""From a row to what a program is started with. Read once, when its slot has been claimed."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from common.db import clock
from common.errors import InvalidInput
from common.process import executable_allowlist
from common.process.executable_allowlist import ExecutableRefused
from supervisor import account, agents, command_lines, file_names, submitting, surroundings
from supervisor.choices import ErrorCategory, InputPattern, OutputPattern
from supervisor.models import Agent, Execution
from supervisor.nursery import MEGABYTE, Limits
from supervisor.runner import answers, places
from supervisor.runner.words import CannotStart, Order


def prepare(run: Execution, token: str) -> Order:
    """Make the run's directory and fill it; raise `CannotStart` when the agent cannot be run as it is."""
    agent = run.agent
    given = submitting.sealed(run)
    try:
        submitting.check_again(agent, given)
    except InvalidInput as problem:
        raise CannotStart(ErrorCategory.PERMANENT, f"Its agent was changed meanwhile. {problem.message}") from None
    place = places.make(run.pk)
    files = _files(run, place)
    argv = _argv(run, given, files)
    data = answers.request(str(run.pk), given["input"], given["parameters"])
    if agent.input_pattern != InputPattern.JSON_RPC:
        data = given["input"].encode()
        if given["parameters"]:
            places.write(place / file_names.PARAMETERS, json.dumps(given["parameters"]).encode())
    if agent.input_pattern == InputPattern.FILE:
        places.write(files["input_file"], data)
    environment = surroundings.environment(
        run_id=str(run.pk), token=token, home=place, declared=agents.declared(agent), given=given["env_vars"]
    )
    reads = agent.input_pattern in {InputPattern.STDIN, InputPattern.JSON_RPC}
    return Order(
        program=agent.executable_path,
        argv=argv,
        environment={**environment, **_conversation(given, place)},
        place=place,
        directory=_directory(run, place),
        input=data if reads else b"",
        output_file=files["output_file"] if agent.output_pattern == OutputPattern.FILE else None,
        limits=_limits(agent),
        group=account.group(run.pk),
        secrets=agents.secret_values(agent, given) | {token},
    )


def _conversation(given: Mapping[str, Any], place: Path) -> dict[str, str]:
    """What was said before, in a file, for a run that goes on with a task; and where that is."""
    if not given.get("conversation"):
        return {}
    path = place / file_names.CONVERSATION
    places.write(path, json.dumps(given["conversation"], ensure_ascii=False).encode())
    return {surroundings.CONVERSATION: str(path)}


def _files(run: Execution, place: Path) -> dict[str, Path]:
    at = clock.database_now()
    names = {
        "input_file": run.agent.input_file_template or file_names.INPUT,
        "output_file": run.agent.output_file_template or file_names.OUTPUT,
    }
    ids = {"execution_id": str(run.pk), "agent_id": str(run.agent_id)}
    return {name: place / file_names.render(template, at=at, **ids) for name, template in names.items()}


def _argv(run: Execution, given: Mapping[str, Any], files: Mapping[str, Path]) -> tuple[str, ...]:
    agent = run.agent
    values = {**given["parameters"], **{name: str(path) for name, path in files.items()}}
    try:
        words = executable_allowlist.resolve_command(
            agent.executable_path, command_lines.filled(agent.cli_args, values)
        )
    except ExecutableRefused as problem:
        raise CannotStart(ErrorCategory.PERMANENT, str(problem)) from None
    except KeyError as missing:
        said = f"Its command line wants the parameter {missing.args[0]}, which the run was not given."
        raise CannotStart(ErrorCategory.PERMANENT, said) from None
    words = [places.lent(word) for word in words]
    if said := account.unreachable(words[0]):
        raise CannotStart(ErrorCategory.PERMANENT, said)
    if agent.input_pattern == InputPattern.FILE and not command_lines.names_file(agent.cli_args, "input_file"):
        words = [*words, str(files["input_file"])]
    if agent.input_pattern == InputPattern.ARGS:
        words = command_lines.with_input(words, given["input"])
    return tuple(words)


def _limits(agent: Agent) -> Limits:
    memory = agent.max_memory_mb
    return Limits(
        processes=agent.max_processes,
        memory=None if memory is None else memory * MEGABYTE,
        cpu=agent.max_cpu_seconds,
    )


def _directory(run: Execution, place: Path) -> Path:
    """Looked at again: what was a directory when the run was asked for may be a link by now."""
    if not run.working_directory:
        return place
    if said := surroundings.directory_problem(run.working_directory):
        raise CannotStart(ErrorCategory.PERMANENT, f"{run.working_directory}: {said}")
    return Path(run.working_directory).resolve()
