"""The supervisor's part of the demo: the agents of `examples/agents/`, a run of each, and one by the clock.

Seeded when the house is up: the runs are started by its worker like any others.
"""

from dataclasses import dataclass, field
from typing import Any

from common.process import executable_allowlist
from nhi import actors
from nhi.access import grants
from nhi.choices import Kind, PermissionType
from nhi.models import Identity, User
from supervisor import access, agents, schedules, submitting
from supervisor.access import Caller
from supervisor.choices import AccessType, InputPattern, Mode, OutputPattern, Trigger
from supervisor.models import Agent
from supervisor.submitting import Wish

SCRIPTS = executable_allowlist.EXAMPLES_DIRECTORY / "agents"


@dataclass(frozen=True)
class Example:
    name: str
    identity: str
    script: str
    given: dict[str, Any] = field(default_factory=dict)
    #: What it is run with once, so that there is something to look at.
    says: str = ""
    parameters: dict[str, Any] = field(default_factory=dict)


EXAMPLES = (
    Example(
        "summarise", "triage-bot", "summarise.py",
        says="The printer on floor 3 is out of paper. Two people asked about it. Somebody has refilled it since.",
    ),
    Example(
        "report", "triage-bot", "report.py",
        {
            "input_pattern": InputPattern.FILE, "output_pattern": OutputPattern.FILE,
            "input_file_template": "tickets-{{timestamp}}.txt", "output_file_template": "report.txt",
            "cli_args": ["--output", "report.txt"], "access_type": AccessType.READ_WRITE,
        },
        says="printer\nprinter\nbadge",
    ),
    Example(
        "calculator", "planner", "calculator.py",
        {"input_pattern": InputPattern.JSON_RPC, "output_pattern": OutputPattern.JSON_RPC}, says="6 * (3 + 4)",
    ),
    Example(
        "todo-clerk", "deploy-bot", "todo_clerk.py",
        {"input_pattern": InputPattern.ARGS, "access_type": AccessType.READ_WRITE}, says="Water the plants",
    ),
    Example(
        "briefing", "deploy-bot", "ask_another.py", {"cli_args": ["--to", "triage-bot", "--type", "summarise"]},
    ),
    Example("companion", "planner", "companion.py", {"mode": Mode.INTERACTIVE, "keep_alive": True}),
)  # fmt: skip
SCHEDULE = {"name": "morning summary", "cron_expression": "30 7 * * MON-FRI", "timezone": "Europe/Berlin"}


def seed() -> Agent | None:
    """Make what is missing of it; a second time changes nothing. The agent that the demo's token may run.

    None where a list of programs that may run leaves the demo's out.
    """
    if any(executable_allowlist.find_command_problem(str(SCRIPTS / one.script)) for one in EXAMPLES):
        return None
    _seed()
    return Agent.objects.filter(name=EXAMPLES[0].name).first()


def _seed() -> None:
    if Agent.objects.exists() or not Identity.objects.filter(name__in=[one.identity for one in EXAMPLES]).exists():
        return
    mara = actors.person(User.objects.get(username="mara"))
    olga = Caller(actors.person(User.objects.get(username="olga")))
    for example in EXAMPLES:
        agent = _agent(mara, example)
        if example.says:
            wish = Wish(input=example.says, parameters=example.parameters, trigger=Trigger.MANUAL)
            submitting.submit(caller=olga, agent=agent, wish=wish)
    summarise = Agent.objects.select_related("identity").get(name="summarise")
    grants.give_nhi(
        actor=mara, source=Identity.objects.get(kind=Kind.AGENT, name="deploy-bot"), target=summarise.identity,
        permission_type=PermissionType.CALL, allowed_actions=[access.EXECUTE, "summarise"],
        reason="Has release notes summarised",
    )  # fmt: skip
    schedules.create(actor=mara, agent=summarise, given=SCHEDULE, inputs={"input": "What came in since yesterday?"})


def _agent(actor: actors.Actor, example: Example) -> Agent:
    identity = Identity.objects.get(kind=Kind.AGENT, name=example.identity)
    given = {"name": example.name, "executable_path": str(SCRIPTS / example.script), **example.given}
    return agents.create(actor=actor, identity=identity, given=given)
