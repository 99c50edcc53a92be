"""What passes between the loop that runs agents and the threads that write of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from supervisor.choices import ErrorCategory, ExecutionState
from supervisor.nursery import Limits


@dataclass(frozen=True)
class Order:
    """All that starting a run needs, read once: nothing of a row is looked at while it runs."""

    #: Its agent's program, which is not the first of `argv` where that is a copy lent to the run.
    program: str
    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(repr=False)
    #: The run's own directory, and where it is started: the same unless another was allowed.
    place: Path
    directory: Path
    input: bytes = field(repr=False)
    #: Of the file that its output is read from; none when it is what it writes.
    output_file: Path | None
    limits: Limits
    #: Of its processes; None for Gatehouse's own.
    group: int | None
    #: Values that must not be shown.
    secrets: frozenset[str] = field(repr=False)


@dataclass(frozen=True)
class Measured:
    """What a run used, as the operating system counted it. Bytes and seconds."""

    cpu: float = 0.0
    peak_memory: int = 0
    memory: int = 0
    read: int = 0
    written: int = 0
    processes: int = 0
    samples: tuple[tuple[float, ...], ...] = ()


@dataclass(frozen=True)
class Ended:
    """How one try of a run ended."""

    state: ExecutionState
    message: str = ""
    category: ErrorCategory | None = None
    exit_code: int | None = None
    #: What the run answers, when that is not just what it wrote.
    answer: str | None = None
    #: The answer before it was cut.
    answer_bytes: int = 0
    answer_cut: bool = False
    #: Seconds that must pass before another try, and whether there is to be none though it may pass.
    wait: float = 0.0
    is_final: bool = False
    #: What the run's record says of it besides.
    context: Mapping[str, Any] = field(default_factory=dict)

    @property
    def may_be_tried_again(self) -> bool:
        passes = self.state == ExecutionState.FAILED and self.category == ErrorCategory.TRANSIENT
        return passes and not self.is_final


@dataclass(frozen=True)
class Piece:
    """Some of what a run wrote, redacted."""

    stream: str
    text: str
    at: datetime


class CannotStart(Exception):
    """A run cannot be started as its agent is: the category, and why as a sentence."""

    def __init__(self, category: ErrorCategory, message: str) -> None:
        super().__init__(message)
        self.category, self.message = category, message
