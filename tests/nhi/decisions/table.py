"""The cases of `cases.csv` as values. Reads text, knows nothing of the product."""

import csv
import json
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("cases.csv")
PATTERN = re.compile(r"([^\s,(]+)(?:\s*\(([^)]*)\))?")


@dataclass(frozen=True)
class Expected:
    verdict: str
    reason: str
    decided_by: str


@dataclass(frozen=True)
class Holder:
    """A caller or a target: its kind, its state, when it ends, and a tool's capability."""

    kind: str
    state: str
    ends: str
    capability: str | None


@dataclass(frozen=True)
class Pattern:
    text: str
    marks: frozenset[str]


@dataclass(frozen=True)
class Role:
    state: str
    patterns: tuple[Pattern, ...]


@dataclass(frozen=True)
class Case:
    case: str
    caller: str
    credential: str
    token: str
    verb: str
    target: str
    grants: str
    limits: str
    roles: str
    parameters: str
    action: str
    verdict: str
    reason: str
    decided_by: str

    @property
    def expected(self) -> Expected:
        return Expected(self.verdict, self.reason, self.decided_by)

    @cached_property
    def calling(self) -> Holder:
        return holder(self.caller)

    @cached_property
    def called(self) -> Holder | None:
        return None if self.target in {"", "unknown"} else holder(self.target)

    @cached_property
    def held(self) -> tuple[tuple[str, str], ...]:
        """(kind, state) of each grant, the oldest first."""
        found = (part.strip().partition(" ") for part in self.grants.split(";") if part.strip())
        return tuple((kind, state) for kind, _, state in found)

    @cached_property
    def limited(self) -> dict[str, dict[str, Any]]:
        return dict(json.loads(self.limits)) if self.limits else {}

    @cached_property
    def assigned(self) -> tuple[Role, ...]:
        return tuple(role(part) for part in self.roles.split(";") if part.strip())

    @cached_property
    def arguments(self) -> Any:
        return json.loads(self.parameters) if self.parameters else None

    @cached_property
    def scope(self) -> tuple[str, ...]:
        return tuple(self.token.partition("scope:")[2].split())

    @property
    def made(self) -> str:
        """What kind of short-lived token, without its scope."""
        return self.token.partition(", scope:")[0]


def holder(text: str) -> Holder:
    kind = next(kind for kind in ("service account", "agent", "tool", "person") if text.startswith(kind))
    words = text.removeprefix(kind).split()
    ends = words.pop() if words[-1] in {"ended", "ending"} else ""
    return Holder(kind, words[0], ends, words[1] if len(words) > 1 else None)


def role(text: str) -> Role:
    state, _, listed = text.partition(":")
    found = PATTERN.findall(listed)
    return Role(state.strip(), tuple(Pattern(name, frozenset(marks.split(", ")) - {""}) for name, marks in found))


def read() -> list[Case]:
    with FILE.open(newline="") as file:
        return [Case(**row) for row in csv.DictReader(file)]
