"""Tools of the register, and of those who call them."""

from typing import Any

from rest_framework import serializers

from common.api.fields import Flag, Identifier, Mapping, Moment, Text, Texts, Whole, Word
from common.api.shapes import Filters, Input, Shape
from common.api.value_fields import Said
from mcp.api.shapes import examples
from mcp.api.shapes.servers import MetricsShape
from mcp.choices import Connection, DefinitionState
from mcp.gateway import call_statistics
from mcp.models import Tool, ToolDefinition
from nhi.api.shapes import examples as story
from nhi.choices import State

STATUSES = ("active", "pending", "quarantined", "disabled", "offline", "withdrawn")
SCHEMAS = ("inputSchema", "outputSchema", "annotations")


class FlagShape(Shape):
    kind = Text()
    place = Text()
    message = Text()


class DefinitionShape(Shape):
    """The version that the server offers now. Its hash is what an approval names."""

    hash = Said()
    state = Word(choices=DefinitionState.choices)
    number = Whole(allow_null=True)
    approved_hash = Said()
    approved_by = Said()
    approved_at = Moment(allow_null=True)
    flags = FlagShape(many=True, help_text="What a person should look at twice.")


class ToolShape(Shape):
    id = Identifier(help_text="The tool identity's: the `tool_id` of grants.")
    name = Text(help_text="`<server>__<tool>`.")
    type = Word(choices=["tool"])
    server = Text()
    tool = Text(help_text="As the server calls it.")
    capability = Text(allow_null=True)
    title = Said()
    description = Text()
    input_schema = Mapping()
    output_schema = Mapping(allow_null=True)
    annotations = Mapping()
    tags = Texts()
    metadata = Mapping()
    status = Word(choices=STATUSES)
    deprecated = Flag()
    requires_approval = Flag()
    definition = DefinitionShape()

    example = {
        "id": examples.CREATE_TODO,
        "name": "todo__create_todo",
        "type": "tool",
        "server": "todo",
        "tool": "create_todo",
        "capability": "todo.create_todo",
        "title": "Create a todo",
        "description": "Add a todo to the list.",
        "input_schema": {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]},
        "output_schema": None,
        "annotations": {"readOnlyHint": False},
        "tags": [],
        "metadata": {},
        "status": "active",
        "deprecated": False,
        "requires_approval": False,
        "definition": {
            "hash": examples.HASH,
            "state": "approved",
            "number": 1,
            "approved_hash": examples.HASH,
            "approved_by": "mara",
            "approved_at": story.NOW,
            "flags": [],
        },
    }

    def to_representation(self, instance: Tool) -> dict[str, Any]:
        return {
            "id": str(instance.pk),
            "name": str(instance),
            "type": "tool",
            "server": instance.server.name,
            "tool": instance.name,
            "capability": instance.identity.capability,
            **_described(instance.current),
            "tags": instance.tags,
            "metadata": instance.metadata,
            "status": status_of(instance),
            "deprecated": instance.deprecated or instance.identity.state == State.DEPRECATED,
            "requires_approval": instance.requires_approval,
            "definition": _pinned(instance),
        }


class ToolDetailShape(ToolShape):
    metrics = MetricsShape()

    example = {**ToolShape.example, "metrics": MetricsShape.example}

    def to_representation(self, instance: Tool) -> dict[str, Any]:
        counted = MetricsShape(call_statistics.load_tool_statistics(instance)).data
        return {**super().to_representation(instance), "metrics": dict(counted)}


class ToolFilters(Filters):
    server = serializers.CharField(required=False, help_text="A server's name.")
    definition = Word(choices=DefinitionState.choices, required=False)
    tool = serializers.CharField(required=False, help_text="A tool's whole name, as its server calls it.")


class ToolChange(Input):
    requires_approval = Flag(required=False, help_text="Each call waits for a person, whoever makes it.")
    deprecated = Flag(required=False, help_text="It still works; whoever looks is told to move on.")
    owner_id = Identifier(required=False)

    example = {"requires_approval": True}


class Approval(Input):
    definition_hash = Text(help_text="`definition.hash` of what was looked at; 409 when it is another one by now.")
    reason = Text(help_text="Why, in at most 500 characters; it is kept on record.")

    example = {"definition_hash": examples.HASH, "reason": "Read it; it only writes to the list"}


def status_of(tool: Tool) -> str:
    """What somebody who holds it would meet now."""
    if tool.state == DefinitionState.WITHDRAWN:
        return "withdrawn"
    if tool.state != DefinitionState.APPROVED:
        return str(tool.state)
    if not tool.server.enabled or tool.identity.state != State.ACTIVE:
        return "disabled"
    return "offline" if tool.server.status == Connection.OFFLINE else "active"


def _described(definition: ToolDefinition | None) -> dict[str, Any]:
    """In the server's words, as far as they are of the kind that MCP says."""
    body = definition.body if definition else {}
    texts = {name: body[name] for name in ("title", "description") if isinstance(body.get(name), str)}
    objects = {name: body[name] for name in SCHEMAS if isinstance(body.get(name), dict)}
    return {
        "title": texts.get("title") or None,
        "description": texts.get("description", ""),
        "input_schema": objects.get("inputSchema", {}),
        "output_schema": objects.get("outputSchema"),
        "annotations": objects.get("annotations", {}),
    }


def _pinned(tool: Tool) -> dict[str, Any]:
    current, approved = tool.current, tool.approved
    at = approved.approved_at if approved else None
    return {
        "hash": current.hash if current else None,
        "state": tool.state,
        "number": current.number if current else None,
        "approved_hash": approved.hash if approved else None,
        "approved_by": (approved.approved_by_name or None) if approved else None,
        "approved_at": Moment().to_representation(at) if at else None,
        "flags": current.flags if current else [],
    }
