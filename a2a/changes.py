"""What may change in a task, as its agent, its caller or Gatehouse says. Each knows what of it may be kept."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from a2a import covering, parts
from a2a.choices import TaskState


@dataclass(frozen=True)
class Status:
    """The task is in this state now, as its agent or Gatehouse says."""

    state: TaskState
    message: parts.Message | None = None
    error_code: str = ""
    error_message: str = ""
    #: The same for people, with what describes this installation.
    operator_message: str = ""

    @cached_property
    def shown(self) -> Any:
        return None if self.message is None else covering.shown(dict(self.message))


@dataclass(frozen=True)
class Made:
    """The agent made this, or more of it."""

    artifact: Mapping[str, Any]
    append: bool = False
    last: bool = True
    #: What is added is kept beside what is there.
    in_pieces = True

    @cached_property
    def shown(self) -> Any:
        return covering.shown(dict(self.artifact))

    def joined(self, before: Mapping[str, Any]) -> dict[str, Any]:
        """The artifact with this added, which need not name it again."""
        return {**before, **self.shown, "parts": [*before["parts"], *self.shown["parts"]]}


@dataclass(frozen=True)
class Printed(Made):
    """More of an artifact that is one text, and stays one."""

    append: bool = True
    in_pieces = False

    def joined(self, before: Mapping[str, Any]) -> dict[str, Any]:
        return {**before, **self.shown, "parts": [parts.text(parts.said_in(before) + parts.said_in(self.shown))]}


@dataclass(frozen=True)
class Said:
    """The caller said more."""

    message: parts.Message

    @cached_property
    def shown(self) -> Any:
        return covering.shown(dict(self.message))


Change = Status | Made | Said
