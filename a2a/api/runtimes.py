"""What does the tasks of an agent."""

from typing import Any
from uuid import UUID

from a2a import runtimes
from a2a.api.base import TasksView
from a2a.api.shapes import runtimes as shapes
from a2a.api.shapes.callbacks import NoBody
from a2a.choices import RuntimeKind
from a2a.remote import testing
from a2a.remote.probing import Report
from common.api.operations import operation
from nhi.choices import Kind
from nhi.models import Identity


class OfAgent(TasksView):
    identity: Identity

    def find(self, **path: UUID) -> None:
        self.identity = self.visible(Identity.objects.of_kind(Kind.AGENT), path["identity_id"])


class OneRuntime(OfAgent):
    @operation(gives=shapes.RuntimeShape)
    def get(self) -> dict[str, Any]:
        """Read what does the tasks of an agent"""
        return self._told(runtimes.of(self.identity))

    @operation(takes=shapes.Choice, gives=shapes.RuntimeShape, needs=runtimes.RIGHT)
    def put(self, given: dict[str, Any]) -> dict[str, Any]:
        """Choose what does the tasks of an agent

        Its own workers (`inbox`), a program or a model that runs as it (`cli`, `model`), or another server of the A2A
        protocol (`remote`). For tasks that are sent from now on; those that were sent before go on as they were. A
        credential that is not named stays, unless the `url` leads to another place."""
        agent_id = given.pop("agent_id", None)
        agent = None if agent_id is None else self.named(runtimes.choices(self.identity), "agent_id", agent_id)
        return self._told(runtimes.choose(actor=self.actor, identity=self.identity, agent=agent, **given))

    @operation(gives=shapes.RuntimeShape, needs=runtimes.RIGHT)
    def delete(self) -> dict[str, Any]:
        """Leave open what does the tasks of an agent

        Then they go to the first program or model that runs tasks as it and is switched on, and without one to its
        inbox."""
        return self._told(runtimes.leave_open(actor=self.actor, identity=self.identity))

    def _told(self, behind: runtimes.Behind) -> dict[str, Any]:
        chosen = behind.chosen
        return {
            "identity_id": self.identity.pk,
            "kind": behind.kind,
            "derived": chosen is None,
            "agent": behind.agent,
            "remote": chosen if behind.kind == RuntimeKind.REMOTE else None,
            "chosen_by": chosen.created_by_name if chosen else None,
            "chosen_at": chosen.created_at if chosen else None,
        }


class Test(OfAgent):
    @operation(takes=NoBody, gives=shapes.RemoteTestShape, needs=runtimes.RIGHT, refusals=(409,))
    def post(self, _given: dict[str, Any]) -> dict[str, Any]:
        """Test the A2A server behind an agent

        Its card is read, and it is asked for a task that it cannot know, in the way in which tasks would be sent: no
        message is, so nothing is worked on there. 10 seconds at most. The answer is 200 also for a server that does
        not work: `outcome` says why, `advice` what to do. An agent whose tasks go to no server: 409."""
        return told(self.identity, testing.test(actor=self.actor, identity=self.identity))


def told(identity: Identity, report: Report) -> dict[str, Any]:
    found = report.interface
    used = {"url": report.url, "wire_version": found.version, "binding": found.binding} if found else None
    return {
        "identity_id": identity.pk,
        "works": report.works,
        "outcome": report.outcome,
        "message": report.said,
        "advice": report.advice,
        "credential": report.credential,
        "agent_name": report.agent_name,
        "interface": used,
        "steps": [{"step": step.step, "passed": step.passed, "message": step.said} for step in report.steps],
    }
