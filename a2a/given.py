"""What an agent is given: what the caller said, as it was sent."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from a2a import covering
from a2a.choices import Role
from a2a.models import Task, TaskMessage
from a2a.parts import Part, role_of
from common.fastsql.compiled_queries import PreparedQuery

_LAST = PreparedQuery(
    lambda task: TaskMessage.objects.filter(task=task, role=Role.USER).order_by("-position")[:1], task=UUID
)  # fmt: skip
_SAID = PreparedQuery(lambda task: TaskMessage.objects.filter(task=task).order_by("position"), task=UUID)
INPUT, PARAMETERS = "input", "parameters"


@dataclass(frozen=True)
class ForRun:
    """The same for a program, which reads a text and parameters by name."""

    input: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)


def message(task: Task) -> dict[str, Any]:
    said: TaskMessage | None = _LAST.fetch_first(task=task.pk)
    assert said is not None  # every task begins with one
    return _opened(said)


def conversation(task: Task) -> list[dict[str, Any]]:
    """All that was said so far, from what the task is about on."""
    return [_opened(said) for said in _SAID.fetch_all(task=task.pk)]


def _opened(said: TaskMessage) -> dict[str, Any]:
    return covering.unseal(said.sealed_body, row=said.pk) if said.sealed_body else dict(said.body)


def for_run(parts: Sequence[Part]) -> ForRun:
    """Text as it is, data as JSON, and an object of input and parameters as what these are for a run."""
    if parts and all("text" in part for part in parts):
        return ForRun("\n".join(str(part["text"]) for part in parts))
    if len(parts) != 1 or "data" not in parts[0]:
        return ForRun(_written({"parts": list(parts)}))
    value = parts[0]["data"]
    return _named(value) if _names_them(value) else ForRun(_written(value))


def to_go_on(said: Sequence[Mapping[str, Any]]) -> ForRun:
    """The same of a whole conversation: what its caller said last, with parameters that were given before it."""
    each = [for_run(message["parts"]) for message in said if message["role"] == role_of(Role.USER)]
    return ForRun(each[-1].input, {name: value for one in each for name, value in one.parameters.items()})


def _names_them(value: Any) -> bool:
    if not isinstance(value, Mapping) or not value or not value.keys() <= {INPUT, PARAMETERS}:
        return False
    return isinstance(value.get(PARAMETERS, {}), Mapping)


def _named(value: Mapping[str, Any]) -> ForRun:
    given = value.get(INPUT, "")
    return ForRun(given if isinstance(given, str) else _written(given), dict(value.get(PARAMETERS, {})))


def _written(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
