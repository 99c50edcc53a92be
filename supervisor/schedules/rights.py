"""Who may set schedules up and who may work them: by console role, or for handling the agent's identity."""

from common.errors import NotAllowed
from nhi.actors import Actor
from nhi.models import Identity
from supervisor.models import Agent, Schedule

ADD, CHANGE, OPERATE = "supervisor.add_schedule", "supervisor.change_schedule", "supervisor.operate_schedule"


def may(actor: Actor, right: str, agent: Agent) -> bool:
    if actor.only_reads:
        return False
    return actor.may(right) or Identity.objects.managed_by(actor).filter(pk=agent.identity_id).exists()


def require(actor: Actor, right: str, agent: Agent, doing: str) -> None:
    if not may(actor, right, agent):
        raise NotAllowed(f"You may not {doing}.", details={"needs": right})


def require_change(actor: Actor, schedule: Schedule) -> None:
    require(actor, CHANGE, schedule.agent, "change schedules")


def require_operate(actor: Actor, schedule: Schedule) -> None:
    require(actor, OPERATE, schedule.agent, "pause, resume and run schedules")
