"""The register of tools, as those see it who govern it and those who call."""

from typing import Any
from uuid import UUID

from common.api.operations import listing, operation
from mcp.api.shapes import tools as shapes
from mcp.choices import DefinitionState
from mcp.gateway import tool_list as lists
from mcp.models import Tool
from mcp.tools import catalogue, definitions
from nhi.api.views import ApiView
from nhi.models import User

ROWS = Tool.objects.select_related("server", "identity", "current", "approved")
LOOKUPS = {"server": "server__name", "definition": "state", "tool": "name"}


class Tools(ApiView):
    @listing(gives=shapes.ToolShape, filters=shapes.ToolFilters)
    def get(self, asked: dict[str, Any]) -> Any:
        """List tools

        An identity gets what it may call now; a person the register, as far as they may see it, with what each server
        says of its tool now."""
        wanted = {LOOKUPS[name]: value for name, value in asked.items()}
        return self._rows().filter(**wanted)

    def _rows(self) -> Any:
        if self.actor.is_person:
            return ROWS.visible_to(self.actor)
        loaded = self.caller.loaded
        assert loaded is not None  # no identity comes without a token
        assert loaded.identity is not None  # the same
        scope = tuple(loaded.token.scope.split()) if loaded.token else ()
        held = lists.find_callable_tools(loaded.identity, scope=scope)
        return ROWS.filter(pk__in=[tool.pk for tool in held], state=DefinitionState.APPROVED)


class OfTool(ApiView):
    tool: Tool

    def find(self, **path: UUID) -> None:
        self.tool = self.visible(ROWS.all(), path["tool_id"])


class OneTool(OfTool):
    @operation(gives=shapes.ToolDetailShape)
    def get(self) -> Tool:
        """Read a tool

        With what its server says of it now, which may be another thing than what was approved, and its metrics."""
        return self.tool

    @operation(takes=shapes.ToolChange, partial=True, gives=shapes.ToolShape, needs="mcp.change_tool")
    def patch(self, given: dict[str, Any]) -> Tool:
        """Change what people say of a tool

        What its server says of it is changed by nobody here."""
        if "owner_id" in given:
            given["owner"] = self.named(User.objects.all(), "owner_id", given.pop("owner_id"))
        changed: Tool = ROWS.get(pk=catalogue.change_tool(actor=self.actor, tool=self.tool, **given).pk)
        return changed


class Approve(OfTool):
    @operation(takes=shapes.Approval, gives=shapes.ToolShape, needs="mcp.approve_definition", refusals=(409,))
    def post(self, given: dict[str, Any]) -> Tool:
        """Approve a tool's definition

        From here on calls pass by it. A changed definition is not approved by whoever last set how the server is
        reached, nor by whoever made the change or changed the capability since the last approval: 403 `own_change`,
        with a message that says what would help when this bars everybody."""
        return definitions.approve(
            actor=self.actor, tool=self.tool, definition_hash=given["definition_hash"], reason=given["reason"]
        )
