"""Upstream MCP servers: configuration, secrets, connection status, health."""
