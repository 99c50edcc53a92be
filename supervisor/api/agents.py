"""Agents that run here: adding, changing, switching, and asking them for runs."""

from typing import Any
from uuid import UUID

from common.api.operations import listing, operation
from common.api.shapes import Reason
from nhi.api.views import ApiView
from nhi.authorization import oauth
from nhi.models import Identity
from supervisor import admission, agents, submitting
from supervisor.access import Caller
from supervisor.api.shapes import agents as shapes
from supervisor.models import Agent
from supervisor.models.agents import AgentQuerySet
from supervisor.submitting import Submitted, Wish


def caller_of(view: ApiView) -> Caller:
    """Who asks, with the token that was shown, for decisions about identities."""
    return Caller(view.actor, view.caller.shown, oauth.rest_resource())


def _rows(view: ApiView) -> AgentQuerySet:
    """Each as the caller may read it."""
    return Agent.objects.select_related("identity").with_openness(view.actor)


class Agents(ApiView):
    @listing(gives=shapes.AgentShape, filters=shapes.AgentFilters)
    def get(self, asked: dict[str, Any]) -> Any:
        """List agents

        Those you may see: all of them for console roles; else those of identities you see, and those that an identity
        may run, or once might."""
        return _rows(self).visible_to(self.actor).filter(**asked)

    @operation(
        takes=shapes.NewAgent, gives=shapes.AgentShape, status=201, needs="supervisor.add_agent", refusals=(409,)
    )  # fmt: skip
    def post(self, given: dict[str, Any]) -> Agent:
        """Add an agent

        A program of this host, or a model that is asked at its `base_url`, which runs as an agent identity. Read-only
        agents run 10 at once unless you say otherwise, read-write agents one at a time and without another attempt."""
        identity = self.named(Identity.objects.all(), "identity_id", given.pop("identity_id"))
        apart = {name: given.pop(name) for name in ("envs", "api_key", "agent_type") if name in given}
        made = agents.create(actor=self.actor, identity=identity, given=given, **apart)
        return _rows(self).get(pk=made.pk)


class OfAgent(ApiView):
    agent: Agent

    def find(self, **path: UUID) -> None:
        self.agent = self.visible(_rows(self), path["agent_id"])

    def changed(self, agent: Agent) -> Agent:
        return _rows(self).get(pk=agent.pk)


class OneAgent(OfAgent):
    @operation(gives=shapes.AgentShape)
    def get(self) -> Agent:
        """Read an agent"""
        return self.agent

    @operation(
        takes=shapes.AgentChange, partial=True, gives=shapes.AgentShape, needs="supervisor.change_agent",
        refusals=(409,),
    )  # fmt: skip
    def patch(self, given: dict[str, Any]) -> Agent:
        """Change an agent

        Its identity stays. Runs that are under way go on as they began."""
        return self.changed(agents.change(actor=self.actor, agent=self.agent, **given))


class Enable(OfAgent):
    @operation(takes=Reason, gives=shapes.AgentShape, needs="supervisor.operate_agent", refusals=(409,))
    def post(self, given: dict[str, Any]) -> Agent:
        """Switch an agent on

        What waits is started."""
        return self.changed(agents.switch(actor=self.actor, agent=self.agent, on=True, reason=given["reason"]))


class Disable(OfAgent):
    @operation(takes=Reason, gives=shapes.AgentShape, needs="supervisor.operate_agent", refusals=(409,))
    def post(self, given: dict[str, Any]) -> Agent:
        """Switch an agent off

        Nothing of it is started; runs that are under way go on."""
        return self.changed(agents.switch(actor=self.actor, agent=self.agent, on=False, reason=given["reason"]))


class Execute(OfAgent):
    @operation(takes=shapes.Wanted, gives=shapes.SubmittedShape, status=202, refusals=(409,))
    def post(self, given: dict[str, Any]) -> Submitted:
        """Run a task agent

        Answers at once; the run starts as soon as there is a place for it. For people who own the agent's identity,
        were given it, or hold the right to run any; for identities with a grant for it (403 with the decision's
        reason). 409 for an agent that is switched off or interactive; 503 with `queue_full` or `overloaded`, and
        `Retry-After`, while there is no room."""
        return submitting.submit(caller=caller_of(self), agent=self.agent, wish=Wish(**given))


class Status(OfAgent):
    @operation(gives=shapes.AgentStatusShape)
    def get(self) -> dict[str, Any]:
        """Say how busy an agent is"""
        agent, load = self.agent, admission.load(self.agent)
        return {
            "running": load.running,
            "queued": load.queued,
            "pool": {"size": agent.max_concurrent_executions, "used": load.used},
            "queue": {"depth": agent.queue_depth, "wait": agent.queue_wait},
            "enabled": agent.enabled,
        }
