"""Agents that hand tasks on, each by a grant of one type, and the tool that the last of them calls."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from a2a import sending
from a2a.models import Task
from a2a.sending import Wish
from mcp.gateway import pipeline
from nhi import actors
from nhi.actors import SYSTEM
from nhi.credentials import credentials, tokens
from nhi.models import Identity, InvocationLog
from supervisor import chains, submitting
from supervisor.access import Caller
from supervisor.models import Execution
from tests.api import callers
from tests.front import asking, door
from tests.mcp.scene import Scene, run
from tests.nhi import cast
from tests.nhi.tokens import of_run
from tests.supervisor import rows

ASKED = {"document": "minutes.md"}
WAYS = ("rest", "mcp", "run")


@dataclass
class Line:
    """Who asks whom, the first one first; the task of each link."""

    scene: Scene
    who: list[Identity]
    tasks: list[Task] = field(default_factory=list)
    tokens: dict[str, str] = field(default_factory=dict)

    @property
    def last(self) -> Identity:
        return self.who[-1]

    def token(self, of: Identity) -> str:
        if of.name not in self.tokens:
            self.tokens[of.name] = credentials.issue(actor=SYSTEM, holder=of).token
        return self.tokens[of.name]

    def calls(self, way: str, arguments: dict[str, Any] | None = None, *, task: Any = None) -> str:
        """The last one calls the tool within its task; the reason of a refusal, or nothing."""
        named = str(task or self.tasks[-1].pk)
        if way == "mcp":
            return over_mcp(self.token(self.last), arguments or {}, {"task_id": named})
        if way == "run":
            return over_rest(run_token(self.last, self.tasks[-1]), arguments or {}, {})
        return over_rest(self.token(self.last), arguments or {}, {"task_id": named})

    def row(self) -> InvocationLog:
        return InvocationLog.objects.filter(agent_id=self.last.pk).latest("timestamp", "id")


def line(
    scene: Scene, links: Sequence[str], *, name: str = "", holds: Sequence[str] = (), meet: bool = True
) -> Line:  # fmt: skip
    """Agents `a`, `b`, … and a task along each link; those named in `holds` have a grant for the tool.

    They `meet` when everybody may ask everybody after them: what is asked on one's behalf, one must be allowed to ask.
    """
    letters = "abcdef"[: len(links) + 1]
    who = [cast.agent(f"{letter}{name}") for letter in letters]
    for letter, one in zip(letters, who, strict=True):
        if letter in holds:
            cast.tool_grant(one, scene.tool().identity)
    made = Line(scene, who)
    for (one, other), kind in zip(pairwise(who), links, strict=True):
        cast.nhi_grant(one, other, kind)
        for before in who[: who.index(one)] if meet else ():
            cast.nhi_grant(before, other)
        made.tasks.append(send(made.token(one), one, other, parent=made.tasks[-1] if made.tasks else None))
    return made


def send(token: str, of: Identity, to: Identity, *, parent: Task | None = None) -> Task:
    caller = Caller(actors.identity(of), tokens.parse(token))
    wish = Wish(sending.of_input(ASKED), task_type="summarise", parent_task_id=parent.pk if parent else None)
    return sending.send(caller=caller, target=to, wish=wish)


def run_for(agent: Identity, task: Task | None) -> Execution:
    found = rows.Agent.objects.filter(identity=agent).first() or rows._agent(agent, f"cli-{agent.name}")
    wish = submitting.Wish(input="x", task_id=task.pk if task else None)
    return submitting.submit(caller=Caller(SYSTEM), agent=found, wish=wish).execution


def run_token(agent: Identity, task: Task | None) -> str:
    return token_of(run_for(agent, task))


def token_of(run: Execution) -> str:
    return of_run(
        identity=run.agent.identity,
        execution_id=run.pk,
        seconds=60,
        actor=SYSTEM,
        chain=chains.behind_each([run])[run.pk],
    )


def over_rest(token: str, arguments: dict[str, Any], context: dict[str, str]) -> str:
    body = {"parameters": arguments, "context": context}
    answer = callers.Caller(token).post("mcp/tools/peer__echo/call", body)
    if answer.status == 202:
        return "approval_required"
    return "" if answer.status == 200 else answer.reason


def over_mcp(token: str, arguments: dict[str, Any], context: dict[str, str]) -> str:
    meta = {**asking.META, "gatehouse/context": context}
    of = asking.message(meta=meta, name="peer__echo", arguments=arguments)
    client = door.Client(pipeline)  # type: ignore[arg-type]  # the real one
    answer = run(client.post(of, authorization=f"Bearer {token}")).answer
    if "error" in answer:
        return "not_found"
    denied = answer["result"].get("_meta", {}).get("gatehouse/denied")
    return str(denied["reason"]) if denied else ""
