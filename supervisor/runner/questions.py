"""From a row to what a model is asked. Read once, when its slot has been claimed."""

import json
from dataclasses import dataclass, field
from typing import Any

from supervisor import agents, submitting
from supervisor.chat import Endpoint, Used
from supervisor.models import Execution

Json = dict[str, Any]


@dataclass
class Talk:
    """What was said by now, and what it took. It outlasts a try that fails."""

    messages: list[Json] = field(default_factory=list)
    #: Characters of all messages: each request carries them anew.
    size: int = 0
    steps: int = 0
    calls: int = 0
    used: Used = field(default_factory=Used)

    def add(self, *messages: Json) -> None:
        self.messages += messages
        self.size += sum(len(json.dumps(message, ensure_ascii=False)) for message in messages)


@dataclass(frozen=True)
class Question:
    """All that asking a model needs."""

    endpoint: Endpoint
    #: The name of the breaker that guards it.
    service: str
    token: str = field(repr=False)
    most_steps: int
    #: Values that must not be shown.
    secrets: frozenset[str] = field(repr=False)
    talk: Talk = field(repr=False)


def prepare(run: Execution, token: str) -> Question:
    agent, given = run.agent, submitting.sealed(run)
    talk = Talk()
    if agent.instructions:
        talk.add({"role": "system", "content": agent.instructions})
    asked = given["input"]
    if given["parameters"]:
        asked += f"\n\nParameters: {json.dumps(given['parameters'], ensure_ascii=False)}"
    talk.add({"role": "user", "content": asked})
    return Question(
        endpoint=Endpoint(agent.base_url, agent.model, agents.key(agent)),
        service=f"model:{agent.name}",
        token=token,
        most_steps=agent.max_steps,
        secrets=agents.secret_values(agent, given) | {token},
        talk=talk,
    )
