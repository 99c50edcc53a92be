"""Seeds the demo server, its grants and its first calls: one agent may call it, another may not, one tool has changed.

Seeding needs a running installation, because the gateway connects to the demo server like to any other.
"""

import sys

from common.executors import background_loop
from common.ids import uuid7
from common.process import executable_allowlist
from mcp.choices import DefinitionState, Transport
from mcp.client import transports
from mcp.gateway import pipeline
from mcp.gateway.types import CallRequest
from mcp.limits import budgets
from mcp.models import Server, Tool
from mcp.servers import health, lifecycle
from mcp.servers.targets import resolve_server
from mcp.tools import catalogue, definitions
from nhi import actors
from nhi.access import grants
from nhi.actors import Actor
from nhi.credentials import credentials, tokens
from nhi.models import Identity, User

NAME = "todo"
SCRIPT = str(executable_allowlist.EXAMPLES_DIRECTORY / "todo_server.py")
#: The demo's agent may call these. The other tools wait for a review, and one of them has changed since its approval.
APPROVED_TOOLS = ("create_todo", "list_todos", "search_todos")
CHANGED_TOOL = "delete_todo"
#: The approved description of the changed tool, from the previous release.
PREVIOUS_DESCRIPTION = "Deletes a todo by ID. It can be brought back for thirty days."


def seed() -> str:
    """Create the missing demo rows.

    Returns the name of a tool to call, or "" if the executable allowlist refuses the demo server's program or the
    demo's people do not exist. The allowlist is read at each start, so a later version of it can refuse the program.
    """
    if executable_allowlist.find_command_problem(sys.executable, [SCRIPT]):
        return ""
    _seed()
    tool = Tool.objects.filter(server__name=NAME, name=APPROVED_TOOLS[0]).select_related("identity").first()
    return tool.identity.name if tool else ""


def _seed() -> None:
    mara = User.objects.filter(username="mara").first()
    bot = Identity.objects.filter(kind="agent", name="deploy-bot").first()
    if mara is None or bot is None or Server.objects.filter(name=NAME).exists():
        return
    actor = actors.person(mara)
    server = lifecycle.create(
        actor=actor,
        name=NAME,
        owner=mara,
        configuration={
            "transport": Transport.STDIO,
            "command": sys.executable,
            "args": [SCRIPT],
            "description": "The to-do list that comes with Gatehouse: examples/todo_server.py",
        },
        connect_now=False,
    )
    _approve_release_before(actor, server)
    health.refresh(server=server)
    _grant_tools(actor, server, bot)
    _make_sample_calls(actor, bot)


def _approve_release_before(actor: Actor, server: Server) -> None:
    """Record and approve the tools as the previous release described them, so that the next refresh finds a change."""
    listed_tools = background_loop.run(transports.list_tools(resolve_server(server).target, timeout=10), timeout=11)
    previous_tools = [
        {**tool, "description": PREVIOUS_DESCRIPTION} if tool["name"] == CHANGED_TOOL else tool for tool in listed_tools
    ]
    catalogue.record_listing(actor=actor, server=server, listed_tools=previous_tools)
    for tool in Tool.objects.filter(server=server, name__in=[*APPROVED_TOOLS, CHANGED_TOOL]).select_related("current"):
        assert tool.current is not None  # recorded above
        reason = "First look: it does what its description says"
        definitions.approve(actor=actor, tool=tool, definition_hash=tool.current.hash, reason=reason)


def _grant_tools(actor: Actor, server: Server, bot: Identity) -> None:
    for tool in Tool.objects.filter(server=server).exclude(state=DefinitionState.PENDING).select_related("identity"):
        grants.give_tool(actor=actor, agent=bot, tool=tool.identity, reason="Keeps the list of what a release needs")
    budgets.create(actor=actor, scope="agent", target_id=bot.pk, calls_per_hour=600, concurrency_limit=8)


def _make_sample_calls(actor: Actor, bot: Identity) -> None:
    """Make one allowed call and one refused call, so that the call log is not empty."""
    refused_agent = Identity.objects.get(kind="agent", name="writer")
    for caller in (bot, refused_agent):
        issued = credentials.issue(actor=actor, holder=caller, days=1)
        token = tokens.parse_known(issued.token)
        arguments = {"title": "Look around in the console"}
        request = CallRequest(token, NAME, "create_todo", arguments, request_id=uuid7(), source="127.0.0.1")
        background_loop.run(pipeline.call_tool(request), timeout=15)
        credentials.revoke(actor=actor, credential=issued.credential, reason="Made for one call of the demo")
