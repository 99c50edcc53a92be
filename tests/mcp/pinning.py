"""A server that changes what it says of its tools, and the people who approve it."""

from mcp.gateway import pipeline
from mcp.models import Tool
from mcp.servers import health
from mcp.tools import definitions
from mcp.tools.catalogue import RefreshReport
from nhi.actors import Actor
from tests.mcp.scene import Scene, run
from tests.nhi import cast


def refresh(made: Scene) -> RefreshReport:
    report = health.refresh(server=made.server)
    assert report is not None
    return report


def mara() -> Actor:
    """Who registered the server and approved its first definitions."""
    return cast.admin("mara")


def tom() -> Actor:
    return cast.admin("tom")


def approve(made: Scene, actor: Actor, name: str = "echo") -> Tool:
    tool = made.tool(name)
    assert tool.current is not None
    return definitions.approve(actor=actor, tool=tool, definition_hash=tool.current.hash, reason="Looked at it")


def refused_as(made: Scene) -> str:
    return made.call().reason


def listed(made: Scene) -> list[str]:
    found = run(pipeline.list_tools(made.made["tokens"]["bot"]))
    return [tool["name"] for tool in found.tools]  # type: ignore[union-attr]  # it was listed
