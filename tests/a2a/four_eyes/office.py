"""People, agents and the work that they ask for, each over REST or at the console, as in production."""

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.test import Client

from a2a import dispatching
from common.ids import uuid7
from mcp.models import CallApproval
from nhi.models import Identity
from supervisor.models import Agent
from supervisor.runner import claiming
from tests.api.callers import Caller, Reply, calling
from tests.console.conftest import enter
from tests.mcp.scene import Scene
from tests.nhi import cast
from tests.supervisor import rows

TOOL = "peer__echo"
REASON = {"reason": "Looked at it"}


@dataclass
class Office:
    """Mallory may run everything and decide about calls; Oscar may run everything; Tom and Ann only decide."""

    scene: Scene
    people: dict[str, Caller] = field(default_factory=dict)
    agents: dict[str, Agent] = field(default_factory=dict)

    ROLES = {
        "mallory": ("security-admin", "approver"),
        "oscar": ("operator",),
        "tom": ("approver", "operator"),
        "ann": ("approver",),
    }

    def person(self, name: str) -> Caller:
        if name not in self.people:
            self.people[name] = calling(cast.user(name, *self.ROLES.get(name, ())))
        return self.people[name]

    def console(self, name: str) -> Client:
        self.person(name)
        client = Client()
        enter(client, name)
        return client

    def identity(self, name: str = "bot", **described: Any) -> Identity:
        """An agent that holds the tool; every call of the tool needs approval."""
        known = Identity.objects.filter(name=name).first()
        if known is not None:
            return known
        made = cast.agent(name, **described)
        cast.tool_grant(made, self.scene.tool().identity, requires_approval=True)
        return made

    def agent(self, name: str = "bot", mode: str = "task") -> Agent:
        """What runs as that identity here."""
        if name not in self.agents:
            self.agents[name] = rows._agent(self.identity(name), name, mode=mode)
        return self.agents[name]

    def execute(self, by: str, agent: Agent) -> UUID:
        answer = self.person(by).post(f"supervisor/agents/{agent.pk}/execute", {"input": "Delete every repository"})
        assert answer.status == 202, answer.body
        return UUID(answer.body["id"])

    def call(self, token: str, arguments: Any = None, **context: str) -> Reply:
        """The tool is called with this token."""
        body = {"parameters": arguments or {"name": "all"}, "context": context}
        return Caller(token).post(f"mcp/tools/{TOOL}/call", body)

    def waiting_call(self, token: str, arguments: Any = None, **context: str) -> CallApproval:
        answer = self.call(token, arguments, **context)
        assert (answer.status, answer.body.get("status")) == (202, "pending_approval"), answer.body
        return CallApproval.objects.get(state="pending")

    def decide(self, by: str, approval: CallApproval, verb: str = "approve") -> Reply:
        return self.person(by).post(f"approvals/{approval.pk}/{verb}", REASON)

    def is_barred(self, by: str, approval: CallApproval) -> bool:
        """Refused over REST by either verb, and offered by no list."""
        listed = self.console(by).get("/admin/mcp/callapproval/?decide=me").context["rows"]
        for verb in ("approve", "refuse"):
            if not self.decide(by, approval, verb).is_refused(403, "Unauthorized", "own_request"):
                return False
        return not listed


def claimed_tokens() -> dict[UUID, str]:
    """What a worker is given for the runs that wait, by their ids."""
    dispatching.dispatch_due()
    return {claimed.run.pk: claimed.token for claimed in claiming.claim(runner_id=uuid7(), room=8)}


def claimed_token() -> str:
    (token,) = claimed_tokens().values()
    return token
