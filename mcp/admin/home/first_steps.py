"""The first steps of a new house, as the gateway knows them: a server, its tools, a call that passed."""

from django.db.models import Exists

from common.console.pages import link
from mcp.choices import DefinitionState
from mcp.models import Server, Tool
from nhi.admin import home
from nhi.admin.home import Way
from nhi.choices import CallStatus
from nhi.models import InvocationLog

home.refine(
    "tool",
    Way(
        "Add a server",
        "Where the tools are: a command or an address, as your editor describes it.",
        lambda: link("mcp_server_changelist"),
        "Add server",
        lambda: Exists(Server.objects.all()),
    ),
    Way(
        "Approve its tools",
        "A tool can be called once someone has read what its server says of it.",
        lambda: f"{link('mcp_tool_changelist')}?state=pending",
        "Look at them",
        lambda: Exists(Tool.objects.filter(state=DefinitionState.APPROVED)),
    ),
)
home.refine(
    "call",
    Way(
        "Make a first call",
        "The agent's Connect tab has the command.",
        lambda: f"{link('nhi_identity_changelist')}?kind=agent",
        "Choose an agent",
        lambda: Exists(InvocationLog.objects.filter(status=CallStatus.SUCCESS)),
    ),
)
