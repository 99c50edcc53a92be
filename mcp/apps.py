"""What the app sets up when Django has loaded it."""

from django.apps import AppConfig
from django.db.models.signals import post_migrate


class McpConfig(AppConfig):
    name = "mcp"
    label = "mcp"
    verbose_name = "Gateway"

    def ready(self) -> None:
        from mcp import budgets, catalogue, conditions, rights, stopping  # noqa: PLC0415 - models exist only from here on
        from nhi import registry  # noqa: PLC0415 - the same

        post_migrate.connect(rights.after_migrate, sender=self, dispatch_uid="mcp.rights")
        registry.add_conditions(conditions.conditions)
        registry.describe_arguments(conditions.argument_schemas)
        registry.add_stop_step(stopping.STEP)
        registry.on_identity_change(catalogue.matched_otherwise)
        registry.on_grant_replaced(budgets.follow)
