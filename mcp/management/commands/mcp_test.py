"""`manage.py mcp_test NAME`: one handshake with a server, and how it went."""

import sys
from typing import Any

from mcp.choices import HealthStatus
from mcp.management.server_commands import ServerCommand, find_server
from mcp.servers import health
from nhi import actors


class Command(ServerCommand):
    help = "Shake hands with a server. Exit 1 when it is unhealthy."

    def handle(self, *args: Any, **options: Any) -> None:
        super().handle(*args, **options)
        if not self.healthy:
            sys.exit(1)

    def run(self, **options: Any) -> dict[str, Any]:
        report = health.check(server=find_server(options["name"]), actor=actors.terminal())
        self.healthy = report.status != HealthStatus.UNHEALTHY
        return {
            "tool_name": options["name"],
            "timestamp": report.timestamp,
            "status": report.status,
            "handshake_success": report.handshake_success,
            "handshake_latency_ms": report.handshake_latency_ms,
            "error_message": report.error_message or None,
            "server_capabilities": report.server_capabilities,
            "protocol_version": report.protocol_version or None,
        }
