"""What the app sets up when Django has loaded it."""

from django.apps import AppConfig
from django.db.models.signals import post_migrate


class McpConfig(AppConfig):
    name = "mcp"
    label = "mcp"
    verbose_name = "Gateway"

    def ready(self) -> None:
        from mcp import rights  # noqa: PLC0415 - models exist only from here on

        post_migrate.connect(rights.after_migrate, sender=self, dispatch_uid="mcp.rights")
