"""Servers as they are added, changed, met and read."""

from typing import Any

from rest_framework import serializers

from common.api.fields import Flag, Identifier, Moment, Text, Texts, Whole, Word
from common.api.shapes import Filters, Input, Shape
from common.api.value_fields import NullableTexts, Number, Pairs, Said, Seconds, SecondsGiven
from mcp.api.shapes import examples
from mcp.choices import SEED_WORDS, Connection, DefinitionState, HealthStatus, Transport
from mcp.gateway import call_statistics
from mcp.gateway.call_statistics import CallStatistics
from mcp.models import Server
from nhi.api.shapes import examples as story
from nhi.api.shapes.identities import OwnerShape


class MetricsShape(Shape):
    """Latency is that of the last hundred calls that reached it."""

    handshake_latency_ms = Number(allow_null=True)
    invocation_count = Whole()
    success_count = Whole()
    error_count = Whole()
    last_invocation_time = Moment(allow_null=True)
    average_latency_ms = Number(allow_null=True)
    p95_ms = Number(allow_null=True)
    in_flight = Whole()

    example = {
        "handshake_latency_ms": 4.2,
        "invocation_count": 120,
        "success_count": 117,
        "error_count": 3,
        "last_invocation_time": story.NOW,
        "average_latency_ms": 11.8,
        "p95_ms": 31.0,
        "in_flight": 0,
    }


#: How a server is reached, and messages that name parts of that.
CONFIGURATION = ("command", "args", "env", "base_url", "headers", "secrets", "status_reason", "last_error")


class ServerItem(Shape):
    """A server in a list."""

    id = Identifier()
    name = Text()
    description = Text()
    owner = OwnerShape()
    transport = Word(choices=Transport.choices)
    command = Text(allow_null=True, help_text="Null, as all of how it is reached, for who may only use a tool of it.")
    args = Texts(allow_null=True)
    env = Pairs(allow_null=True, help_text="`${NAME}` stands for one of the server's own secrets.")
    base_url = Text(allow_null=True)
    headers = Pairs(allow_null=True, help_text="`${NAME}` stands for one of the server's own secrets.")
    timeout = Seconds()
    capabilities = Texts()
    schema_version = Text()
    secrets = Texts(allow_null=True, help_text="Names; no answer holds a value.")
    enabled = Flag()
    status = Word(choices=Connection.choices)
    status_since = Moment()
    status_reason = Text(allow_null=True)
    transport_type = Word(source="transport", choices=Transport.choices)
    server_name = Text(source="name")
    connection_state = Word(choices=[(word, word) for word in SEED_WORDS.values()])
    discovered_tools = Texts(help_text="As the server calls them, without those that are gone.")
    last_health_check = Moment(allow_null=True, help_text="The last check that went well.")
    initialization_time = Number(allow_null=True, help_text="Seconds from the first byte to a list of tools.")
    last_error = Said()
    protocol_version = Said()
    server_capabilities = Texts(help_text="What the server itself says it can do.")
    created_by = Text(source="created_by_name")
    created_at = Moment()
    updated_at = Moment()

    example = {
        "id": examples.SERVER,
        "name": "todo",
        "description": "",
        "owner": {"id": story.MARA, "username": "mara"},
        "transport": "http",
        "command": "",
        "args": [],
        "env": {},
        "base_url": "https://todo.example/mcp",
        "headers": {"Authorization": "Bearer ${TODO_TOKEN}"},
        "timeout": "30s",
        "capabilities": [],
        "schema_version": "",
        "secrets": ["TODO_TOKEN"],
        "enabled": True,
        "status": "Ready",
        "status_since": story.NOW,
        "status_reason": "It answers.",
        "transport_type": "http",
        "server_name": "todo",
        "connection_state": "connected",
        "discovered_tools": ["complete_todo", "create_todo"],
        "last_health_check": story.NOW,
        "initialization_time": 0.021,
        "last_error": None,
        "protocol_version": "2026-07-28",
        "server_capabilities": ["tools"],
        "created_by": "mara",
        "created_at": story.NOW,
        "updated_at": story.NOW,
    }

    def to_representation(self, instance: Any) -> dict[str, Any]:
        shown = super().to_representation(Shown(instance))
        # Left out unless the row says that its reader may see it.
        return shown if getattr(instance, "shows_configuration", False) else {**shown, **dict.fromkeys(CONFIGURATION)}


