"""What the app sets up when Django has loaded it."""

from django.apps import AppConfig
from django.db.models.signals import post_migrate


class McpConfig(AppConfig):
    name = "mcp"
    label = "mcp"
    verbose_name = "Gateway"

    def ready(self) -> None:
        from mcp import budgets, catalogue, conditions, rights, stopping  # noqa: PLC0415 - models exist only from here on
        from nhi import hooks  # noqa: PLC0415 - the same

        post_migrate.connect(rights.after_migrate, sender=self, dispatch_uid="mcp.rights")
        hooks.add_condition_source(conditions.conditions)
        hooks.set_schema_source(conditions.argument_schemas)
        hooks.add_stop_step(stopping.STEP)
        hooks.on_identity_change(catalogue.matched_otherwise)
        hooks.on_grant_replaced(budgets.follow)
