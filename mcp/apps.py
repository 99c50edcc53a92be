"""What the app sets up when Django has loaded it."""

from django.apps import AppConfig


class McpConfig(AppConfig):
    name = "mcp"
    label = "mcp"
    verbose_name = "Gateway"