class Shown:
    """A server, with what is read of its relations, which came with its row."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.secrets = sorted(secret.name for secret in server.secrets.all())
        known = [tool for tool in server.tools.all() if tool.state != DefinitionState.WITHDRAWN]
        self.discovered_tools = sorted(tool.name for tool in known)

    @property
    def metrics(self) -> CallStatistics:
        return call_statistics.load_server_statistics(self._server)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._server, name)


class ServerShape(ServerItem):
    metrics = MetricsShape()

    example = {**ServerItem.example, "metrics": MetricsShape.example}


class Reached(Input):
    """How a server is reached, and what describes it."""

    transport = Word(choices=Transport.choices)
    command = Text(required=False, help_text="stdio: an absolute path that the allowlist holds.")
    args = Texts(required=False)
    env = Pairs(required=False, help_text="stdio; `${NAME}` stands for one of `secrets`.")
    base_url = Text(required=False, help_text="http and sse: an address that egress lets through.")
    headers = Pairs(required=False, help_text="http and sse; `${NAME}` stands for one of `secrets`.")
    timeout = SecondsGiven(required=False, help_text='Of a call; "30s" when left out.')
    capabilities = Texts(required=False)
    schema_version = Text(required=False, help_text="Like 1.2.0.")
    description = Text(required=False)
    owner_id = Identifier(required=False, help_text="Yourself, when a person leaves it out.")


class NewServer(Reached):
    name = Text(help_text="`[a-z0-9][a-z0-9-]{0,62}`; its tools are called `<name>__<tool>`. It stays.")
    secrets = Pairs(required=False, help_text="Values by name. Kept encrypted and never given back.")

    example = {
        "name": "todo",
        "transport": "http",
        "base_url": "https://todo.example/mcp",
        "headers": {"Authorization": "Bearer ${TODO_TOKEN}"},
        "secrets": {"TODO_TOKEN": "…"},
    }


class ServerChange(Reached):
    secrets = NullableTexts(required=False, help_text="New values by name; null takes one away, the others stay.")

    example = {"timeout": "10s", "secrets": {"TODO_TOKEN": "…"}}


class ServerFilters(Filters):
    name = serializers.CharField(required=False, help_text="The whole name.")
    transport = Word(choices=Transport.choices, required=False)
    status = Word(choices=Connection.choices, required=False)
    enabled = serializers.BooleanField(required=False)


class TestedShape(Shape):
    """How a handshake went."""

    tool_name = Text(source="server.name", help_text="The server's name.")
    timestamp = Moment()
    status = Word(choices=HealthStatus.choices)
    handshake_success = Flag()
    handshake_latency_ms = Number(allow_null=True)
    error_message = Said()
    server_capabilities = Texts()
    protocol_version = Said()

    example = {
        "tool_name": "todo",
        "timestamp": story.NOW,
        "status": "Healthy",
        "handshake_success": True,
        "handshake_latency_ms": 4.2,
        "error_message": None,
        "server_capabilities": ["tools"],
        "protocol_version": "2026-07-28",
    }


class HealthReportShape(TestedShape):
    id = Identifier()
    server_id = Identifier()
    asked_by = Text(help_text="Who asked for it; empty for the clock.")

    example = {**TestedShape.example, "id": examples.REPORT, "server_id": examples.SERVER, "asked_by": ""}


class HealthReportFilters(Filters):
    server_id = Identifier(required=False)
    status = Word(choices=HealthStatus.choices, required=False)


class RefusedTool(Shape):
    name = Text()
    message = Text()


class RefreshedShape(Shape):
    """Names as the server calls its tools."""

    added = Texts()
    changed = Texts()
    withdrawn = Texts()
    unchanged = Whole()
    refused = RefusedTool(many=True, help_text="What the server lists and nobody can be given, and why.")

    example = {"added": ["create_todo"], "changed": [], "withdrawn": [], "unchanged": 4, "refused": []}
